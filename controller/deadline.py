"""Bounds how long a policy that runs in the controller may think. A user's file runs apart, with limits of its own."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from echelonflow.errors import PolicyError
from echelonflow.scheduling.own_policy.process import ANSWER

POLICY_DEADLINE_S = ANSWER.cpu_s


@contextlib.contextmanager
def deadline(policy: str, limit_s: float = POLICY_DEADLINE_S) -> Iterator[None]:
    """Raise PolicyError inside the block after `limit_s` of wall-clock time; for the main thread only.

    The alarm interrupts Python code, also between two calls of numpy; one call into C is not interrupted, the
    error comes when it returns.
    """

    def ring(_signal: int, _frame: FrameType | None) -> None:
        raise PolicyError(f"policy {policy} had not decided after {limit_s:g} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)
