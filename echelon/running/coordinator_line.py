"""The runner's line to the coordinator: a blocking client with a limit on every wait."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from pathlib import Path

from echelonflow.errors import RunError
from echelonflow.wire import unix_socket
from echelonflow.wire.line import Line
from echelonflow.wire.messages import End, Event, Fault, Hello, Message

SEEN_LIMIT_S = 2.0
"""A process's connections close before it can be seen that it has ended: on a busy machine, long before."""


class CoordinatorLine:
    """A connection to the coordinator's Unix socket, as its runner.

    Waits until the socket is there; `check` is called meanwhile and may raise. RunError after `timeout_s`. `token` is the
    runner's, where the controller was given tokens.
    """

    def __init__(self, path: Path, timeout_s: float, check: Callable[[], None], token: str = "") -> None:
        try:
            self._line = Line(unix_socket.connect(path, timeout_s, check))
        except OSError:
            raise RunError(
                f"the controller did not open {path.name} within {timeout_s:.0f} s; see logs/controller.log"
            ) from None
        self.send(Hello("runner", "", token=token))

    def send(self, message: Message) -> None:
        """Send one message (RunError if the coordinator is gone)."""
        self._line.send(message)

    def wait_for(self, what: str, timeout_s: float, check: Callable[[], None]) -> Event:
        """The next Event called `what`; `check` is called every 50 ms and may raise.

        Raises RunError for a fault, a lost agent, a closed connection or a wait that runs out.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                message = self._line.wait(0.05)
            except RunError:
                _look_for_the_dead(check)
                raise
            if isinstance(message, Event) and message.what == what:
                return message
            _fail_on(message, check)
            check()
            if time.monotonic() > deadline:
                raise RunError(f"waited {timeout_s:.0f} s in vain for {what!r} from the coordinator")

    def hear(self, check: Callable[[], None], planned: Collection[str] = ()) -> None:
        """Look at what has been said, without waiting; raises as `wait_for` does.

        That agents on `planned` hosts are lost is no news.
        """
        for message in self._line.read():
            if not (isinstance(message, Event) and message.what == "lost" and message.detail in planned):
                _fail_on(message, check)

    def settle(self, limit_s: float) -> None:
        """End a run that has failed, and forget what the coordinator had still to say of it.

        Raises RunError where the coordinator is gone or does not end the run within `limit_s`.
        """
        self.send(End())
        deadline = time.monotonic() + limit_s
        while (left_s := deadline - time.monotonic()) > 0:
            message = self._line.wait(left_s)
            if isinstance(message, Event) and message.what == "ended":
                return
        raise RunError(f"the coordinator did not end the run within {limit_s:.0f} s; see logs/controller.log")

    def close(self) -> None:
        self._line.close()


def _fail_on(message: Message | None, check: Callable[[], None]) -> None:
    """Raise RunError for a message that says that the run cannot go on."""
    if isinstance(message, Fault):
        raise RunError(f"the coordinator refused: {message.reason}")
    if isinstance(message, Event) and message.what == "lost":
        _look_for_the_dead(check)
        raise RunError(
            f"the controller lost {message.detail}; see logs/agent-{message.detail}.log, or raw/*/live/ for what programs printed"
        )
    if isinstance(message, Event) and message.what == "fault":
        raise RunError(f"coordinator: {message.detail}; see logs/controller.log")


def _look_for_the_dead(check: Callable[[], None]) -> None:
    """Call `check` until it raises, which says best what happened; for `SEEN_LIMIT_S` at most."""
    deadline_s = time.monotonic() + SEEN_LIMIT_S
    while time.monotonic() < deadline_s:
        check()
        time.sleep(0.02)
