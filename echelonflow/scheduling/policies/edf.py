"""Earliest ideal finish first, without groups: what EchelonFlow is without its EchelonFlows.

Earliest due date first (Jackson 1955; Liu and Layland, JACM 1973) over the ideal finish times of all flows of all
jobs. Flows with the same ideal finish time are a stage and finish together, as they do within an EchelonFlow. So with
one group this is EchelonFlow's strict form; the difference with several is what the order of groups brings.

Where there is one group the two are identical (tested).

**Knows** sizes and arrangements. **Cost.** O(n log n + nh).
"""

from __future__ import annotations

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, quantised, serve_in_order, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "flows"
ENFORCER = "priority"
WORK_CONSERVING = True
STARVATION_FREE = True


def allocate(snapshot: Snapshot) -> Allocation:
    """Stages of equal ideal finish time, in its order.

    Example: the long flow is due at 3 s and the short one at 5 s, so the short one waits.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 10.0 MB/s, place 0
        short: 0.0 MB/s, place 1
    """
    rank = dense_rank([quantised(snapshot.ideal_finish_s)])
    return Allocation(serve_in_order(snapshot, stages_of(rank)), rank)


def form() -> Form:
    """The same as data."""
    return Form((Key("due_s", "flow"),), "madd")
