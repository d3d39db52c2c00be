"""What agents and the coordinator say to each other: one JSON object on a line.

The same messages serve the replay agent, a real training framework and the tests. `encode` and `decode` are the only
places that know the wire form. `decode` raises InputError for anything that is not one of these messages with exactly
its fields, each within its bounds. So a peer's mistake is named and not obeyed. docs/northbound.md shows the bounds.
"""

from __future__ import annotations

import re
import typing
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from echelonflow.codec import explain
from echelonflow.errors import InputError
from echelonflow.wire.classes import DATA_CLASSES

PROTOCOL_VERSION = 1
TOO_DEEP = "not a message: nested too deeply"
LONGEST_REASON = 600
"""Characters of a refusal: it quotes what it refuses, which may be long."""

Name = Annotated[str, Meta(min_length=1, max_length=512)]
Text = Annotated[str, Meta(max_length=4096)]
Token = Annotated[str, Meta(max_length=256)]
Index = Annotated[int, Meta(ge=0, lt=1 << 24)]
Iteration = Annotated[int, Meta(ge=0, lt=1 << 20)]
Port = Annotated[int, Meta(ge=1, lt=1 << 16)]
SizeBytes = Annotated[int, Meta(ge=1, le=1 << 42)]
"""4 TiB: a million flows of it, as many as a controller takes, still add up within 64 bits."""
SentBytes = Annotated[int, Meta(ge=0, le=1 << 42)]
Number = Annotated[int, Meta(ge=0, lt=1 << 53)]
"""Of a decision; 0 stands for none."""
ClockS = Annotated[float, Meta(ge=0.0, le=1e12)]
DurationS = Annotated[float, Meta(ge=0.0, le=1e9)]
Weight = Annotated[float, Meta(gt=0.0, le=1e9)]
MOST_FLOWS_OF_A_GROUP = 200_000
MOST_STEPS_OF_A_JOB = 200_000
MOST_BEFORE = 4096
"""Flows that a declaration names of each kind of those that come before a flow."""
MOST_SEGMENT_BYTES = 1 << 20
Indices = Annotated[tuple[Index, ...], Meta(max_length=MOST_BEFORE)]


Decisions = Literal["wait", "ahead"]
"""When a flow is decided on: at its release, for which it waits; or ahead of it."""


