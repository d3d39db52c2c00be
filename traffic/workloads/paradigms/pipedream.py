"""1F1B that never drains (PipeDream, SOSP 2019; with `updates: iteration`, PipeDream-2BW, ICML 2021).

An iteration is a cut of M micro-batches out of the steady state.

**Dependencies.** Stage s goes backward through micro-batch m and forward through one that lies p - s - 1 further on. So
what it sends forward in place m its neighbour needs in place m + 1, the last one in the next iteration. The pipeline is
full from the start: filling it happens once in a training run, and is left out. Without a network each later iteration
takes M (T_fwd + T_bwd): no bubble.

**Arrangement.** From the DAG.
"""

from __future__ import annotations

from typing import Literal

from echelonflow.model.dag import JobDag
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.paradigms._families import PIPELINES
from traffic.workloads.paradigms._formulas import pipeline_bytes
from traffic.workloads.paradigms._stages import (
    BACKWARD,
    FORWARD,
    PipelineStages,
    declare_neighbours,
    given_stages,
    measured_values,
    send,
    transfer_name,
)
from traffic.workloads.profile import Profile

FAMILY = PIPELINES
SENDS_AHEAD = True
EXAMPLE = {
    "stages": 3,
    "micro_batches": 4,
    "forward": "1 s",
    "backward": "2 s",
    "activation": "1 s of link",
    "update": "1 s",
    "updates": "iteration",
}

Updates = Literal["micro-batch", "iteration"]


def build(
    *,
    stages: int,
    micro_batches: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    activation_bytes: int | list[int],
    gradient_bytes: int | list[int] | None = None,
    update_s: float | list[float] = 0.0,
    updates: Updates = "micro-batch",
) -> JobDag:
    """One rank per stage; one forward and one backward in turns, without end; stage s is `stages` - s ahead.

    An iteration is `micro_batches` of them, cut out of the steady state. Stage s goes backward through micro-batches 0,
    1, .. and forward through those that lie `stages` - s - 1 further on. So what it sends in place m of an iteration
    its neighbour needs in place m + 1, the last one in the next iteration. The pipeline is full from the first
    iteration on: filling it happens once in a training run, and is left out. With equal stages and no network each
    later iteration lasts micro_batches * (forward_s + backward_s), without a bubble. Weights are updated after every
    micro-batch (PipeDream) or every iteration (2BW). Times are seconds per micro-batch (`update_s`: per update), bytes
    what crosses a boundary per micro-batch; offsets are derived from the DAG. Raises InputError for lists of the wrong
    length and for fewer than 2 stages.
    """
    values = given_stages(
        stages=stages,
        micro_batches=micro_batches,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        activation_bytes=activation_bytes,
        gradient_bytes=gradient_bytes,
    )
    builder = DagBuilder(stages)
    builder.expect(values.steps)
    declare_neighbours(builder, values)
    for stage in range(stages):
        for m in range(micro_batches):
            _forward(builder, values, stage, m)
            _backward(builder, values, stage, m)
            if values.update_s[stage] > 0 and (updates == "micro-batch" or m == micro_batches - 1):
                builder.compute(stage, f"u{stage} m{m}", values.update_s[stage], (), "update")
    for stage in range(stages - 1):
        builder.next_iteration(transfer_name(FORWARD, stage, stage + 1, micro_batches - 1), f"f{stage + 1} m0")
    return builder.dag(values.parameters("pipedream", updates=updates))


def from_profile(
    profile: Profile,
    *,
    stages: int,
    micro_batches: int,
    gradient_bytes: int | list[int] | None = None,
    updates: Updates = "micro-batch",
) -> JobDag:
    """A measured model cut into balanced stages (InputError if it has too few layers); otherwise as `build`."""
    values = measured_values(profile, stages)
    return build(stages=stages, micro_batches=micro_batches, gradient_bytes=gradient_bytes, updates=updates, **values)


def sent_bytes(profile: Profile, *, stages: int, micro_batches: int, **_: object) -> list[float]:
    """By formula, of every rank: the hidden state of every micro-batch on, and its gradient back."""
    return pipeline_bytes(profile, ranks=stages, micro_batches=micro_batches)


def _forward(builder: DagBuilder, stages: PipelineStages, stage: int, m: int) -> None:
    inputs = [transfer_name(FORWARD, stage - 1, stage, m - 1)] if stage and m else []
    done = builder.compute(stage, f"f{stage} m{m}", stages.forward_s[stage], inputs, "forward")
    if stage < stages.count - 1:
        send(builder, stages, FORWARD, stage, stage + 1, m, after=done)


def _backward(builder: DagBuilder, stages: PipelineStages, stage: int, m: int) -> None:
    inputs = [transfer_name(BACKWARD, stage + 1, stage, m)] if stage < stages.count - 1 else []
    done = builder.compute(stage, f"b{stage} m{m}", stages.backward_s[stage], inputs, "backward")
    if stage:
        send(builder, stages, BACKWARD, stage, stage - 1, m, after=done)
