"""A flow in flight as the books know it, and the events that no decision was made on yet."""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field

from controller.enforcers import Treatment
from echelonflow.model.flow_key import FlowKey


@dataclass(frozen=True, slots=True)
class Then:
    """What a flow's sender was told to do as soon as another flow that it sends, `after`, has ended."""

    after: FlowKey
    treatment: Treatment


@dataclass(frozen=True, slots=True)
class Told:
    """What an agent was told of a flow ahead of its release; `by` is what the answer is remembered by.

    `treatment` is None where the flow is to wait at its sender: for a decision at its release, or until `then`, which
    was told by decision `then_number`.
    """

    number: int
    treatment: Treatment | None
    by: Hashable
    then: Then | None = None
    then_number: int = 0

    def is_confirmed_by(self, treatment: Treatment | None) -> bool:
        """Whether what was decided at the release is the same, now or from the end on that it waits for."""
        decided = unless_it_waits(treatment)
        return decided == self.treatment or (self.then is not None and decided == self.then.treatment)

    @property
    def at_its_turn(self) -> Told:
        """What is in force at its sender from the end on that it waits for."""
        return self if self.then is None else Told(self.then_number, self.then.treatment, self.by)


def unless_it_waits(treatment: Treatment | None) -> Treatment | None:
    """The treatment of a flow that may send; None for one that is paused."""
    return None if treatment is None or treatment.rate_Bps == 0 else treatment


TRIGGERS_NAMED = 8
"""A decision's log entry names so many of the events that led to it, and counts the others."""


@dataclass(slots=True)
class FlowInFlight:
    """A released flow: who sends it, what is in force for it, and how far it should be.

    Reports are some 50 ms old, so bytes sent are extrapolated at the rate allocated since the last report
    or decision. Any report replaces the estimate, also by less. `number` is that of the decision by which it has its
    treatment. Where that is `unsure`, as messages may have crossed, the next decision is told in any case.
    `told_ahead` is what was told before its release, until a decision confirms or corrects it.
    """

    client: int
    known_s: float
    known_bytes: float = 0.0
    rate_Bps: float = 0.0
    treatment: Treatment | None = None
    number: int = 0
    unsure: bool = False
    told_ahead: Told | None = None
    then: Then | None = None
    """What its sender does by itself as soon as another flow has ended; it may have done so already."""

    def sent_bytes(self, now_s: float) -> float:
        """Estimate at `now_s`; may exceed the flow's size, which the caller knows."""
        return self.known_bytes + self.rate_Bps * max(now_s - self.known_s, 0.0)


def released(client: int, now_s: float, told: Told | None, by: int) -> FlowInFlight:
    """A flow that its agent has released, and treats by decision `by`, 0 where it knows of none.

    What was told last is in force, or soon will be: it may have crossed the release, or be lost.
    """
    flow = FlowInFlight(client, now_s)
    if told is None:
        flow.unsure = by != 0
        return flow
    flow.unsure = by not in ((told.number,) if told.then is None else (told.number, told.then_number))
    if by or told.treatment is not None:
        flow.treatment, flow.number, flow.told_ahead = told.treatment, told.number, told if by else None
        if not flow.unsure:
            flow.number, flow.then = by, told.then
    return flow


@dataclass(slots=True)
class Pending:
    """Events that no decision was made on yet: the first of them by name, the others counted."""

    named: list[str] = field(default_factory=list)
    count: int = 0
    since_s: float = math.nan
    """When the first of them came, by the clock that measures decisions."""

    def add(self, trigger: str) -> None:
        self.count += 1
        if len(self.named) < TRIGGERS_NAMED:
            self.named.append(trigger)

    def words(self) -> str:
        """What a decision's log entry says of them."""
        if not self.count:
            return "expiry"
        more = self.count - len(self.named)
        return ", ".join(self.named) + (f", and {more} more" if more else "")
