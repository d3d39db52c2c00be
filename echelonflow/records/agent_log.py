"""What an agent did, a line for each step, written as it happens: a killed run keeps what there was (agents/HOST.jsonl).

Times are in seconds since the run's zero.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from echelonflow.codec import Log
from echelonflow.errors import InputError
from echelonflow.files import Appended

_TAIL_BYTES = 4096


class _Line(msgspec.Struct, frozen=True, tag_field="type"):
    """A step of `job` in `iteration`."""

    job: str
    iteration: int


class Computed(_Line, frozen=True, tag="compute"):
    """A computation has ended; `late_s` is how much longer than asked it took."""

    step: str
    kind: str
    rank: int
    start_s: float
    finish_s: float
    late_s: float


class Mark(msgspec.Struct, frozen=True, array_like=True):
    """How a flow was sent from `time_s` on; `rate_Bps` is None where it was not paced, 0 where it was paused."""

    time_s: float
    dscp: int
    rate_Bps: float | None


class Sent(_Line, frozen=True, tag="sent"):
    """A flow's last byte was acknowledged at `acked_s`; it was released at `release_s` and began at `start_s`.

    `by` is the number of the decision, made before its release, that said how to send it; 0 where there was none and it
    waited for one. `held` says that it was to wait by that decision as well. `ready_s` is when it could have been released,
    where its own job held it back; None where it did not.
    """

    flow: str
    release_s: float
    start_s: float
    acked_s: float
    sent_bytes: int
    retransmissions: int
    marks: tuple[Mark, ...]
    by: int = 0
    held: bool = False
    ready_s: float | None = None


class Received(_Line, frozen=True, tag="received"):
    """A flow's first byte came at `first_s`, its last at `finish_s`."""

    flow: str
    first_s: float
    finish_s: float
    received_bytes: int


class Held(_Line, frozen=True, tag="held"):
    """The steps with which this host's part of an iteration begins could have begun from `ready_s` on, and may from `begin_s` on."""

    ready_s: float
    begin_s: float


Line = Computed | Sent | Received | Held
_LOG: Log[Line] = Log("echelon-agent-log", 1, Line, {0: lambda data, _: data})  # version 0 lacked the first line


class AgentLog:
    """The log of one host, open for writing. InputError if it cannot be made."""

    def __init__(self, path: Path) -> None:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = Appended(path)
        except OSError as error:
            raise InputError(f"records {path} cannot be written: {error.strerror}") from None
        self._file.write(_LOG.header)

    def write(self, line: Line) -> None:
        """Append a line; it is in the file when this returns."""
        self._file.write(_LOG.line(line))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_agent_log(path: Path, faults: list[str] | None = None) -> Iterator[Line]:
    """The lines of one host, in order (InputError, naming the line, for one that is malformed).

    Where `faults` are asked for, such lines are left out and told there instead.
    """
    return _LOG.read(path, faults)


def last_iteration(path: Path) -> int | None:
    """The iteration of the newest complete line, of a log that is still being written; None if there is none yet."""
    try:
        with path.open("rb") as file:
            file.seek(max(path.stat().st_size - _TAIL_BYTES, 0))
            lines = file.read().splitlines()
    except FileNotFoundError:
        return None
    for line in reversed(lines):
        with contextlib.suppress(msgspec.MsgspecError):
            return msgspec.json.decode(line, type=_Step).iteration
    return None


class _Step(msgspec.Struct):
    iteration: int
