"""What happens to the coordinator, one typed event each, and the log of them: events.jsonl, beside a run's decisions.

The first line of a log is a `Header`; each other line is an event with the reading of the monotonic clock at which it
was handled. A fresh coordinator that is given the same events makes the same decisions (`controller.replay_log`). So a
log holds everything that a decision depends on: also the answers of policies in processes of their own.
"""

from __future__ import annotations

import base64
import math
import typing
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.network import Network
from echelonflow.scheduling.allocation import Allocation
from echelonflow.wire.messages import Message, decode, encode

EVENTS_FILE = "events.jsonl"
"""Its name in the folder of a run's raw records."""
SCHEMA = "echelon.events"
VERSION = 1
_BUFFER_BYTES = 1 << 18


class ClientSaid(msgspec.Struct, frozen=True, tag="client_said"):
    """A client has sent a message."""

    client: int
    message: Message


class LineRefused(msgspec.Struct, frozen=True, tag="line_refused"):
    """A client has sent a line that is no message, and why it is none."""

    client: int
    reason: str


class ClientGone(msgspec.Struct, frozen=True, tag="client_gone"):
    """The connection to a client has ended."""

    client: int


class SwitchConnected(msgspec.Struct, frozen=True, tag="switch_connected"):
    """A switch has connected."""

    datapath_id: int


class SwitchReady(msgspec.Struct, frozen=True, tag="switch_ready"):
    """A switch has confirmed that its rules are in place."""

    switch: str


class SwitchLost(msgspec.Struct, frozen=True, tag="switch_lost"):
    """The connection to a switch has ended."""

    datapath_id: int


class SwitchRefused(msgspec.Struct, frozen=True, tag="switch_refused"):
    """A switch has refused what it was told."""

    switch: str
    reason: str


class PacketShown(msgspec.Struct, frozen=True, tag="packet_shown"):
    """A switch has shown a packet whose source it does not know."""

    datapath_id: int
    port: int
    source_mac: str


class RoundOver(msgspec.Struct, frozen=True, tag="round_over"):
    """Everything that arrived in one wake-up was handled, or an allocation has expired: decide what is due."""


class PolicyAnswered(msgspec.Struct, frozen=True, tag="policy_answered", eq=False):
    """A policy has answered a question; the arrays are those of its allocation (see `Allocation`)."""

    question: int
    rates_Bps: Floats
    rank: Ints
    valid_until_s: float | None
    """None: for ever."""

    @classmethod
    def of(cls, question: int, allocation: Allocation) -> PolicyAnswered:
        valid_until_s = allocation.valid_until_s
        return cls(
            question, allocation.rates_Bps, allocation.rank, None if valid_until_s == math.inf else valid_until_s
        )

    def allocation(self) -> Allocation:
        """The answer in the policy's own form."""
        return Allocation(self.rates_Bps, self.rank, math.inf if self.valid_until_s is None else self.valid_until_s)


class PolicyFailed(msgspec.Struct, frozen=True, tag="policy_failed"):
    """A policy has not answered a question: it raised, took too long, or allocated what no network carries."""

    question: int
    reason: str


class PolicyOrdered(msgspec.Struct, frozen=True, tag="policy_ordered"):
    """Somebody wants the run to follow another policy from now on; `enforcer` None: the policy's own."""

    policy: str
    enforcer: str | None = None


class StandingOrdered(msgspec.Struct, frozen=True, tag="standing_ordered"):
    """Keep a run under `policy` whenever no runner has begun one."""

    policy: str


class ControllerFailed(msgspec.Struct, frozen=True, tag="controller_failed"):
    """The controller itself has failed, and why; the run cannot go on."""

    reason: str


Event = (
    ClientSaid
    | LineRefused
    | ClientGone
    | SwitchConnected
    | SwitchReady
    | SwitchLost
    | SwitchRefused
    | PacketShown
    | RoundOver
    | PolicyAnswered
    | PolicyFailed
    | PolicyOrdered
    | StandingOrdered
    | ControllerFailed
)


class Header(msgspec.Struct, frozen=True):
    """The first line of a log: which network the events are of.

    `addresses` are the hosts' IPv4 addresses where the network was
    learned; None where it was described.
    """

    network: Network
    addresses: dict[str, str] | None = None
    questions_asked: int = 0
    """By the coordinator that was recorded, before the first event."""
    schema: str = SCHEMA
    version: int = VERSION