class _Message(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """What all messages have in common: they are values, and say what they are under "type"."""


class Before(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What comes before the release of a flow, by indices of flows of the same job.

    In the same iteration, and in the previous one: flows that have `ended` by then, and flows that are `released` by
    then. These could be, at least: their job may hold them back. Only the nearest are named: what comes before these goes
    without saying.
    """

    ended: Indices = ()
    released: Indices = ()
    ended_previous: Indices = ()
    released_previous: Indices = ()


class FlowClock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where a flow stands in an iteration of its job, alone on the network (`echelonflow.model.clock`).

    Longest paths: from the start of the iteration to its release, and from its end through computations of its own
    iteration. Then from its end to the end of the next iteration, and to that of its own. And its place in the order in
    which computations of an iteration wait for flows. It lasts as long as its Coflow needs: with the lead, that is when in an
    iteration it sends, and all flows of a job together are the iteration's profile.
    """

    lead_s: DurationS
    rest_s: DurationS
    tail_s: DurationS
    to_end_s: DurationS = 0.0
    layer: Annotated[int, Meta(ge=0, lt=1 << 31)] = 0
    lasts_s: DurationS = 0.0


class JobClock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The least time that an iteration of a job takes, alone on the network, and how many there will be; 0: nobody knows."""

    iteration_s: DurationS
    iterations: Annotated[int, Meta(ge=0, le=1 << 20)] = 0


class FlowDeclaration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """One flow of a group, as it will be in every iteration.

    `index` is its position in the job (breaks ties, so it must not depend on timing); the ports are
    those of its TCP connection, by which the network recognises it. Where `before` is left out, nothing is decided for
    the flow ahead of its release. Where `clock` is left out, policies that go by it fall back on its ideal finish.
    """

    flow: Name
    index: Index
    coflow: Text
    src_host: Name
    dst_host: Name
    size_bytes: SizeBytes
    offset_s: DurationS
    src_port: Port
    dst_port: Port
    before: Before | None = None
    clock: FlowClock | None = None


class Hello(_Message, frozen=True, tag="hello"):
    """First message of a client: who it is. `host` is empty for a runner, which owns no flows.

    `token` proves it, where the controller was given tokens; it is in no log.
    """

    client: Text
    host: Text
    version: Annotated[int, Meta(ge=0, lt=1 << 31)] = PROTOCOL_VERSION
    token: Token = ""


class Declare(_Message, frozen=True, tag="declare"):
    """A group (EchelonFlow) of a job, declared once for all its iterations.

    `compute_s`: GPU-seconds of computation in one iteration of the job, over all ranks. It and `clock` are the same in
    all groups of a job.
    """

    job: Name
    group: Name
    kind: Text
    weight: Weight
    flows: Annotated[tuple[FlowDeclaration, ...], Meta(min_length=1, max_length=MOST_FLOWS_OF_A_GROUP)]
    compute_s: DurationS = 0.0
    clock: JobClock | None = None


class GraphStep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """One step of a job: the index of its flow, -1 for what does not touch the network; its duration; and what it waits for.

    These are places of other steps, of the same iteration. A flow lasts as long as it takes, so its duration is 0. So is that of
    a transfer within a host.
    """

    flow: Annotated[int, Meta(ge=-1, lt=1 << 24)]
    duration_s: DurationS
    after: Annotated[tuple[Index, ...], Meta(max_length=MOST_STEPS_OF_A_JOB)]


class JobGraph(_Message, frozen=True, tag="job_graph"):
    """All steps of one iteration of a job, and what they wait for: whoever looks ahead needs them.

    `next_iteration` has pairs of steps: the second one, of the next iteration, waits for the first. `iterations`: how many
    there will be; 0: nobody knows.
    """

    job: Name
    iterations: Annotated[int, Meta(ge=0, le=1 << 20)]
    steps: Annotated[tuple[GraphStep, ...], Meta(min_length=1, max_length=MOST_STEPS_OF_A_JOB)]
    next_iteration: Annotated[tuple[tuple[Index, Index], ...], Meta(max_length=MOST_STEPS_OF_A_JOB)] = ()


class Release(_Message, frozen=True, tag="release"):
    """The data of a flow is ready; `time_s` is the agent's monotonic clock at that moment.

    `by` is the number of the decision, made ahead, by which the agent sends it or has it wait; 0 where it knows of none.
    """

    job: Name
    flow: Name
    iteration: Iteration
    time_s: ClockS
    by: Number = 0


class Progress(_Message, frozen=True, tag="progress"):
    """Bytes of a flow acknowledged by the receiver's TCP so far."""

    job: Name
    flow: Name
    iteration: Iteration
    sent_bytes: SentBytes


class Finish(_Message, frozen=True, tag="finish"):
    """The receiver has the last byte of a flow; `time_s` is its monotonic clock at that moment."""

    job: Name
    flow: Name
    iteration: Iteration
    time_s: ClockS


class ReleaseAgain(_Message, frozen=True, tag="release_again"):
    """What `Release` said, to a coordinator that may not know it: one that was started anew, or to which it was lost.

    `sent_bytes` is how much was acknowledged since; `dscp` the mark that the flow is sent with, None where it waits for
    one. The answer is its setting, if there is one.
    """

    job: Name
    flow: Name
    iteration: Iteration
    time_s: ClockS
    sent_bytes: SentBytes
    dscp: Annotated[int, Meta(ge=0, lt=64)] | None


class FinishAgain(_Message, frozen=True, tag="finish_again"):
    """What `Finish` said, to a coordinator that may not know it."""

    job: Name
    flow: Name
    iteration: Iteration
    time_s: ClockS


class Ready(_Message, frozen=True, tag="ready"):
    """The client has opened its connections and waits for `Start`."""


class Done(_Message, frozen=True, tag="done"):
    """The client has replayed its whole part and its records are on disk."""


class Queues(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the queues of a network were made for: the longest segment, and how much of a link passes at once after an idle spell."""

    segment_bytes: Annotated[int, Meta(ge=1, le=MOST_SEGMENT_BYTES)]
    burst_s: Annotated[float, Meta(ge=0.0, le=1.0)]


class Begin(_Message, frozen=True, tag="begin"):
    """From the runner: forget all state, follow `policy` from now on, expect `agents` agents.

    `enforcer` is "priority", "rate" or "weighted", maybe with options in brackets; `run` names the run in the decision log at `decisions_path`. With `zero_s` (on
    the clock that all share) the run is one that has begun already, under a coordinator that is gone. Its agents are
    told to `Start` as soon as they have said `Hello`, and tell again what they told before. With `queues` every egress is
    known to have the testbed's, which "weighted" needs.
    """

    run: Text
    policy: Text
    enforcer: Text
    agents: Annotated[int, Meta(ge=0, le=1_000_000)]
    decisions_path: Text
    zero_s: ClockS | None = None
    decisions: Decisions = "ahead"
    queues: Queues | None = None


class HostDown(_Message, frozen=True, tag="host_down"):
    """From the runner: a host is about to die as planned, and with it these jobs, wherever they run."""

    host: Name
    jobs: Annotated[tuple[Name, ...], Meta(max_length=10_000)]


class End(_Message, frozen=True, tag="end"):
    """From the runner: the run is over; drop its state and its rules."""


class Start(_Message, frozen=True, tag="start"):
    """To all agents: the run's zero, on the monotonic clock that all of them share."""

    zero_s: float


class Setting(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How one flow is to be sent: its DSCP, and its rate in payload bytes/s (None: unlimited, 0: pause).

    `number` is that of the decision: one of a lower number never overrules it. One for a flow that is not released yet
    is provisional: the flow starts by it at its release, and waits for no other. There a rate of 0 says that the flow
    does wait, and takes back what was said before.

    With `after` it holds from the end of another flow on that is sent from here, which is when TCP has sent all of
    that one's iteration. A later decision goes before it. Only who declares what comes before a flow is told such.
    """

    job: str
    flow: str
    iteration: int
    dscp: int
    rate_Bps: float | None
    number: int = 0
    after: tuple[str, int, str] | None = None
    """Job, iteration and flow."""


class Decide(_Message, frozen=True, tag="decide"):
    """To an agent: new settings for flows that it sends; flows not named keep theirs."""

    settings: tuple[Setting, ...]


class JobSlots(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """When iterations of a job may begin, in seconds since the run's zero (`echelonflow.model.slots`)."""

    job: str
    first_s: float
    every_s: float
    tolerance_s: float


class HoldBack(_Message, frozen=True, tag="hold_back"):
    """To all agents: the slots of jobs, from now on. Iterations of jobs that are not named begin when they can."""

    slots: tuple[JobSlots, ...]


class ClassShare(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """A class of data, and its weight on a link: a share of what the link carries."""

    traffic_class: Annotated[int, Meta(ge=DATA_CLASSES[0], le=DATA_CLASSES[-1])]
    share: Annotated[float, Meta(gt=0.0, le=1e6)]


class Weigh(_Message, frozen=True, tag="weigh"):
    """To an agent: from now on the data classes of its host's egress share the link by weights, and these have `shares`.

    Others keep theirs; without any named, all are equal. Where `shares` is null they are served in order again.
    """

    shares: tuple[ClassShare, ...] | None = ()


class Event(_Message, frozen=True, tag="event"):
    """To the runner: `what` has happened, `detail` says more.

    "switches", "begun", "ready", "done" and "ended" are the steps of a run; "lost" and "fault" fail it. "refused" says that
    a switch was turned away, "policy"
    that its policy was swapped, or gave way to the one before.
    """

    what: str
    detail: str = ""


class Fault(_Message, frozen=True, tag="fault"):
    """To a client: its last message was refused, and why. After it the connection is closed, but for a runner's order."""

    reason: str


Message = (
    Hello
    | Declare
    | JobGraph
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
    | HoldBack
    | Weigh
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
    except RecursionError:
        raise InputError(TOO_DEEP) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InputError(f"not a JSON message: {error}") from None


def shortened(reason: str) -> str:
    """A reason for a refusal, at a length that is worth reading: what it quotes may be long."""
    return reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 3]}..."


def _explained(line: bytes, error: msgspec.ValidationError) -> str:
    """What is wrong with a message, beginning with its type."""
    try:
        kind = msgspec.json.decode(line, type=_Kind).type
    except RecursionError:
        return TOO_DEEP
    except (msgspec.MsgspecError, UnicodeDecodeError):
        kind = msgspec.UNSET
    if kind not in _KINDS:
        shown = None if kind is msgspec.UNSET else kind[:40]
        return f"unknown message type {shown!r}; there is: {', '.join(_KINDS)}"
    words = explain(error)
    inside = re.match(r"[\w.\[\]]+: ", words)
    return f"{kind}.{words}" if inside else f"{kind}: {words}"
