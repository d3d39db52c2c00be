"""What a simulation of the jobs' future finds best: candidates are tried out, the best one is improved, and then in force.

When jobs come or go, a fluid twin of the network is rolled forward from where all jobs are, under each of the `candidates`.
In force is the one whose iterations are the shortest in the mean over jobs. The best order by `clock` is also changed a little,
`tries` times and at random. The due times of one job, or of one of its Coflows, are made earlier or later, and what is shorter
in the twin is kept. A try goes `rounds` iterations of the slowest job far. What is to be in force is judged by roll-outs twice as
long, and when so much time has passed all is planned anew. So what is in force is never worse, in the twin, than the best candidate.

On packets the twin is a process of its own. It plans in the background for `budget` seconds at most, while the current order stays in
force; that one is judged first. Only candidates that are enforced by priorities take part. All is planned anew as well when an
iteration of a job ends earlier or later than the twin foresaw, by more than the share `drift` of an iteration.

What is to be short may have a bound. With `slowdown`, no job should take more than so many times its least time alone. A candidate
under which one does counts as longer, by as many times as that job is beyond it.

A decision itself costs what it costs under the candidate in force. While nobody plans, that is the first candidate.

**Knows** sizes, arrangements and DAGs. **Cost.** That of the candidate in force; and a roll-out for every candidate and try when jobs come or go.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy, load
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import stable_id

SERVES = "Coflows"
ENFORCER = "priority"
WORK_CONSERVING = True
READS_CLOCK = True
PLANS = True

CANDIDATES = (
    "clock",
    "clock(until=own)",
    "clock(pace=alone)",
    "coflow(grouping=collective)",
    "coflow(grouping=collective,order=job)",
    "echelonflow(order=due,within=strict)",
    "echelonflow(order=job,within=strict)",
    "echelonflow(order=tardiness,within=strict)",
    "fifo",
    "srpt",
    "edf",
    "crux",
    "fair",
    "weighted(per=job)",
)
FEW = ("clock", "coflow(grouping=collective)", "fair")
Candidates = Literal["all", "few"]
_ITERATION = stable_id(0, 1, 0)
_ITERATIONS = stable_id(1, 0, 0) - _ITERATION
"""The bits of a stable id that count iterations."""


def validate(
    *,
    tries: int = 64,
    rounds: int = 16,
    seed: int = 0,
    budget: float = 1.0,
    drift: float = 0.25,
    slowdown: float = math.inf,
    **_: object,
) -> None:
    """InputError for values that make no sense."""
    if not slowdown >= 1:
        raise InputError(f"slowdown is {slowdown}; a job takes 1 time as long as it would alone, or longer (inf: any)")
    if not 0.01 <= budget <= 60:
        raise InputError(f"budget is {budget}; a plan may take 0.01 to 60 seconds")
    if not 0.01 <= drift <= 100:
        raise InputError(f"drift is {drift}; it is a share of an iteration, 0.01 to 100")
    if not 0 <= tries <= 10_000:
        raise InputError(f"tries is {tries}; there can be 0 (no search) to 10000")
    if not 2 <= rounds <= 1000:
        raise InputError(f"rounds is {rounds}; 2 to 1000 iterations can be looked ahead")
    if seed < 0:
        raise InputError(f"seed is {seed}; it must be 0 or more")


@dataclass(frozen=True, eq=False)
class Adopted:
    """What a planner put in force at a time: a candidate, and due times of flows that are moved."""

    at_s: float
    chosen: str
    template: Ints
    """Ids of flows, without their iterations; in order."""
    earlier_s: Floats


@dataclass
class InForce:
    """What a planner chose last, and what it may choose from; the planner writes it, or a `script` of what one chose before."""

    candidates: tuple[str, ...]
    tries: int
    rounds: int
    seed: int
    chosen: Policy
    template: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """Ids of flows whose due times are moved, without their iterations; in order."""
    earlier_s: Floats = field(default_factory=lambda: np.zeros(0))
    """By how much."""
    plans: int = 0
    roll_outs: int = 0
    took_s: float = 0.0
    """How long all planning took, on a clock on the wall."""
    budget_s: float = 1.0
    """How long one plan may take, where time passes meanwhile."""
    drift: float = 0.25
    """How far an iteration may end from where it was foreseen, as a share of it."""
    slowdown: float = math.inf
    """How many times as long as alone a job's iterations may take before that counts against a candidate."""
    history: list[Adopted] = field(default_factory=list)
    """All that was in force, in order."""
    script: tuple[Adopted, ...] | None = None
    """What is to be in force and when, where nobody plans but a run is simulated again."""

    def adopt(self, chosen: Policy, template: Ints, earlier_s: Floats, roll_outs: int, at_s: float = 0.0) -> None:
        """Put in force what was found in so many roll-outs, from a time on."""
        self.chosen = chosen
        self.move(template, earlier_s)
        self.history.append(Adopted(at_s, chosen.name, self.template, self.earlier_s))
        self.plans += 1
        self.roll_outs += roll_outs

    def move(self, template: Ints, earlier_s: Floats) -> None:
        """Have due times of these flows moved, and of no others."""
        order = np.argsort(template)
        self.template, self.earlier_s = template[order], earlier_s[order]

    def forget(self) -> None:
        """Be as new: other jobs will come."""
        self.chosen, self.template, self.earlier_s = load(self.candidates[0]), np.zeros(0, np.int64), np.zeros(0)
        self.plans = self.roll_outs = 0
        self.history.clear()

    def follow(self, script: Sequence[Adopted]) -> None:
        """Have this in force, each from its time on."""
        self.script = tuple(sorted(script, key=lambda each: each.at_s))

    def go_on(self, now_s: float) -> float:
        """Put in force what the script says of now; until when that holds."""
        script = self.script or ()
        while self.plans < len(script) and script[self.plans].at_s <= now_s:
            due = script[self.plans]
            self.adopt(load(due.chosen), due.template, due.earlier_s, 0, due.at_s)
        return script[self.plans].at_s if self.plans < len(script) else math.inf

    def counters(self) -> Mapping[str, int]:
        """How often was planned, and how many futures were simulated for it."""
        return {"plans": self.plans, "roll-outs": self.roll_outs}

    def of(self, template: Ints) -> Floats:
        """By how much the due times of these flows are earlier; 0 for those that nobody moved."""
        if not len(self.template):
            return np.zeros(len(template))
        place = np.minimum(np.searchsorted(self.template, template), len(self.template) - 1)
        return np.where(self.template[place] == template, self.earlier_s[place], 0.0)

    def moved(self, snapshot: Snapshot) -> Snapshot:
        """The same with due times moved."""
        if snapshot.clock is None or not len(self.template):
            return snapshot
        earlier_s = self.of(snapshot.flow_id & ~_ITERATIONS)
        now = snapshot.clock
        clock = dataclasses.replace(now, tail_s=now.tail_s + earlier_s, to_end_s=now.to_end_s + earlier_s)
        return dataclasses.replace(snapshot, clock=clock)


