"""Fair sharing of jobs that are held back so that what they send interleaves, as CASSINI does it.

CASSINI (Rajasekaran, Ghobadi and Akella, NSDI '24) shifts whole jobs in time. It lays what an iteration asks of each link on a
circle. It turns the circles of jobs that share links against each other until as little as possible is asked beyond capacity.
`echelonflow.scheduling.time_shifts` has that: unified circles, affinity graph, exact search. Shifts are computed when jobs come or go. A job's
next iteration is held back until its shift is right. From then on its iterations begin one period apart, and one that is late by
more than `tolerance` of a period waits for the next slot (section 5.7). Flows themselves share fairly, as TCP does it.

Here the profile of an iteration is what the job declares: when each flow is released and how long it takes, alone
(`echelonflow.model.clock`), where the paper measures link use. The paper chooses among placements by their scores;
here placement is given. So there may be jobs that do not fit, and `misfits` says what becomes of those that hang together by links:

  stretch  the periods of all of them grow alike, by the least factor for which they fit. Where links have room for
           all, and periods alone do not fit, they share fairly
  hold     they are held back at the pace that each has alone, as the paper would have it
  leave    they share fairly, and nobody is held back

`angles` is how fine circles are divided. The paper's is 72, by 5 degrees, and its tolerance 5 %.

**Knows** sizes and DAGs. **Cost.** That of fair sharing; and when jobs come or go a search, exponential in the jobs that share
a link, which is cut short after 2000 branches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from echelonflow.errors import InputError
from echelonflow.model.slots import Slots
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.forms import Form
from echelonflow.scheduling.policies import fair
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.time_shifts import Profile, Shifts, affinity, asked_share, shifts

SERVES = "jobs"
ENFORCER = "priority"
WORK_CONSERVING = True
STARVATION_FREE = True
READS_CLOCK = True
HOLDS_BACK = True

Misfits = Literal["stretch", "hold", "leave"]

FITS = 0.005
"""Jobs fit whose score is less than 1 by no more than that."""
_FINER = 1.02
"""Each try is so much slower than the one before."""
_SLOWEST = 1.05
"""Times the least that links bear: jobs that do not fit then, since their periods do not, are better left alone."""


def validate(angles: int = 72, tolerance: float = 0.05, **_: object) -> None:
    """Raise InputError for circles and tolerances that cannot be."""
    if not 4 <= angles <= 720:
        raise InputError(f"angles is {angles}; a circle has 4 to 720")
    if not 0 <= tolerance < 1:
        raise InputError(f"tolerance is {tolerance}; it is a share of a period, at least 0 and less than 1")


def allocate(
    snapshot: Snapshot, *, misfits: Misfits = "stretch", angles: int = 72, tolerance: float = 0.05
) -> Allocation:
    """Equal shares of every bottleneck: what is scheduled are iterations (`slots`).

    Example: two flows on one link get half of it each.

        >>> from echelonflow.scheduling.examples import two_jobs
        >>> example = two_jobs()
        >>> example.show(allocate(example.snapshot))
        long: 5.0 MB/s, place 0
        short: 5.0 MB/s, place 0
    """
    return fair.allocate(snapshot)


def form(*, misfits: Misfits = "stretch", angles: int = 72, tolerance: float = 0.05) -> Form:
    """The same as data."""
    return fair.form()


def slots(
    profiles: Sequence[Profile], *, misfits: Misfits = "stretch", angles: int = 72, tolerance: float = 0.05
) -> Mapping[str, Slots]:
    """When iterations of each job are to begin; of the jobs under way, those that came first first. Others are not held back.

    Example: two jobs that compute for half of their period of 4 s and send for the other half. The second one began half a
    second after the first, and has to wait until it is half a period behind.

        >>> import numpy as np
        >>> one, half = np.zeros(1, np.int64), np.full(1, 2.0)
        >>> found = slots([Profile(name, 4.0, began_s, one, half, half, half) for name, began_s in (("a", 0.0), ("b", 0.5))])
        >>> [(job, slot.first_s % slot.every_s) for job, slot in found.items()]
        [('a', 0.0), ('b', 2.0)]
    """
    found: dict[str, Slots] = {}
    for jobs, vertices in affinity(profiles):
        best = _fitting(profiles, jobs, vertices, angles, misfits)
        if best is not None:
            for job, shift in best.of_job.items():
                found[job] = Slots(shift.first_s, shift.every_s, tolerance * shift.every_s)
    return found


def _fitting(
    profiles: Sequence[Profile], jobs: Sequence[int], vertices: Sequence[Sequence[int]], angles: int, misfits: Misfits
) -> Shifts | None:
    """Shifts of the jobs in one part of the affinity graph; None where they are to be left alone."""
    alone = shifts(profiles, jobs, vertices, angles=angles)
    if 1.0 - alone.score <= FITS or misfits == "hold":
        return alone
    if misfits == "leave":
        return None
    stretch = least = max(1.0, *(asked_share(profiles, jobs, link) for links in vertices for link in links))
    while stretch <= least * _SLOWEST:
        tried = shifts(profiles, jobs, vertices, angles=angles, stretch=stretch)
        if 1.0 - tried.score <= FITS:
            return tried
        stretch *= _FINER
    return None
