"""A fixed priority per job: the network serves important jobs first, and each job's flows alike.

What MLNet proposes (Mai, Hong and Costa, HotCloud '15: flows by priority, set from outside), and CadentFlow in its
priority metric (reference 27 of the EchelonFlow paper). The weight that a job is given is its priority, the larger
first. Jobs of equal weight go by the order in which they were named. How to choose priorities is left to the user,
which is EchelonFlow's point against it. A job's weight is the largest of its EchelonFlows in flight; its flows share
one class. Jobs of low priority wait for as long as others have something to send.

**Knows** weights and paths. **Cost.** O(n log n + nh).
"""

from __future__ import annotations

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, quantised, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "jobs"
ENFORCER = "priority"
KNOWS_SIZES = False
WORK_CONSERVING = True


def allocate(snapshot: Snapshot) -> Allocation:
    """Jobs by weight, the largest first; fair within a job.

    Example: the short flow's job has weight 2 and the long one's 1.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 0.0 MB/s, place 1
        short: 10.0 MB/s, place 0
    """
    jobs = snapshot.jobs
    job = snapshot.groups.job[snapshot.group]
    weight = snapshot.groups.weight_of_jobs(len(jobs.id))
    rank = dense_rank([quantised(-weight)[job], jobs.id[job]])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def form() -> Form:
    """The same as data."""
    return Form((Key("weight", "job"), Key("id", "job")), "greedy")
