"""What the coordinator asks its shell to do: plain data, so that tests compare lists of it."""

from __future__ import annotations

from dataclasses import dataclass

from controller.rules import Rule
from echelonflow.messages import Message
from echelonflow.records import DecisionRecord


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


Instruction = SendTo | ResetSwitch | InstallRules | OpenLog | LogDecision | CloseLog
