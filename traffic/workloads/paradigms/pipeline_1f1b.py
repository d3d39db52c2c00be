"""1F1B with a flush: after a warm-up each stage goes forward and backward in turns (DAPPLE, PPoPP 2021; PipeDream-flush, ICML 2021).

**Dependencies.** As in GPipe, but a stage runs in its 1F1B order, so that stage s holds at most min(M, p - s)
micro-batches. Without a network it takes as long as GPipe.

**Arrangement.** From the DAG. It is not equation 6: in the steady state a transfer is consumed every T_fwd + T_bwd, in
the warm-up every T_fwd.
"""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from traffic.workloads.paradigms._families import PIPELINES
from traffic.workloads.paradigms._formulas import pipeline_bytes
from traffic.workloads.paradigms._stages import flushed, given_stages, measured_values
from traffic.workloads.profile import Profile

FAMILY = PIPELINES
EXAMPLE = {
    "stages": 3,
    "micro_batches": 4,
    "forward": "1 s",
    "backward": "2 s",
    "activation": "1.5 s of link",
    "update": "1 s",
}


def build(
    *,
    stages: int,
    micro_batches: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    activation_bytes: int | list[int],
    gradient_bytes: int | list[int] | None = None,
    update_s: float | list[float] = 0.0,
) -> JobDag:
    """One rank per stage; stage s runs `stages` - s micro-batches ahead, then one forward and one backward in turns.

    So it holds the activations of at most min(micro_batches, stages - s) micro-batches, and an iteration ends with a
    flush and the update. Times are seconds per micro-batch (`update_s`: per iteration), one for all stages or one per
    stage; bytes are what crosses a boundary per micro-batch. With equal stages and no network an iteration
    lasts (micro_batches + stages - 1) * (forward_s + backward_s) + update_s, as with GPipe. Offsets are derived
    from the DAG. Raises InputError for lists of the wrong length and for fewer than 2 stages.
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
    return flushed(values, "1f1b", parameters=values.parameters("pipeline-1f1b"))


def from_profile(
    profile: Profile, *, stages: int, micro_batches: int, gradient_bytes: int | list[int] | None = None
) -> JobDag:
    """A measured model cut into balanced stages (InputError if it has too few layers); otherwise as `build`."""
    values = measured_values(profile, stages)
    return build(stages=stages, micro_batches=micro_batches, gradient_bytes=gradient_bytes, **values)


def sent_bytes(profile: Profile, *, stages: int, micro_batches: int, **_: object) -> list[float]:
    """By formula, of every rank: the hidden state of every micro-batch on, and its gradient back."""
    return pipeline_bytes(profile, ranks=stages, micro_batches=micro_batches)
