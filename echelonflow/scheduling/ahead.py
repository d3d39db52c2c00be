"""What to decide for ahead of time: which flows can be released next, and answers that were given before.

A flow is a *candidate* when all flows that its declaration names before it are in flight or have ended. Candidates
that are likely released together are asked about together (`CandidateSet`): those of one Coflow in one iteration, and
those that wait for the same. What would be decided if they were released now, and what has to end before them had ended?

A job may hold back flows that are *ready* (`echelonflow.model.discipline`), and release later ones before them. Nobody
tells the coordinator, but it can infer: a flow that is released was ready, and so was all that had to be ready before it.

Iterations repeat, so the same sets meet the same flows in flight again. What was answered then is kept by template,
which knows no iteration numbers (the EchelonFlow paper, section 5: `AnswerMemory`).

Pure, and the same for the coordinator and the simulator.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from echelonflow.errors import InputError
from echelonflow.model.flow_key import FlowKey
from echelonflow.wire.messages import Before, Declare, FlowDeclaration

MOST_NAMED = 4_000_000
"""Flows that declarations name before others, all of them together."""
MOST_CONSIDERED, MOST_TOGETHER = 4096, 256
"""Candidates that are looked at, those first that became it first; and flows of a set, of which a Coflow may make several."""
MOST_SETS = 16
"""Of one job: those that come first, by iteration, then offset, then index."""
MOST_ANSWERS = 4096
"""For one more, the one that was used longest ago is forgotten."""

_Name = tuple[str, str]
"""A flow's job and name."""
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class CandidateSet:
    """Flows that can be released next, and the flows that have ended by then (in flight or not)."""

    flows: tuple[FlowKey, ...]
    ended: frozenset[FlowKey]


@dataclass(slots=True)
class _Next:
    """The next iteration of a flow, and how far what comes before it is."""

    declaration: FlowDeclaration
    before: Before
    waits_for: int
    """Equal for flows of a job that wait for the same."""
    waits_at_first: int
    """For so many flows, in the first iteration."""
    waits: int
    iteration: int = 0
    left: dict[int, int] = field(default_factory=dict)
    """By iteration: for how many flows it waits still."""

    def is_ready(self) -> bool:
        needs = self.waits if self.iteration else self.waits_at_first
        return self.left.get(self.iteration, needs) <= 0


