"""What the coordinator asks its shell to do: plain data, so that tests compare lists of it."""

from __future__ import annotations

from dataclasses import dataclass

from controller.rules import Rule
from echelonflow.records.run_record import DecisionRecord
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import FlowKey
from echelonflow.wire.messages import Message


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """What a policy is asked: `keys` are the flows of the snapshot's rows.

    `time_s` is since the run's zero; `began_s` (the first of the events that ask for it) and `asked_s` are
    readings of the clock that measures decisions.
    """

    policy: Policy
    snapshot: Snapshot
    keys: tuple[FlowKey, ...]
    time_s: float
    trigger: str
    began_s: float
    asked_s: float


@dataclass(frozen=True, slots=True)
class AskPolicy:
    """Ask a policy in another process, and report its answer (`Coordinator.answered`)."""

    question: Question


@dataclass(frozen=True, slots=True)
class ClosePolicy:
    """A policy is of no more use: give back what it holds."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class SendTo:
    """Send a message to a client (nothing happens if it has gone)."""

    client: int
    message: Message


@dataclass(frozen=True, slots=True)
class ResetSwitch:
    """Give a switch exactly these rules, and report when it has them (`Coordinator.switch_ready`)."""

    switch: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class InstallRules:
    """Remove rules, then add others; one that is added replaces one with the same match and priority."""

    switch: str
    add: tuple[Rule, ...] = ()
    remove: tuple[Rule, ...] = ()


@dataclass(frozen=True, slots=True)
class OpenLog:
    """Start the decision log of a run at `path`."""

    path: str


@dataclass(frozen=True, slots=True)
class LogDecision:
    """Append a record to the open decision log."""

    record: DecisionRecord


@dataclass(frozen=True, slots=True)
class CloseLog:
    """Flush and close the decision log."""


Instruction = SendTo | ResetSwitch | InstallRules | AskPolicy | ClosePolicy | OpenLog | LogDecision | CloseLog
