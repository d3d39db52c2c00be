"""Priority by layer: what computation waits for first goes first, whatever the job.

The rule of P3 and ByteScheduler (Jayarajan et al., MLSys 2019; Peng et al., SOSP 2019), which give tensors of earlier layers to
the network first. Here the network goes by it. A flow's layer is its place in the order in which the computations of an
iteration wait for flows of its job (`echelonflow.model.clock`). Layers of different jobs are not comparable, but classes have
to be: the first layer of any job goes before the second layer of any other. Flows of one layer share fairly.

A job with few layers, or with large first ones, holds up the others; so the last layers of one starve while others' first ones
keep coming. Flows of jobs that declared no clock count as a first layer.

**Knows** the order of layers, and no sizes. **Cost.** O(n log n + nh).
"""

from __future__ import annotations

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, stages_of
from echelonflow.scheduling.forms import Form, Key
from echelonflow.scheduling.greedy import greedy
from echelonflow.scheduling.measures import layer
from echelonflow.scheduling.snapshot import Snapshot

SERVES = "flows"
ENFORCER = "priority"
WORK_CONSERVING = True
READS_CLOCK = True


def allocate(snapshot: Snapshot) -> Allocation:
    """Flows by layer, the first one first; fair within a layer.

    Example: computation waits for the flow named "wanted" first, and for the spare one second.

        >>> from echelonflow.scheduling.examples import two_clocks
        >>> example = two_clocks()
        >>> example.show(allocate(example.snapshot))
        spare: 0.0 MB/s, place 1
        wanted: 10.0 MB/s, place 0
    """
    rank = dense_rank([layer(snapshot)])
    return Allocation(greedy(snapshot, stages_of(rank)), rank)


def form() -> Form:
    """The same as data."""
    return Form((Key("layer", "flow"),), "greedy")
