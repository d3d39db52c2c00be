"""Priority by GPU intensity, as Crux does it: the job that keeps most GPU time busy per second of network goes first.

Crux (SIGCOMM '24, sections 3 and 4.2): a job's intensity is I = W / t, the computation of one iteration over the time
that its traffic takes on its worst link. Serving the most intense first wastes the least GPU time. Here W is
GPU-seconds as declared (`jobs.compute_s`) and t is `jobs.alone_s`. Left out: Crux's correction factor, measured between
pairs of jobs, for iterations that overlap computation and traffic; and its choice of paths. Its compression to few
classes is replaced by the controller's own folding. A job that declared no computation comes last. Equal intensities go
by the order in which jobs were named; the flows of a job share fairly.

**Knows** sizes and computation. **Cost.** O(n log n + nh).
"""

from __future__ import annotations

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.measures import intensity
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "jobs"
ENFORCER = "priority"
WORK_CONSERVING = True


def allocate(snapshot: Snapshot) -> Allocation:
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
    rank = dense_rank([-intensity(snapshot.jobs)[job], snapshot.jobs.id[job]])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def form() -> Form:
    """The same as data."""
    return Form((Key("intensity", "job"), Key("id", "job")), "greedy")
