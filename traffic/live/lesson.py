"""What a rank was seen to do, held against what it does in a run: which exchange of the lesson one is, and whether it is the same.

That follows from what all ranks call an exchange (its lane, and its number there since the process began), and from the lesson alone. So all
ranks agree on it, whatever any of them does.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from echelonflow.records.observed import Exchanged, Observed
from traffic.live.observed import exchange_name, lane_name
from traffic.live.observing import Operation, Part


class Place(NamedTuple):
    """An exchange of the lesson's iteration: which iteration that counts, and its name."""

    iteration: int
    name: str


class Lesson:
    """The last iteration of `observed`, which iterations from `warm_up` on repeat.

    What is received from whoever sends first is left out: nobody can say whose message it will be.
    """

    def __init__(self, observed: Observed, warm_up: int) -> None:
        self._rank = observed.rank
        skipped = {
            _lane_of(exchange.name)[0]
            for iteration in observed.iterations
            for called in iteration.operations
            if called.from_any
            for exchange in called.exchanges
        }
        self._wanted: dict[tuple[str, int], Exchanged] = {}
        for exchange in _exchanges(observed, -1):
            if (place := _lane_of(exchange.name))[0] not in skipped:
                self._wanted[place] = exchange
        self._each = Counter(lane for lane, _ in self._wanted)
        """Exchanges of an iteration, by lane."""
        self._before = Counter(
            _lane_of(exchange.name)[0] for number in range(warm_up) for exchange in _exchanges(observed, number)
        )
        self._called: Counter[str] = Counter()

    def note(self, operation: Operation, part: Part) -> None:
        """The program has called an exchange."""
        self._called[lane_name(operation, part.key)] += 1

    def place_of(self, operation: Operation, part: Part) -> Place | None:
        """Which exchange of the lesson this is, whether or not it is the same; None for one that the lesson knows nothing of."""
        lane = lane_name(operation, part.key)
        each, since = self._each[lane], part.key.number - 1 - self._before[lane]
        if not each or since < 0:
            return None
        iteration, number = divmod(since, each)
        return Place(iteration, self._wanted[lane, number + 1].name)

    def departure(self, operation: Operation, part: Part, iteration: int) -> str | None:
        """Why an exchange that is called in an iteration that counts is not that of the lesson; None where it is."""
        lane = lane_name(operation, part.key)
        place = self.place_of(operation, part)
        if place is None or place.iteration != iteration:
            return f"{operation.name} was not in the lesson there"
        wanted = self._wanted[lane, _lane_of(place.name)[1]]
        if exchange_name(operation, part.key, _lane_of(place.name)[1]) != place.name:
            return f"{operation.name} came in the place of {place.name.partition(' ')[0]}"
        if (wanted.sent, wanted.received) != (part.sent_bytes, part.received_bytes):
            return f"{operation.name} {_bytes_of(part.sent_bytes, part.received_bytes)}; in the lesson it {_bytes_of(wanted.sent, wanted.received)}"
        return None

    def not_called(self, iterations: int) -> str | None:
        """What of the first so many iterations that count was not called, up to their end; None where all was."""
        for (lane, number), wanted in self._wanted.items():
            if self._called[lane] - self._before[lane] < (iterations - 1) * self._each[lane] + number:
                return f"{wanted.name} was not called"
        return None

    def otherwise_before(self) -> str | None:
        """What was otherwise than in the lesson before the first iteration that counts; None where nothing was."""
        for lane in self._each:
            if self._called[lane] != self._before[lane]:
                return (
                    f"rank {self._rank} did otherwise than in the lesson while it warmed up: it called {self._called[lane]} "
                    f"operations among {lane}, and {self._before[lane]} in the lesson"
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
