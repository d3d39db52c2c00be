"""The REST interface in plain data: a request in, an answer or an order out; no sockets, no framework.

  GET /status     what is going on                                   application/json
  GET /groups     declared groups and their flows in flight
  GET /policies   policies by name, with their options
  GET /policy     the policy in force
  PUT /policy     {"policy": "coflow(grouping=group)"}, optional "enforcer": follow another policy at once
  GET /metrics    counters                                           Prometheus text

Every error is {"error": why}. 400 a body that is not understood, 403 a policy file over TCP, 404 no such path, 405 no such method there, 408 a body
that came too slowly. 409 no run in progress or another policy on trial, 413 a body too long. 422 a policy that cannot
be used; the policy in force then stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Protocol

from controller.metrics import CONTENT_TYPE, Counters, exposition
from echelonflow.errors import InputError, RunError
from echelonflow.scheduling import policies
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
    handlers = _ROUTES.get(path)
    if handlers is None:
        return error(404, f"there is no {path}; there is: {', '.join(_ROUTES)}")
    method = "GET" if request.method == "HEAD" else request.method
    handler = handlers.get(method)
    if handler is None:
        allowed = ", ".join(["HEAD", *handlers] if "GET" in handlers else handlers)
        return error(405, f"{path} does not take {request.method}; it takes {allowed}", {"Allow": allowed})
    try:
        return handler(request, view, now_s)
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
    if order.enforcer is not None and order.enforcer not in policies.ENFORCERS:
        raise InputError(f"enforcer is {order.enforcer!r}; it must be one of {', '.join(policies.ENFORCERS)}")
    return SwapPolicy(order.policy, order.enforcer)


def _metrics(_request: Request, view: View, now_s: float) -> Answer:
    return Answer(200, CONTENT_TYPE, exposition(view.counters, view.status(now_s)).encode())


def _policy_in_force(view: View, now_s: float) -> PolicyInForce:
    run = view.status(now_s).run
    return PolicyInForce(None, None) if run is None else PolicyInForce(run.policy, run.enforcer)


def _json(body: object) -> Answer:
    return Answer(200, JSON, encoded(body))


_Handler = Callable[[Request, View, float], Reply]
_ROUTES: Mapping[str, Mapping[str, _Handler]] = MappingProxyType(
    {
        "/status": {"GET": _status},
        "/groups": {"GET": _groups},
        "/policies": {"GET": _policies},
        "/policy": {"GET": _policy, "PUT": _put_policy},
        "/metrics": {"GET": _metrics},
    }
)
