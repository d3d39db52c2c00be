"""Builds the DAG of a job: the one place where steps are collected, flows grouped and offsets found.

Paradigms, importers and random cases all use `DagBuilder`. What they differ in is how a computation gets its place:
a paradigm's `compute` takes its turn on the rank's GPU, an importer's (`beside`) waits for what its file names.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

from echelonflow.bounds import MOST_RANKS, MOST_STEPS, MOST_WAITS, BeyondBoundsError, check_most
from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, Group, JobDag, Step, Transfer, derived_offsets
from traffic.workloads.collectives import Algorithm, Collective, expand, flows_of, waits_of

Rule = Literal["equal", "derived"] | Callable[[Sequence[str]], Sequence[float]]
"""Offsets of a group: all 0; from the DAG; or what a function makes of its flows in the order of consumption."""
_MOST_PASSED_ON = 8
"""A join of at most so many steps is written out where it is waited for; a larger one becomes a step of 0 s."""


class DagBuilder:
    """Collects the steps of one iteration on `ranks` ranks; `dag` makes the JobDag of them.

    Steps and groups keep the order in which they were added. A step may name others that are added later.
    More ranks, steps or dependencies than `echelonflow.bounds` allows are refused (BeyondBoundsError) before memory is full.
    """

    def __init__(self, ranks: int, *, most_steps: int = MOST_STEPS, most_waits: int = MOST_WAITS) -> None:
        check_most("ranks", ranks, MOST_RANKS, {})
        self.ranks = ranks
        self._most_steps, self._most_waits = most_steps, most_waits
        self._waits = 0
        self._steps: dict[str, Step] = {}
        self._joins: dict[str, _Join] = {}
        self._groups: dict[str, _Declared] = {}
        self._pairs: list[tuple[str, str]] = []
        self._first: dict[int, str] = {}
        self._last: dict[int, str] = {}
        self._awaited: dict[int, list[str]] = {}

    @property
    def empty(self) -> bool:
        """Whether there is nothing to do yet."""
        return not self._steps

    def expect(self, steps: int) -> None:
        """Refuse at once what will have at least so many `steps` in all, if that is too much (BeyondBoundsError)."""
        check_most("steps in an iteration", steps, self._most_steps, {})

    def compute(self, rank: int, name: str, duration_s: float, after: Iterable[str] = (), kind: str = "compute") -> str:
        """Add a computation to the GPU of `rank`, behind those it has, after steps that its host can notice.

        A GPU runs its computations in the order in which they are added, in every iteration anew: its first one waits
        for its last one of the iteration before.
        """
        before = [self._last[rank]] if rank in self._last else []
        self._first.setdefault(rank, name)
        self._last[rank] = name
        return self.beside(rank, name, duration_s, [*before, *self._awaited.pop(rank, ()), *after], kind)

    def beside(self, rank: int, name: str, duration_s: float, after: Iterable[str], kind: str = "compute") -> str:
        """Add a computation of `rank` that takes no turn on its GPU: it waits for `after` alone."""
        self._add(Compute(name, rank, duration_s, tuple(dict.fromkeys(after)), kind))
        return name

    def hold(self, rank: int, after: Iterable[str]) -> None:
        """Let the next computation of the GPU of `rank` wait for these steps too."""
        self._awaited.setdefault(rank, []).extend(after)

    def join(self, name: str, rank: int, after: Iterable[str]) -> str:
        """Let `name` stand for the end of all of `after`, wherever a step of `rank` waits for it."""
        self._check_free(name)
        self._joins[name] = _Join(rank, tuple(after))
        return name

    def group(self, name: str, kind: str, rule: Rule = "equal", weight: float = 1.0) -> str:
        """Declare a group, or change what was declared of it; without flows it is left out."""
        flows = self._groups[name].flows if name in self._groups else []
        self._groups[name] = _Declared(kind, rule, weight, flows)
        return name

    def transfer(
        self, name: str, src: int, dst: int, size_bytes: int, group: str, coflow: str = "", after: Iterable[str] = ()
    ) -> str:
        """Add a flow of a declared group; a Coflow of its own unless `coflow` is given."""
        self._add(Transfer(name, src, dst, size_bytes, coflow or name, tuple(dict.fromkeys(after))))
        self._groups[group].flows.append(name)
        return name

    def collective(
        self,
        name: str,
        collective: Collective,
        algorithm: Algorithm,
        ranks: Sequence[int],
        size_bytes: int,
        after: Sequence[Iterable[str]],
        group: str = "",
        kind: str = "",
    ) -> dict[int, tuple[str, ...]]:
        """Add a collective, one Coflow; for each rank, the steps after which it is over there.

        `size_bytes` is as `traffic.workloads.collectives` has it. It belongs to `group`, or without one is a group of its
        own, of kind `kind`.
        """
        inputs = [tuple(dict.fromkeys(steps)) for steps in after]
        self._check_room(
            flows_of(collective, algorithm, len(ranks)), waits_of(collective, algorithm, inputs)
        )  # before it is made
        member_of = group or self.group(name, kind)
        found = expand(name, collective, algorithm, ranks=ranks, size_bytes=size_bytes, after=inputs)
        for flow in found.transfers:
            self._add(flow)
            self._groups[member_of].flows.append(flow.name)
        return dict(zip(ranks, found.done, strict=True))

    def next_iteration(self, earlier: str, later: str) -> None:
        """Step `later` waits for step (or join) `earlier` of the iteration before."""
        self._check_room(0, 1)
        self._waits += 1
        self._pairs.append((earlier, later))

    def dag(self, parameters: Mapping[str, Any], changes: Iterable[Callable[[JobDag], JobDag]] = ()) -> JobDag:
        """The DAG of what was added, its flows in groups in the order in which they are consumed.

        `changes` are made to it before offsets are found. Raises InputError for what `JobDag` refuses, and for a join
        that waits for itself or for what does not exist.
        """
        ends = self._ends_of_joins()
        # A GPU's turn to the next iteration comes first, unless it was said already where it belongs.
        turns = [(self._last[rank], self._first[rank]) for rank in sorted(self._first)]
        said = set(self._pairs)
        pairs = [(end, later) for earlier, later in self._pairs for end in ends.get(earlier, (earlier,))]
        job_dag = JobDag(
            self.ranks,
            tuple(_without_joins(step, ends) for step in self._steps.values()) if ends else tuple(self._steps.values()),
            tuple(declared.equal(name) for name, declared in self._groups.items() if declared.flows),
            tuple(dict.fromkeys([*(turn for turn in turns if turn not in said), *pairs])),
            dict(parameters),
        )
        for change in changes:
            job_dag = change(job_dag)
        if all(declared.rule == "equal" for declared in self._groups.values()):
            return job_dag
        offsets = derived_offsets(job_dag)
        return job_dag.with_groups(_arranged(group, self._groups[group.name].rule, offsets) for group in job_dag.groups)

    def _add(self, step: Step) -> None:
        self._check_free(step.name)
        self._check_room(1, len(step.after))
        self._waits += len(step.after)
        self._steps[step.name] = step

    def _check_free(self, name: str) -> None:
        if name in self._steps or name in self._joins:
            raise InputError(f"two steps are called {name!r}")

    def _check_room(self, steps: int, waits: int = 0) -> None:
        remedy = "which is the limit; ask for fewer ranks, layers or micro-batches"
        if len(self._steps) + steps > self._most_steps:
            raise BeyondBoundsError(f"an iteration has more than {self._most_steps:,} steps, {remedy}")
        if self._waits + waits > self._most_waits:
            raise BeyondBoundsError(
                f"the steps of an iteration wait for more than {self._most_waits:,} others, {remedy}"
            )

    def _ends_of_joins(self) -> dict[str, tuple[str, ...]]:
        """For every join, the steps whose end is its end; iterative, because a trace may be a chain of a million."""
        done: dict[str, tuple[str, ...]] = {}
        opened: set[str] = set()
        for first in list(self._joins):
            stack = [first]
            while stack:
                name = stack[-1]
                join = self._joins[name]
                missing = next((e for e in join.ends if e not in done and e not in self._steps), None)
                if name in done or missing is None:
                    stack.pop()
                    opened.discard(name)
                    if name not in done:
                        done[name] = self._passed_on(name, join, done)
                    continue
                opened.add(name)
                if missing in opened:
                    raise InputError(f"there is a cycle through {missing!r}")
                if missing not in self._joins:
                    raise InputError(f"{name!r} waits for {missing!r}, which does not exist")
                stack.append(missing)
        return done

    def _passed_on(self, name: str, join: _Join, done: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
        """What waits for this join waits for: its steps, or where they are many a step of no duration."""
        own = [e for e in join.ends if e in self._steps]
        passed = [step for e in join.ends if e not in self._steps for step in done[e]]
        found = tuple(dict.fromkeys([*own, *passed]))
        if len(passed) <= _MOST_PASSED_ON:
            return found
        self._check_room(1)
        self._steps[name] = Compute(name, join.rank, 0.0, found, "join")
        return (name,)


@dataclasses.dataclass(frozen=True, slots=True)
class _Join:
    """It ends when all of `ends`, steps or joins, have ended."""

    rank: int
    ends: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class _Declared:
    """A group in the making: `flows` grows."""

    kind: str
    rule: Rule
    weight: float
    flows: list[str]

    def equal(self, name: str) -> Group:
        return Group(name, self.kind, tuple(self.flows), (0.0,) * len(self.flows), self.weight)


def _without_joins(step: Step, ends: Mapping[str, tuple[str, ...]]) -> Step:
    after = tuple(dict.fromkeys(end for name in step.after for end in ends.get(name, (name,))))
    return step if after == step.after else dataclasses.replace(step, after=after)


def _arranged(group: Group, rule: Rule, offsets: Mapping[str, float]) -> Group:
    if rule == "equal":
        return group
    flows = tuple(sorted(group.transfers, key=offsets.__getitem__))
    found = [offsets[name] for name in flows] if rule == "derived" else rule(flows)
    return dataclasses.replace(group, transfers=flows, offsets_s=tuple(found))
