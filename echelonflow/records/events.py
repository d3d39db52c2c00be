"""What happens to the coordinator, one typed event each, and the log of them: events.jsonl, beside a run's decisions.

A log begins with its `Opening`; each further line is an event with the reading of the monotonic clock at which it was
handled. A fresh coordinator that is given the same events makes the same decisions (`controller.replay_log`). So a
log holds everything that a decision depends on: also the answers of policies in processes of their own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import msgspec

from echelonflow.codec import Log
from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints, array_from_data, array_to_data
from echelonflow.model.network import Network
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.planning import PlanMade
from echelonflow.wire.messages import Message

_BUFFER_BYTES = 1 << 18
FLUSH_S = 0.5
"""No event waits longer in the buffer while others come: a controller that is killed takes no more with it."""


class ClientSaid(msgspec.Struct, frozen=True, tag="client_said"):
    """A client has sent a message."""

    client: int
    message: Message


class LineRefused(msgspec.Struct, frozen=True, tag="line_refused"):
    """A client has sent a line that is no message, or begins a run under a policy that cannot be loaded; and why."""

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


class SwitchTurnedAway(msgspec.Struct, frozen=True, tag="switch_turned_away"):
    """A switch that the network does not have, or that is connected already, has connected and was refused."""

    datapath_id: int
    reason: str


class PacketShown(msgspec.Struct, frozen=True, tag="packet_shown"):
    """A switch has shown a packet whose source it does not know."""

    datapath_id: int
    port: int
    source_mac: str


class RoundOver(msgspec.Struct, frozen=True, tag="round_over"):
    """Everything that arrived in one wake-up was handled, or an allocation has expired: decide what is due."""


class SpareTime(msgspec.Struct, frozen=True, tag="spare_time"):
    """Nothing else is to be done: decide for a flow or some that can be released next."""


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


class Planned(msgspec.Struct, frozen=True, tag="planned", eq=False):
    """The planner has found what is to be in force from now on."""

    made: PlanMade


class PlannerPrepared(msgspec.Struct, frozen=True, tag="planner_prepared"):
    """The planner has loaded: from now on it answers at once."""


class PlannerFailed(msgspec.Struct, frozen=True, tag="planner_failed"):
    """The planner has ended, or did not answer in time, and why: what is in force stays so."""

    reason: str


class PolicyOrdered(msgspec.Struct, frozen=True, tag="policy_ordered"):
    """Somebody wants the run to follow another policy from now on; `enforcer` None: the policy's own."""

    policy: str
    enforcer: str | None = None


class StandingOrdered(msgspec.Struct, frozen=True, tag="standing_ordered"):
    """Keep a run under `policy` whenever no runner has begun one."""

    policy: str


class WeighingFailed(msgspec.Struct, frozen=True, tag="weighing_failed"):
    """Weights of classes could not be changed, and why; what was decided is not in force, so the run cannot go on."""

    reason: str


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
    | SwitchTurnedAway
    | PacketShown
    | RoundOver
    | SpareTime
    | PolicyAnswered
    | PolicyFailed
    | Planned
    | PlannerPrepared
    | PlannerFailed
    | PolicyOrdered
    | StandingOrdered
    | WeighingFailed
    | ControllerFailed
)


class Opening(msgspec.Struct, frozen=True, tag="opening"):
    """Which coordinator the events of a log reached.

    `addresses` are the hosts' IPv4 addresses where the network was learned; None where it was described.
    """

    network: Network
    addresses: dict[str, str] | None = None
    questions_asked: int = 0
    """By the coordinator that was recorded, before the first event."""


class Handled(msgspec.Struct, frozen=True, tag="handled"):
    """One event, and the monotonic clock (seconds) when it was handled."""

    now_s: float
    event: Event


class EventLog:
    """Writes a log: `append` encodes an event once, into a buffer. OSError where the disk refuses."""

    def __init__(self, path: Path, opening: Opening) -> None:
        self._file = path.open("wb", buffering=_BUFFER_BYTES)
        self._file.write(_LOG.header + _LOG.line(opening))
        self._flushed_s = -math.inf

    def append(self, now_s: float, event: Event) -> None:
        """Add an event that is handled at `now_s`."""
        self._file.write(_LOG.line(Handled(now_s, event)))
        if now_s >= self._flushed_s + FLUSH_S:
            self._file.flush()
            self._flushed_s = now_s

    def close(self) -> None:
        """Write out what is buffered."""
        self._file.close()


def read(path: Path) -> tuple[Opening, Iterator[Handled]]:
    """The opening of a log and its events, in order; InputError, naming file and line, for what is none."""
    lines = _LOG.read(path)
    opening = next(lines, None)
    if not isinstance(opening, Opening):
        raise InputError(f"{path}: is no log of events: it does not begin with an opening")
    return opening, _events(lines, path)


def policy_orders(path: Path, faults: list[str]) -> Iterator[tuple[float, PolicyOrdered]]:
    """Every swap of policies in a log, with the monotonic clock (seconds) then; what cannot be read goes to `faults`.

    Only lines that may hold one are decoded: a log has many, and few swaps.
    """
    for line in _LOG.read(path, faults, containing=b'"policy_ordered"'):
        if isinstance(line, Handled) and isinstance(line.event, PolicyOrdered):
            yield line.now_s, line.event


def plans(path: Path, faults: list[str]) -> Iterator[tuple[float, PlanMade]]:
    """Every plan that was put in force, with the monotonic clock (seconds) then; what cannot be read goes to `faults`."""
    for line in _LOG.read(path, faults, containing=b'"planned"'):
        if isinstance(line, Handled) and isinstance(line.event, Planned):
            yield line.now_s, line.event.made


def messages(path: Path) -> int:
    """How many messages of clients a log holds; 0 where there is none."""
    try:
        with path.open("rb") as file:
            return sum(b'"client_said"' in line for line in file)
    except OSError:
        return 0


def _events(lines: Iterator[Opening | Handled], path: Path) -> Iterator[Handled]:
    for line in lines:
        if isinstance(line, Opening):
            raise InputError(f"{path}: a log of events has one opening, not two")
        yield line


_LOG: Log[Opening | Handled] = Log(
    "echelon-events", 1, Opening | Handled, to_text=array_to_data, from_text=array_from_data
)
