"""Whether what was found holds on packets: runs with the file's options and with the best ones, in turns.

What was chosen as the best of many is likely to have been lucky as well. So it is measured again, beside the file's options. Every run has
a network of its own, so that intervals count what differs from one to the next.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from echelon.tuning.history import Role, Sample, Settings
from echelon.tuning.space import Point
from echelon.tuning.trials import value_s
from echelon.tuning.tuning import Best, Tuner, label_of
from results.analysis.statistics import Estimate, estimate


@dataclass(frozen=True)
class Verified:
    """One job, emulated with the file's options and with the best ones: seconds over runs, and their ratio in turns."""

    job: str
    default_s: Estimate | None
    best_s: Estimate | None
    speed_up: Estimate | None


def winners(found: Sequence[Best]) -> dict[str, Point | None]:
    """By job, what was found to be better than the file's options: others, or None where it is best left off."""
    return {job: best.best.point for best in found for job in best.jobs if best.best.role != "default"}


def verify(tuner: Tuner, found: Sequence[Best], turns: int) -> list[Verified]:
    """`turns` emulated runs each way; nothing where no other options than the file's were best.

    Runs that do not count are left out, with those beside them. Raises KeyboardInterrupt where it was ended.
    """
    best = winners(found)
    if not best:
        return []
    pairs = []
    for turn in range(turns):
        ways: tuple[tuple[Role, Settings], ...] = (("check-default", {}), ("check-best", best))
        ways = ways if turn % 2 == 0 else ways[::-1]
        pair = {role: _run(tuner, role, turn, turns, settings) for role, settings in ways}
        pairs.append((pair["check-default"], pair["check-best"]))
    return [_verified(job, pairs) for job in best]


def _run(tuner: Tuner, role: Role, turn: int, turns: int, settings: Settings) -> Sample:
    """A run of the history with the same settings, or a new one."""
    for earlier in tuner.history.of(0, role):
        if earlier.number == turn and earlier.settings == settings:
            return earlier
    options = "the options of the file" if not settings else "the best options"
    tuner.hear(f"verifying on packets, turn {turn + 1} of {turns}: {options}", None)
    begun_s = time.monotonic()
    done = tuner.trials(settings, label_of(0, role, turn, settings), 1, "emulation")
    sample = Sample(
        0, role, turn, None, dict(settings), value_s(done, tuple(done.runs_s)),
        {job: tuple(values) for job, values in done.runs_s.items()},
        done.why, round(time.monotonic() - begun_s, 3), done.unexplained,
    )  # fmt: skip
    tuner.history.add(sample)
    return sample


def _verified(job: str, pairs: Sequence[tuple[Sample, Sample]]) -> Verified:
    both = [
        (default.runs_s[job][0], best.runs_s[job][0])
        for default, best in pairs
        if default.runs_s.get(job) and best.runs_s.get(job)
    ]
    return Verified(
        job,
        estimate([default_s for default_s, _ in both]),
        estimate([best_s for _, best_s in both]),
        estimate([default_s / best_s for default_s, best_s in both]),
    )