def memory(
    *,
    candidates: Candidates = "all",
    tries: int = 64,
    rounds: int = 16,
    seed: int = 0,
    budget: float = 1.0,
    drift: float = 0.25,
    slowdown: float = math.inf,
) -> InForce:
    """What a planner writes its choice to."""
    names = CANDIDATES if candidates == "all" else FEW
    return InForce(names, tries, rounds, seed, load(names[0]), budget_s=budget, drift=drift, slowdown=slowdown)


def allocate(
    snapshot: Snapshot,
    *,
    candidates: Candidates = "all",
    tries: int = 64,
    rounds: int = 16,
    seed: int = 0,
    budget: float = 1.0,
    drift: float = 0.25,
    slowdown: float = math.inf,
    memory: InForce | None = None,
) -> Allocation:
    """By the candidate in force; by `clock` while nobody has planned.

    Example: as `clock` has it.

        >>> from echelonflow.scheduling.examples import two_clocks
        >>> example = two_clocks()
        >>> example.show(allocate(example.snapshot))
        spare: 0.0 MB/s, place 1
        wanted: 10.0 MB/s, place 0
    """
    if memory is None:
        return load(CANDIDATES[0])(snapshot)
    until_s = memory.go_on(snapshot.now_s)
    found = memory.chosen(memory.moved(snapshot))
    return found if found.valid_until_s <= until_s else Allocation(found.rates_Bps, found.rank, until_s)