class Candidates:
    """Candidates among declared flows; those whose declaration does not say what comes before them never are.

    It forgives what does not fit: events may be lost, and what is decided ahead is confirmed or corrected anyway. Where it
    is not told of everything `from_the_start`, a flow is no candidate before one of its iterations was released: which
    one comes next is not known until then.
    """

    def __init__(self, *, from_the_start: bool = True) -> None:
        self._from_the_start = from_the_start
        self._next: dict[_Name, _Next] = {}
        self._by_index: dict[tuple[str, int], str] = {}
        self._followers: dict[tuple[str, int], list[tuple[str, int, bool]]] = {}
        """By job and index of a flow: the flows that it comes before, how many iterations later, and whether it need only be ready."""
        self._last: dict[tuple[str, int], int] = {}
        """By job and index: the latest iteration that was released."""
        self._inferred: set[tuple[str, int, int]] = set()
        """Job, index and iteration of flows that are ready and not released, as the release of others says."""
        self._ready: dict[FlowKey, None] = {}
        self._waits_for: dict[tuple[str, Before], int] = {}
        self._named = 0

    def check(self, group: Declare) -> None:
        """Raise InputError for a group that names too much; nothing is changed."""
        if self._named + _named(group) > MOST_NAMED:
            raise InputError(
                f"group {group.group!r} of job {group.job!r}: more than {MOST_NAMED:,} flows are named before others in all"
            )

    def declare(self, group: Declare) -> None:
        """Flows of a group become known."""
        job = group.job
        self._named += _named(group)
        for flow in group.flows:
            self._by_index[job, flow.index] = flow.flow
            if flow.before is None:
                continue
            before = flow.before
            same, previous = (*before.ended, *before.released), (*before.ended_previous, *before.released_previous)
            waits_for = self._waits_for.setdefault((job, before), len(self._waits_for))
            self._next[job, flow.flow] = _Next(flow, before, waits_for, len(same), len(same) + len(previous))
            for later, indices in enumerate((same, previous)):
                ended = len(before.ended_previous if later else before.ended)
                for place, index in enumerate(indices):
                    self._followers.setdefault((job, index), []).append((flow.flow, later, place >= ended))
            if not same and self._from_the_start:
                self._ready[job, 0, flow.flow] = None

    def release(self, key: FlowKey, index: int) -> None:
        """A flow is released, or turns out to be: it is no candidate any more, and others may become one."""
        job, iteration, name = key
        own = self._next.get((job, name))
        if own is not None and iteration >= own.iteration:
            self._ready.pop((job, own.iteration, name), None)
            own.iteration = iteration + 1
            own.left = {later: left for later, left in own.left.items() if later > iteration}
            if own.is_ready():
                self._ready[job, own.iteration, name] = None
        inferred = (job, index, iteration) in self._inferred
        self._inferred.discard((job, index, iteration))
        self._last[job, index] = max(iteration, self._last.get((job, index), 0))
        for follower, later, if_ready in self._followers.get((job, index), ()):
            if not (inferred and if_ready):  # else it was told when that was inferred
                self._satisfy(job, follower, iteration + later)
        if not inferred:
            self._infer_before(job, index, iteration)

    def _infer_before(self, job: str, index: int, iteration: int) -> None:
        """A flow is ready: so is all that had to be ready before it, though the job may hold that back still."""
        found = [(index, iteration)]
        while found:
            index, iteration = found.pop()
            own = self._next.get((job, self._by_index.get((job, index), "")))
            if own is None:
                continue
            before = [(other, iteration) for other in own.before.released]
            before += [(other, iteration - 1) for other in own.before.released_previous if iteration]
            for other, at in before:
                if at > self._last.get((job, other), -1) and (job, other, at) not in self._inferred:
                    self._infer(job, other, at)
                    found.append((other, at))

    def _infer(self, job: str, index: int, iteration: int) -> None:
        """A flow is ready, though nobody has told of its release: it can come next."""
        self._inferred.add((job, index, iteration))
        name = self._by_index.get((job, index), "")
        own = self._next.get((job, name))
        if own is not None and own.iteration == iteration:
            own.left[iteration] = 0
            self._ready[job, iteration, name] = None
        for follower, later, if_ready in self._followers.get((job, index), ()):
            if if_ready:
                self._satisfy(job, follower, iteration + later)

    def _satisfy(self, job: str, name: str, iteration: int) -> None:
        follower = self._next[job, name]
        if iteration < follower.iteration:
            return
        needs = follower.waits if iteration else follower.waits_at_first
        follower.left[iteration] = follower.left.get(iteration, needs) - 1
        if iteration == follower.iteration and follower.is_ready():
            self._ready[job, iteration, name] = None

    def withdraw(self, jobs: Collection[str]) -> None:
        """Forget jobs."""
        self._next = {name: flow for name, flow in self._next.items() if name[0] not in jobs}
        self._waits_for = {known: number for known, number in self._waits_for.items() if known[0] not in jobs}
        self._by_index = {at: name for at, name in self._by_index.items() if at[0] not in jobs}
        self._followers = {at: after for at, after in self._followers.items() if at[0] not in jobs}
        self._last = {at: iteration for at, iteration in self._last.items() if at[0] not in jobs}
        self._inferred = {at for at in self._inferred if at[0] not in jobs}
        self._ready = {key: None for key in self._ready if key[0] not in jobs}
        self._named = sum(map(len, self._followers.values()))

    def __contains__(self, key: FlowKey) -> bool:
        return key in self._ready

    def sets(self) -> list[CandidateSet]:
        """The candidates, by job, iteration, and what they are likely released with; of every job those that come first."""
        by_job: dict[str, list[tuple[int, float, int, list[FlowKey]]]] = {}
        for keys in self._together():
            keys.sort(key=lambda key: self._flow(key).index)
            job, iteration, _ = keys[0]
            for first in range(0, len(keys), MOST_TOGETHER):
                some = keys[first : first + MOST_TOGETHER]
                offset_s, index = min((self._flow(key).offset_s, self._flow(key).index) for key in some)
                by_job.setdefault(job, []).append((iteration, offset_s, index, some))
        nearest = (entry for job in sorted(by_job) for entry in sorted(by_job[job], key=_place)[:MOST_SETS])
        return [CandidateSet(tuple(keys), frozenset(self._ended(keys))) for _, _, _, keys in nearest]

    def _together(self) -> list[list[FlowKey]]:
        """Candidates that share a Coflow or what they wait for, or both with a third: all of one job and iteration."""
        of: dict[tuple[str, int, str | int], list[FlowKey]] = {}
        for key in itertools.islice(self._ready, MOST_CONSIDERED):
            job, iteration, name = key
            own = self._next[job, name]
            coflow, waits_for = (job, iteration, own.declaration.coflow), (job, iteration, own.waits_for)
            keys, others = of.setdefault(coflow, []), of.get(waits_for)
            keys.append(key)
            if others is None:
                of[waits_for] = keys
            elif others is not keys:
                keys += others
                of.update((shared, keys) for shared, found in of.items() if found is others)
        return list({id(keys): keys for keys in of.values()}.values())

    def _flow(self, key: FlowKey) -> FlowDeclaration:
        return self._next[key[0], key[2]].declaration

    def _ended(self, keys: Sequence[FlowKey]) -> Iterable[FlowKey]:
        """The flows that have ended before all of these are released."""
        for job, iteration, name in keys:
            before = self._next[job, name].before
            for at, indices in ((iteration, before.ended), (iteration - 1, before.ended_previous)):
                for index in indices:
                    if (job, index) in self._by_index:
                        yield job, at, self._by_index[job, index]