class Logged(msgspec.Struct, frozen=True):
    """One event, and the monotonic clock (seconds) when it was handled."""

    now_s: float
    event: Event


class _Said(msgspec.Struct, frozen=True, tag="client_said"):
    """`ClientSaid` on disk: the message in the form that `echelonflow.wire.messages` gives it."""

    client: int
    message: msgspec.Raw


_OnDisk = (
    _Said
    | LineRefused
    | ClientGone
    | SwitchConnected
    | SwitchReady
    | SwitchLost
    | SwitchRefused
    | PacketShown
    | RoundOver
    | PolicyAnswered
    | PolicyFailed
    | PolicyOrdered
    | StandingOrdered
    | ControllerFailed
)


class _Line(msgspec.Struct, frozen=True):
    now_s: float
    event: _OnDisk


class EventLog:
    """Writes a log: `append` encodes an event once, into a buffer. OSError where the disk refuses."""

    def __init__(self, path: Path, header: Header) -> None:
        self._encoder = msgspec.json.Encoder(enc_hook=_array_to_text)
        self._file = path.open("wb", buffering=_BUFFER_BYTES)
        self._line = bytearray()
        self._write(header)

    def append(self, now_s: float, event: Event) -> None:
        """Add an event that is handled at `now_s`."""
        kept = (
            _Said(event.client, msgspec.Raw(encode(event.message).rstrip())) if isinstance(event, ClientSaid) else event
        )
        self._write(_Line(now_s, kept))

    def _write(self, line: Header | _Line) -> None:
        self._encoder.encode_into(line, self._line)
        self._line += b"\n"
        self._file.write(self._line)

    def close(self) -> None:
        """Write out what is buffered."""
        self._file.close()

    def __enter__(self) -> EventLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()


def read(path: Path) -> tuple[Header, Iterator[Logged]]:
    """The header and the events of a log, in order; InputError, naming file and line, for what is none."""
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise InputError(f"event log {path}: {error.strerror}") from None
    if not lines:
        raise InputError(f"event log {path} is empty")
    found = _decoded(msgspec.json.Decoder(_Version), lines[0], path, 1)
    if (found.schema, found.version) != (SCHEMA, VERSION):
        raise InputError(f"event log {path} is {found.schema} version {found.version}; this reads {SCHEMA} {VERSION}")
    header = _decoded(msgspec.json.Decoder(Header), lines[0], path, 1)
    return header, _events(lines[1:], path)


class _Version(msgspec.Struct):
    schema: str
    version: int


def _events(lines: list[bytes], path: Path) -> Iterator[Logged]:
    decoder = msgspec.json.Decoder(_Line, dec_hook=_array_from_text)
    for number, line in enumerate(lines, start=2):
        found = _decoded(decoder, line, path, number)
        try:
            yield Logged(found.now_s, _from_disk(found.event))
        except InputError as error:
            raise InputError(f"event log {path}, line {number}: {error}") from None


def _from_disk(kept: _OnDisk) -> Event:
    return ClientSaid(kept.client, decode(bytes(kept.message))) if isinstance(kept, _Said) else kept


_T = typing.TypeVar("_T")


def _decoded(decoder: msgspec.json.Decoder[_T], line: bytes, path: Path, number: int) -> _T:
    try:
        return decoder.decode(line)
    except (msgspec.MsgspecError, InputError, ValueError) as error:
        raise InputError(f"event log {path}, line {number}: {error}") from None


def _array_to_text(value: Any) -> str:
    """An array's bytes as text: exact, and cheaper than its numbers in words."""
    if isinstance(value, np.ndarray):
        return base64.b64encode(value.astype("<f8" if value.dtype.kind == "f" else "<i8").tobytes()).decode()
    raise NotImplementedError(type(value).__name__)


def _array_from_text(kind: Any, value: Any) -> Any:
    if typing.get_origin(kind) is not np.ndarray or not isinstance(value, str):
        raise NotImplementedError(str(kind))
    array: Any = np.frombuffer(base64.b64decode(value, validate=True), "<f8" if kind == Floats else "<i8").copy()
    return array
