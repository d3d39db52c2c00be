"""Which processes the processors serve first: agents, controller and switch, then everything else.

Agents' sleeps stand for computation and must end in time; flows wait for decisions; all packets go through one thread of
the switch. Each does little at a time, but many wake at once, and under the ordinary scheduler whoever
comes last waits for the slices of all others: with niceness alone one decision in twenty took over 10 ms, by
sched(7)'s real-time round robin 4 ms. A system that refuses real-time priority (some containers do) gets niceness.
"""

from __future__ import annotations

import functools
import os

PRIORITY = 1
"""Real-time, and the same for all: where agents went before the switch, they sent before it had the rules for their flows."""
NICENESS = -10


@functools.cache
def real_time() -> bool:
    """Whether the system lets processes of ours have real-time priority."""
    before, parameter = os.sched_getscheduler(0), os.sched_getparam(0)
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(PRIORITY))
        os.sched_setscheduler(0, before, parameter)
    except OSError:
        return False
    return True


def starting() -> tuple[str, ...]:
    """What a command line begins with so that its process goes first."""
    return ("chrt", "--rr", str(PRIORITY)) if real_time() else ("nice", "-n", str(NICENESS))


def give(pid: int) -> None:
    """Have a process that runs already go first; raises OSError where not even niceness is allowed."""
    if real_time():
        os.sched_setscheduler(pid, os.SCHED_RR, os.sched_param(PRIORITY))
    else:
        os.setpriority(os.PRIO_PROCESS, pid, NICENESS)
