"""Carries HTTP to `controller.northbound` and policies on trial to the coordinator; green threads, no decisions.

A policy that is ordered is loaded and tried on what is in flight before it counts. A user's file does both in
its own process while everything else goes on.
"""

from __future__ import annotations

import contextlib
import http
import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from controller.asking import Guard
from controller.coordinator import Coordinator
from controller.http_gate import HttpGate
from controller.http_server import HEARD
from controller.northbound import Answer, Request, SwapPolicy, body_length, error, refused, respond, swapped
from controller.trial import trial_snapshot
from echelonflow.errors import EchelonError, RunError
from echelonflow.records.events import PolicyOrdered
from echelonflow.scheduling import user_file
from echelonflow.scheduling.policies import Policy

BODY_LIMIT_S = 5.0
"""All of a body must have come by then."""

log = logging.getLogger("controller.rest")


def _nothing() -> None:
    """What is done where nobody wants to know that a request has been read."""


@dataclass
class Rest:
    """A WSGI application over one coordinator; `order` has it handle an order, with the policy loaded for it.

    `load` makes policies, a user's in a process of its own; `guard` bounds the others' time.
    """

    coordinator: Coordinator
    order: Callable[[PolicyOrdered, Policy | None], None]
    load: Callable[[str], Policy]
    guard: Guard
    time_limit: Callable[[float], contextlib.AbstractContextManager[Any]]
    """Raises TimeoutError in its block after so many seconds."""
    _on_trial: bool = False

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        """WSGI (PEP 3333), for those who may run code as the controller's user: on a Unix socket of that user's."""
        return self._serve(environ, start_response, None)

    def over_tcp(self, gate: HttpGate) -> Callable[..., Iterable[bytes]]:
        """The same over TCP, for whom `gate` lets in: no policy is taken from a file, which is code."""

        def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            return self._serve(environ, start_response, gate)

        return serve

    def _serve(
        self, environ: dict[str, Any], start_response: Callable[..., Any], gate: HttpGate | None
    ) -> Iterable[bytes]:
        try:
            answer = self._answer(environ, gate)
        except Exception:
            log.exception("%s %s failed", environ.get("REQUEST_METHOD"), environ.get("PATH_INFO"))
            answer = error(500, "the controller failed to answer; its log says why")
        self.coordinator.counters.request(answer.status)
        words = f"{answer.status} {http.HTTPStatus(answer.status).phrase}"
        length = str(len(answer.body))
        start_response(
            words, [("Content-Type", answer.content_type), ("Content-Length", length), *answer.headers.items()]
        )
        return [b"" if environ["REQUEST_METHOD"] == "HEAD" else answer.body]

    def _answer(self, environ: dict[str, Any], gate: HttpGate | None) -> Answer:
        method = environ["REQUEST_METHOD"]
        refusal = None if gate is None else gate.refusal(environ)
        if refusal is not None:
            return refusal
        length = body_length(environ.get("CONTENT_LENGTH"), method)
        if isinstance(length, Answer):
            return length
        try:
            with self.time_limit(BODY_LIMIT_S):
                body = environ["wsgi.input"].read(length) if length else b""
        except TimeoutError:
            return error(408, f"the body did not come within {BODY_LIMIT_S:g} s")
        except OSError as fault:
            return error(400, f"the body could not be read: {fault}")
        if len(body) < length:
            return error(400, f"the body ended after {len(body)} of {length} bytes")
        environ.get(HEARD, _nothing)()
        reply = respond(Request(method, environ["PATH_INFO"], body), self.coordinator, time.monotonic())
        return self._ordered(reply, files=gate is None) if isinstance(reply, SwapPolicy) else reply

    def _ordered(self, order: SwapPolicy, *, files: bool) -> Answer:
        if not files and user_file.is_named(order.policy):
            return error(
                403, "a policy file is code, and is not run over TCP; order it on the controller's Unix socket"
            )
        return self._swap(order)

    def _swap(self, order: SwapPolicy) -> Answer:
        """Propose, validate, then enact."""
        coordinator = self.coordinator
        if self._on_trial:
            return refused(RunError("another policy is on trial; ask again when it is over"))
        self._on_trial = True
        policy: Policy | None = None
        try:
            coordinator.trial(time.monotonic())
            policy = self.load(order.policy)
            self._try(policy)
            # One in this process is loaded anew: what it remembers of its trial is not to count.
            loaded = policy if policy.isolated else self.load(order.policy)
            self.order(PolicyOrdered(order.policy, order.enforcer or policy.enforcer), loaded)
        except EchelonError as fault:
            log.warning("policy %s is not swapped in: %s", order.policy, fault)
            coordinator.counters.swaps_refused += 1
            if policy is not None:
                policy.close()
            return refused(fault)
        finally:
            self._on_trial = False
        log.info("policy %s is swapped in", policy.name)
        return swapped(coordinator, time.monotonic())

    def _try(self, policy: Policy) -> None:
        """One decision whose answer is not used (PolicyError where it fails)."""
        snapshot = self.coordinator.trial(time.monotonic())
        if snapshot is None:
            snapshot = trial_snapshot(self.coordinator.network)
        if policy.isolated:
            policy(snapshot)
        else:
            with self.guard(policy.name):
                policy(snapshot)
