"""Makes a job of a model, what a job scheduler made of it, and what carries its tensors: a DAG and a discipline.

**Computation.** A worker updates and computes its layers forward, one by one, then backward. With an all-reduce it updates
a layer right before that layer's forward pass, with what the iteration before has sent. With parameter servers the servers
update, beside their other work.

**Communication.** A unit is ready when the backward pass has come to its first tensor. What it is sent by belongs to the same
iteration; the next forward pass waits for it. All-gathers of a plan in two phases belong to the next iteration.

**Tasks.** Each rank orders what it sends itself. A task is what a rank sends of a unit in one round of a collective, or all
of it where the plan says so. So a task that is started never waits for another rank to start the same one, except in
plans that keep one order everywhere. Ranks whose orders differ for a while do not wait for each other for ever.

**EchelonFlows.** The pushes of an iteration are one, and so are its pulls, and its all-reduces. Offsets are those from
the DAG: a pull is consumed when its layer goes forward. Every unit is a Coflow.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast, get_args

from echelonflow.model.dag import JobDag, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec
from traffic.workloads.collectives import Algorithm, Collective, flows_of
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.tensors import PARAMETER_SERVER, Setting, TensorModel, TensorPlan, Unit

ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = "dp-all-reduce", "dp-reduce-scatter", "dp-all-gather"
PUSH, PULL = "ps-push", "ps-pull"
_COLLECTIVES: Mapping[str, Collective] = MappingProxyType(
    {ALL_REDUCE: "all-reduce", REDUCE_SCATTER: "reduce-scatter", ALL_GATHER: "all-gather"}
)


def build_job_dag(
    model: TensorModel,
    plan: TensorPlan,
    setting: Setting,
    scheduler: str = "",
    parameters: Mapping[str, Any] | None = None,
) -> tuple[JobDag, Discipline]:
    """One iteration of the job, and in what order each rank sends what.

    Bytes are those of the model, however it is cut: every unit is pushed and pulled, or all-reduced, once. `scheduler` is
    the text of the discipline, `parameters` are kept with the DAG. Raises InputError for a plan that does not carry the
    model, and BeyondBoundsError for more steps than there may be.
    """
    plan.check(model)
    served = setting.architecture == PARAMETER_SERVER
    maker = _Served(model, plan, setting) if served else _Reduced(model, plan, setting)
    dag = maker.dag({**(parameters or {}), "scheduler": scheduler})
    return dag, Discipline(scheduler, plan.window, tuple(maker.tasks(dag)))


class _Maker:
    """What jobs of both kinds have in common: workers that compute, and what their next forward pass waits for."""

    updates = False
    """Whether workers update their layers themselves."""

    def __init__(self, model: TensorModel, plan: TensorPlan, setting: Setting, ranks: int, flows: int) -> None:
        self._model, self._plan, self._setting = model, plan, setting
        self._builder = DagBuilder(ranks)
        updates = sum(tensor.update_s > 0 for tensor in model.tensors) if self.updates else 0
        self._builder.expect(setting.workers * (2 * len(model.tensors) + updates) + flows)

    def _compute(self, worker: int, first: Mapping[int, Iterable[str]] | None = None) -> None:
        """A worker's passes; `first` has the steps of the same iteration that a tensor's forward pass waits for."""
        builder = self._builder
        for i, tensor in enumerate(self._model.tensors):
            builder.hold(worker, (first or {}).get(i, ()))
            if self.updates and tensor.update_s > 0:
                builder.compute(worker, _update(worker, tensor.name), tensor.update_s, (), "update")
            builder.compute(worker, _forward(worker, tensor.name), tensor.forward_s, (), "forward")
        for tensor in reversed(self._model.tensors):
            builder.compute(worker, _backward(worker, tensor.name), tensor.backward_s, (), "backward")

    def _ready(self, worker: int, unit: Unit) -> str:
        """The step with which the gradients of a unit are there."""
        return _backward(worker, self._model.tensors[unit.first_tensor].name)

    def _begins(self, worker: int, tensor: int) -> str:
        """The first step of a worker that needs a tensor."""
        found = self._model.tensors[tensor]
        return _update(worker, found.name) if self.updates and found.update_s > 0 else _forward(worker, found.name)

    def _tie(self, worker: int, brought: Sequence[tuple[Unit, Iterable[str]]]) -> None:
        """Let a worker's next forward pass wait for what brings each unit, or with a barrier all of it for everything."""
        if self._plan.barrier:
            everything = dict.fromkeys(step for _, steps in brought for step in steps)
            end = self._builder.beside(worker, f"all r{worker}", 0.0, everything, "join")
            self._builder.next_iteration(end, self._begins(worker, 0))
            return
        for unit, steps in brought:
            for step in steps:
                for tensor, _ in unit.parts:
                    self._builder.next_iteration(step, self._begins(worker, tensor))


