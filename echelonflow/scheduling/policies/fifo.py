"""First in, first out, flow by flow: who was ready first is served first.

The baseline without groups and without knowledge of sizes (as in Varys, SIGCOMM '14, section 7, and FIFO-LM's
limit of one flow at a time; Dogar et al., SIGCOMM '14). Flows released at the same moment go by their ids. One
long flow holds up all that come after it on its links; others pass it where their paths do not meet.

**Knows** release times and paths. **Cost.** O(n log n + nh).
"""

from __future__ import annotations

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, quantised, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "flows"
ENFORCER = "priority"
KNOWS_SIZES = False
WORK_CONSERVING = True
STARVATION_FREE = True


def allocate(snapshot: Snapshot) -> Allocation:
    """Flows by release.

    Example: the long flow was ready first, so the short one waits.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 10.0 MB/s, place 0
        short: 0.0 MB/s, place 1
    """
    rank = dense_rank([quantised(snapshot.release_s), snapshot.flow_id])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def form() -> Form:
    """The same as data."""
    return Form((Key("release_s", "flow"), Key("id", "flow")), "greedy")
