"""Forward only: the paper's example (Fig. 2), and pipelined inference.

**Dependencies.** Computation f*s* m*k* waits for f*s* m*k-1* (the GPU) and for the transfer of micro-batch k. A rank's
next iteration follows on its last micro-batch.

**Arrangement.** From the DAG; with `arrangement: eq6`, o_j = j T, T being the slower of the two stages' times. They are
the same where stages are equal. This picture is the paper's: 8.5, 10 and 8 units under fair sharing, Coflow (whole
group) and EchelonFlow.
"""

from __future__ import annotations

from echelonflow.model.dag import JobDag
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.paradigms._families import PIPELINES
from traffic.workloads.paradigms._layers import at_least, spread
from traffic.workloads.paradigms._stages import Arrangement, group_name, measured_values, stagger, transfer_name
from traffic.workloads.profile import Profile

FAMILY = PIPELINES
DRAWS_FIRST = True
EXAMPLE = {"stages": 2, "micro_batches": 3, "forward": "1 s", "activation": "2 s of link"}

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
    at_least(2, stages=stages)
    at_least(1, micro_batches=micro_batches)
    time_s = spread("forward", forward_s, stages, "stages")
    size = spread("activation", activation_bytes, stages - 1, "boundaries")
    builder = DagBuilder(stages)
    builder.expect(micro_batches * (2 * stages - 1))
    for s in range(stages - 1):
        builder.group(group_name(KIND, s, s + 1), KIND, stagger(arrangement, max(time_s[s : s + 2])))
    for s in range(stages):
        for m in range(micro_batches):
            inputs = [transfer_name(KIND, s - 1, s, m)] if s else []
            done = builder.compute(s, f"f{s} m{m}", time_s[s], inputs, "forward")
            if s < stages - 1:
                name, group = transfer_name(KIND, s, s + 1, m), group_name(KIND, s, s + 1)
                builder.transfer(name, s, s + 1, size[s], group, after=(done,))
    return builder.dag(
        {
            "paradigm": "pipeline",
            "stages": stages,
            "micro_batches": micro_batches,
            "forward_s": list(time_s),
            "activation_bytes": list(size),
            "arrangement": arrangement,
        }
    )


def from_profile(profile: Profile, *, stages: int, micro_batches: int, arrangement: Arrangement = "derived") -> JobDag:
    """The forward pass of a measured model, cut into balanced stages (InputError if it has too few layers)."""
    values = measured_values(profile, stages)
    return build(
        stages=stages,
        micro_batches=micro_batches,
        forward_s=values["forward_s"],
        activation_bytes=values["activation_bytes"],
        arrangement=arrangement,
    )
