"""What was noted of a program, as the record that is kept (`echelonflow.records.observed`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from echelonflow.records.observed import Called as CalledRecord
from echelonflow.records.observed import Event, Exchanged, Observed, ObservedIteration, Ordered
from traffic.live.exchange import Key, ends_of
from traffic.live.observing import Called, Iteration, Operation


def lane_name(operation: Operation, key: Key) -> str:
    """What all ranks call the lane of an exchange: its ranks, and the group. A message has its own, with its tag."""
    group = f"{key.group >> 32:08x}"
    if not key.lane:
        return f"{_span(operation.group)}/{group}"
    src, dst = (operation.group[place] for place in ends_of(key.lane, len(operation.group)))
    return f"{src} to {dst}/{group}{f' tag {key.tag}' if key.tag else ''}"


def exchange_name(operation: Operation, key: Key, number: int) -> str:
    """What an exchange is called that is the `number`th of its lane in an iteration, counted from 1."""
    return f"{'message' if key.lane else operation.kind} {lane_name(operation, key)} #{number}"


class Naming:
    """What exchanges of the current iteration are called: by kind, ranks and number within it, alike on all ranks."""

    def __init__(self) -> None:
        self._first: dict[tuple[int, int], int] = {}

    def begin_iteration(self) -> None:
        """Numbers begin anew."""
        self._first.clear()

    def name(self, operation: Operation, key: Key) -> str:
        """The name of an exchange. Exchanges of a lane are named in the order in which they are called."""
        first = self._first.setdefault((key.group, key.lane), key.number)
        return exchange_name(operation, key, key.number - first + 1)


def observed(rank: int, ranks: int, iterations: Sequence[Iteration], ordered: Ordered | None = None) -> Observed:
    """The record of a rank's iterations, in order; `ordered` by a job scheduler, if by any."""
    naming = Naming()
    found, places = [], dict[Operation, int]()
    for each in iterations:
        iteration, places = _iteration(each, naming, places)
        found.append(iteration)
    return Observed(rank, ranks, tuple(found), ordered)


def _iteration(
    iteration: Iteration, naming: Naming, before: Mapping[Operation, int]
) -> tuple[ObservedIteration, dict[Operation, int]]:
    """The record of an iteration, and the places of its operations; `before` are those of the iteration before."""
    naming.begin_iteration()
    places: dict[Operation, int] = {}
    operations: list[CalledRecord] = []
    events: list[Event] = []
    at_s = iteration.start_s
    for event in iteration.events:
        computed_s = max(event.time_s - at_s, 0.0)
        if isinstance(event, Called):
            places[event.operation] = len(operations)
            events.append(Event(computed_s, call=len(operations)))
            operations.append(_called(event.operation, naming))
            at_s = max(event.time_s, at_s)
        else:
            waits = tuple(places[each] for each in event.operations if each in places)
            carried = tuple(before[each] for each in event.operations if each in before)
            waited_s = max(event.until_s - event.time_s, 0.0)
            events.append(Event(computed_s, waits=waits, carried=carried, waited_s=waited_s))
            at_s = max(event.until_s, at_s)
    return ObservedIteration(tuple(operations), tuple(events), max(iteration.end_s - at_s, 0.0)), places


def _called(operation: Operation, naming: Naming) -> CalledRecord:
    exchanges = (
        Exchanged(
            naming.name(operation, part.key), dict(part.sent_bytes), dict(part.received_bytes), dict(part.follows)
        )
        for part in operation.parts
    )
    return CalledRecord(operation.kind, operation.group, tuple(exchanges), operation.unit, operation.is_from_any)


def _span(ranks: Sequence[int]) -> str:
    """Ranks in few letters."""
    if len(ranks) > 2 and list(ranks) == list(range(ranks[0], ranks[-1] + 1)):
        return f"{ranks[0]}-{ranks[-1]}"
    return ",".join(map(str, ranks))