def _named(group: Declare) -> int:
    lists = (before for flow in group.flows if (before := flow.before) is not None)
    return sum(len(b.ended) + len(b.released) + len(b.ended_previous) + len(b.released_previous) for b in lists)


def _place(entry: tuple[int, float, int, list[FlowKey]]) -> tuple[int, float, int]:
    return entry[:3]


def template(asked: Sequence[FlowKey], in_flight: Mapping[FlowKey, Hashable]) -> Hashable:
    """What is asked, by names: these flows beside those in flight, each with what is in force for it.

    Iterations are counted from the first one of each job in it, so that the same is asked in every iteration.
    """
    first: dict[str, int] = {}
    for job, iteration, _ in (*asked, *in_flight):
        first[job] = min(iteration, first.get(job, iteration))
    beside = frozenset((job, at - first[job], name, force) for (job, at, name), force in in_flight.items())
    return tuple((job, at - first[job], name) for job, at, name in asked), beside


class AnswerMemory(Generic[Answer]):
    """Answers by template, for as long as one policy is in force."""

    def __init__(self) -> None:
        self._answers: dict[Hashable, Answer] = {}

    def get(self, asked: Hashable) -> Answer | None:
        """What was answered to this before; None if nothing was."""
        answer = self._answers.pop(asked, None)
        if answer is not None:
            self._answers[asked] = answer
        return answer

    def keep(self, asked: Hashable, answer: Answer) -> None:
        """Remember an answer."""
        self._answers[asked] = answer
        if len(self._answers) > MOST_ANSWERS:
            del self._answers[next(iter(self._answers))]

    def forget(self, asked: Hashable) -> None:
        """What was answered turned out to be wrong: ask again."""
        self._answers.pop(asked, None)

    def clear(self) -> None:
        """Another policy is in force."""
        self._answers.clear()
