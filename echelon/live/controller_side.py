"""What the live view asks of the run's controller, by its Unix socket: seldom, and once for all who look."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from controller import client
from echelon.live.bodies import LinkDrawn
from echelonflow.errors import EchelonError, RunError
from echelonflow.scheduling import user_file
from echelonflow.wire.live import Live
from echelonflow.wire.rest import PolicyInForce

FRESH_S = 0.5
"""An answer is given to all who ask within this time after it."""
ANSWER_LIMIT_S = 2.0
NOBODY = "no controller is up"


class FileRefusedError(EchelonError):
    """The policy is a file, which is code: it is not taken from a browser."""


class ControllerSide:
    """Asks the controller at the socket that `find` names, if there is one; `now_s` is the monotonic clock."""

    def __init__(self, find: Callable[[], Path | None], now_s: Callable[[], float] = time.monotonic) -> None:
        self._find = find
        self._now_s = now_s
        self._asking = threading.Lock()
        self._asked_s = -FRESH_S
        self._answer: tuple[Live | None, str] = (None, NOBODY)

    def live(self) -> tuple[Live | None, str]:
        """What it says of the run; where it says nothing, why not."""
        with self._asking:
            if self._now_s() - self._asked_s >= FRESH_S:
                self._answer = self._ask()
                self._asked_s = self._now_s()
            return self._answer

    def _ask(self) -> tuple[Live | None, str]:
        socket = self._socket()
        if socket is None:
            return None, NOBODY
        try:
            return client.request(socket, "GET", "/live", Live, limit_s=ANSWER_LIMIT_S), ""
        except EchelonError as error:
            return None, str(error)

    def order(self, policy: str, enforcer: str | None) -> PolicyInForce:
        """Swap the policy; returns the one in force from now on.

        Raises InputError where it cannot be used (the one in force stays), RunError where there is no run, and
        FileRefusedError for a policy file.
        """
        if user_file.is_named(policy):
            raise FileRefusedError("a policy file is code, and is not taken from a browser; use `echelon policy FILE`")
        socket = self._socket()
        if socket is None:
            raise RunError(f"{NOBODY}: a policy is swapped while a run goes on")
        return client.set_policy(socket, policy, enforcer)

    def metrics(self) -> str:
        """Its counters for Prometheus (RunError where none answers)."""
        socket = self._socket()
        if socket is None:
            raise RunError(NOBODY)
        return client.metrics(socket, limit_s=ANSWER_LIMIT_S)

    def _socket(self) -> Path | None:
        found = self._find()
        return found if found is not None and found.is_socket() else None


def link_metrics(carried: Sequence[tuple[LinkDrawn, tuple[int, ...]]]) -> str:
    """What links have carried, as text for Prometheus; with their rates, so that a share can be worked out."""
    if not carried:
        return ""
    text = [
        "# HELP echelon_link_bytes_total Bytes that a link has carried, Ethernet headers included, by traffic class.",
        "# TYPE echelon_link_bytes_total counter",
    ]
    for link, by_class in carried:
        name = _escaped(link.name)
        text += [
            f'echelon_link_bytes_total{{link="{name}",class="{number}"}} {sent}' for number, sent in enumerate(by_class)
        ]
    text += [
        "# HELP echelon_link_rate_bits_per_second What a link can carry.",
        "# TYPE echelon_link_rate_bits_per_second gauge",
    ]
    rates = (
        f'echelon_link_rate_bits_per_second{{link="{_escaped(link.name)}"}} {link.rate_bps:.10g}' for link, _ in carried
    )
    return "\n".join([*text, *rates]) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
