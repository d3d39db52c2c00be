"""What the controller's REST interface says, as typed values: the same for who answers and for who asks."""

from __future__ import annotations

from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from echelonflow.codec import explain
from echelonflow.errors import InputError

LONGEST_POLICY = 4096
PRINTABLE = r"^[^\x00-\x1f\x7f]*$"

_Body = TypeVar("_Body")


class Switches(msgspec.Struct, frozen=True):
    """Switches that are connected, and those of them that have confirmed their rules."""

    connected: tuple[str, ...] = ()
    ready: tuple[str, ...] = ()


class Agents(msgspec.Struct, frozen=True):
    """How many agents a run waits for, and how far they are."""

    expected: int
    ready: int
    done: int


class RunStatus(msgspec.Struct, frozen=True, kw_only=True):
    """The run in progress; `elapsed_s` is None until it has started."""

    name: str
    elapsed_s: float | None
    policy: str
    enforcer: str
    started: bool
    failed: bool
    agents: Agents
    groups: int
    """Declared so far."""
    flows_in_flight: int


class Status(msgspec.Struct, frozen=True, kw_only=True):
    """GET /status; `run` is None between runs."""

    network: str
    hosts: int
    switches: Switches
    clients: int
    run: RunStatus | None
    decisions: int = 0
    swaps: int = 0
    fallbacks: int = 0
    """Policies that failed and gave way to the one before."""


class FlowStatus(msgspec.Struct, frozen=True):
    """A flow in flight, and what is in force for it; None where nothing is yet, or where it is not paced."""

    flow: str
    iteration: int
    sent_bytes: int
    dscp: int | None
    rate_Bps: float | None


class GroupStatus(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of GET /groups: a declared group, with its flows in flight."""

    job: str
    group: str
    kind: str
    weight: float
    flows: int
    size_bytes: int
    in_flight: tuple[FlowStatus, ...] = ()


class PolicyEntry(msgspec.Struct, frozen=True):
    """One entry of GET /policies."""

    name: str
    summary: str
    enforcer: str
    options: dict[str, str]


class PolicyInForce(msgspec.Struct, frozen=True):
    """GET /policy, and the answer to PUT /policy; None between runs."""

    policy: str | None
    enforcer: str | None


class PolicyOrder(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The body of PUT /policy; without `enforcer` the policy's own is used."""

    policy: Annotated[str, Meta(min_length=1, max_length=LONGEST_POLICY, pattern=PRINTABLE)]
    enforcer: Annotated[str, Meta(extra_json_schema={"enum": ["priority", "rate", "weighted"]})] | None = None


class Refusal(msgspec.Struct, frozen=True):
    """The body of every answer of status 400 and above."""

    error: str


def encoded(body: object) -> bytes:
    """A body as indented JSON."""
    return msgspec.json.format(msgspec.json.encode(body), indent=1) + b"\n"


def decoded(data: bytes, kind: type[_Body]) -> _Body:
    """The body of type `kind` in `data`; InputError, in words, where it is something else."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.ValidationError as error:
        raise InputError(explain(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"not JSON: {error}") from None