class _Reduced(_Maker):
    """Gradients are all-reduced among the workers, or reduce-scattered and gathered."""

    updates = True

    def __init__(self, model: TensorModel, plan: TensorPlan, setting: Setting) -> None:
        self._twice = plan.two_phase or setting.architecture == "reduce-scatter"
        plain = setting.architecture in get_args(Algorithm)
        self._algorithm = cast("Algorithm", setting.architecture) if plain else "ring"
        each = 2 * setting.workers if self._twice else flows_of("all-reduce", self._algorithm, setting.workers)
        super().__init__(model, plan, setting, setting.workers, each * len(plan.units) * (setting.workers > 1))
        self._ranks = range(setting.workers)
        self._done: dict[str, dict[int, tuple[str, ...]]] = {}
        """By collective: with which steps it is over at each rank."""

    def dag(self, parameters: dict[str, Any]) -> JobDag:
        builder, plan = self._builder, self._plan
        for kind in (REDUCE_SCATTER, ALL_GATHER) if self._twice else (ALL_REDUCE,):
            builder.group(kind, kind, "derived")
        if plan.two_phase:
            self._gather_first()
        for rank in self._ranks:
            gathered: dict[int, list[str]] = defaultdict(list)
            for unit in plan.units if plan.two_phase else ():
                for tensor, _ in unit.parts:
                    gathered[tensor] += self._done[f"{ALL_GATHER} {unit.name}"][rank]
            self._compute(rank, gathered)
        for unit in plan.units:
            ready = [(self._ready(rank, unit),) for rank in self._ranks]
            if not self._twice:
                self._add(ALL_REDUCE, unit, ready)
                continue
            scattered = self._add(REDUCE_SCATTER, unit, ready)
            if not plan.two_phase:
                self._add(ALL_GATHER, unit, [scattered[rank] for rank in self._ranks])
        for rank in self._ranks:
            if plan.two_phase:
                self._tie_gathers(rank)
            else:
                last = ALL_GATHER if self._twice else ALL_REDUCE
                self._tie(rank, [(unit, self._done[f"{last} {unit.name}"][rank]) for unit in plan.units])
        return builder.dag(parameters)

    def _add(self, kind: str, unit: Unit, after: Sequence[Iterable[str]]) -> dict[int, tuple[str, ...]]:
        """One collective of a unit; for each rank, the steps with which it is over there."""
        name, collective = f"{kind} {unit.name}", _COLLECTIVES[kind]
        done = self._builder.collective(
            name, collective, self._algorithm, self._ranks, unit.size_bytes, after, group=kind
        )
        self._done[name] = done
        return done

    def _gather_first(self) -> None:
        """All-gathers of what the iteration before has scattered, in forward order, no further ahead than the plan says."""
        plan, forward = self._plan, self._in_forward_order()
        for k, unit in enumerate(forward):
            before = -1 if plan.ahead is None else k - plan.ahead - 1
            after: list[tuple[str, ...]] = [() for _ in self._ranks]
            if before >= 0:
                last = max(tensor for tensor, _ in forward[before].parts)
                after = [(_forward(rank, self._model.tensors[last].name),) for rank in self._ranks]
            self._add(ALL_GATHER, unit, after)

    def _in_forward_order(self) -> list[Unit]:
        return sorted(self._plan.units, key=lambda unit: unit.first_tensor)

    def _tie_gathers(self, rank: int) -> None:
        """Let what a rank gathers in the next iteration wait for all that it scatters in this one."""
        builder = self._builder
        scattered = [self._done[f"{REDUCE_SCATTER} {unit.name}"][rank] for unit in self._plan.units]
        end = builder.beside(rank, f"all r{rank}", 0.0, (step for steps in scattered for step in steps), "join")
        # The first to be needed is to be offered first: see the pulls below.
        for unit in self._in_forward_order():
            for step in self._done[f"{ALL_GATHER} {unit.name}"][rank]:
                if step.startswith(f"{ALL_GATHER} {unit.name} {rank}->"):
                    builder.next_iteration(end, step)

    def tasks(self, dag: JobDag) -> Iterable[TaskSpec]:
        by_collective: dict[str, list[Transfer]] = defaultdict(list)
        for transfer in dag.transfers:
            by_collective[transfer.coflow].append(transfer)
        sent = {transfer.name for transfer in dag.transfers}
        units = {unit.name: unit for unit in self._plan.units}
        whole = self._plan.whole and not self._twice
        for name, transfers in by_collective.items():
            kind, _, of = name.partition(" ")
            unit = units[of]
            in_order = not (self._plan.two_phase and kind == REDUCE_SCATTER)
            rounds: dict[tuple[int, tuple[str, ...]], list[str]] = defaultdict(list)
            for transfer in transfers:
                rounds[transfer.src_rank, () if whole else transfer.after].append(transfer.name)
            count: dict[int, int] = defaultdict(int)
            for (rank, _), names in rounds.items():
                suffix = f" s{count[rank]}" if count[rank] else ""
                count[rank] += 1
                yield TaskSpec(
                    f"{name} r{rank}{suffix}",
                    rank,
                    unit.size_bytes,
                    unit.priority if in_order else 0,
                    tuple(names),
                    tuple(step for step in self._done[name][rank] if step in sent) if whole else (),
                    unit.first_priority if in_order else None,
                )


