"""A flow in flight as the books know it, and the events that no decision was made on yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.enforcers import Treatment

TRIGGERS_NAMED = 8
"""A decision's log entry names so many of the events that led to it, and counts the others."""


@dataclass(slots=True)
class FlowInFlight:
    """A released flow: who sends it, what is in force for it, and how far it should be.

    Reports are some 50 ms old, so bytes sent are extrapolated at the rate allocated since the last report
    or decision. Any report replaces the estimate, also by less.
    """

    client: int
    known_s: float
    known_bytes: float = 0.0
    rate_Bps: float = 0.0
    treatment: Treatment | None = None

    def sent_bytes(self, now_s: float) -> float:
        """Estimate at `now_s`; may exceed the flow's size, which the caller knows."""
        return self.known_bytes + self.rate_Bps * max(now_s - self.known_s, 0.0)


@dataclass(slots=True)
class Pending:
    """Events that no decision was made on yet: the first of them by name, the others counted."""

    named: list[str] = field(default_factory=list)
    count: int = 0

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
