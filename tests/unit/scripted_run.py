"""A run of several jobs as agents would report it: random, but the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from echelonflow.model.flow_key import FlowKey
from echelonflow.wire.messages import Declare, FlowDeclaration


def declared(hosts, jobs=3, seed=0):
    """Groups of several jobs with Coflows of two flows each, between random hosts."""
    rng = random.Random(seed)
    port, groups = 10_000, []
    for job in range(jobs):
        for group in range(2):
            flows = []
            for i in range(4):
                src, dst = rng.sample(hosts, 2)
                index = 4 * group + i
                size_bytes = rng.randrange(50_000, 2_000_000)
                offset_s = (i // 2) * rng.choice([0.0, 0.125, 0.3])
                flows.append(
                    FlowDeclaration(
                        f"g{group}f{i}", index, f"c{index // 2}", src, dst, size_bytes, offset_s, port, 5001
                    )
                )
                port += 1
            weight = rng.choice([1.0, 1.0, 2.5])
            groups.append(Declare(f"job{job}", f"g{group}", "test", weight, tuple(flows), compute_s=0.5 + job))
    return groups


def steps(groups, iterations, rng) -> Iterator[tuple[str, FlowKey]]:
    """("release" | "progress" | "finish", flow), until every flow of every iteration has finished.

    A flow's iterations are released and finished in turn; some ten flows are in flight at a time, so that they share
    links and are reordered.
    """
    released = {(group.job, flow.flow): 0 for group in groups for flow in group.flows}
    in_flight = []
    while True:
        waiting = sorted(flow for flow, count in released.items() if count < iterations)
        if not waiting and not in_flight:
            return
        if waiting and rng.random() < 2 / (1 + len(in_flight) / 4):
            flow = rng.choice(waiting)
            key = (flow[0], released[flow], flow[1])
            released[flow] += 1
            in_flight.append(key)
            yield "release", key
        elif rng.random() < 0.4:
            yield "progress", rng.choice(in_flight)
        else:
            job, _, name = rng.choice(in_flight)
            key = min(key for key in in_flight if (key[0], key[2]) == (job, name))
            in_flight.remove(key)
            yield "finish", key
