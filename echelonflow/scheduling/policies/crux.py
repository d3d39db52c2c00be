"""Priority by GPU intensity, as Crux does it: the job that keeps most GPU time busy per second of network goes first.

Crux (SIGCOMM '24, sections 3 and 4.2): a job's intensity is I = W / t, the computation of one iteration over the time
that its traffic takes on its worst link. Serving the most intense first wastes the least GPU time. Here W is
GPU-seconds as declared (`jobs.compute_s`) and t is `jobs.alone_s`.

`correction=pairs` corrects for iterations that overlap computation and traffic, and come back more or less often. The job that
asks for the largest share of a link is the reference. Every other job that shares a link with it is compared with it there, by what both
declare of their iterations (`echelonflow.scheduling.correction`). Where its intensity puts it before the reference,
and the comparison behind it, it comes right behind it; and the other way round. That is Crux's
factor k, by the least that changes the order. Left out: how the paper computes k from measurements of the two jobs.

Left out, too: Crux's choice of paths. Its compression to few classes is replaced by the controller's own folding. A job that declared no computation
comes last. Equal intensities go by the order in which jobs were named; the flows of a job share fairly.

**Knows** sizes and computation; with `pairs` iterations. **Cost.** O(n log n + nh); with `pairs` O(64 j) when jobs come.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.correction import Burst, goes_first
from echelonflow.scheduling.fill import dense_rank, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.measures import intensity
from echelonflow.scheduling.snapshot import JobTable, Snapshot
from echelonflow.scheduling.steady import JobLoads

SERVES = "jobs"
ENFORCER = "priority"
WORK_CONSERVING = True
READS_CLOCK = True

Correction = Literal["none", "pairs"]

_SOON_S = 1e-9


def allocate(snapshot: Snapshot, *, correction: Correction = "none") -> Allocation:
    """Jobs by GPU intensity, the largest first; fair within a job.

    Example: the short flow's job computes for 4 s and needs the network for 1 s, the other 2 s and 4 s.
    So a second of network keeps more GPU time busy if the short flow gets it.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 0.0 MB/s, place 1
        short: 10.0 MB/s, place 0
    """
    job = snapshot.groups.job[snapshot.group]
    value = intensity(snapshot.jobs)
    if correction == "pairs" and snapshot.clock is not None:
        value = _corrected(value, snapshot.jobs, snapshot.clock.under_way)
    rank = dense_rank([-value[job], snapshot.jobs.id[job]])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def form(*, correction: Correction = "none") -> Form | None:
    """The same as data; none where pairs of jobs are compared."""
    return Form((Key("intensity", "job"), Key("id", "job")), "greedy") if correction == "none" else None


def _corrected(value: Ints, jobs: JobTable, under_way: JobLoads) -> Ints:
    """Intensities, in steps of their logarithm, each changed by as little as puts its job on the right side of the reference."""
    found: Ints = value.copy()
    reference = _reference(under_way)
    if reference is None:
        return found
    own = _value(under_way, reference)
    row_of = {job: row for row, job in enumerate(under_way.id.tolist())}
    for row, job in enumerate(jobs.id.tolist()):
        other = row_of.get(job)
        if other is None or other == reference or jobs.compute_s[row] <= 0:
            continue
        bursts = _on_their_worst_link(under_way, other, reference)
        goes = 0 if bursts is None else goes_first(*bursts)
        if goes > 0:
            found[row] = max(found[row], own + 1)
        elif goes < 0:
            found[row] = min(found[row], own - 1)
    return found


def _reference(jobs: JobLoads) -> int | None:
    """The row of the job that asks for the largest share of a link; None where no job that computes sends anything."""
    share = [
        float(_loads_s(jobs, row).max(initial=0.0)) / max(jobs.iteration_s[row], _SOON_S) * (jobs.compute_s[row] > 0)
        for row in range(len(jobs.id))
    ]
    return int(np.argmax(share)) if max(share, default=0.0) > 0 else None


def _value(jobs: JobLoads, row: int) -> int:
    """The intensity of a job under way, which need not have a flow in flight."""
    alone_s = _loads_s(jobs, row).max(keepdims=True)
    return int(intensity(JobTable(jobs.id[[row]], jobs.compute_s[[row]], alone_s))[0])


def _loads_s(jobs: JobLoads, row: int) -> Floats:
    return jobs.load_s[jobs.link_start[row] : jobs.link_start[row + 1]]


def _on_their_worst_link(jobs: JobLoads, one: int, other: int) -> tuple[Burst, Burst] | None:
    """What two jobs do on the link, of those that they share, of which they ask the largest share; None if they share none."""
    load_s = [
        dict(zip(jobs.link[jobs.link_start[row] : jobs.link_start[row + 1]].tolist(), _loads_s(jobs, row).tolist(), strict=True))
        for row in (one, other)
    ]  # fmt: skip
    shared = sorted(load_s[0].keys() & load_s[1].keys())
    if not shared:
        return None
    period_s = [max(float(jobs.iteration_s[row]), _SOON_S) for row in (one, other)]
    worst = max(shared, key=lambda link: load_s[0][link] / period_s[0] + load_s[1][link] / period_s[1])
    first, second = (
        Burst(
            float(jobs.compute_s[row]), float(jobs.iteration_s[row]), float(jobs.begin_s[row]), loads[worst],
            float(jobs.rest_s[row]),
        )
        for row, loads in zip((one, other), load_s, strict=True)
    )  # fmt: skip
    return first, second
