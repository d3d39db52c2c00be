"""Looking ahead for a policy that plans: when the planner is asked, and what of its answers is in force. Pure.

It is asked when other jobs are under way than before, and when it is as far as the last plan looked ahead. It is asked as well when an
iteration ended farther from where it was foreseen than the policy's `drift`. Meanwhile what is in force stays so. It looks ahead for jobs that
told their graphs and clocks, and only while all do that are under way.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from controller import enforcers
from controller.flow_books import FlowBooks
from controller.instructions import AskPlanner, Instruction
from echelonflow.scheduling import policies
from echelonflow.scheduling.planning import AskPlan, Foreseen, KnowJob, Moves, PlanMade, no_moves
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.policies.lookahead import InForce
from echelonflow.wire.messages import Declare

SETTLE_S = 0.05
"""So long after a job has come or gone it is asked: others may come with it."""
REST = 3.0
"""Where jobs drift, the planner rests for so many times as long as its last plan took."""


class Planning:
    """What is planned in one run; `number` gives each question a number of its own. Times are seconds since the run's zero."""

    def __init__(self, books: FlowBooks, number: Callable[[], int]) -> None:
        self._books = books
        self._number = number
        self._policy: Policy | None = None
        self._in_force: InForce | None = None
        """Where the policy plans."""
        self._moves: Moves = no_moves()
        self._places: dict[str, int] = {}
        self._mix: tuple[str, ...] = ()
        """The jobs that were asked about last, or will be."""
        self._changed_s = -math.inf
        self._open: int | None = None
        self._until_s = math.inf
        self._rests_until_s = -math.inf
        self._foreseen: dict[str, Foreseen] = {}
        self._given_up = False

    def follow(self, policy: Policy) -> None:
        """Know that this policy decides from now on: what was planned for another one counts no more. Ids of flows follow the jobs that there are."""
        if policy is not self._policy:
            self._policy, self._in_force = policy, policy.memory if policy.promises.plans else None
            self._mix, self._open, self._until_s = (), None, math.inf
            self._moves, self._foreseen = no_moves(), {}
            if self._in_force is not None:
                self._in_force.forget()
        if self._in_force is not None and (places := self._books.state.places) != self._places:
            self._places = places
            template, earlier_s = self._moves.templates(places)
            self._in_force.move(template, earlier_s)

    def ask(self, enforcer: str, now_s: float) -> list[Instruction]:
        """The question to the planner that is open from now on, if one is due."""
        in_force = self._in_force
        if in_force is None or self._given_up:
            return []
        mix = self._books.state.clocks.names_under_way()
        if mix != self._mix:
            self._mix, self._changed_s = mix, now_s
            self._open, self._until_s, self._foreseen = None, -math.inf, {}
        if not mix or self._open is not None or now_s < self._changed_s + SETTLE_S or not self._is_due(in_force, now_s):
            return []
        jobs = [self._known(job) for job in mix]
        known = tuple(job for job in jobs if job is not None)
        if len(known) < len(jobs):
            return []
        self._open = self._number()
        return [AskPlanner(self._question(in_force, self._open, enforcer, now_s), known, self._books.state.network)]

    def _is_due(self, in_force: InForce, now_s: float) -> bool:
        if now_s >= self._until_s:
            return True
        return now_s >= self._rests_until_s and any(
            self._drift(foreseen) > in_force.drift for foreseen in self._foreseen.values()
        )

    def _drift(self, foreseen: Foreseen) -> float:
        """How far the last iteration of a job ended from where it was foreseen, as a share of an iteration."""
        known = self._books.state.clocks.before(foreseen.job)
        place = known.last - foreseen.first
        if not 0 <= place < len(foreseen.ends_s) or len(foreseen.ends_s) < 2:
            return 0.0
        each_s = float(foreseen.ends_s[-1] - foreseen.ends_s[0]) / (len(foreseen.ends_s) - 1)
        return abs(known.ended_s - float(foreseen.ends_s[place])) / each_s if each_s > 0 else 0.0

    def _known(self, job: str) -> KnowJob | None:
        """What the planner has to know of a job; None where the job did not tell it all."""
        state, graph = self._books.state, self._books.windows.graph(job)
        groups = tuple(info.declaration for (name, _), info in state.groups.items() if name == job)
        told = {flow.index for group in groups for flow in group.flows}
        if graph is None or told != {step.flow for step in graph.steps if step.flow >= 0}:
            return None
        return KnowJob(graph, groups) if all(map(_has_clock, groups)) else None

    def _question(self, in_force: InForce, number: int, enforcer: str, now_s: float) -> AskPlan:
        state, windows = self._books.state, self._books.windows
        sent: dict[str, dict[tuple[int, int], float]] = {}
        for (job, iteration, name), flow in self._books.flows.items():
            index = state.declaration(job, name).index
            sent.setdefault(job, {})[iteration, index] = flow.sent_bytes(now_s)
        clocks = {job: state.clocks.before(job) for job in self._mix}
        return AskPlan(
            number,
            now_s,
            tuple(windows.now(job, clocks[job].last, clocks[job].ended_s, sent.get(job, {})) for job in self._mix),
            tuple(
                name
                for name in in_force.candidates
                if enforcers.name_of(enforcer) in ("rate", policies.enforcer_of(name))
            ),
            in_force.tries,
            in_force.rounds,
            in_force.seed,
            in_force.plans,
            in_force.budget_s,
            in_force.chosen.name,
            self._moves,
            in_force.slowdown,
        )

    def adopt(self, made: PlanMade, now_s: float) -> bool:
        """Put in force what was found to the open question; False for what nobody asks any more."""
        if self._in_force is None or made.number != self._open:
            return False
        template, earlier_s = made.moves.templates(self._books.state.places)
        self._in_force.adopt(policies.load(made.chosen), template, earlier_s, made.roll_outs, at_s=now_s)
        self._in_force.took_s += made.took_s
        self._moves, self._open = made.moves, None
        self._until_s, self._rests_until_s = made.until_s, now_s + REST * made.took_s
        self._foreseen = {each.job: each for each in made.foreseen}
        return True

    def give_up(self) -> list[Instruction]:
        """There is no planner any more: what is in force stays so."""
        self._open, self._given_up = None, True
        return []


def _has_clock(group: Declare) -> bool:
    return group.clock is not None and np.isfinite(group.clock.iteration_s) and all(f.clock for f in group.flows)
