"""By how much jobs are to be shifted in time, so that what they send interleaves: the arithmetic of CASSINI.

CASSINI (Rajasekaran, Ghobadi and Akella, NSDI '24, sections 3 and 4): an iteration is a circle, on which lies what it asks of
a link. Iterations of different length go round a *unified circle*, whose perimeter is a common multiple of theirs. Turning one
job's circle against another's is a shift in time. On a link, the *excess* is what is asked beyond its capacity, over the circle.
The score is one less the mean excess: 1 means that nobody waits. Jobs and the links they share are the vertices of the
*affinity graph*. In a graph without loops each link is solved by itself. Walking it from job to job gives each job one shift that is
right on all its links (Theorem 1). The paper discards placements whose graph has loops. Here placement is given, so a graph with
loops is solved over all its links at once. Links that the same jobs share are one vertex, or any job would make loops with any other.

Shifts are searched for exactly, by branch and bound over angles. A branch is cut off where the excess so far, or what no shift
can avoid, is no less than the best. Of equal excess, the shifts count for which jobs have to wait least from where they are.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from echelonflow.model.arrays import Floats, Ints

MOST_TURNS = 12
"""So many turns of one job's circle are tried as the perimeter of the unified one."""
SAME_PERIOD = 1e-3
"""Relative: periods that are rounded up by no more than that, to divide the perimeter, are right."""
MOST_NODES = 2000
"""Branches after which a search gives up, and the best of it counts."""
EXACT = 1e-6
"""Share of a circle: less excess is rounding."""


@dataclass(frozen=True, eq=False)
class Profile:
    """An iteration of a job, alone on the network, and where the job is in it. p pieces: what goes over a link and when."""

    job: str
    period_s: float
    began_s: float
    """When the latest iteration began that is known."""
    link: Ints
    begin_s: Floats
    """Since the iteration's beginning."""
    lasts_s: Floats
    load_s: Floats
    """How long the link needs for it, alone; at most `lasts_s`."""


@dataclass(frozen=True)
class Shift:
    """Iterations of a job are to begin at `first_s`, and every `every_s` from there."""

    first_s: float
    every_s: float


@dataclass(frozen=True)
class Shifts:
    """Of the jobs that share a link with others; by job."""

    of_job: dict[str, Shift]
    score: float = 1.0
    """The least over the links."""
    complete: bool = True
    """Whether the search came to its end, so that no other shifts have less excess."""


def affinity(profiles: Sequence[Profile]) -> list[tuple[list[int], list[list[int]]]]:
    """The parts of the affinity graph that hang together: places of their jobs, and links by vertex.

    Jobs that share no link are in none. Links that the same jobs share are one vertex.
    """
    users: dict[int, list[int]] = defaultdict(list)
    for place, profile in enumerate(profiles):
        for link in np.unique(profile.link).tolist():
            users[link].append(place)
    vertices: dict[tuple[int, ...], list[int]] = defaultdict(list)
    for link, jobs in sorted(users.items()):
        if len(jobs) > 1:
            vertices[tuple(jobs)].append(link)
    parts: list[tuple[set[int], list[list[int]]]] = []
    for together, links in vertices.items():
        touched = [part for part in parts if part[0] & set(together)]
        merged = (set(together).union(*(part[0] for part in touched)), [each for part in touched for each in part[1]])
        merged[1].append(links)
        parts = [part for part in parts if not any(part is one for one in touched)] + [merged]
    return [(sorted(jobs), links) for jobs, links in parts]


def asked_share(profiles: Sequence[Profile], jobs: Sequence[int], link: int) -> float:
    """The share of a link that some jobs ask for in the mean, each at the pace that it has alone."""
    return math.fsum(
        float(profiles[job].load_s[profiles[job].link == link].sum()) / profiles[job].period_s for job in jobs
    )


