"""What one rank of a training program was seen to do, iteration by iteration (rank<r>.json): the agent in its process writes it.

Times are durations, in seconds, of the process's monotonic clock. Ranks are global. Within an iteration, operations and events are told apart by
their place.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from echelonflow.bounds import MOST_RANKS
from echelonflow.codec import Document

Rank = Annotated[int, Meta(ge=0, lt=MOST_RANKS)]
SizeBytes = Annotated[int, Meta(ge=1, le=1 << 42)]
DurationS = Annotated[float, Meta(ge=0.0, le=1e9)]
Place = Annotated[int, Meta(ge=0, lt=1 << 24)]


class Exchanged(msgspec.Struct, frozen=True):
    """One exchange of an operation: `name` is the same on all ranks that take part, and on no other exchange of the iteration.

    `sent` and `received` are bytes by the other rank. What goes to rank r goes only when something has come from all ranks in
    `follows[r]`.
    """

    name: str
    sent: dict[Rank, SizeBytes]
    received: dict[Rank, SizeBytes]
    follows: dict[Rank, tuple[Rank, ...]] = {}


class UnitOf(msgspec.Struct, frozen=True):
    """What a job scheduler sends as one: a partition, or several tensors together. Of lesser `priority` goes first."""

    name: str
    size_bytes: SizeBytes
    priority: Annotated[int, Meta(ge=-(1 << 62), le=1 << 62)]


class Ordered(msgspec.Struct, frozen=True):
    """A job scheduler puts in order what a program sends: its text, and its window (`echelonflow.model.discipline`).

    With `whole`, a unit is under way until it is over at its rank; otherwise until this rank has sent its part.
    """

    scheduler: str
    credit_bytes: Annotated[int, Meta(ge=1, lt=1 << 62)] | None
    slots: Annotated[int, Meta(ge=1, lt=1 << 62)] | None
    overdraw: bool
    whole: bool


class Called(msgspec.Struct, frozen=True, omit_defaults=True):
    """An operation, such as "all-reduce", among `ranks`; of a `unit`, where a job scheduler cut what is sent."""

    kind: str
    ranks: tuple[Rank, ...]
    exchanges: tuple[Exchanged, ...]
    unit: UnitOf | None = None
    from_any: bool = False
    """Whether it is a message that was received from whoever sent first."""


class Event(msgspec.Struct, frozen=True, omit_defaults=True):
    """After `computed_s` of computation the program called operation `call`, or waited for the operations `waits`, for `waited_s`.

    `carried` are operations of the iteration before that it waited for.
    """

    computed_s: DurationS
    call: Place | None = None
    waits: tuple[Place, ...] = ()
    carried: tuple[Place, ...] = ()
    waited_s: DurationS = 0.0


class ObservedIteration(msgspec.Struct, frozen=True):
    """One iteration; after its last event the program computed for `rest_s` until its optimizer had made its step."""

    operations: tuple[Called, ...]
    events: tuple[Event, ...]
    rest_s: DurationS

    @property
    def structure(self) -> tuple[object, ...]:
        """What iterations have in common that are alike but for times."""
        return self.operations, tuple((event.call, event.waits, event.carried) for event in self.events)


class Observed(msgspec.Struct, frozen=True, omit_defaults=True):
    """All iterations of `rank`, one of `ranks`, from the first on."""

    rank: Rank
    ranks: Annotated[int, Meta(ge=1, le=MOST_RANKS)]
    iterations: tuple[ObservedIteration, ...]
    ordered: Ordered | None = None
    """By a job scheduler, where one is there."""


def flow_of(exchange: str, src: int, dst: int) -> str:
    """What the flow of an exchange from rank `src` to rank `dst` is called."""
    return f"{exchange} {src}->{dst}"


def exchange_of(flow: str) -> str:
    """The exchange of a flow."""
    return flow.rpartition(" ")[0]


def rank_from(flow: str) -> int:
    """The rank from which a flow comes."""
    return int(flow.rpartition(" ")[2].partition("->")[0])


def rank_to(flow: str) -> int:
    """The rank to which a flow goes."""
    return int(flow.rpartition("->")[2])


def step_of(rank: int, event: int | None) -> str:
    """What the computation of a rank before its event is called; None: before the end of the iteration."""
    return f"rank {rank} {'end' if event is None else f'event {event}'}"


def write_observed(path: Path, observed: Observed) -> None:
    """Write what a rank was seen to do."""
    _DOCUMENT.write(path, observed)


def read_observed(path: Path) -> Observed:
    """Read it (InputError, naming the file, where it is missing or malformed)."""
    return _DOCUMENT.read(path)


_DOCUMENT = Document("echelon-observed", 1, Observed, compact=True)
