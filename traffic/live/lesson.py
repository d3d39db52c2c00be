"""What a rank was seen to do, held against what it does in a run: which exchange of the lesson one is, and whether it is the same.

That follows from what all ranks call an exchange (its lane, and its number there since the process began), and from the lesson alone. So all
ranks agree on it, whatever any of them does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from echelonflow.records.observed import Exchanged, Observed
from echelonflow.records.phases import InPhase, Phase
from traffic.live.observed import exchange_name, lane_name
from traffic.live.observing import Operation, Part


class Place(NamedTuple):
    """An exchange of the lesson's iterations: of which phase, which iteration of its job, and its name there."""

    phase: int
    iteration: int
    name: str

    @property
    def when(self) -> InPhase:
        """The iteration."""
        return InPhase(self.phase, self.iteration)


class _Learned:
    """An iteration of a phase, and what came before the phase."""

    def __init__(self, phase: Phase, observed: Observed, skipped: set[str]) -> None:
        self.iterations = phase.iterations
        self.wanted: dict[tuple[str, int], Exchanged] = {}
        for exchange in _exchanges(observed, phase.end - 1):
            if (place := _lane_of(exchange.name))[0] not in skipped:
                self.wanted[place] = exchange
        self.each = Counter(lane for lane, _ in self.wanted)
        """Exchanges of an iteration, by lane."""
        self.before = Counter(
            _lane_of(exchange.name)[0] for number in range(phase.first) for exchange in _exchanges(observed, number)
        )

    def at(self, lane: str, number: int) -> tuple[int, str] | None:
        """Which iteration's exchange that of a number is, counted from 0 in its lane since the process began, and its name."""
        each, since = self.each[lane], number - self.before[lane]
        if not each or not 0 <= since < each * self.iterations:
            return None
        iteration, place = divmod(since, each)
        return iteration, self.wanted[lane, place + 1].name


class Lesson:
    """What `observed` has of the iterations of `phases`. Those between two of them are of no job, and are held against nothing.

    What is received from whoever sends first is left out: nobody can say whose message it will be.
    """

    def __init__(self, observed: Observed, phases: Sequence[Phase]) -> None:
        skipped = {
            _lane_of(exchange.name)[0]
            for iteration in observed.iterations
            for called in iteration.operations
            if called.from_any
            for exchange in called.exchanges
        }
        self._phases = [_Learned(phase, observed, skipped) for phase in phases]
        self._called: Counter[str] = Counter()

    def note(self, operation: Operation, part: Part) -> None:
        """The program has called an exchange."""
        self._called[lane_name(operation, part.key)] += 1

    def place_of(self, operation: Operation, part: Part) -> Place | None:
        """Which exchange of the lesson this is, whether or not it is the same; None for one that the lesson knows nothing of."""
        lane = lane_name(operation, part.key)
        for number, learned in enumerate(self._phases):
            if (found := learned.at(lane, part.key.number - 1)) is not None:
                return Place(number, *found)
        return None

    def departure(self, operation: Operation, part: Part, when: InPhase | None) -> str | None:
        """Why an exchange that is called in an iteration is not that of the lesson; None where it is, or where there is none of a job's.

        `when` is the iteration, None for one that is of no phase.
        """
        lane = lane_name(operation, part.key)
        place = self.place_of(operation, part)
        if when is None and place is None:
            return None
        if place is None or place.when != when:
            return f"{operation.name} was not in the lesson there"
        wanted = self._phases[place.phase].wanted[lane, _lane_of(place.name)[1]]
        if exchange_name(operation, part.key, _lane_of(place.name)[1]) != place.name:
            return f"{operation.name} came in the place of {place.name.partition(' ')[0]}"
        if (wanted.sent, wanted.received) != (part.sent_bytes, part.received_bytes):
            return f"{operation.name} {_bytes_of(part.sent_bytes, part.received_bytes)}; in the lesson it {_bytes_of(wanted.sent, wanted.received)}"
        return None

    def not_called(self, ended: InPhase) -> str | None:
        """What of an iteration of a phase that has ended, and of those before it there, was not called; None where all was."""
        learned = self._phases[ended.phase]
        for (lane, number), wanted in learned.wanted.items():
            if self._called[lane] - learned.before[lane] < ended.iteration * learned.each[lane] + number:
                return f"{wanted.name} was not called"
        return None

    def otherwise_before(self, phase: int = 0) -> str | None:
        """What was otherwise than in the lesson before the first iteration of a phase; None where nothing was."""
        learned = self._phases[phase]
        for lane in learned.each:
            if self._called[lane] != learned.before[lane]:
                return (
                    f"it called {self._called[lane]} operations among {lane}, and {learned.before[lane]} in the lesson"
                )
        return None


def _exchanges(observed: Observed, iteration: int) -> list[Exchanged]:
    return [exchange for called in observed.iterations[iteration].operations for exchange in called.exchanges]


def _lane_of(name: str) -> tuple[str, int]:
    """Lane and number, of the name of an exchange."""
    lane, _, number = name.partition(" ")[2].rpartition(" #")
    return lane, int(number)


def _bytes_of(sent: Mapping[int, int], received: Mapping[int, int]) -> str:
    return f"sends {sum(sent.values()):,} bytes and receives {sum(received.values()):,}"
