"""Bounds how long a policy that runs in the controller may think. A user's file runs apart, with limits of its own."""

from __future__ import annotations

from contextlib import AbstractContextManager

from echelonflow.alarm import alarm
from echelonflow.errors import PolicyError
from echelonflow.scheduling.own_policy.process import ANSWER

POLICY_DEADLINE_S = ANSWER.cpu_s


def deadline(policy: str, limit_s: float = POLICY_DEADLINE_S) -> AbstractContextManager[None]:
    """Raise PolicyError inside the block after `limit_s` of wall-clock time; for the main thread only."""
    return alarm(limit_s, PolicyError(f"policy {policy} had not decided after {limit_s:g} s"))
