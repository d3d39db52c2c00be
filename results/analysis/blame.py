"""Blame: what each second of a job's mean iteration was spent on or waited for (docs/measures.md, "Blame").

The critical path of a job says when it computed and which of its flows it waited for. Rates of the simulation say how
much of such a flow's time it would have taken alone, and who had the link meanwhile. All seconds add up to the iteration.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from echelonflow.model.arrays import Ints
from echelonflow.model.counting import Counted
from echelonflow.model.dag import Job
from echelonflow.model.iterations import ends_s
from echelonflow.model.network import Network
from echelonflow.records.blame import CAUSES, Blame, Cause
from echelonflow.records.rates import RateLog
from echelonflow.records.run_columns import FlowColumns
from echelonflow.records.run_record import RunRecord
from results.analysis.critical_path import Stretch, times_of
from results.analysis.link_shares import LinkShares, Pieces
from results.analysis.numbers import last_ends_s

_CAUSE_OF: Mapping[str, Cause] = {"computation": "computation", "in job": "job scheduler", "gap": "enforcement"}
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
    ends, paths = ends_by_job_s(record, jobs), []
    for times in times_of(record, jobs):
        name, mine = times.job.name, counted.get(times.job.name, range(0))
        if not mine or mine[-1] >= len(ends[name]):
            paths.append([])
            continue
        from_s = ends[name][mine[0] - 1] if mine[0] else times.job.start_s
        paths.append(list(times.path(mine[-1], from_s)))
    shares = _shares(record, jobs, network, rates)
    shares.prepare(np.array([part.row for each in paths for part in each if part.row >= 0], np.int64))
    names = [job.name for job in jobs]
    found: list[Blame] = []
    for number, path in enumerate(paths):
        if path:
            found += _as_blame(names, number, _seconds(number, path, shares), network, len(counted[names[number]]))
    return tuple(found)


def _shares(record: RunRecord, jobs: Sequence[Job], network: Network, rates: RateLog) -> LinkShares:
    flows = FlowColumns.of(record.flows)
    numbers = {job.name: number for number, job in enumerate(jobs)}
    job: Ints = np.array([numbers[s.job] for s in flows.steps], np.int64)
    places: dict[tuple[str, str], int] = {}
    path_of = np.array([places.setdefault((s.src_host, s.dst_host), len(places)) for s in flows.steps], np.int64)
    paths = [network.path(*ends) for ends in places]
    pieces = Pieces(*rates.pieces(flows.finish_s))
    return LinkShares(pieces, job[flows.step], paths, path_of[flows.step], np.array(network.capacity_Bps))


_Key = tuple[Cause, int, int]
"""Cause, number of the other job, link; -1 where there is none."""


def _seconds(job: int, path: Sequence[Stretch], shares: LinkShares) -> dict[_Key, float]:
    """Seconds of one job's path by cause."""
    found: dict[_Key, float] = defaultdict(float)
    for part in path:
        if part.kind != "flow":
            found[_CAUSE_OF[part.kind], -1, -1] += part.end_s - part.begin_s
            continue
        waited = shares.waited(part.row, part.begin_s, part.end_s)
        found["communication", -1, -1] += waited.sent_s
        found["enforcement", -1, -1] += waited.unused_s
        for (other, link), waited_s in waited.for_jobs_s.items():
            if other == job:
                found["own flows", -1, link] += waited_s
            else:
                found["other job", other, link] += waited_s
    return found


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
