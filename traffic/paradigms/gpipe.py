"""GPipe: all micro-batches forward, all backward, then the update (Huang et al., NeurIPS 2019)."""

from __future__ import annotations

import dataclasses

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

FORWARD = "pp-forward"
BACKWARD = "pp-backward"


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

    Times are seconds per micro-batch (`update_s`: per iteration), one for all stages or one per stage; bytes are
    what crosses a boundary per micro-batch, one for all or one per boundary (`gradient_bytes`: as many as
    activations unless given). With equal stages and no network an iteration lasts
    (micro_batches + stages - 1) * (forward_s + backward_s) + update_s. Offsets are derived from the DAG, or
    with `arrangement="eq6"` those of the paper's equation 6 with T the slower of the two stages' times.
    Raises InputError for lists of the wrong length and for fewer than 2 stages.
    """
    check_counts(stages, micro_batches)
    boundaries = stages - 1
    gradients = activation_bytes if gradient_bytes is None else gradient_bytes
    schedule = _Schedule(
        stages=stages,
        micro_batches=micro_batches,
        forward_s=spread("forward", forward_s, stages, "stages"),
        backward_s=spread("backward", backward_s, stages, "stages"),
        update_s=spread("update", update_s, stages, "stages"),
        activation_bytes=spread("activation", activation_bytes, boundaries, "boundaries"),
        gradient_bytes=spread("gradient", gradients, boundaries, "boundaries"),
    )
    groups = schedule.groups()
    dag = JobDag(
        ranks=stages,
        steps=tuple(step for stage in range(stages) for step in schedule.steps_of(stage)),
        groups=provisional(groups),
        next_iteration=tuple((schedule.last_of(stage), _forward(stage, 0)) for stage in range(stages)),
        parameters={"paradigm": "gpipe", **dataclasses.asdict(schedule), "arrangement": arrangement},
    )
    return arranged(dag, groups, arrangement)


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
    cut = split_into_stages(profile, stages)
    return build(
        stages=stages,
        micro_batches=micro_batches,
        forward_s=list(cut.forward_s),
        backward_s=list(cut.backward_s),
        activation_bytes=list(cut.activation_bytes),
        gradient_bytes=gradient_bytes,
        update_s=list(cut.update_s),
        arrangement=arrangement,
    )


def _forward(stage: int, micro_batch: int) -> str:
    return f"f{stage} m{micro_batch}"


def _backward(stage: int, micro_batch: int) -> str:
    return f"b{stage} m{micro_batch}"


def _update(stage: int) -> str:
    return f"u{stage}"


@dataclasses.dataclass(frozen=True)
class _Schedule:
    """All values spread over stages and boundaries; the steps of a stage in the order in which its GPU runs them."""

    stages: int
    micro_batches: int
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    update_s: tuple[float, ...]
    activation_bytes: tuple[int, ...]
    gradient_bytes: tuple[int, ...]

    def steps_of(self, stage: int) -> list[Step]:
        steps: list[Step] = []
        last = ""  # the GPU's step before the one that is added
        for m in range(self.micro_batches):
            inputs = [last] if last else []
            inputs += [transfer_name(FORWARD, stage - 1, stage, m)] if stage else []
            last = _forward(stage, m)
            steps.append(Compute(last, stage, self.forward_s[stage], tuple(inputs), "forward"))
            if stage < self.stages - 1:
                steps.append(
                    transfer(FORWARD, stage, stage + 1, m, size_bytes=self.activation_bytes[stage], after=last)
                )
        for m in reversed(range(self.micro_batches)):
            inputs = [last]
            inputs += [transfer_name(BACKWARD, stage + 1, stage, m)] if stage < self.stages - 1 else []
            last = _backward(stage, m)
            steps.append(Compute(last, stage, self.backward_s[stage], tuple(inputs), "backward"))
            if stage:
                steps.append(
                    transfer(BACKWARD, stage, stage - 1, m, size_bytes=self.gradient_bytes[stage - 1], after=last)
                )
        if self.update_s[stage] > 0:
            steps.append(Compute(_update(stage), stage, self.update_s[stage], (last,), "update"))
        return steps

    def last_of(self, stage: int) -> str:
        """The step after which the stage's GPU is ready for the next iteration."""
        return _update(stage) if self.update_s[stage] > 0 else _backward(stage, 0)

    def groups(self) -> list[NeighbourGroup]:
        order = range(self.micro_batches)
        found = []
        for s in range(self.stages - 1):
            names = tuple(transfer_name(FORWARD, s, s + 1, m) for m in order)
            found.append(NeighbourGroup(FORWARD, s, s + 1, names, max(self.forward_s[s : s + 2])))
        for s in range(self.stages - 1):
            names = tuple(transfer_name(BACKWARD, s + 1, s, m) for m in reversed(order))
            found.append(NeighbourGroup(BACKWARD, s + 1, s, names, max(self.backward_s[s : s + 2])))
        return found
