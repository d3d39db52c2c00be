"""A job of which one worker stands for all: for fast simulation of one job alone (`simulator.alone`).

Every worker is on a host of its own at one switch that never blocks, and so is every server. With parameter servers it is the
job with one worker, each of whose pushes shares a server's link with those of all others, and so do its pulls. With a
ring, one rank of two stands for both, and sends what a rank of the whole ring would. What a rank waits for of its
neighbour happens at the same time at its own end.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, Group, Job, JobDag, Step, Transfer
from echelonflow.model.discipline import Discipline
from echelonflow.model.one_of_each import OneOfEach
from echelonflow.scheduling.bounds.overlap import OverlapBound, overlap_bound
from traffic.workloads.in_job import build_job_dag
from traffic.workloads.tensors import PARAMETER_SERVER, Setting, TensorModel, TensorPlan

RINGS = ("ring", "reduce-scatter")
_OUT, _IN, _SERVERS = 0, 1, 2
"""Links: from a worker, to a worker, and behind them those to and from each server."""


def one_of_each(model: TensorModel, plan: TensorPlan, setting: Setting, iterations: int) -> OneOfEach:
    """The job of `plan` (made for this `setting`) with one worker for all; as fast as `setting` says.

    Shares of a ring are rounded to a byte. Raises InputError for what is not symmetric (trees, servers beside workers, other
    collectives), and where no rate is known.
    """
    if setting.rate_Bps is None:
        raise InputError("needs the rate of a link, and here none is known")
    if setting.architecture == PARAMETER_SERVER and not setting.colocated:
        return _served(model, plan, setting, iterations, setting.rate_Bps)
    if setting.architecture in RINGS:
        return _ring(model, plan, setting, iterations, setting.rate_Bps)
    where = " with colocated servers" if setting.colocated else ""
    raise InputError(
        f"{setting.architecture}{where}: its ranks are not alike, so that none stands for all; simulate it as a whole"
    )


def bound(model: TensorModel, setting: Setting) -> OverlapBound:
    """The ideal overlap bound of one iteration (`echelonflow.scheduling.bounds.overlap`), whatever the job scheduler.

    Workers of a ring update a layer right before its forward pass, so that counts as a part of it. Raises InputError
    where no rate is known.
    """
    if setting.rate_Bps is None:
        raise InputError("needs the rate of a link, and here none is known")
    updates = setting.architecture != PARAMETER_SERVER
    return overlap_bound(
        [tensor.forward_s + updates * tensor.update_s for tensor in model.tensors],
        [tensor.backward_s for tensor in model.tensors],
        [[setting.carried_bytes(tensor.size_bytes) / setting.rate_Bps for tensor in model.tensors]],
    )


def _served(model: TensorModel, plan: TensorPlan, setting: Setting, iterations: int, rate_Bps: float) -> OneOfEach:
    dag, discipline = build_job_dag(model, plan, dataclasses.replace(setting, workers=1))
    crossings = {}
    for transfer in dag.transfers:
        pushed = transfer.src_rank == 0
        server = (transfer.dst_rank if pushed else transfer.src_rank) - 1
        own, theirs = (_OUT, _SERVERS + 2 * server) if pushed else (_IN, _SERVERS + 2 * server + 1)
        crossings[transfer.name] = ((own, 1), (theirs, setting.workers))
    # A server's task is what it sends to all workers.
    tasks = [
        task if task.rank == 0 else dataclasses.replace(task, size_bytes=task.size_bytes * setting.workers)
        for task in discipline.tasks
    ]
    held = dataclasses.replace(discipline, tasks=tuple(tasks))
    return OneOfEach(_job(dag, held, iterations), crossings, (rate_Bps,) * (_SERVERS + 2 * setting.servers))


def _ring(model: TensorModel, plan: TensorPlan, setting: Setting, iterations: int, rate_Bps: float) -> OneOfEach:
    dag, discipline = build_job_dag(model, plan, dataclasses.replace(setting, workers=min(setting.workers, 2)))
    if setting.workers > 1:
        # Of two ranks each sends half of a buffer twice, of n ranks (n - 1) / n of it.
        dag, discipline = _folded(dag, discipline, 2 * (setting.workers - 1) / setting.workers)
    crossings = {transfer.name: ((_OUT, 1),) for transfer in dag.transfers}
    return OneOfEach(_job(dag, discipline, iterations), crossings, (rate_Bps,))


def _folded(dag: JobDag, discipline: Discipline, factor: float) -> tuple[JobDag, Discipline]:
    """Rank 0 of a job of two that do the same, with `factor` times the bytes."""
    sent: dict[str, dict[int, str]] = defaultdict(dict)
    for transfer in dag.transfers:
        sent[transfer.coflow][transfer.src_rank] = transfer.name
    own = {by_rank[1]: by_rank[0] for by_rank in sent.values()}
    """What comes from rank 1, to what rank 0 sends of the same collective."""

    def folded(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(own.get(name, name) for name in names))

    def step(found: Step) -> Step:
        if isinstance(found, Compute):
            return dataclasses.replace(found, after=folded(found.after))
        size_bytes = max(round(found.size_bytes * factor), 1)
        return dataclasses.replace(found, size_bytes=size_bytes, after=folded(found.after))

    def of_rank_0(found: Step) -> bool:
        return (found.src_rank if isinstance(found, Transfer) else found.rank) == 0

    kept = [step(found) for found in dag.steps if of_rank_0(found)]
    names = {found.name for found in kept}
    pairs = dict.fromkeys((own.get(earlier, earlier), later) for earlier, later in dag.next_iteration if later in names)
    groups = tuple(
        Group(group.name, group.kind, transfers, (0.0,) * len(transfers))
        for group in dag.groups
        if (transfers := tuple(name for name in group.transfers if name in names))
    )
    one = JobDag(dag.ranks, tuple(kept), groups, tuple(pairs), dag.parameters)
    tasks = tuple(dataclasses.replace(task, ends=folded(task.ends)) for task in discipline.tasks if task.rank == 0)
    return one, dataclasses.replace(discipline, tasks=tasks)


def _job(dag: JobDag, discipline: Discipline, iterations: int) -> Job:
    hosts = tuple(f"h{rank + 1}" for rank in range(dag.ranks))
    return Job("alone", dag, hosts, iterations, discipline=discipline)
