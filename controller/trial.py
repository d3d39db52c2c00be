"""A made-up moment on a network: what policies are tried on before they count."""

from __future__ import annotations

import itertools

from echelonflow.errors import InputError
from echelonflow.model.network import Network
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.declare import DATA_PORT, FIRST_SOURCE_PORT
from echelonflow.wire.messages import Declare, FlowDeclaration

MOST_FLOWS = 12
_JOB = "trial"


def trial_flows(network: Network) -> tuple[FlowDeclaration, ...]:
    """A few flows between the network's first hosts that can reach each other, of different deadlines."""
    found: list[FlowDeclaration] = []
    for src, dst in itertools.permutations(network.hosts[:4], 2):
        try:
            network.path(src, dst)
        except InputError:
            continue
        i = len(found)
        found.append(
            FlowDeclaration(f"f{i}", i, f"c{i // 2}", src, dst, 10**6, i / 4, FIRST_SOURCE_PORT + i, DATA_PORT)
        )
    return tuple(found[:MOST_FLOWS])


def trial_snapshot(network: Network) -> Snapshot:
    """Those flows a second after the run's zero, one still to be released (empty where hosts are too few)."""
    state, flows = SchedulerState(network), trial_flows(network)
    if flows:
        state.declare(Declare(_JOB, "group", "trial", 1.0, flows))
    for flow in flows[: max(len(flows) - 1, 1)]:
        state.release((_JOB, 0, flow.flow), 0.5)
    return state.snapshot(1.0)[0]
