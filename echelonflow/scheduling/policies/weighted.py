"""Weighted fair sharing: jobs that matter more get more, nobody gets nothing.

Weighted max-min fair rates (Bertsekas and Gallager, Data Networks, section 6.5.2; weights as in Orchestra, SIGCOMM
'11, section 5.1). `per=flow`: every flow pulls with the weight of its EchelonFlow, so with equal weights this is fair
sharing. `per=group`, `per=job`: that weight is divided among the flows in flight of the EchelonFlow or job, so that
opening more connections brings no more bandwidth. A job's weight is the largest of its EchelonFlows in flight.

**Knows** weights and paths. **Cost.** At most L rounds, each O(nh).
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from echelonflow.model.arrays import Floats
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import max_min
from echelonflow.scheduling.forms import Form, Pull
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "flows"
ENFORCER = "rate"
KNOWS_SIZES = False
WORK_CONSERVING = True
STARVATION_FREE = True


def allocate(snapshot: Snapshot, *, per: Literal["flow", "group", "job"] = "flow") -> Allocation:
    """Shares of every bottleneck in proportion to weights.

    Example: the short flow's job has weight 2 and the long one's 1, so it gets two thirds.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 3.3 MB/s, place 0
        short: 6.7 MB/s, place 0
    """
    rows = np.arange(snapshot.flows, dtype=np.int64)
    rates = max_min(snapshot, rows, _pull(snapshot, per), snapshot.capacity_Bps.copy())
    return Allocation(rates, np.zeros(snapshot.flows, np.int64))


def form(*, per: Literal["flow", "group", "job"] = "flow") -> Form:
    """The same as data."""
    pulls: dict[str, Pull] = {"flow": "group", "group": "per_group", "job": "per_job"}
    return Form((), "greedy", pull=pulls[per])


def _pull(snapshot: Snapshot, per: str) -> Floats:
    groups = snapshot.groups
    if per == "flow":
        return groups.weight[snapshot.group]
    member = snapshot.group if per == "group" else groups.job[snapshot.group]
    weight = groups.weight if per == "group" else groups.weight_of_jobs(len(snapshot.jobs.id))
    return (weight / np.bincount(member, minlength=len(weight)))[member]
