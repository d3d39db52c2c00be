"""Asks a policy the coordinator's question, and says the outcome as the event that the coordinator waits for."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from controller.instructions import Question
from echelonflow.errors import EchelonError
from echelonflow.records.events import PolicyAnswered, PolicyFailed

Guard = Callable[[str], contextlib.AbstractContextManager[None]]
"""Called with the policy's name; the policy runs inside the context (which may bound its time)."""


def unbounded(_policy: str) -> contextlib.AbstractContextManager[None]:
    """A guard that lets a policy think as long as it likes."""
    return contextlib.nullcontext()


def ask(question: Question, guard: Guard = unbounded) -> PolicyAnswered | PolicyFailed:
    """The policy's answer; one that runs in this process is asked under `guard`, the others bound themselves."""
    policy = question.policy
    try:
        with unbounded(policy.name) if policy.isolated else guard(policy.name):
            allocation = policy(question.snapshot)
    except EchelonError as error:
        return PolicyFailed(question.number, str(error))
    return PolicyAnswered.of(question.number, allocation)
