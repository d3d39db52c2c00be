"""Scheduling by a given order of flows, and the best order there is: an upper reference for tiny cases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.dag import Job
from echelonflow.model.network import Network
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import dense_rank, serve_in_order, stages_of
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import stable_id
from echelonflow.wire.declare import declarations
from simulator.fluid import simulate

FlowName = tuple[str, str]
"""(job, flow)."""
FlowOrder = tuple[FlowName, ...]


@dataclass(frozen=True)
class Found:
    """An order, and what it gives."""

    value: float
    order: FlowOrder
    tried: int


def flow_names(jobs: Sequence[Job]) -> list[FlowName]:
    """All flows that cross the network, in the order of declaration."""
    return [(group.job, flow.flow) for group in declarations(jobs) for flow in group.flows]


def by_order(jobs: Sequence[Job], order: Sequence[FlowName]) -> Policy:
    """A policy that serves earlier iterations first, then flows in `order`, each as fast as its path allows.

    Rates are greedy and keep the order: a flow gets all that the flows before it have left on its path.
    """
    place = {name: i for i, name in enumerate(order)}
    groups = declarations(jobs)
    job_place = {job: i for i, job in enumerate(sorted({group.job for group in groups}))}
    iterations = {job.name: job.iterations for job in jobs}
    key = {
        stable_id(job_place[group.job], k, flow.index): (k, place[group.job, flow.flow])
        for group in groups
        for flow in group.flows
        for k in range(iterations[group.job])
    }

    def decide(snapshot: Snapshot) -> Allocation:
        places = np.array([key[flow] for flow in snapshot.flow_id.tolist()], np.int64).reshape(-1, 2)
        rank = dense_rank([places[:, 0], places[:, 1]])
        return Allocation(serve_in_order(snapshot, stages_of(rank)), rank)

    return Policy("by-order", "priority", "A given order of flows.", decide)


def all_of(jobs: Sequence[Job]) -> Iterator[FlowOrder]:
    """All orders of all flows."""
    return itertools.permutations(flow_names(jobs))


def by_groups(jobs: Sequence[Job]) -> Iterator[FlowOrder]:
    """All orders of EchelonFlows, the flows of each in order of ideal finish time."""
    members = []
    for group in declarations(jobs):
        flows = sorted(group.flows, key=lambda flow: (flow.offset_s, flow.index))
        members.append([(group.job, flow.flow) for flow in flows])
    for order in itertools.permutations(members):
        yield tuple(name for group in order for name in group)


def number_of_orders(jobs: Sequence[Job]) -> tuple[int, int]:
    """How many orders of flows and of groups there are."""
    groups = list(declarations(jobs))
    return math.factorial(sum(len(group.flows) for group in groups)), math.factorial(len(groups))


def best(
    jobs: Sequence[Job],
    network: Network,
    orders: Iterable[FlowOrder],
    value_of: Callable[[RunRecord], float],
) -> Found:
    """The order of the least value among `orders`; the first of equals. InputError if there are none.

    What an order gives is reached by a schedule, so that no bound can lie above it; a schedule that changes its order
    in mid-run may still be better.
    """
    least, tried = math.inf, 0
    chosen: FlowOrder = ()
    for order in orders:
        tried += 1
        value = value_of(simulate(jobs, network, by_order(jobs, order)))
        if value < least - 1e-9:
            least, chosen = value, order
    if not tried:
        raise InputError("there is no order of flows to try: no flow crosses the network")
    return Found(least, chosen, tried)
