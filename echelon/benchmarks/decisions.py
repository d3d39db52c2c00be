"""How long one decision takes with 10,000 flows, for every policy that ships, and what one of a user's own costs.

The cluster and the flows are those of `scaling`: random groups on 1,024 hosts. A decision is what a policy does: from a
snapshot to an answer that was checked. *In simulations* it is what they do where kernels are compiled: the policy's form
(`echelonflow.scheduling.decision`). Both are CPU time, so that a busy machine does not count. The last rows are a policy
of five lines of numpy, called in this process, and in the process of its own that a user's file gets. Of the latter it
is the time that is waited for it.
"""

from __future__ import annotations

import contextlib
import statistics
import time
from collections.abc import Callable

from echelon.benchmarks import Figure, Say
from echelon.benchmarks import _policy_of_five_lines as own
from echelon.benchmarks.scaling import random_state
from echelonflow.model import topologies
from echelonflow.model.network import Network
from echelonflow.scheduling import kernels, policies
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.decision import Decision
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration

FLOWS = 10_000
MUST_MS, GOAL_MS = 10.0, 3.0
MORE = ("echelonflow(within=paced)", "weighted(per=job)")
"""Forms of policies that do other than their defaults."""
MANY = "sincronia"
"""Orders Coflows pair by pair, so it is measured with very many in one group, too."""
DECISIONS = 5
"""For each repeat."""
OWN_SIZES = (10, 100, 1_000, FLOWS)
_MILLI = 1e3


def run(repeat: int, say: Say) -> list[Figure]:
    """Medians of `repeat` times `DECISIONS` decisions."""
    way = kernels.warm_up()
    network = topologies.build(
        "leaf-spine", {"leaves": 32, "spines": 8, "hosts_per_leaf": 32, "rate_bps": 1e9, "fabric_rate_bps": 4e9}
    )
    snapshot = random_state(network, FLOWS).snapshot(3.0)[0]
    figures = []
    for name in (*policies.names(), *MORE):
        figures.append(_figure(f"{name}, {FLOWS:,} flows ({way})", name, snapshot, repeat))
        say(f"{figures[-1].what}: {figures[-1].measured}")
    many = one_group(network, FLOWS // 2).snapshot(3.0)[0]
    figures.append(_figure(f"{MANY}, {FLOWS:,} flows, {FLOWS // 2:,} Coflows in one group ({way})", MANY, many, repeat))
    return figures + own_figures(network, repeat)


def one_group(network: Network, coflows: int) -> SchedulerState:
    """One EchelonFlow of so many Coflows of two flows each, all in flight, between eight hosts."""
    hosts = network.hosts[:8]
    flows = [
        FlowDeclaration(
            f"f{i}", i, f"c{i // 2}", hosts[i % 8], hosts[(i + 1 + i // 2 % 7) % 8], 10**5 + 7919 * i % 10**7,
            0.001 * (i // 2), 10_000 + i, 5001,
        )
        for i in range(2 * coflows)
    ]  # fmt: skip
    state = SchedulerState(network)
    state.declare(Declare("job", "group", "pipeline", 1.0, tuple(flows), 1.0))
    for flow in flows:
        state.release(("job", 0, flow.flow), 1.0)
    return state


def own_figures(network: Network, repeat: int) -> list[Figure]:
    """What a user's own policy costs, by the number of flows: reported."""
    with contextlib.closing(policies.load(str(own.__file__))) as policy:
        return [_own_figure(network, flows, policy, repeat) for flows in OWN_SIZES]


def _own_figure(network: Network, flows: int, apart: policies.Policy, repeat: int) -> Figure:
    snapshot = random_state(network, flows).snapshot(3.0)[0]
    here_ms = median_ms(own.allocate, snapshot, repeat)
    apart_ms = median_ms(apart, snapshot, repeat, time.perf_counter)
    what = f"a policy of one's own in numpy, {flows:,} flows"
    return Figure(what, f"{here_ms:.2f} ms, {apart_ms:.2f} ms in its own process", "reported", None)


def median_ms(
    decide: Callable[[Snapshot], Allocation], snapshot: Snapshot, repeat: int, clock: Callable[[], float] = time.thread_time
) -> float:  # fmt: skip
    """Median time of a decision by `clock`, which gives seconds."""
    times_ms = []
    for _ in range(1 + repeat * DECISIONS):
        started_s = clock()
        decide(snapshot)
        times_ms.append((clock() - started_s) * _MILLI)
    return statistics.median(times_ms[1:])


def _figure(what: str, name: str, snapshot: Snapshot, repeat: int) -> Figure:
    policy = policies.load(name)
    policy_ms = median_ms(policy, snapshot, repeat)
    form_ms = median_ms(Decision(policy), snapshot, repeat)
    measured = f"{policy_ms:.1f} ms, in simulations {form_ms:.1f} ms"
    worst_ms = max(policy_ms, form_ms)
    return Figure(what, measured, f"under {MUST_MS:g} ms (goal {GOAL_MS:g} ms)", worst_ms < MUST_MS)
