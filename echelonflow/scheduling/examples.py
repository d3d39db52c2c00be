"""Small situations for the worked examples in the docstrings of policies, and for trying a policy of one's own."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from echelonflow.model.network import Cable, Network
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowClock, FlowDeclaration, JobClock

_LINE_PER_PAYLOAD = 1514 / 1460
"""Bits on the line for each bit of payload, at MTU 1500."""


@dataclass(frozen=True)
class Example:
    """A snapshot and what its flows are called."""

    snapshot: Snapshot
    flows: tuple[str, ...]

    def show(self, allocation: Allocation) -> None:
        """Print each flow's rate and its place in the order; the first place is 0."""
        for row, name in enumerate(self.flows):
            print(f"{name}: {allocation.rates_Bps[row] / 1e6:.1f} MB/s, place {allocation.rank[row]}")


def two_jobs() -> Example:
    """One flow each of two jobs, on one link that carries 10 MB of payload in a second; 2 s have passed.

    flow   released  due  bytes                   job's weight  its computation
    long   0 s       3 s  40 MB, 20 of them sent  1             2 GPU-seconds
    short  1 s       5 s  10 MB, none sent        2             4 GPU-seconds
    """
    state = SchedulerState(_one_link())
    state.declare(Declare("a", "a", "example", 1.0, (_flow(0, "long", 40_000_000, 3.0),), 2.0))
    state.declare(Declare("b", "b", "example", 2.0, (_flow(0, "short", 10_000_000, 4.0),), 4.0))
    state.release(("a", 0, "long"), 0.0)
    state.release(("b", 0, "short"), 1.0)
    state.progress(("a", 0, "long"), 20_000_000)
    return Example(state.snapshot(2.0)[0], ("long", "short"))


def two_micro_batches() -> Example:
    """Two flows of one EchelonFlow, on one link that carries 10 MB of payload in a second.

    They are a pipeline's micro-batches of 20 MB each, both released at 0 s. The next stage wants the first at once and
    the second a second later, when it has worked on the first.
    """
    state = SchedulerState(_one_link())
    flows = (_flow(0, "first", 20_000_000, 0.0), _flow(1, "second", 20_000_000, 1.0))
    state.declare(Declare("a", "a", "example", 1.0, flows))
    for flow in flows:
        state.release(("a", 0, flow.flow), 0.0)
    return Example(state.snapshot(0.0)[0], ("first", "second"))


def two_clocks() -> Example:
    """One flow each of two jobs that declared their clocks, on one link that carries 10 MB of payload in a second.

    Both flows have 10 MB, are released at 0 s and due at once by the clocks of their groups. Iterations of both jobs take
    4 s alone. What waits for the flow lasts 1 s in one job and 6 s in the other, up to the end of the next iteration.
    The first one is of its job's second layer.
    """
    state = SchedulerState(_one_link())
    for place, (job, flow, tail_s) in enumerate((("a", "spare", 1.0), ("b", "wanted", 6.0))):
        clock = FlowClock(1.0, 1.0, tail_s, 1.0, layer=1 - place)
        declared = msgspec.structs.replace(_flow(place, flow, 10_000_000, 0.0), clock=clock)
        state.declare(Declare(job, job, "example", 1.0, (declared,), 2.0, JobClock(4.0)))
        state.release((job, 0, flow), 0.0)
    return Example(state.snapshot(0.0)[0], ("spare", "wanted"))


def _one_link() -> Network:
    rate_bps = 80e6 * _LINE_PER_PAYLOAD
    return Network("one link", ("h1", "h2"), ("s1",), (Cable("h1", "s1", rate_bps), Cable("h2", "s1", rate_bps)))


def _flow(index: int, name: str, size_bytes: int, offset_s: float) -> FlowDeclaration:
    return FlowDeclaration(name, index, name, "h1", "h2", size_bytes, offset_s, 10_000 + index, 5001)
