"""1F1B: a pipeline that runs backward as early as it can (DAPPLE, PPoPP 2021; PipeDream-flush, ICML 2021)."""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from traffic.workloads.paradigms._stages import flushed, given_stages, measured_values
from traffic.workloads.profile import Profile


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
