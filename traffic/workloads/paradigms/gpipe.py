"""GPipe: all micro-batches forward, then all backward in reverse order, then the update (Huang et al., NeurIPS 2019).

**Dependencies.** Backward of a micro-batch waits for its gradient from the next stage. The last stage turns round as
soon as its last forward pass is over. Each rank's next iteration waits for its own update alone. Without a network an
iteration takes (M + p - 1) (T_fwd + T_bwd) and the update, for M micro-batches and p equal stages.

**Arrangement.** From the DAG, which for equal stages is equation 6 in either direction, or `eq6`.
"""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from traffic.workloads.paradigms._families import PIPELINES
from traffic.workloads.paradigms._formulas import pipeline_bytes
from traffic.workloads.paradigms._stages import Arrangement, flushed, given_stages, measured_values
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
    arrangement: Arrangement = "derived",
) -> JobDag:
    """One rank per stage; micro-batches forward in order, backward in reverse order, then the optimiser.

    Times are seconds per micro-batch (`update_s`: per iteration), one for all stages or one per stage. Bytes are what
    crosses a boundary per micro-batch, one for all or one per boundary (`gradient_bytes`: as many as activations unless
    given). With equal stages and no network an iteration lasts (micro_batches + stages - 1) * (forward_s + backward_s)
    + update_s. Offsets are derived from the DAG, or with `arrangement="eq6"` those of the paper's equation 6 with T the
    slower of the two stages' times. Raises InputError for lists of the wrong length and for fewer than 2 stages.
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
    return flushed(values, "gpipe", arrangement, parameters=values.parameters("gpipe", arrangement=arrangement))


def from_profile(
    profile: Profile,
    *,
    stages: int,
    micro_batches: int,
    gradient_bytes: int | list[int] | None = None,
    arrangement: Arrangement = "derived",
) -> JobDag:
    """A measured model trained by GPipe, cut into balanced stages (InputError if it has too few layers).

    A micro-batch is what the profile was measured with. The gradient that comes back is as large as the
    activation that went forward, unless `gradient_bytes` says otherwise.
    """
    values = measured_values(profile, stages)
    return build(
        stages=stages, micro_batches=micro_batches, gradient_bytes=gradient_bytes, arrangement=arrangement, **values
    )


def sent_bytes(profile: Profile, *, stages: int, micro_batches: int, **_: object) -> list[float]:
    """By formula, of every rank: the hidden state of every micro-batch on, and its gradient back."""
    return pipeline_bytes(profile, ranks=stages, micro_batches=micro_batches)
