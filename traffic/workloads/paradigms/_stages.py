"""What pipeline paradigms share: values per stage, groups per pair of neighbours, offsets, and the DAG itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from echelonflow.model.arrangement import staggered
from echelonflow.model.dag import JobDag
from traffic.workloads.dag_builder import DagBuilder, Rule
from traffic.workloads.paradigms._layers import at_least, spread
from traffic.workloads.paradigms._schedules import Schedule, order
from traffic.workloads.profile import Profile, split_into_stages

FORWARD = "pp-forward"
BACKWARD = "pp-backward"

Arrangement = Literal["derived", "eq6"]


def group_name(kind: str, src: int, dst: int) -> str:
    return f"{kind} {src}->{dst}"


def transfer_name(kind: str, src: int, dst: int, micro_batch: int) -> str:
    return f"{kind} {src}->{dst} m{micro_batch}"


def stagger(arrangement: Arrangement, unit_s: float) -> Rule:
    """Offsets from the DAG, or by the paper's equation 6 with `unit_s`, the slower stage's time for a micro-batch."""
    return "derived" if arrangement == "derived" else lambda flows: staggered(len(flows), unit_s)


@dataclass(frozen=True)
class PipelineStages:
    """Stages of a model on ranks: stage v runs on rank v % `ranks`. Times are seconds per micro-batch.

    One entry per stage, but one per boundary between neighbours in `activation_bytes` and `gradient_bytes`; `update_s`
    is the optimiser's step over a stage.
    """

    ranks: int
    micro_batches: int
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    update_s: tuple[float, ...]
    activation_bytes: tuple[int, ...]
    gradient_bytes: tuple[int, ...]

    @property
    def count(self) -> int:
        return len(self.forward_s)

    @property
    def chunks(self) -> int:
        """Stages per rank."""
        return self.count // self.ranks

    @property
    def steps(self) -> int:
        """Of an iteration, without updates: every micro-batch through every stage and over every boundary, both ways."""
        return 2 * self.micro_batches * (2 * self.count - 1)

    def boundaries(self) -> list[tuple[int, int]]:
        """Ranks that are neighbours, each pair once, in the order of the stages."""
        return list(dict.fromkeys((v % self.ranks, (v + 1) % self.ranks) for v in range(self.count - 1)))

    def parameters(self, paradigm: str, **others: Any) -> dict[str, Any]:
        """What the DAG was made of, for reports."""
        return {"paradigm": paradigm, **dataclasses.asdict(self), **others}


def given_stages(
    *,
    stages: int,
    micro_batches: int,
    chunks: int = 1,
    forward_s: float | Sequence[float],
    backward_s: float | Sequence[float],
    update_s: float | Sequence[float],
    activation_bytes: int | Sequence[int],
    gradient_bytes: int | Sequence[int] | None,
) -> PipelineStages:
    """Values given one for all or one by one; gradients are as large as activations unless given.

    Raises InputError for a wrong length, fewer than 2 ranks and no micro-batch.
    """
    at_least(2, stages=stages)
    at_least(1, micro_batches=micro_batches, chunks=chunks)
    count = stages * chunks
    gradients = activation_bytes if gradient_bytes is None else gradient_bytes
    return PipelineStages(
        ranks=stages,
        micro_batches=micro_batches,
        forward_s=spread("forward", forward_s, count, "stages"),
        backward_s=spread("backward", backward_s, count, "stages"),
        update_s=spread("update", update_s, count, "stages"),
        activation_bytes=spread("activation", activation_bytes, count - 1, "boundaries"),
        gradient_bytes=spread("gradient", gradients, count - 1, "boundaries"),
    )


def measured_values(profile: Profile, stages: int) -> dict[str, Any]:
    """Times, activations and updates of a measured model cut into balanced stages, as builders take them.

    A micro-batch is what the profile was measured with. InputError if the model has too few layers.
    """
    at_least(2, stages=stages)
    cut = split_into_stages(profile, stages)
    return {
        "forward_s": list(cut.forward_s),
        "backward_s": list(cut.backward_s),
        "update_s": list(cut.update_s),
        "activation_bytes": list(cut.activation_bytes),
    }


def declare_neighbours(builder: DagBuilder, stages: PipelineStages, arrangement: Arrangement = "derived") -> None:
    """The EchelonFlows of a pipeline: one per pair of neighbours and direction."""
    forward_s, backward_s = (
        [max(times_s[rank :: stages.ranks]) for rank in range(stages.ranks)]
        for times_s in (stages.forward_s, stages.backward_s)
    )
    for a, b in stages.boundaries():
        builder.group(group_name(FORWARD, a, b), FORWARD, stagger(arrangement, max(forward_s[a], forward_s[b])))
    for a, b in stages.boundaries():
        builder.group(group_name(BACKWARD, b, a), BACKWARD, stagger(arrangement, max(backward_s[a], backward_s[b])))


def flushed(
    stages: PipelineStages, schedule: Schedule, arrangement: Arrangement = "derived", *, parameters: dict[str, Any]
) -> JobDag:
    """A pipeline that runs all micro-batches forward and backward and then updates, before the next iteration.

    Computations are called f<stage> m<micro-batch>, b<stage> m<micro-batch> and u<rank>.
    """
    builder = DagBuilder(stages.ranks)
    builder.expect(stages.steps)
    declare_neighbours(builder, stages, arrangement)
    for rank in range(stages.ranks):
        for visit in order(schedule, stages.ranks, rank, stages.micro_batches, stages.chunks):
            v, m = visit.stage, visit.micro_batch
            if visit.forward:
                inputs = [transfer_name(FORWARD, v - 1, v, m)] if v else []
                done = builder.compute(rank, f"f{v} m{m}", stages.forward_s[v], inputs, "forward")
                if v < stages.count - 1:
                    send(builder, stages, FORWARD, v, v + 1, m, after=done)
            else:
                inputs = [transfer_name(BACKWARD, v + 1, v, m)] if v < stages.count - 1 else []
                done = builder.compute(rank, f"b{v} m{m}", stages.backward_s[v], inputs, "backward")
                if v:
                    send(builder, stages, BACKWARD, v, v - 1, m, after=done)
        update_s = sum(stages.update_s[rank :: stages.ranks])
        if update_s > 0:
            builder.compute(rank, f"u{rank}", update_s, (), "update")
    return builder.dag(parameters)


def send(
    builder: DagBuilder, stages: PipelineStages, kind: str, src: int, dst: int, micro_batch: int, *, after: str
) -> None:
    """Add the transfer of one micro-batch from stage `src` to its neighbour `dst`: a Coflow of its own."""
    size_bytes = (stages.activation_bytes if kind == FORWARD else stages.gradient_bytes)[min(src, dst)]
    a, b = src % stages.ranks, dst % stages.ranks
    name = transfer_name(kind, src, dst, micro_batch)
    builder.transfer(name, a, b, size_bytes, group_name(kind, a, b), after=(after,))
