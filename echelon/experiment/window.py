"""`window:` and `warm_up:` of an experiment file: which iterations count."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from echelonflow.errors import InputError, about
from echelonflow.model.counting import ALL, WARM_UP, Counting
from echelonflow.model.dag import Job
from echelonflow.model.units import parse_duration_s
from echelonflow.spelling import did_you_mean

_WORDS = ("all", "steady")
_TIMES = re.compile(r"(.+?)\s+to\s+(.+)")


def counting_of(window: str, warm_up: int | None, jobs: Sequence[Job], stretch: float = 1.0) -> Counting:
    """What counts, with moments of the file `stretch` times as late; InputError for what is none, or leaves nothing."""
    if window == "steady":
        return _steady(WARM_UP if warm_up is None else warm_up, jobs)
    if warm_up is not None:
        raise InputError("warm_up: goes with `window: steady`; write that, or leave warm_up away")
    if window == "all":
        return ALL
    between = _TIMES.fullmatch(window.strip())
    if between is None:
        raise InputError(
            f"window: {window!r} is not steady, all, or two moments such as `5 s to 20 s`{did_you_mean(window, _WORDS)}"
        )
    from_s, until_s = about("window", lambda: [parse_duration_s(text) * stretch for text in between.groups()])
    if not 0 <= from_s < until_s < math.inf:
        raise InputError(f"window: {window!r} ends before it begins; write the earlier moment first")
    late = [job for job in jobs if job.start_s >= until_s]
    if late:
        raise InputError(
            f"window: ends at {between[2]}, and job {late[0].name} starts no earlier; end the window later, or leave the job out"
        )
    return Counting(from_s=from_s, until_s=until_s)


def _steady(warm_up: int, jobs: Sequence[Job]) -> Counting:
    short = next((job for job in jobs if job.iterations <= warm_up), None)
    if short is not None:
        raise InputError(
            f"window: steady leaves out the first {warm_up} iterations of each job, and job {short.name} has "
            f"{short.iterations}; give it more (some twelve of the slowest job), or a smaller warm_up"
        )
    return Counting(warm_up=warm_up)
