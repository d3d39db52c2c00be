"""What an imported DAG may lack, added to it: one computation at a time on a rank, one iteration at a time."""

from __future__ import annotations

import dataclasses
import heapq

from echelonflow.model.dag import Compute, JobDag


def one_at_a_time(dag: JobDag) -> JobDag:
    """`dag` with the computations of every rank chained in the order in which they would start without a network.

    That order is a topological one, so chaining along it closes no cycle.
    """
    position = {step.name: i for i, step in enumerate(dag.steps)}
    waiting = {step.name: len(step.after) for step in dag.steps}
    ready_s = dict.fromkeys(waiting, 0.0)
    free_s = [0.0] * dag.ranks
    last: list[str | None] = [None] * dag.ranks
    chained: dict[str, str] = {}
    queue = [(0.0, position[name], name) for name, count in waiting.items() if not count]
    heapq.heapify(queue)
    while queue:
        start_s, _, name = heapq.heappop(queue)
        step = dag.by_name[name]
        finish_s = start_s
        if isinstance(step, Compute):
            before = last[step.rank]
            if before is not None and before not in step.after:
                chained[name] = before
            last[step.rank] = name
            finish_s = free_s[step.rank] = max(start_s, free_s[step.rank]) + step.duration_s
        for follower in dag.followers[name]:
            waiting[follower] -= 1
            ready_s[follower] = max(ready_s[follower], finish_s)
            if not waiting[follower]:
                heapq.heappush(queue, (ready_s[follower], position[follower], follower))
    steps = [dataclasses.replace(s, after=(chained[s.name], *s.after)) if s.name in chained else s for s in dag.steps]
    return dataclasses.replace(dag, steps=tuple(steps))


def without_overlap(dag: JobDag) -> JobDag:
    """`dag` with every rank's next iteration waiting for the end of its last: nothing of a rank overlaps itself."""
    ends: list[list[str]] = [[] for _ in range(dag.ranks)]
    starts: list[list[str]] = [[] for _ in range(dag.ranks)]
    home = {step.name: step.rank if isinstance(step, Compute) else step.src_rank for step in dag.steps}
    for step in dag.steps:
        if not step.after:
            starts[home[step.name]].append(step.name)
        waited = {home[name] for name in dag.followers[step.name]}
        for rank in {step.rank} if isinstance(step, Compute) else {step.src_rank, step.dst_rank}:
            if rank not in waited:
                ends[rank].append(step.name)
    pairs: list[tuple[str, str]] = []
    steps = list(dag.steps)
    for rank in range(dag.ranks):
        if len(ends[rank]) > 1 and len(starts[rank]) > 1:
            end = Compute(f"end of rank {rank}", rank, 0.0, tuple(ends[rank]), "join")
            steps.append(end)
            ends[rank] = [end.name]
        pairs += [(end, start) for end in ends[rank] for start in starts[rank]]
    return dataclasses.replace(dag, steps=tuple(steps), next_iteration=(*dag.next_iteration, *pairs))
