"""Tensor, pipeline and data parallelism at once: the DAG of a job in up to three dimensions.

Ranks are numbered as Megatron-LM does: neighbours in tensor first, then in data, then in the pipeline.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from echelonflow.model.dag import JobDag
from traffic.workloads.collectives import Algorithm, flows_of
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.paradigms._layers import Bucket, Layers, at_least
from traffic.workloads.paradigms._schedules import Schedule, Visit, order

DP_KIND = "dp-all-reduce"
TP_FORWARD = "tp-forward"
TP_BACKWARD = "tp-backward"
PP_FORWARD = "pp-forward"
PP_BACKWARD = "pp-backward"


@dataclass(frozen=True)
class ThreeD:
    """How a model is spread over tensor * data * pipeline ranks.

    `layers` are those of one rank's share: its times, its parameters; outputs whole. `forward_reduces` and
    `backward_reduces` say for each layer how many all-reduces of a layer's output its tensor group makes, each after an
    equal part of the layer's computation. `serial` lets a rank's gradient buckets be reduced one at a time.
    """

    tensor: int
    pipeline: int
    data: int
    layers: Layers
    micro_batches: int
    schedule: Schedule
    chunks: int
    forward_reduces: tuple[int, ...]
    backward_reduces: tuple[int, ...]
    bucket_bytes: int
    tensor_algorithm: Algorithm
    data_algorithm: Algorithm
    serial: bool

    @property
    def ranks(self) -> int:
        return self.tensor * self.pipeline * self.data

    def rank(self, tensor: int, data: int, place: int) -> int:
        """The rank at `place` in the pipeline."""
        return tensor + self.tensor * (data + self.data * place)


@dataclass(frozen=True, slots=True)
class _Segment:
    """Computation without communication in it; then an all-reduce of the tensor group, or gradients that are complete."""

    duration_s: float
    reduced_bytes: int = 0
    complete: Bucket | None = None


def three_d(plan: ThreeD, parameters: dict[str, Any]) -> JobDag:
    """One iteration: every micro-batch forward and backward, gradients reduced, weights updated.

    A tensor group's all-reduce blocks its ranks. Between neighbouring stages, each rank sends the whole output to
    the rank of the same place in its tensor group (no scatter and gather around the transfer). Gradients of a
    bucket are reduced as soon as the last micro-batch's backward pass has completed them. Raises InputError for
    counts below 1 and for more stages than layers.
    """
    at_least(1, tensor=plan.tensor, pipeline=plan.pipeline, data=plan.data, micro_batches=plan.micro_batches)
    return _Maker(plan).dag({**parameters, **dataclasses.asdict(plan)})


class _Maker:
    def __init__(self, plan: ThreeD) -> None:
        self._plan = plan
        self._builder = DagBuilder(plan.ranks)
        self._stages = plan.layers.cut(plan.pipeline * plan.chunks)
        self._buckets = [
            plan.layers.buckets(stage, plan.bucket_bytes) if plan.data > 1 else [] for stage in self._stages
        ]
        self._builder.expect(self._steps())
        self._complete: dict[tuple[int, int, int], list[str]] = {}
        """By stage, bucket, tensor place: what completes the bucket's gradients, for each replica."""

    def _steps(self) -> int:
        """At least so many steps: what is sent, and a computation between any two all-reduces, or of a visit."""
        plan = self._plan
        visits = 2 * len(self._stages) * plan.micro_batches
        reduces = sum(plan.forward_reduces) + sum(plan.backward_reduces) if plan.tensor > 1 else 0
        inside = reduces * plan.micro_batches * flows_of("all-reduce", plan.tensor_algorithm, plan.tensor) * plan.data
        computed = max(visits, reduces * plan.micro_batches) * plan.tensor * plan.data + plan.ranks
        between = (visits - 2 * plan.micro_batches) * plan.tensor * plan.data
        buckets = sum(map(len, self._buckets))
        outside = buckets * plan.tensor * flows_of("all-reduce", plan.data_algorithm, plan.data)
        return inside + computed + between + outside

    def dag(self, parameters: dict[str, Any]) -> JobDag:
        plan = self._plan
        self._declare_neighbours()
        segments: dict[tuple[int, bool, bool], list[_Segment]] = {}
        for place in range(plan.pipeline):
            visits = order(plan.schedule, plan.pipeline, place, plan.micro_batches, plan.chunks)
            last = {visit.stage: visit for visit in visits if not visit.forward}
            for data in range(plan.data):
                for visit in visits:
                    closes = last.get(visit.stage) == visit
                    key = visit.stage, visit.forward, closes
                    if key not in segments:
                        segments[key] = self._segments(visit, closes=closes)
                    self._visit(data, visit, segments[key])
        self._reduce_gradients()
        for rank in range(plan.ranks):
            place = rank // (plan.tensor * plan.data)
            stages = self._stages[place :: plan.pipeline]
            update_s = sum(plan.layers.update_s[layer] for stage in stages for layer in stage)
            self._builder.compute(rank, f"u r{rank}", update_s, (), "update")
        return self._builder.dag(parameters)

    def _declare_neighbours(self) -> None:
        """An EchelonFlow per pair of neighbouring ranks in the pipeline, and direction."""
        for stage in range(len(self._stages) - 1):
            for src, dst in self._neighbours(stage, stage + 1):
                self._builder.group(f"{PP_FORWARD} {src}->{dst}", PP_FORWARD, "derived")
                self._builder.group(f"{PP_BACKWARD} {dst}->{src}", PP_BACKWARD, "derived")

    def _neighbours(self, stage: int, other: int) -> list[tuple[int, int]]:
        return [pair for data in range(self._plan.data) for pair in self._own_neighbours(data, stage, other)]

    def _segments(self, visit: Visit, *, closes: bool) -> list[_Segment]:
        """What a visit computes, cut where something is sent."""
        plan, layers = self._plan, self._plan.layers
        stage = self._stages[visit.stage]
        completes = {bucket.first: bucket for bucket in self._buckets[visit.stage]} if closes else {}
        found: list[_Segment] = []
        for layer in stage if visit.forward else reversed(stage):
            duration_s = (layers.forward_s if visit.forward else layers.backward_s)[layer]
            counts = plan.forward_reduces if visit.forward else plan.backward_reduces
            # Going backward, it is the gradient of a layer's input that is reduced, which the layer before put out.
            reduced = layers.activation_bytes[layer if visit.forward else max(layer - 1, 0)]
            parts = counts[layer] if plan.tensor > 1 else 0
            found += [_Segment(duration_s / parts, reduced)] * parts if parts else [_Segment(duration_s)]
            if layer in completes:
                found[-1] = dataclasses.replace(found[-1], complete=completes[layer])
        return _merged(found)

    def _visit(self, data: int, visit: Visit, segments: Sequence[_Segment]) -> None:
        """One micro-batch through one stage, on all ranks of one tensor group."""
        plan, builder, stage, m = self._plan, self._builder, visit.stage, visit.micro_batch
        ranks = [plan.rank(t, data, stage % plan.pipeline) for t in range(plan.tensor)]
        word, kind = ("f", "forward") if visit.forward else ("b", "backward")
        step = 1 if visit.forward else -1
        done: dict[int, tuple[str, ...]] = {}
        if 0 <= stage - step < len(self._stages):
            for rank, (src, _) in zip(ranks, self._own_neighbours(data, stage - step, stage), strict=True):
                builder.hold(rank, [_pp_name(visit.forward, src, rank, stage - step, m)])
        for k, segment in enumerate(segments):
            for t, rank in enumerate(ranks):
                name = builder.compute(rank, f"{word}{stage} m{m} r{rank} s{k}", segment.duration_s, (), kind)
                done[rank] = (name,)
                if segment.complete is not None:
                    self._complete.setdefault((stage, segment.complete.index, t), []).append(name)
            if segment.reduced_bytes:
                tp_kind = TP_FORWARD if visit.forward else TP_BACKWARD
                done = builder.collective(
                    f"{tp_kind}{self._where(stage, data=data)} m{m} s{k}", "all-reduce", plan.tensor_algorithm, ranks,
                    segment.reduced_bytes, [done[rank] for rank in ranks], kind=tp_kind,
                )  # fmt: skip
                for rank in ranks:
                    builder.hold(rank, done[rank])
        if 0 <= stage + step < len(self._stages):
            pp_kind = PP_FORWARD if visit.forward else PP_BACKWARD
            size_bytes = plan.layers.activation_bytes[self._stages[min(stage, stage + step)][-1]]
            for src, dst in self._own_neighbours(data, stage, stage + step):
                name = _pp_name(visit.forward, src, dst, stage, m)
                builder.transfer(name, src, dst, size_bytes, f"{pp_kind} {src}->{dst}", after=done[src])

    def _own_neighbours(self, data: int, stage: int, other: int) -> list[tuple[int, int]]:
        plan = self._plan
        a, b = stage % plan.pipeline, other % plan.pipeline
        return [(plan.rank(t, data, a), plan.rank(t, data, b)) for t in range(plan.tensor)]

    def _where(self, stage: int, *, tensor: int | None = None, data: int | None = None) -> str:
        """Words for a place in the job, as far as there are others."""
        plan = self._plan
        words = [f" v{stage}"] if len(self._stages) > 1 else []
        words += [f" t{tensor}"] if tensor is not None and plan.tensor > 1 else []
        words += [f" d{data}"] if data is not None and plan.data > 1 else []
        return "".join(words)

    def _reduce_gradients(self) -> None:
        """All-reduce every bucket among the replicas of its ranks."""
        plan = self._plan
        before: dict[int, tuple[str, ...]] = {}
        for stage in reversed(range(len(self._stages))):
            for bucket in self._buckets[stage]:
                for t in range(plan.tensor):
                    ranks = [plan.rank(t, d, stage % plan.pipeline) for d in range(plan.data)]
                    complete = self._complete[stage, bucket.index, t]
                    waits = [
                        (name, *before.get(rank, ())) if plan.serial else (name,)
                        for rank, name in zip(ranks, complete, strict=True)
                    ]
                    name = f"{DP_KIND}{self._where(stage, tensor=t)} b{bucket.index}"
                    done = self._builder.collective(
                        name, "all-reduce", plan.data_algorithm, ranks, bucket.size_bytes, waits, kind=DP_KIND
                    )
                    for rank in ranks:
                        self._builder.hold(rank, done[rank])
                    before.update(done)


def _pp_name(forward: bool, src: int, dst: int, stage: int, micro_batch: int) -> str:
    return f"{PP_FORWARD if forward else PP_BACKWARD} {src}->{dst} v{stage} m{micro_batch}"


def _merged(segments: Sequence[_Segment]) -> list[_Segment]:
    """The same with computations joined between which nothing is sent."""
    found: list[_Segment] = []
    for segment in segments:
        joined_s = 0.0
        if found and not found[-1].reduced_bytes and found[-1].complete is None:
            joined_s = found.pop().duration_s
        found.append(dataclasses.replace(segment, duration_s=joined_s + segment.duration_s))
    return found
