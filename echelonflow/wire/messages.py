"""What agents and the coordinator say to each other: one JSON object on a line.

The same messages serve the replay agent, a real training framework and the tests. `encode` and `decode` are the only
places that know the wire form. `decode` raises InputError for anything that is not one of these messages with exactly
its fields. So a peer's mistake is named and not obeyed.
"""

from __future__ import annotations

import dataclasses
import json
import types
import typing
from dataclasses import dataclass
from typing import Any

from echelonflow.errors import InputError

PROTOCOL_VERSION = 1


@dataclass(frozen=True, slots=True)
class FlowDeclaration:
    """One flow of a group, as it will be in every iteration.

    `index` is its position in the job (breaks ties, so it must not depend on timing); the ports are
    those of its TCP connection, by which the network recognises it.
    """

    flow: str
    index: int
    coflow: str
    src_host: str
    dst_host: str
    size_bytes: int
    offset_s: float
    src_port: int
    dst_port: int


@dataclass(frozen=True, slots=True)
class Hello:
    """First message of a client: who it is. `host` is empty for a runner, which owns no flows."""

    client: str
    host: str
    version: int = PROTOCOL_VERSION


@dataclass(frozen=True, slots=True)
class Declare:
    """A group (EchelonFlow) of a job, declared once for all its iterations.

    `compute_s`: GPU-seconds of computation in one iteration of the job, over all ranks; the same in all its groups.
    """

    job: str
    group: str
    kind: str
    weight: float
    flows: tuple[FlowDeclaration, ...]
    compute_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Release:
    """The data of a flow is ready; `time_s` is the agent's monotonic clock at that moment."""

    job: str
    flow: str
    iteration: int
    time_s: float


@dataclass(frozen=True, slots=True)
class Progress:
    """Bytes of a flow acknowledged by the receiver's TCP so far."""

    job: str
    flow: str
    iteration: int
    sent_bytes: int


@dataclass(frozen=True, slots=True)
class Finish:
    """The receiver has the last byte of a flow; `time_s` is its monotonic clock at that moment."""

    job: str
    flow: str
    iteration: int
    time_s: float


@dataclass(frozen=True, slots=True)
class Ready:
    """The client has opened its connections and waits for `Start`."""


@dataclass(frozen=True, slots=True)
class Done:
    """The client has replayed its whole part and its records are on disk."""


@dataclass(frozen=True, slots=True)
class Begin:
    """From the runner: forget all state, follow `policy` from now on, expect `agents` agents.

    `enforcer` is "priority" or "rate"; `run` names the run in the decision log at `decisions_path`.
    """

    run: str
    policy: str
    enforcer: str
    agents: int
    decisions_path: str


@dataclass(frozen=True, slots=True)
class End:
    """From the runner: the run is over; drop its state and its rules."""


@dataclass(frozen=True, slots=True)
class Start:
    """To all agents: the run's zero, on the monotonic clock that all of them share."""

    zero_s: float


@dataclass(frozen=True, slots=True)
class Setting:
    """How one flow is to be sent: its DSCP, and its rate in payload bytes/s (None: unlimited, 0: pause)."""

    job: str
    flow: str
    iteration: int
    dscp: int
    rate_Bps: float | None


@dataclass(frozen=True, slots=True)
class Decide:
    """To an agent: new settings for flows that it sends; flows not named keep theirs."""

    settings: tuple[Setting, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """To the runner: `what` has happened, `detail` says more.

    "switches", "begun", "ready", "done" and "ended" are the steps of a run; "lost" and "fault" fail it. "policy" says
    that its policy was swapped, or gave way to the one before.
    """

    what: str
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """To a client: its last message was refused, and why."""

    reason: str


Message = Hello | Declare | Release | Progress | Finish | Ready | Done | Begin | End | Start | Decide | Event | Fault

_KINDS: dict[str, type] = {kind.__name__.lower(): kind for kind in typing.get_args(Message)}


def encode(message: Message) -> bytes:
    """The message as one line of UTF-8 JSON, newline included."""
    body = {"type": type(message).__name__.lower(), **dataclasses.asdict(message)}
    return json.dumps(body, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def decode(line: bytes) -> Message:
    """The message on `line`; InputError if it is not JSON, not a known type, or has wrong fields."""
    try:
        body = json.loads(line)
    except ValueError as error:
        raise InputError(f"not a JSON message: {error}") from None
    if not isinstance(body, dict) or body.get("type") not in _KINDS:
        kind = body.get("type") if isinstance(body, dict) else None
        raise InputError(f"unknown message type {kind!r}; there is: {', '.join(sorted(_KINDS))}")
    kind = body.pop("type")
    return typing.cast("Message", _build(_KINDS[kind], body, kind))


def _build(cls: type, body: Any, where: str) -> Any:
    if not isinstance(body, dict):
        raise InputError(f"{where}: expected an object, not {body!r}")
    values = {}
    for name, hint, required in _FIELDS[cls]:
        value = body.get(name, _MISSING)
        if type(value) is hint:  # most are, and a group may have 100,000 of them
            values[name] = value
        elif value is not _MISSING:
            values[name] = _convert(hint, value, f"{where}.{name}")
        elif required:
            raise InputError(f"{where}: missing field {name}")
    if len(values) < len(body):
        unknown = body.keys() - values.keys()
        raise InputError(f"{where}: unknown field {', '.join(sorted(unknown))}")
    return cls(**values)


def _convert(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    if origin is tuple:
        if not isinstance(value, list):
            raise InputError(f"{where}: expected a list, not {value!r}")
        inner = typing.get_args(hint)[0]
        return tuple(_convert(inner, item, f"{where}[{i}]") for i, item in enumerate(value))
    if origin is types.UnionType:
        if value is None:
            return None
        return _convert(typing.get_args(hint)[0], value, where)
    if dataclasses.is_dataclass(hint):
        return _build(typing.cast("type", hint), value, where)
    if hint is float and type(value) is int:
        return float(value)
    if type(value) is not hint:
        raise InputError(f"{where}: expected {hint.__name__}, not {value!r}")
    return value


def _collect_fields() -> types.MappingProxyType[type, tuple[tuple[str, Any, bool], ...]]:
    found = {}
    for cls in (*_KINDS.values(), FlowDeclaration, Setting):
        hints = typing.get_type_hints(cls)
        fields: Any = dataclasses.fields(cls)
        found[cls] = tuple((f.name, hints[f.name], f.default is dataclasses.MISSING) for f in fields)
    return types.MappingProxyType(found)


_MISSING = object()
_FIELDS = _collect_fields()
"""Name, type and whether it must be given, of every field of every message."""
