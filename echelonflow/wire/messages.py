"""What agents and the coordinator say to each other: one JSON object on a line.

The same messages serve the replay agent, a real training framework and the tests. `encode` and `decode` are the only
places that know the wire form. `decode` raises InputError for anything that is not one of these messages with exactly
its fields. So a peer's mistake is named and not obeyed.
"""

from __future__ import annotations

import re
import typing

import msgspec

from echelonflow.codec import explain
from echelonflow.errors import InputError

PROTOCOL_VERSION = 1


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """What all messages have in common: they are values, and say what they are under "type"."""


class FlowDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
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


class Hello(_Message, frozen=True, tag="hello"):
    """First message of a client: who it is. `host` is empty for a runner, which owns no flows."""

    client: str
    host: str
    version: int = PROTOCOL_VERSION


class Declare(_Message, frozen=True, tag="declare"):
    """A group (EchelonFlow) of a job, declared once for all its iterations.

    `compute_s`: GPU-seconds of computation in one iteration of the job, over all ranks; the same in all its groups.
    """

    job: str
    group: str
    kind: str
    weight: float
    flows: tuple[FlowDeclaration, ...]
    compute_s: float = 0.0


class Release(_Message, frozen=True, tag="release"):
    """The data of a flow is ready; `time_s` is the agent's monotonic clock at that moment."""

    job: str
    flow: str
    iteration: int
    time_s: float


class Progress(_Message, frozen=True, tag="progress"):
    """Bytes of a flow acknowledged by the receiver's TCP so far."""

    job: str
    flow: str
    iteration: int
    sent_bytes: int


class Finish(_Message, frozen=True, tag="finish"):
    """The receiver has the last byte of a flow; `time_s` is its monotonic clock at that moment."""

    job: str
    flow: str
    iteration: int
    time_s: float


class ReleaseAgain(_Message, frozen=True, tag="release_again"):
    """What `Release` said, to a coordinator that may not know it: one that was started anew, or to which it was lost.

    `sent_bytes` is how much was acknowledged since; `dscp` the mark that the flow is sent with, None where it waits for
    one. The answer is its setting, if there is one.
    """

    job: str
    flow: str
    iteration: int
    time_s: float
    sent_bytes: int
    dscp: int | None


class FinishAgain(_Message, frozen=True, tag="finish_again"):
    """What `Finish` said, to a coordinator that may not know it."""

    job: str
    flow: str
    iteration: int
    time_s: float


class Ready(_Message, frozen=True, tag="ready"):
    """The client has opened its connections and waits for `Start`."""


class Done(_Message, frozen=True, tag="done"):
    """The client has replayed its whole part and its records are on disk."""


class Begin(_Message, frozen=True, tag="begin"):
    """From the runner: forget all state, follow `policy` from now on, expect `agents` agents.

    `enforcer` is "priority" or "rate"; `run` names the run in the decision log at `decisions_path`. With `zero_s` (on
    the clock that all share) the run is one that has begun already, under a coordinator that is gone. Its agents are
    told to `Start` as soon as they have said `Hello`, and tell again what they told before.
    """

    run: str
    policy: str
    enforcer: str
    agents: int
    decisions_path: str
    zero_s: float | None = None


class HostDown(_Message, frozen=True, tag="host_down"):
    """From the runner: a host is about to die as planned, and with it these jobs, wherever they run."""

    host: str
    jobs: tuple[str, ...]


class End(_Message, frozen=True, tag="end"):
    """From the runner: the run is over; drop its state and its rules."""


class Start(_Message, frozen=True, tag="start"):
    """To all agents: the run's zero, on the monotonic clock that all of them share."""

    zero_s: float


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How one flow is to be sent: its DSCP, and its rate in payload bytes/s (None: unlimited, 0: pause)."""

    job: str
    flow: str
    iteration: int
    dscp: int
    rate_Bps: float | None


class Decide(_Message, frozen=True, tag="decide"):
    """To an agent: new settings for flows that it sends; flows not named keep theirs."""

    settings: tuple[Setting, ...]


class Event(_Message, frozen=True, tag="event"):
    """To the runner: `what` has happened, `detail` says more.

    "switches", "begun", "ready", "done" and "ended" are the steps of a run; "lost" and "fault" fail it. "policy" says
    that its policy was swapped, or gave way to the one before.
    """

    what: str
    detail: str = ""


class Fault(_Message, frozen=True, tag="fault"):
    """To a client: its last message was refused, and why."""

    reason: str


Message = (
    Hello
    | Declare
    | Release
    | ReleaseAgain
    | Progress
    | Finish
    | FinishAgain
    | Ready
    | Done
    | Begin
    | HostDown
    | End
    | Start
    | Decide
    | Event
    | Fault
)

_KINDS = sorted(str(kind.__struct_config__.tag) for kind in typing.get_args(Message))
_ENCODER = msgspec.json.Encoder()
_DECODER: msgspec.json.Decoder[Message] = msgspec.json.Decoder(Message)


class _Kind(msgspec.Struct):
    """What a line says it is."""

    type: msgspec.UnsetType | str = msgspec.UNSET


def encode(message: Message) -> bytes:
    """The message as one line of UTF-8 JSON, newline included."""
    return _ENCODER.encode(message) + b"\n"


def decode(line: bytes) -> Message:
    """The message on `line`; InputError if it is not JSON, not a known type, or has wrong fields."""
    try:
        return _DECODER.decode(line)
    except msgspec.ValidationError as error:
        raise InputError(_explained(line, error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not a JSON message: {error}") from None


def _explained(line: bytes, error: msgspec.ValidationError) -> str:
    """What is wrong with a message, beginning with its type."""
    try:
        kind = msgspec.json.decode(line, type=_Kind).type
    except msgspec.MsgspecError:
        kind = msgspec.UNSET
    if kind not in _KINDS:
        shown = None if kind is msgspec.UNSET else kind
        return f"unknown message type {shown!r}; there is: {', '.join(_KINDS)}"
    words = explain(error)
    inside = re.match(r"[\w.\[\]]+: ", words)
    return f"{kind}.{words}" if inside else f"{kind}: {words}"
