"""Who used each link when, in a simulation whose rates were noted: what a flow that waits is kept from, and by whom."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats, Ints

_SAME = 1e-6
"""Of the capacity of a flow's narrowest link: what differs by less is the same."""


@dataclass(frozen=True, eq=False)
class Pieces:
    """What flows were sent, piece by piece (`RateLog.pieces`); pieces of a flow lie side by side, in order of time."""

    row: Ints
    begin_s: Floats
    end_s: Floats
    rate_Bps: Floats

    def of(self, row: int) -> slice:
        """Those of one flow."""
        first, last = np.searchsorted(self.row, [row, row + 1])
        return slice(int(first), int(last))

    def between(self, begin_s: float, end_s: float) -> Pieces:
        """Those parts of all of them that lie between two moments."""
        kept = np.flatnonzero((self.begin_s < end_s) & (self.end_s > begin_s))
        clipped_s = np.maximum(self.begin_s[kept], begin_s), np.minimum(self.end_s[kept], end_s)
        return Pieces(self.row[kept], *clipped_s, self.rate_Bps[kept])

    def edges_s(self, most: int) -> list[float]:
        """Moments between which about `most` pieces begin each, from before the first to after the last."""
        inner = np.sort(self.begin_s)[most::most].tolist()
        return [-math.inf, *dict.fromkeys(inner), math.inf]


@dataclass(frozen=True, slots=True)
class Waited:
    """How a flow spent a time, in seconds: being sent as if it were alone, and waiting, by job and link."""

    sent_s: float
    unused_s: float
    """Kept waiting although its path had room."""
    for_jobs_s: Mapping[tuple[int, int], float]
    """By job, as a number, and link."""


class LinkShares:
    """Rates of jobs on links as steps over time, for those `links` that are asked about.

    `job` is by row of a flow; its path is `links_of(row)`.
    """

    def __init__(
        self, pieces: Pieces, job: Ints, paths: Sequence[Sequence[int]], path_of: Ints, capacity_Bps: Floats
    ) -> None:
        self._pieces = pieces
        self._job = job
        self._paths = [np.asarray(path, np.int64) for path in paths]
        self._path_of = path_of
        self._capacity_Bps = capacity_Bps
        self._moment_s = np.unique(np.concatenate((pieces.begin_s, pieces.end_s)))
        self._links: dict[int, _Link] = {}

    def prepare(self, rows: Ints) -> None:
        """Find out who used the links of these flows."""
        pieces, moments = self._pieces, len(self._moment_s)
        wanted = np.zeros(len(self._capacity_Bps), bool)
        for used in set(self._path_of[rows].tolist()):
            wanted[self._paths[used]] = True
        lengths = np.array([len(path) for path in self._paths], np.int64)
        starts = np.cumsum(lengths) - lengths
        hops = np.concatenate([*self._paths, np.zeros(0, np.int64)])
        path = self._path_of[pieces.row]
        piece = np.repeat(np.arange(len(path)), lengths[path])
        first = np.cumsum(lengths[path]) - lengths[path]
        link = hops[starts[path][piece] + np.arange(len(piece)) - first[piece]]
        kept = wanted[link]
        piece, link = piece[kept], link[kept]
        begin = np.searchsorted(self._moment_s, pieces.begin_s)[piece]
        end = np.searchsorted(self._moment_s, pieces.end_s)[piece]
        job, rate_Bps = self._job[pieces.row[piece]], pieces.rate_Bps[piece]
        jobs = int(job.max(initial=0)) + 1
        user = (link * jobs + job) * moments
        key = np.concatenate((user + begin, user + end))
        order = np.argsort(key)  # of the same job, link and moment any order will do
        key, change = (
            key[order],
            np.concatenate(([rate_Bps, np.ones(len(piece))], [-rate_Bps, -np.ones(len(piece))]), axis=1)[:, order],
        )
        same = np.flatnonzero(np.diff(key, prepend=-1))
        key, change = key[same], np.add.reduceat(change, same, axis=1) if len(same) else change
        user, moment = np.divmod(key, moments)
        link, job = np.divmod(user, jobs)
        bounds = np.flatnonzero(np.diff(link, prepend=-1, append=-2))
        for low, high in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
            part = slice(low, high)
            self._links[int(link[low])] = _Link.of(job[part], moment[part], change[:, part], moments)

    def waited(self, row: int, begin_s: float, end_s: float) -> Waited:
        """How a flow whose path was prepared spent the time from `begin_s` to `end_s`."""
        path = self._paths[self._path_of[row]]
        capacity_Bps = self._capacity_Bps[path]
        alone_Bps = float(capacity_Bps.min())
        low, high = np.searchsorted(self._moment_s, [begin_s, end_s], side="right")
        own = self._pieces.of(row)
        inner = [self._links[link].between(low, high) for link in path.tolist() if link in self._links]
        moments = np.unique(np.concatenate(([low - 1], *inner))) if inner else np.array([low - 1])
        edges_s = np.concatenate(([begin_s], self._moment_s[moments[1:]], [end_s]))
        lasts_s = np.diff(edges_s)
        own_Bps = self._own_Bps(own, edges_s[:-1])
        used_Bps, users = self._used(path, moments)
        used_Bps = np.maximum(used_Bps, own_Bps)
        spare_Bps = np.maximum(capacity_Bps[:, None] - used_Bps, 0.0)
        lack_Bps = np.maximum(alone_Bps - own_Bps, 0.0)
        unused_Bps = np.minimum(spare_Bps.min(axis=0), lack_Bps)
        blocked_Bps = lack_Bps - unused_Bps
        others_Bps = used_Bps - own_Bps
        over_mean = own_Bps * users / np.maximum(used_Bps, _SAME * alone_Bps)
        tightest = self._tightest(spare_Bps, over_mean, alone_Bps)
        free = (blocked_Bps <= _SAME * alone_Bps) | (others_Bps[tightest, np.arange(len(tightest))] <= 0)
        unused_Bps, blocked_Bps = np.where(free, lack_Bps, unused_Bps), np.where(free, 0.0, blocked_Bps)
        blocked_s = blocked_Bps / alone_Bps * lasts_s
        unused_s = float(unused_Bps / alone_Bps @ lasts_s)
        for_jobs_s: dict[tuple[int, int], float] = {}
        own_job = int(self._job[row])
        for hop in np.unique(tightest[blocked_s > 0]).tolist():
            there = np.flatnonzero((tightest == hop) & (blocked_s > 0))
            link = int(path[hop])
            for job, share in self._links[link].shares(moments[there], own_job, own_Bps[there]):
                for_jobs_s[job, link] = float(share @ blocked_s[there])
        return Waited(end_s - begin_s - unused_s - sum(for_jobs_s.values()), unused_s, for_jobs_s)

    def _own_Bps(self, own: slice, at_s: Floats) -> Floats:
        """Rates of the flow with these pieces from these moments on."""
        begins_s, ends_s, rates_Bps = (
            self._pieces.begin_s[own], self._pieces.end_s[own], self._pieces.rate_Bps[own],
        )  # fmt: skip
        if not len(begins_s):
            return np.zeros(len(at_s))
        piece = np.maximum(np.searchsorted(begins_s, at_s, side="right") - 1, 0)
        return np.where((begins_s[piece] <= at_s) & (at_s < ends_s[piece]), rates_Bps[piece], 0.0)

    def _used(self, path: Ints, moments: Ints) -> tuple[Floats, Floats]:
        """What all send over each link of a path from these moments on, and how many flows do."""
        nothing = np.zeros((2, len(moments)))
        both = [self._links[link].used(moments) if link in self._links else nothing for link in path.tolist()]
        return np.array([each[0] for each in both]), np.array([each[1] for each in both])

    @staticmethod
    def _tightest(spare_Bps: Floats, over_mean: Floats, alone_Bps: float) -> Ints:
        """Place in the path of the link with least to spare; of several the one where the flow has most beside the others.

        Under fair sharing a flow is held up where nobody has more than it. That is told by its rate over the mean of those
        that use the link. Where it has nothing, the first of these links is taken.
        """
        tight = spare_Bps <= spare_Bps.min(axis=0) + _SAME * alone_Bps
        most = np.where(tight, over_mean, -1.0)
        found: Ints = (most >= (1 - _SAME) * most.max(axis=0)).argmax(axis=0)  # rounding must not decide
        return found