def unified(periods_s: Sequence[float]) -> tuple[float, list[int]]:
    """The perimeter of the unified circle, and how many turns of each job's circle it is.

    The least common multiple where there is one within `MOST_TURNS` of a job; else the perimeter for which periods have to
    be rounded up least. A job's period is then the perimeter over its turns: no less than it was.
    """
    best, least = (math.inf, [1] * len(periods_s)), math.inf
    for perimeter_s in sorted({turns * period_s for period_s in periods_s for turns in range(1, MOST_TURNS + 1)}):
        turns_of = [math.floor(perimeter_s / period_s * (1 + 1e-9)) for period_s in periods_s]
        if min(turns_of) < 1:
            continue
        longer = max(perimeter_s / turns / period_s for turns, period_s in zip(turns_of, periods_s, strict=True)) - 1
        if longer < least - 1e-9:
            best, least = (perimeter_s, turns_of), longer
        if longer <= SAME_PERIOD:
            break
    return best


def shifts(profiles: Sequence[Profile], jobs: Sequence[int], vertices: Sequence[Sequence[int]], *, angles: int, stretch: float = 1.0) -> Shifts:  # fmt: skip
    """The shifts with the least excess of the jobs in one part of the affinity graph, whose links are given by vertex.

    The circle of the longest iteration has so many `angles`. All periods are `stretch` times what they are alone. The job that
    comes first in `jobs` stays where it is.
    """
    perimeter_s, turns_of = unified([stretch * profiles[job].period_s for job in jobs])
    circle = _Circle(perimeter_s, angles * min(turns_of))
    turns = dict(zip(jobs, turns_of, strict=True))
    is_forest = sum(len(_on(profiles, jobs, links)) for links in vertices) == len(jobs) + len(vertices) - 1
    parts = [list(links) for links in vertices] if is_forest else [[link for links in vertices for link in links]]
    found: list[tuple[list[int], list[int]]] = []
    excess, complete = 0.0, True
    for links in parts:
        on = _on(profiles, jobs, links)
        search = _Search(circle, [profiles[job] for job in on], [turns[job] for job in on], links)
        search.run()
        found.append((on, search.best))
        excess = max(excess, search.worst_link_excess())
        complete = complete and search.complete
    places = _walked(jobs[0], found, circle.angles)
    first = profiles[jobs[0]].began_s
    return Shifts(
        {
            profiles[job].job: Shift(first + places[job] * circle.step_s, perimeter_s / turns[job])
            for job in jobs
        },
        1.0 - excess,
        complete,
    )  # fmt: skip


def _on(profiles: Sequence[Profile], jobs: Sequence[int], links: Sequence[int]) -> list[int]:
    return [job for job in jobs if np.isin(profiles[job].link, links).any()]


def _walked(first: int, found: Sequence[tuple[list[int], list[int]]], angles: int) -> dict[int, int]:
    """One shift for each job, in steps, from what was found by link: the paper's Algorithm 1, breadth first."""
    places, waiting = {first: 0}, [first]
    for job in waiting:
        for on, shift in found:
            if job not in on:
                continue
            own = dict(zip(on, shift, strict=True))
            for other in on:
                if other not in places:
                    places[other] = (places[job] - own[job] + own[other]) % angles
                    waiting.append(other)
    return places


@dataclass(frozen=True)
class _Circle:
    """A unified circle, in so many angles."""

    perimeter_s: float
    angles: int

    @property
    def step_s(self) -> float:
        return self.perimeter_s / self.angles

    def asked(self, profile: Profile, turns: int, link: int) -> Floats:
        """The share of a link that a job asks for at each angle; the mean where angles are too coarse for its iterations."""
        period_s = self.perimeter_s / turns
        on = (profile.link == link) & (profile.lasts_s > 0)
        if turns > self.angles:
            return np.full(self.angles, min(float(profile.load_s[on].sum()) / period_s, 1.0))
        begin_s, lasts_s = profile.begin_s[on] % period_s, np.minimum(profile.lasts_s[on], self.perimeter_s)
        rate = profile.load_s[on] / profile.lasts_s[on]
        edges_s = np.arange(2 * self.angles + 1) * self.step_s
        sent_s = np.zeros(len(edges_s))
        for turn in range(turns):
            for begin, lasts, share in zip(
                (begin_s + turn * period_s).tolist(), lasts_s.tolist(), rate.tolist(), strict=True
            ):
                sent_s += share * np.clip(edges_s - begin, 0.0, lasts)
        by_angle = np.diff(sent_s) / self.step_s
        found: Floats = np.minimum(by_angle[: self.angles] + by_angle[self.angles :], 1.0)
        return found


