"""Interleaved 1F1B: every rank holds several stages, so that the pipeline fills faster (Narayanan et al., SC 2021)."""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from traffic.workloads.paradigms._stages import flushed, given_stages, measured_values
from traffic.workloads.profile import Profile


def build(
    *,
    stages: int,
    chunks: int,
    micro_batches: int,
    forward_s: float | list[float],
    backward_s: float | list[float],
    activation_bytes: int | list[int],
    gradient_bytes: int | list[int] | None = None,
    update_s: float | list[float] = 0.0,
) -> JobDag:
    """`stages` ranks with `chunks` parts of the model each: rank r holds parts r, `stages` + r, 2 `stages` + r, ...

    Times and bytes are those of a part, of which there are `stages` * `chunks` (one value for all, or one for each; bytes
    one less). With equal parts and no network an iteration lasts
    (micro_batches * chunks + stages - 1) * (forward_s + backward_s) + chunks * update_s. The EchelonFlow of two
    neighbours holds the flows of all their parts; offsets are derived from the DAG. Raises InputError for
    lists of the wrong length, fewer than 2 stages or chunks, and micro-batches that are no multiple of stages.
    """
    values = given_stages(
        stages=stages,
        chunks=chunks,
        micro_batches=micro_batches,
        forward_s=forward_s,
        backward_s=backward_s,
        update_s=update_s,
        activation_bytes=activation_bytes,
        gradient_bytes=gradient_bytes,
    )
    return flushed(values, "interleaved", parameters=values.parameters("interleaved-1f1b"))


def from_profile(
    profile: Profile, *, stages: int, chunks: int, micro_batches: int, gradient_bytes: int | list[int] | None = None
) -> JobDag:
    """A measured model cut into `stages` * `chunks` balanced parts (InputError if it has too few layers)."""
    values = measured_values(profile, stages * chunks)
    return build(stages=stages, chunks=chunks, micro_batches=micro_batches, gradient_bytes=gradient_bytes, **values)