class _Served(_Maker):
    """Gradients are pushed to servers, which update, and pulled from them."""

    def __init__(self, model: TensorModel, plan: TensorPlan, setting: Setting) -> None:
        self._workers = range(setting.workers)
        first = 0 if setting.colocated else setting.workers
        self._servers = range(first, first + setting.servers)
        own = setting.servers if setting.colocated else 0
        each = 1 if plan.round_robin else setting.servers
        flows = len(plan.units) * (each * (2 * setting.workers + 1) - 2 * min(own, each))
        super().__init__(model, plan, setting, max(setting.workers, self._servers.stop), flows)

    def dag(self, parameters: dict[str, Any]) -> JobDag:
        builder, plan = self._builder, self._plan
        for kind in (PUSH, PULL):
            builder.group(kind, kind, "derived")
        for worker in self._workers:
            self._compute(worker)
        updated: dict[int, list[str]] = defaultdict(list)
        for k, unit in enumerate(plan.units):
            for server, size_bytes in self._shares(k, unit):
                updated[server].append(self._push(unit, server, size_bytes))
        brought: dict[int, list[tuple[Unit, list[str]]]] = {worker: [] for worker in self._workers}
        ends = {
            server: builder.beside(server, f"all u{server}", 0.0, steps, "join")
            for server, steps in updated.items()
            if plan.pulls_wait
        }
        # What is ready at the same moment is offered in the order of the steps: the most urgent has to come first.
        for k, unit in sorted(enumerate(plan.units), key=lambda each: each[1].priority):
            for worker, steps in self._pull(k, unit, ends).items():
                brought[worker].append((unit, steps))
        for worker in self._workers:
            self._tie(worker, brought[worker])
        return builder.dag(parameters)

    def _shares(self, place: int, unit: Unit) -> list[tuple[int, int]]:
        """(server, bytes) of a unit, its place among all given; no share is empty."""
        servers, size_bytes = self._servers, unit.size_bytes
        if self._plan.round_robin:
            return [(servers[place % len(servers)], size_bytes)]
        n = len(servers)
        shares = [(server, size_bytes * (k + 1) // n - size_bytes * k // n) for k, server in enumerate(servers)]
        return [share for share in shares if share[1]]

    def _push(self, unit: Unit, server: int, size_bytes: int) -> str:
        """All workers push a server's share of a unit; returns the update that follows."""
        name = f"{PUSH} {unit.name}"
        after = []
        for worker in self._workers:
            ready = self._ready(worker, unit)
            if worker != server:
                ready = self._builder.transfer(
                    f"{name} {worker}->{server}", worker, server, size_bytes, PUSH, name, (ready,)
                )
            after.append(ready)
        tensors = self._model.tensors
        whole_s = sum(tensors[i].update_s * part_bytes / tensors[i].size_bytes for i, part_bytes in unit.parts)
        update = _update(server, unit.name)
        return self._builder.beside(server, update, whole_s * size_bytes / unit.size_bytes, after, "update")

    def _pull(self, place: int, unit: Unit, ends: Mapping[int, str]) -> dict[int, list[str]]:
        """All workers pull a unit; for each, the steps with which it has all of it."""
        name = f"{PULL} {unit.name}"
        found: dict[int, list[str]] = {worker: [] for worker in self._workers}
        for server, size_bytes in self._shares(place, unit):
            ready = ends.get(server, _update(server, unit.name))
            for worker in self._workers:
                step = ready
                if worker != server:
                    step = self._builder.transfer(
                        f"{name} {server}->{worker}", server, worker, size_bytes, PULL, name, (ready,)
                    )
                found[worker].append(step)
        return found

    def tasks(self, dag: JobDag) -> Iterable[TaskSpec]:
        sent: dict[tuple[str, int], list[Transfer]] = defaultdict(list)
        for transfer in dag.transfers:
            sent[transfer.coflow, transfer.src_rank].append(transfer)
        units = {unit.name: unit for unit in self._plan.units}
        for (name, rank), transfers in sent.items():
            kind, _, of = name.partition(" ")
            if kind == PULL and self._plan.pull_with_push:
                continue
            unit = units[of]
            in_order = kind == PULL or not self._plan.pulls_alone
            yield TaskSpec(
                f"{name} r{rank}",
                rank,
                sum(transfer.size_bytes for transfer in transfers),
                unit.priority if in_order else 0,
                tuple(transfer.name for transfer in transfers),
                first_priority=unit.first_priority if in_order else None,
            )


def _forward(rank: int, tensor: str) -> str:
    return f"f{rank} {tensor}"


def _backward(rank: int, tensor: str) -> str:
    return f"b{rank} {tensor}"


def _update(rank: int, what: str) -> str:
    return f"u{rank} {what}"
