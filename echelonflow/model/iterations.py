"""What an iteration of a job is, and how long it takes: the one definition, on packets, in simulations and in bounds.

**An iteration has ended when all its steps have, transfers included, and those of all iterations before it.** It lasts
from the end of the one before it, the first one from the start of its job. So durations are never negative, and add up
to the time from the job's start to its end. Where the next iteration may begin earlier is for the DAG to say. Iterations
that overlap are not counted twice: their mean is the mean time between ends, which is what one more of them costs.

*Rejected: the end of the last computation.* It leaves out transfers that nothing in the same iteration waits for, such as
an all-reduce behind the last backward pass. The first iteration would come out too short, and a single one exposes nothing.
*Rejected: from an iteration's own first step to its last.* Iterations that overlap would count the same second twice.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence


def ends_s(last_s: Iterable[float], start_s: float = 0.0) -> list[float]:
    """When iterations have ended, in order; `last_s` is when the last of each one's own steps did.

    Seconds, as all times here. A job's first iteration begins at `start_s`, before which none ends.
    """
    return list(itertools.accumulate(last_s, max, initial=start_s))[1:]


def durations_s(ends: Sequence[float], start_s: float = 0.0) -> list[float]:
    """How long iterations last that have ended at `ends` (`ends_s`)."""
    return [end_s - before_s for before_s, end_s in itertools.pairwise([start_s, *ends])]


def mean_duration_s(ends: Sequence[float], start_s: float = 0.0, skip: int = 0) -> float:
    """Mean duration of iterations that have ended at `ends`, without the first `skip`; ValueError if none is left."""
    left = len(ends) - skip
    if skip < 0 or left < 1:
        raise ValueError(f"{len(ends)} iterations of which {skip} are left out")
    return (ends[-1] - (ends[skip - 1] if skip else start_s)) / left
