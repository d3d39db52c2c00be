"""Exact simulation of one symmetric job that has the network to itself, in milliseconds.

It is the engine's model (`simulator.engine`) under fair sharing, with one rank for all that are alike
(`echelonflow.model.one_of_each`). What may start is told by the same `JobProgress`, what goes to the network by the same
`Gate`. Flows that cross the same links have the same rate at all times. So each such kind has one clock, which counts
the bytes that every one of its flows has been given. A flow ends when the clock shows its size more than at its start.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from echelonflow.errors import RunError
from echelonflow.job_scheduling.gate import Gate
from echelonflow.model.iterations import ends_s, mean_duration_s
from echelonflow.model.one_of_each import Crossings, OneOfEach
from echelonflow.model.progress import JobProgress, StepKey
from simulator.flows import simultaneous_s

_ROUNDING = 1e-12
"""Links that are full but for so much are full together."""


@dataclass(frozen=True)
class AloneRun:
    """When the iterations of the job ended, in seconds from its start."""

    ends_s: tuple[float, ...]
    """By iteration: when it had ended (`echelonflow.model.iterations`)."""
    backward_ends_s: tuple[float, ...]
    """By iteration: when its last backward pass ended, or its last computation where none is called that."""
    flows: int
    """How many of the followed flows there were, all iterations together."""

    def iteration_s(self, skip: int = 1) -> float:
        """Mean duration of iterations, without the first `skip`."""
        if not 0 <= skip < len(self.ends_s):
            raise RunError(f"{len(self.ends_s)} iterations of which {skip} are left out; 0 to all but one can be")
        return mean_duration_s(self.ends_s, skip=skip)


def simulate_alone(one: OneOfEach, *, latency_s: float = 0.0) -> AloneRun:
    """Run all iterations of the job. A flow's first byte moves `latency_s` after its release.

    Raises RunError where the job cannot go on.
    """
    return _Run(one, latency_s).result()


class _Run:
    def __init__(self, one: OneOfEach, latency_s: float) -> None:
        job = one.job
        self._job = job
        self._latency_s = latency_s
        self._progress = JobProgress(job)
        self._gate = Gate(job)
        self._crossings = one.crossings
        self._sharing = _Sharing(one.crossings.values(), one.capacity_Bps)
        self._duration_s = {step.name: step.duration_s for step in job.dag.computes}
        self._backward = frozenset(step.name for step in job.dag.computes if step.kind == "backward") or frozenset(
            self._duration_s
        )
        self._size_bytes = {t.name: float(t.size_bytes) for t in job.dag.transfers}
        self._last_s = [0.0] * job.iterations
        """By iteration: when the last of its steps so far ended."""
        self._backward_ends_s = [0.0] * job.iterations
        self._calendar: list[tuple[float, int, StepKey]] = []
        """Heap of (when, sequence number, step): computations that end, and flows whose first byte moves."""
        self._sequence = 0
        self._flows = 0

    def result(self) -> AloneRun:
        self._begin(self._progress.start(), 0.0)
        while (now_s := min(self._sharing.next_s(), self._calendar[0][0] if self._calendar else math.inf)) < math.inf:
            self._event(now_s)
        if not self._progress.done:
            raise RunError(f"simulation ended but job {self._job.name} still waits: its DAG never lets it go on")
        return AloneRun(tuple(ends_s(self._last_s)), tuple(self._backward_ends_s), self._flows)

    def _event(self, now_s: float) -> None:
        for iteration, name in self._sharing.ended(now_s):
            self._last_s[iteration] = max(self._last_s[iteration], now_s)
            self._begin(self._progress.finish(iteration, name), now_s)  # what becomes ready is told before what ended
            self._release(self._gate.ended(iteration, name), now_s)
        while self._calendar and self._calendar[0][0] <= now_s:
            _, _, key = heapq.heappop(self._calendar)
            if key[1] in self._crossings:
                self._move(key, now_s)
            else:
                self._end_compute(key, now_s)

    def _end_compute(self, key: StepKey, now_s: float) -> None:
        iteration, name = key
        self._last_s[iteration] = max(self._last_s[iteration], now_s)
        if name in self._backward:
            self._backward_ends_s[iteration] = max(self._backward_ends_s[iteration], now_s)
        self._begin(self._progress.finish(iteration, name), now_s)

    def _begin(self, keys: Sequence[StepKey], now_s: float) -> None:
        for key in keys:
            duration_s = self._duration_s.get(key[1])
            if duration_s is None:
                self._release(self._gate.ready(*key), now_s)
            else:
                self._schedule(now_s + duration_s, key)

    def _release(self, keys: Sequence[StepKey], now_s: float) -> None:
        for key in keys:
            if self._latency_s:
                self._schedule(now_s + self._latency_s, key)
            else:
                self._move(key, now_s)

    def _move(self, key: StepKey, now_s: float) -> None:
        self._flows += 1
        self._sharing.add(self._crossings[key[1]], key, self._size_bytes[key[1]], now_s)

    def _schedule(self, at_s: float, key: StepKey) -> None:
        heapq.heappush(self._calendar, (at_s, self._sequence, key))
        self._sequence += 1


class _Kind:
    """Flows that cross the same links: what each has been given so far, and who ends when that is how much."""

    __slots__ = ("crossings", "given_bytes", "links", "rate_Bps", "waiting")

    def __init__(self, links: Sequence[int], crossings: Crossings) -> None:
        self.links = links
        self.crossings = crossings
        self.given_bytes = 0.0
        self.rate_Bps = 0.0
        self.waiting: list[tuple[float, int, StepKey]] = []
        """Heap of (what has been given by then, sequence number, flow)."""


class _Part:
    """Kinds of flows that share links, directly or through others; what others do changes nothing for them."""

    def __init__(self, capacity_Bps: Sequence[float]) -> None:
        self._capacity_Bps = capacity_Bps
        self.kinds: list[_Kind] = []
        self._now_s = 0.0
        self._next_s = math.inf
        self._stale = False
        self._shared: dict[tuple[int, ...], list[float]] = {}
        """Rates by how many flows of each kind there are: the same numbers come again and again."""

    def add(self, one: _Kind, entry: tuple[float, int, StepKey], now_s: float) -> None:
        self._move_to(now_s)
        if not one.waiting:
            one.given_bytes = 0.0  # so that rounding does not grow with the length of a run
        heapq.heappush(one.waiting, (one.given_bytes + entry[0], *entry[1:]))
        self._stale = True

    def next_s(self) -> float:
        """When the next flow ends."""
        if self._stale:
            self._share()
            left_s = [(one.waiting[0][0] - one.given_bytes) / one.rate_Bps for one in self.kinds if one.waiting]
            self._next_s = self._now_s + min(left_s) if left_s else math.inf
            self._stale = False
        return self._next_s

    def take_ended(self, now_s: float, slack_s: float) -> list[tuple[int, StepKey]]:
        """(sequence number, flow) of those that end now; they are in flight no more."""
        if self.next_s() > now_s + slack_s:
            return []
        self._move_to(now_s)
        found: list[tuple[int, StepKey]] = []
        for one in self.kinds:
            given_bytes = one.given_bytes + one.rate_Bps * slack_s
            while one.waiting and one.waiting[0][0] <= given_bytes:
                found.append(heapq.heappop(one.waiting)[1:])
        self._stale = self._stale or bool(found)
        return found

    def _move_to(self, now_s: float) -> None:
        past_s = now_s - self._now_s
        if past_s > 0:
            for one in self.kinds:
                if one.waiting:
                    one.given_bytes += one.rate_Bps * past_s
            self._now_s = now_s

    def _share(self) -> None:
        """Give every kind its rate."""
        numbers = tuple([len(one.waiting) for one in self.kinds])
        rates_Bps = self._shared.get(numbers)
        if rates_Bps is None:
            self._fill([one for one in self.kinds if one.waiting])
            self._shared[numbers] = [one.rate_Bps for one in self.kinds]
            return
        for one, rate_Bps in zip(self.kinds, rates_Bps, strict=True):
            one.rate_Bps = rate_Bps

    def _fill(self, left: list[_Kind]) -> None:
        """Progressive filling: the link that gives its flows least is full first."""
        residual_Bps: dict[int, float] = {}
        number: dict[int, int] = {}
        for one in left:
            flows = len(one.waiting)
            for link, like_it in one.crossings:
                residual_Bps[link] = self._capacity_Bps[link]
                number[link] = number.get(link, 0) + like_it * flows
        while left:
            least_Bps = min(residual_Bps[link] / flows for link, flows in number.items() if flows)
            most_Bps = least_Bps * (1 + _ROUNDING)
            full = {link for link, flows in number.items() if flows and residual_Bps[link] <= most_Bps * flows}
            later = []
            for one in left:
                if full.isdisjoint(one.links):
                    later.append(one)
                    continue
                one.rate_Bps = least_Bps
                for link, like_it in one.crossings:
                    flows = like_it * len(one.waiting)
                    residual_Bps[link] = max(residual_Bps[link] - least_Bps * flows, 0.0)
                    number[link] -= flows
            left = later


class _Sharing:
    """Max-min fair rates of flows in flight, kind by kind."""

    def __init__(self, crossings: Iterable[Crossings], capacity_Bps: Sequence[float]) -> None:
        self._kinds: dict[Crossings, tuple[_Part, _Kind]] = {}
        self._sequence = 0
        of_link: dict[int, _Part] = {}
        for each in dict.fromkeys(crossings):
            links = [link for link, _ in each]
            joined = list(dict.fromkeys(of_link[link] for link in links if link in of_link))
            part = joined[0] if joined else _Part(capacity_Bps)
            for other in joined[1:]:
                part.kinds += other.kinds
            part.kinds.append(_Kind(links, each))
            of_link.update((link, part) for one in part.kinds for link in one.links)
        self._parts = list(dict.fromkeys(of_link.values()))
        for part in self._parts:
            self._kinds.update({one.crossings: (part, one) for one in part.kinds})

    def add(self, crossings: Crossings, key: StepKey, size_bytes: float, now_s: float) -> None:
        """A flow's first byte moves now."""
        part, one = self._kinds[crossings]
        part.add(one, (size_bytes, self._sequence, key), now_s)
        self._sequence += 1

    def next_s(self) -> float:
        """When the next flow ends."""
        return min((part.next_s() for part in self._parts), default=math.inf)

    def ended(self, now_s: float) -> list[StepKey]:
        """The flows that end now, in the order in which they began; they are in flight no more."""
        slack_s = simultaneous_s(now_s)
        found = [ended for part in self._parts for ended in part.take_ended(now_s, slack_s)]
        return [key for _, key in sorted(found)]
