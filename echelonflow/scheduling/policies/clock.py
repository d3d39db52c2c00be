"""EchelonFlow on the clock of each job: the Coflow first whose job can least afford to wait.

The EchelonFlow paper gives each group a clock of its own, which starts with its head's release. Two groups cannot be
compared by such clocks, nor does a head ever have slack. Here all groups of a job share one clock. The ideal finish of
a flow is the latest moment at which it may end, so that its job's *next* iteration ends when the job can have it:

    d = e + m T* - tail

Here e is when the job's last iteration ended. The next one after the flow's own is the m-th after that: the second, or a
later one where iterations overlap. The tail is the longest path from the flow's end to the end of that iteration
(`echelonflow.model.clock`). T* are the iteration times that the jobs under way can keep up together, and whose sum is least
(`echelonflow.scheduling.steady`). Coflows are served in order of their earliest d, of all jobs in one line; the flows of
one end together. Spare capacity goes out in the same order.

Within one job the differences of d are those of its tails. In a pipeline, whose computations follow one another, these are
the paper's offsets. So the paper's arrangement is this one's, for one group and as long as its computations bind.

Two ablations. `pace=alone` puts the least iteration time of each job in place of T*: it is to go as fast as if it were
alone. `until=own` follows no path into the next iteration: d = e + (m - 1) T* less the way to the end of the flow's own. Flows of
jobs that declared no clock go by their ideal finish as the paper has it.

No Coflow starves: d does not change, and later iterations have later ones.

**Knows** sizes, arrangements and DAGs. **Cost.** O(n log n + nh); and a program over jobs and links when a job comes or goes.
"""

from __future__ import annotations

from typing import Literal

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, serve_in_order, stages_of
from echelonflow.scheduling.forms import Fixed, Form, Key
from echelonflow.scheduling.measures import coflow_due
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "Coflows"
ENFORCER = "priority"
WORK_CONSERVING = True
STARVATION_FREE = True
READS_CLOCK = True

Pace = Literal["shared", "alone"]
Until = Literal["next", "own"]


def allocate(snapshot: Snapshot, *, pace: Pace = "shared", until: Until = "next") -> Allocation:
    """Coflows by their flows' earliest moment on the clocks of their jobs.

    Example: both flows are due at once by the clocks of their groups. Of the spare one little waits, so that it may end
    5 s later.

        >>> from echelonflow.scheduling.examples import two_clocks
        >>> example = two_clocks()
        >>> example.show(allocate(example.snapshot))
        spare: 0.0 MB/s, place 1
        wanted: 10.0 MB/s, place 0
    """
    due = coflow_due(snapshot, by_own_pace=pace == "alone", of_own_iteration=until == "own")
    rank = dense_rank([due[snapshot.coflow], snapshot.coflows.id[snapshot.coflow]])
    return Allocation(serve_in_order(snapshot, stages_of(rank)), rank)


def form(*, pace: Pace = "shared", until: Until = "next") -> Form:
    """The same as data."""
    return Form((Key(_MEASURES[pace, until], "coflow"), Key("id", "coflow")), "madd")


_MEASURES: dict[tuple[Pace, Until], Fixed] = {
    ("shared", "next"): "clock_s",
    ("alone", "next"): "own_clock_s",
    ("shared", "own"): "end_clock_s",
    ("alone", "own"): "own_end_clock_s",
}