@dataclass(eq=False)
class _Search:
    """Branch and bound over the shifts of some jobs on some links."""

    circle: _Circle
    profiles: Sequence[Profile]
    turns: Sequence[int]
    links: Sequence[int]
    best: list[int] = field(default_factory=list)
    """In steps, by job."""
    complete: bool = True
    _asked: Floats = field(default_factory=lambda: np.zeros(0))
    """By job, link and angle."""
    _least: Floats = field(default_factory=lambda: np.zeros(0))
    """By link: the excess that no shift avoids."""
    _found: tuple[float, float] = (math.inf, math.inf)
    """Excess and waiting time of the best."""
    _nodes: int = 0

    def run(self) -> None:
        """Find the best shifts; the first job's is 0."""
        angles = self.circle.angles
        self._asked = np.array(
            [[self.circle.asked(p, turns, link) for link in self.links] for p, turns in zip(self.profiles, self.turns, strict=True)]
        )  # fmt: skip
        crowded = self._asked.max(axis=2).sum(axis=0) > 1.0  # on the others nobody ever waits
        self._asked = self._asked[:, crowded]
        if crowded.any():
            self._asked = np.unique(self._asked, axis=1)  # a link on which all is as on another one says nothing new
        self._least = np.maximum(self._asked.sum(axis=(0, 2)) - angles, 0.0)
        self._place(1, [0], self._asked[0], 0.0, 0.0)

    def worst_link_excess(self) -> float:
        """Mean excess over the circle, on the link where it is largest."""
        total = sum(np.roll(asked, shift, axis=-1) for asked, shift in zip(self._asked, self.best, strict=True))
        return float(np.maximum(total - 1.0, 0.0).mean(axis=-1).max(initial=0.0))

    def _place(self, job: int, placed: list[int], total: Floats, excess: float, waited_s: float) -> None:
        """Try all shifts of a job, the best first, and with each all of the jobs after it."""
        if job == len(self.profiles):
            self._found, self.best = (excess, waited_s), placed
            return
        angles = self.circle.angles
        shift = np.arange(math.ceil(angles / self.turns[job] - 1e-9))
        turned = (np.arange(angles) - shift[:, np.newaxis]) % angles
        by_shift = np.zeros(len(shift))
        for asked, other, least in zip(self._asked[job], total, self._least.tolist(), strict=True):  # link by link
            by_shift += np.maximum(np.maximum(other + asked[turned] - 1.0, 0.0).sum(axis=1), least)
        by_shift = np.round(by_shift / (EXACT * angles)) * (EXACT * angles)
        waits_s = self._waits_s(job, shift)
        for each in np.lexsort((waits_s, by_shift)).tolist():
            value = float(by_shift[each]), waited_s + float(waits_s[each])
            if value >= self._found:
                return  # and so are all that come after it
            if self._nodes >= MOST_NODES and self.best:
                self.complete = False
                return
            self._nodes += 1
            self._place(job + 1, [*placed, int(shift[each])], total + self._asked[job][:, turned[each]], *value)

    def _waits_s(self, job: int, shift: Ints) -> Floats:
        """How long a job has to wait for each shift, from where it is."""
        period_s = self.circle.perimeter_s / self.turns[job]
        apart_s = self.profiles[job].began_s - self.profiles[0].began_s
        waits_s: Floats = np.mod(shift * self.circle.step_s - apart_s, period_s, dtype=np.float64)
        waits_s[period_s - waits_s < EXACT * period_s] = 0.0
        return waits_s
