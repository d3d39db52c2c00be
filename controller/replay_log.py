"""Replays a log of events through a fresh coordinator: the same events must give the same decisions.

Policies of ours are asked again. A user's policy ran in a process of its own, which may have changed since: its answers
are part of the log, and are given again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from controller.asking import ask
from controller.coordinator import Coordinator
from controller.fabric import KnownFabric
from controller.instructions import AskPolicy, CloseLog, Instruction, LogDecision
from controller.learning import LearnedFabric
from echelonflow.errors import EchelonError, PolicyError
from echelonflow.records.events import Event, Handled, Opening, PolicyFailed, read
from echelonflow.records.run_record import DecisionRecord
from echelonflow.scheduling import policies, user_file
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot


@dataclass(frozen=True)
class Replayed:
    """What follows from a log of events; `complete` where it goes to the end of its run."""

    decisions: list[DecisionRecord]
    complete: bool

    def of_these(self, recorded: Sequence[DecisionRecord]) -> Sequence[DecisionRecord]:
        """The recorded decisions that can be compared: a controller that was killed has not written its last events."""
        return recorded if self.complete else recorded[: len(self.decisions)]


def replay(path: Path) -> list[DecisionRecord]:
    """The decisions that follow from a log of events, up to the end of its run (InputError for what is no log)."""
    return replay_all(path).decisions


def replay_all(path: Path) -> Replayed:
    """The same, and whether the log goes so far."""
    opening, logged = read(path)
    again = _Replay(opening)
    return Replayed(again.through(logged), again.over)


def difference(recorded: Sequence[DecisionRecord], replayed: Sequence[DecisionRecord]) -> str | None:
    """Where decisions differ first, in words; None where all are equal but for the durations that were measured."""
    for number, (was, now) in enumerate(itertools.zip_longest(recorded, replayed), start=1):
        if was is None or now is None:
            return f"{len(recorded)} decisions were recorded, {len(replayed)} replayed"
        for field in dataclasses.fields(DecisionRecord):
            old, new = getattr(was, field.name), getattr(now, field.name)
            if field.name not in _MEASURED and old != new:
                return f"decision {number} at {was.time_s:.6f} s: {field.name} was {old}, is {new} when replayed"
    return None


_MEASURED = ("policy_ms", "total_ms")


class _Replay:
    """A coordinator, and what it has decided so far."""

    def __init__(self, opening: Opening) -> None:
        network = opening.network
        fabric = KnownFabric(network) if opening.addresses is None else LearnedFabric(network, opening.addresses)
        self._coordinator = Coordinator(fabric, _load, lambda: math.nan, opening.questions_asked)
        self._decisions: list[DecisionRecord] = []
        self.over = False
        """Whether the run has ended."""

    def through(self, logged: Iterable[Handled]) -> list[DecisionRecord]:
        """Handle events in turn until the run is over; returns its decisions."""
        ahead = itertools.chain(logged, [None])
        for now, after in itertools.pairwise(ahead):
            if now is None or self.over:
                break
            # An order that was refused then is refused again.
            with contextlib.suppress(EchelonError):
                self._handle(now.event, now.now_s, None if after is None else after.event)
        return self._decisions

    def _handle(self, event: Event, now_s: float, after: Event | None) -> None:
        for instruction in self._coordinator.handle(event, now_s):
            self._enact(instruction, now_s, after)

    def _enact(self, instruction: Instruction, now_s: float, after: Event | None) -> None:
        if isinstance(instruction, LogDecision):
            self._decisions.append(instruction.record)
        elif isinstance(instruction, CloseLog):
            self.over = True
        elif isinstance(instruction, AskPolicy):
            question = instruction.question
            # What took too long then need not now: a failure is in the log, and comes next.
            failed = isinstance(after, PolicyFailed) and after.question == question.number
            if not question.policy.isolated and not failed:
                self._handle(ask(question), now_s, None)


def _load(text: str) -> Policy:
    """A policy of ours, or one that stands for a user's: its answers come from the log."""
    if not user_file.is_named(text):
        return policies.load(text)

    def never(_snapshot: Snapshot) -> Allocation:
        raise PolicyError(f"policy {text} is not run in a replay")

    return Policy(text, "priority", "", never, isolated=True)
