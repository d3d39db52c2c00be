"""Blame: what each second of a job's mean iteration was spent on or waited for (docs/measures.md, "Blame").

The critical path of a job says when it computed and which of its flows it waited for. Rates of the simulation say how
much of such a flow's time it would have taken alone, and who had the link meanwhile. All seconds add up to the iteration.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.counting import Counted
from echelonflow.model.dag import Job
from echelonflow.model.iterations import ends_s
from echelonflow.model.network import Network
from echelonflow.records.blame import CAUSES, Blame, Cause
from echelonflow.records.rates import RateLog
from echelonflow.records.run_columns import FlowColumns
from echelonflow.records.run_record import RunRecord
from results.analysis.connection_paths import paths_of
from results.analysis.critical_path import Stretch, times_of
from results.analysis.link_shares import LinkShares, Pieces, Waited
from results.analysis.numbers import last_ends_s

_CAUSE_OF: Mapping[str, Cause] = {"computation": "computation", "in job": "job scheduler", "gap": "enforcement"}
PIECES_AT_ONCE = 200_000
"""Of what was sent at an even rate that are looked at together: some 10 MB for each link that is crossed."""
_LEAST_S = 1e-12
"""What is shorter than that is rounding."""


def ends_by_job_s(record: RunRecord, jobs: Sequence[Job]) -> dict[str, list[float]]:
    """When the iterations of each job ended, in seconds since the run's zero."""
    last_s = last_ends_s(record, jobs)
    return {job.name: ends_s(last_s[job.name], job.start_s) for job in jobs}


def blame(
    record: RunRecord, jobs: Sequence[Job], network: Network, rates: RateLog, counted: Counted
) -> tuple[Blame, ...]:
    """What the mean of the `counted` iterations of each job was spent on.

    `rates` were noted in the simulation of which `record` is. Nothing where they are not complete.
    """
    if rates.is_full:
        return ()
    ends = ends_by_job_s(record, jobs)
    paths: list[list[Stretch]] = []
    for times in times_of(record, jobs):
        name, mine = times.job.name, counted.get(times.job.name, range(0))
        if not mine or mine[-1] >= len(ends[name]):
            paths.append([])
            continue
        from_s = ends[name][mine[0] - 1] if mine[0] else times.job.start_s
        paths.append(list(times.path(mine[-1], from_s)))
    names = [job.name for job in jobs]
    seconds = _seconds(paths, _Sending.of(record, jobs, network, rates))
    found: list[Blame] = []
    for number, path in enumerate(paths):
        if path:
            found += _as_blame(names, number, seconds[number], network, len(counted[names[number]]))
    return tuple(found)


_Key = tuple[Cause, int, int]
"""Cause, number of the other job, link; -1 where there is none."""


@dataclass(frozen=True, eq=False)
class _Sending:
    """What was sent in a simulation: by flow's row, its job and path; and pieces of even rates."""

    pieces: Pieces
    job: Ints
    paths: Sequence[Sequence[int]]
    path_of: Ints
    capacity_Bps: Floats

    @staticmethod
    def of(record: RunRecord, jobs: Sequence[Job], network: Network, rates: RateLog) -> _Sending:
        flows = FlowColumns.of(record.flows)
        numbers = {job.name: number for number, job in enumerate(jobs)}
        job: Ints = np.array([numbers[s.job] for s in flows.steps], np.int64)
        path_of, paths = paths_of(flows.steps, network)
        return _Sending(
            Pieces(*rates.pieces(flows.finish_s)),
            job[flows.step],
            paths,
            path_of[flows.step],
            np.array(network.capacity_Bps),
        )

    def shares(self, begin_s: float, end_s: float, rows: Sequence[int]) -> LinkShares:
        """Who used the links of some flows between two moments."""
        found = LinkShares(self.pieces.between(begin_s, end_s), self.job, self.paths, self.path_of, self.capacity_Bps)
        found.prepare(np.array(rows, np.int64))
        return found


def _seconds(paths: Sequence[Sequence[Stretch]], sending: _Sending) -> list[dict[_Key, float]]:
    """Seconds of each job's path by cause. A part of the run at a time, so that its length costs no memory."""
    found: list[dict[_Key, float]] = [defaultdict(float) for _ in paths]
    for job, path in enumerate(paths):
        for part in path:
            if part.kind != "flow":
                found[job][_CAUSE_OF[part.kind], -1, -1] += part.end_s - part.begin_s
    flows = deque(
        sorted(
            ((part, job) for job, path in enumerate(paths) for part in path if part.kind == "flow"),
            key=lambda each: each[0].begin_s,
        )
    )
    under_way: list[tuple[Stretch, int]] = []
    for begin_s, end_s in itertools.pairwise(sending.pieces.edges_s(PIECES_AT_ONCE)):
        while flows and flows[0][0].begin_s < end_s:
            under_way.append(flows.popleft())
        shares = sending.shares(begin_s, end_s, [part.row for part, _ in under_way])
        for part, job in under_way:
            waited = shares.waited(part.row, max(part.begin_s, begin_s), min(part.end_s, end_s))
            _add(found[job], job, waited)
        under_way = [each for each in under_way if each[0].end_s > end_s]
    return found


def _add(found: dict[_Key, float], job: int, waited: Waited) -> None:
    found["communication", -1, -1] += waited.sent_s
    found["enforcement", -1, -1] += waited.unused_s
    for (other, link), waited_s in waited.for_jobs_s.items():
        key: _Key = ("own flows", -1, link) if other == job else ("other job", other, link)
        found[key] += waited_s


def _as_blame(
    names: Sequence[str], job: int, seconds: Mapping[_Key, float], network: Network, iterations: int
) -> list[Blame]:
    rows = [
        Blame(
            names[job],
            cause,
            spent_s / iterations,
            names[other] if other >= 0 else "",
            network.links[link].name if link >= 0 else "",
        )
        for (cause, other, link), spent_s in seconds.items()
        if abs(spent_s) > _LEAST_S
    ]
    return sorted(rows, key=lambda row: (CAUSES.index(row.cause), -row.blamed_s, row.other, row.link))
