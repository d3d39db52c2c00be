"""Waits for sockets with the precision that the ends of computations need.

Time-outs of epoll are whole milliseconds; those of select are not, and an epoll descriptor can itself be
waited for. The last fraction of a millisecond is spun away, because a sleeping process is woken late.
"""

from __future__ import annotations

import select
from collections.abc import Callable

SPIN_S = 0.0003
"""Longest spin before a deadline: the usual lateness of a wake-up on a quiet machine."""
COARSE_S = 0.005
"""Further from the deadline than this, epoll's own milliseconds do."""


def wait(poll: select.epoll, deadline_s: float, precise_s: float, clock: Callable[[], float]) -> list[tuple[int, int]]:
    """The (descriptor, event mask) pairs that are ready, or none at the nearer of two moments on `clock`.

    `deadline_s` is kept to about a millisecond, `precise_s` to some microseconds.
    """
    now_s = clock()
    if precise_s <= now_s or deadline_s <= now_s:
        return poll.poll(0)
    until_s = min(deadline_s, precise_s)
    if until_s == float("inf"):
        return poll.poll()
    if until_s - now_s > COARSE_S:
        return poll.poll(until_s - now_s - COARSE_S / 2)
    if deadline_s < precise_s - COARSE_S:
        return poll.poll(deadline_s - now_s)
    asleep_s = until_s - SPIN_S - now_s
    if asleep_s > 0 and select.select([poll], [], [], asleep_s)[0]:
        return poll.poll(0)
    if precise_s <= deadline_s:
        while clock() < precise_s:
            pass
    return poll.poll(0)
