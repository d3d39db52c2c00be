"""A forward-only pipeline: the paper's example (Fig. 2), and pipelined inference."""

from __future__ import annotations

from echelonflow.dag import Compute, JobDag, Step
from traffic.paradigms._stages import (
    Arrangement,
    NeighbourGroup,
    arranged,
    check_counts,
    provisional,
    spread,
    transfer,
    transfer_name,
)
from traffic.profile import Profile, split_into_stages

KIND = "pp-forward"


def build(
    *,
    stages: int,
    micro_batches: int,
    forward_s: float | list[float],
    activation_bytes: int | list[int],
    arrangement: Arrangement = "derived",
) -> JobDag:
    """`stages` ranks; each computes every micro-batch in order and sends it on to the next.

    `forward_s` is a stage's time for a micro-batch (one, or one per stage), `activation_bytes` what crosses
    a boundary (one, or one per boundary). The next iteration of a rank follows on its last micro-batch.
    Raises InputError for lists of the wrong length and for fewer than 2 stages.
    """
    check_counts(stages, micro_batches)
    time_s = spread("forward", forward_s, stages, "stages")
    size = spread("activation", activation_bytes, stages - 1, "boundaries")
    steps: list[Step] = []
    for s in range(stages):
        for m in range(micro_batches):
            after = [f"f{s} m{m - 1}"] if m else []
            after += [transfer_name(KIND, s - 1, s, m)] if s else []
            steps.append(Compute(f"f{s} m{m}", s, time_s[s], tuple(after), "forward"))
            if s < stages - 1:
                steps.append(transfer(KIND, s, s + 1, m, size_bytes=size[s], after=f"f{s} m{m}"))
    groups = [
        NeighbourGroup(
            KIND, s, s + 1,
            tuple(transfer_name(KIND, s, s + 1, m) for m in range(micro_batches)),
            max(time_s[s], time_s[s + 1]),
        )
        for s in range(stages - 1)
    ]  # fmt: skip
    dag = JobDag(
        ranks=stages,
        steps=tuple(steps),
        groups=provisional(groups),
        next_iteration=tuple((f"f{s} m{micro_batches - 1}", f"f{s} m0") for s in range(stages)),
        parameters={
            "paradigm": "pipeline",
            "stages": stages,
            "micro_batches": micro_batches,
            "forward_s": list(time_s),
            "activation_bytes": list(size),
            "arrangement": arrangement,
        },
    )
    return arranged(dag, groups, arrangement)


def from_profile(profile: Profile, *, stages: int, micro_batches: int, arrangement: Arrangement = "derived") -> JobDag:
    """The forward pass of a measured model, cut into balanced stages (InputError if it has too few layers)."""
    cut = split_into_stages(profile, stages)
    return build(
        stages=stages,
        micro_batches=micro_batches,
        forward_s=list(cut.forward_s),
        activation_bytes=list(cut.activation_bytes),
        arrangement=arrangement,
    )
