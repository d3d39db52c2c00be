"""The REST interface in plain data: a request in, an answer or an order out; no sockets, no framework.

`OPERATIONS` says all of it: what may be asked, what comes back, and with which codes. docs/openapi.json and what
/openapi.json answers are made of it (`controller.openapi`). Every error is {"error": why}.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

from controller import enforcers
from controller.metrics import CONTENT_TYPE, Counters, exposition
from echelonflow.errors import InputError, RunError
from echelonflow.scheduling import policies
from echelonflow.wire.live import Live
from echelonflow.wire.rest import (
    GroupStatus,
    PolicyEntry,
    PolicyInForce,
    PolicyOrder,
    Refusal,
    Status,
    decoded,
    encoded,
)

MOST_BODY_BYTES = 1 << 16
JSON = "application/json"


class View(Protocol):
    """What may be read of the coordinator."""

    counters: Counters

    def status(self, now_s: float) -> Status: ...
    def groups(self) -> list[GroupStatus]: ...
    def live(self, now_s: float) -> Live: ...


@dataclass(frozen=True)
class Request:
    """One HTTP request; `body` is complete."""

    method: str
    path: str
    body: bytes = b""


@dataclass(frozen=True)
class Answer:
    """What goes back: a status code, a body and its type, further headers."""

    status: int
    content_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class SwapPolicy:
    """The request orders another policy; `swapped` or `refused` is the answer to it."""

    policy: str
    enforcer: str | None


Reply = Answer | SwapPolicy


def respond(request: Request, view: View, now_s: float) -> Reply:
    """What a request leads to."""
    path = request.path.partition("?")[0].rstrip("/") or "/"
    operations = OPERATIONS.get(path)
    if operations is None:
        return error(404, f"there is no {path[:100]}; there is: {', '.join(OPERATIONS)}")
    method = "GET" if request.method == "HEAD" else request.method
    operation = operations.get(method)
    if operation is None:
        allowed = ", ".join(["HEAD", *operations] if "GET" in operations else operations)
        return error(405, f"{path} does not take {request.method[:20]}; it takes {allowed}", {"Allow": allowed})
    try:
        return operation.handler(request, view, now_s)
    except InputError as fault:
        return error(400, str(fault))


def swapped(view: View, now_s: float) -> Answer:
    """The policy that was ordered is in force."""
    return _json(_policy_in_force(view, now_s))


def refused(fault: Exception) -> Answer:
    """The policy that was ordered cannot be used, or not now; the one in force stays."""
    return error(409 if isinstance(fault, RunError) else 422, str(fault))


def error(status: int, why: str, headers: Mapping[str, str] = MappingProxyType({})) -> Answer:
    """An answer that says what is wrong."""
    return Answer(status, JSON, encoded(Refusal(why)), headers)


def body_length(header: str | None, method: str) -> int | Answer:
    """How much body is to be read, from the Content-Length header; or an answer if that cannot be."""
    if not header:
        return error(411, "say Content-Length") if method in ("PUT", "POST", "PATCH") else 0
    if not header.isdecimal():
        return error(400, f"Content-Length is {header!r}; it is a number of bytes")
    if len(header) > 12 or int(header) > MOST_BODY_BYTES:
        return error(413, f"a body of {header[:40]} bytes is too long; at most {MOST_BODY_BYTES} are taken")
    return int(header)


def _status(_request: Request, view: View, now_s: float) -> Answer:
    return _json(view.status(now_s))


def _groups(_request: Request, view: View, _now_s: float) -> Answer:
    return _json(view.groups())


def _live(_request: Request, view: View, now_s: float) -> Answer:
    return _json(view.live(now_s))


def _policies(_request: Request, _view: View, _now_s: float) -> Answer:
    found = []
    for name in policies.names():
        policy = policies.load(name)
        found.append(PolicyEntry(name, policy.summary, policy.enforcer, policies.options_of(name)))
    return _json(found)


def _policy(_request: Request, view: View, now_s: float) -> Answer:
    return _json(_policy_in_force(view, now_s))


def _put_policy(request: Request, _view: View, _now_s: float) -> SwapPolicy:
    try:
        order = decoded(request.body, PolicyOrder)
    except InputError as fault:
        raise InputError(f'the body is no order for a policy ({fault}); send {{"policy": "coflow"}}') from None
    if order.enforcer is not None:
        enforcers.load(order.enforcer)
    return SwapPolicy(order.policy, order.enforcer)


def _metrics(_request: Request, view: View, now_s: float) -> Answer:
    return Answer(200, CONTENT_TYPE, exposition(view.counters, view.status(now_s), view.live(now_s).jobs).encode())


def _openapi(_request: Request, _view: View, _now_s: float) -> Answer:
    from controller.openapi import description  # which is made of what stands below

    return _json(description())


def _policy_in_force(view: View, now_s: float) -> PolicyInForce:
    run = view.status(now_s).run
    return PolicyInForce(None, None) if run is None else PolicyInForce(run.policy, run.enforcer)


def _json(body: object) -> Answer:
    return Answer(200, JSON, encoded(body))


Handler = Callable[[Request, View, float], Reply]


@dataclass(frozen=True)
class Operation:
    """What one method does at one path.

    `answer` is the type of the body that comes back (None: text for Prometheus), `body` of the one that is sent. `errors`
    are the codes of its own, besides those that every request may get.
    """

    summary: str
    handler: Handler
    answer: Any
    body: type | None = None
    errors: tuple[int, ...] = ()


ERRORS: Mapping[int, str] = MappingProxyType(
    {
        400: "The request or its body is not understood.",
        401: "Over TCP: no token, or a wrong one.",
        403: "Over TCP: a policy file, which is code; or the request of a browser.",
        404: "There is no such path.",
        405: "The path does not take this method; the header Allow names those that it takes.",
        408: "The request did not come in time.",
        409: "No run is in progress, or another policy is on trial.",
        411: "A body without Content-Length.",
        413: "The body is too long.",
        421: "Over TCP: the Host header is not a name of this controller.",
        422: "The policy cannot be used; the one in force stays.",
    }
)
EVERY_REQUEST = (400, 401, 403, 408, 413, 421)
"""Codes that any request may be answered with."""
OPERATIONS: Mapping[str, Mapping[str, Operation]] = MappingProxyType(
    {
        "/status": {"GET": Operation("What is going on.", _status, Status)},
        "/groups": {"GET": Operation("Declared groups and their flows in flight.", _groups, list[GroupStatus])},
        "/live": {"GET": Operation("What to watch: jobs, what is late, and the last decision.", _live, Live)},
        "/policies": {"GET": Operation("Policies by name, with their options.", _policies, list[PolicyEntry])},
        "/policy": {
            "GET": Operation("The policy in force.", _policy, PolicyInForce),
            "PUT": Operation(
                "Follow another policy at once, flows in flight included.",
                _put_policy,
                PolicyInForce,
                PolicyOrder,
                (409, 411, 422),
            ),
        },
        "/metrics": {"GET": Operation("Counters, as text for Prometheus.", _metrics, None)},
        "/openapi.json": {"GET": Operation("This interface, as OpenAPI describes it.", _openapi, dict[str, Any])},
    }
)
