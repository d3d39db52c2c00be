"""Interleaved 1F1B: each rank holds several parts of the model, so that the pipeline fills faster and sends more (Narayanan et al., SC 2021).

**Dependencies.** As in 1F1B, over parts: rank r of p holds parts r, p + r, 2p + r, and so on. The last rank sends
forward to the first. Micro-batches are a multiple of the ranks.

**Arrangement.** From the DAG; the EchelonFlow of two neighbours holds the flows of all their parts.
"""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from traffic.workloads.paradigms._families import PIPELINES
from traffic.workloads.paradigms._formulas import pipeline_bytes
from traffic.workloads.paradigms._stages import flushed, given_stages, measured_values
from traffic.workloads.profile import Profile

FAMILY = PIPELINES
EXAMPLE = {
    "stages": 2,
    "chunks": 2,
    "micro_batches": 4,
    "forward": "1 s",
    "backward": "2 s",
    "activation": "1 s of link",
    "update": "0.5 s",
}


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


def sent_bytes(profile: Profile, *, stages: int, chunks: int, micro_batches: int, **_: object) -> list[float]:
    """By formula, of every rank: the hidden state of every micro-batch on from each part, and its gradient back."""
    return pipeline_bytes(profile, ranks=stages, micro_batches=micro_batches, chunks=chunks)