@dataclass(frozen=True, eq=False)
class _Link:
    """What jobs send over a link, as steps: jobs one after the other, those of a job in order of moments."""

    jobs: Ints
    """Those that ever use it, in order."""
    key: Ints
    """Place in `jobs` times `width`, plus the moment."""
    job_Bps: Floats
    """What the job sends from there on."""
    first: Ints
    """Where each job's steps begin."""
    moment: Ints
    """Of the whole link, in order."""
    total: Floats
    """What all jobs send from there on, and how many flows do."""
    width: int

    @staticmethod
    def of(job: Ints, moment: Ints, change: Floats, width: int) -> _Link:
        """Of changes in what jobs send, and in how many flows do, in order of jobs and moments."""
        jobs, first = np.unique(job, return_index=True)
        place = np.searchsorted(jobs, job)
        running = np.cumsum(change[0])
        before = np.concatenate(([0.0], running))[first]
        order = np.argsort(moment, kind="stable")
        total = np.cumsum(change[:, order], axis=1)
        return _Link(jobs, place * width + moment, running - before[place], first, moment[order], total, width)

    def between(self, low: int, high: int) -> Ints:
        """Moments from `low` on and before `high` at which anything changes."""
        first, last = np.searchsorted(self.moment, [low, high])
        return self.moment[first:last]

    def used(self, moments: Ints) -> Floats:
        """What all jobs send from these moments on, and how many flows do."""
        place = np.searchsorted(self.moment, moments, side="right") - 1
        return np.where(place >= 0, self.total[:, np.maximum(place, 0)], 0.0)

    def shares(self, moments: Ints, own_job: int, own_Bps: Floats) -> list[tuple[int, Floats]]:
        """By job, its share of what all send from these moments on but for one flow, which is of `own_job`."""
        places = np.arange(len(self.jobs))
        wanted = places[:, None] * self.width + moments[None, :]
        found = np.searchsorted(self.key, wanted, side="right") - 1
        rates_Bps = np.where(found >= self.first[:, None], self.job_Bps[np.maximum(found, 0)], 0.0)
        rates_Bps[self.jobs == own_job] -= own_Bps
        rates_Bps = np.where(rates_Bps > _SAME * self.job_Bps.max(), rates_Bps, 0.0)
        total_Bps = rates_Bps.sum(axis=0)
        total_Bps[total_Bps <= 0] = np.inf
        users = np.flatnonzero(rates_Bps.any(axis=1))
        return [(int(self.jobs[place]), rates_Bps[place] / total_Bps) for place in users]
