"""The thread that moves bytes: every operation of a process, of all its groups, in one loop.

Others hand it exchanges, and are called back when one has ended. An operation has ended here when all that this rank expects
has come, and TCP has taken all that it sends: then its tensors may be used again.
"""

from __future__ import annotations

import select
import sys
import threading
import time
from collections.abc import Callable, Mapping

from echelonflow.errors import RunError
from traffic.live.exchange import Exchange, Key
from traffic.live.link import Link, LostError
from traffic.live.mailbox import Mailbox
from traffic.live.priority import go_first
from traffic.live.running import OnDone, Running

LONGEST_WAIT_S = 3600.0
FAREWELL_S = 5.0
"""How long the last bytes may take to leave."""
_SWITCH_S = 0.0005
"""How long a Python thread that computes may keep this one from running; Python's own 5 ms are long for a network."""


class Engine:
    """`links` has a connected link for every other rank; `names` says in errors who a rank is."""

    def __init__(self, links: Mapping[int, Link], names: Mapping[int, str]) -> None:
        self._links = dict(links)
        self._names = names
        self._mailbox = Mailbox()
        self._gone: dict[int, Link] = {}
        """Of ranks that have ended: what they sent may still be waiting."""
        self._running: dict[Key, Running] = {}
        self._failure: str | None = None
        self.on_failure: Callable[[str], None] = lambda _: None
        """Is told, in the engine's thread, why nothing goes on; also at the proper end."""
        self._is_closing = False
        self._is_over = threading.Event()
        self._poll = select.epoll()
        self._poll.register(self._mailbox.fileno(), select.EPOLLIN)
        self._heeded: dict[int, int] = {}
        self._by_descriptor = {link.fileno(): rank for rank, link in self._links.items()}
        for link in self._links.values():
            self._poll.register(link.fileno(), select.EPOLLIN)
            self._heeded[link.fileno()] = select.EPOLLIN
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
        self._thread = threading.Thread(target=self._run, name="echelon", daemon=True)
        self._thread.start()

    def submit(self, key: Key, exchange: Exchange, on_done: OnDone) -> None:
        """Begin an operation, from any thread. `on_done` is called in the engine's own thread, with what went wrong if anything did."""
        self._mailbox.put(lambda: self._begin(key, exchange, on_done))

    def close(self) -> None:
        """Take leave of the other ranks when all that was submitted has left, and end the thread."""
        if self._is_over.is_set():
            return

        def begin_closing() -> None:
            self._is_closing = True
            for link in self._links.values():
                link.say_farewell()

        self._mailbox.put(begin_closing)
        self._is_over.wait(FAREWELL_S)

    def _run(self) -> None:
        go_first()
        try:
            self._loop()
        except Exception as error:  # noqa: BLE001 nobody would ever hear of it
            self._fail(f"the agent of this process failed: {type(error).__name__}: {error}")
        finally:
            self._is_over.set()
            self._fail(self._failure or "the process group has been destroyed")
            self._mailbox.close()
            for link in self._links.values():
                link.close()
            self._poll.close()

    def _loop(self) -> None:
        deadline_s = float("inf")
        while True:
            for rank, link in list(self._links.items()):
                if link.wants_write:
                    self._guarded(rank, link.write)
                self._heed(link)
            if self._is_closing:
                deadline_s = min(deadline_s, time.monotonic() + FAREWELL_S)
                if time.monotonic() > deadline_s or not any(link.wants_write for link in self._links.values()):
                    return
            for descriptor, events in self._poll.poll(min(LONGEST_WAIT_S, max(deadline_s - time.monotonic(), 0.0))):
                if descriptor == self._mailbox.fileno():
                    self._mailbox.empty()
                    continue
                known = self._by_descriptor.get(descriptor)
                if known is not None and events & ~select.EPOLLOUT:
                    self._guarded(known, self._links[known].read)

    def _heed(self, link: Link) -> None:
        descriptor = link.fileno()
        if descriptor < 0 or descriptor not in self._heeded:
            return
        wanted = select.EPOLLIN | (select.EPOLLOUT if link.wants_write else 0)
        if wanted != self._heeded[descriptor]:
            self._poll.modify(descriptor, wanted)
            self._heeded[descriptor] = wanted

    def _guarded(self, rank: int, action: Callable[[], None]) -> None:
        try:
            action()
        except LostError as error:
            self._lose(rank, str(error))
            return
        if self._links[rank].said_farewell and not self._links[rank].wants_write:
            self._part_from(rank)

    def _lose(self, rank: int, why: str) -> None:
        self._fail(f"lost {self._names[rank]}: {why}")
        for other in list(self._links):
            self._part_from(other)

    def _part_from(self, rank: int) -> None:
        """There is nothing more to hear from a rank."""
        link = self._links.pop(rank, None)
        if link is None:
            return
        descriptor = link.fileno()
        self._by_descriptor.pop(descriptor, None)
        if self._heeded.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)
        link.close()
        self._gone[rank] = link
        for running in list(self._running.values()):
            inlet = running.inlets.get(rank)
            if inlet is not None and not inlet.is_full:
                running.end(RunError(self._ended_before(rank)))

    def _ended_before(self, rank: int) -> str:
        return f"{self._names[rank]} ended before an operation that it takes part in"

    def _fail(self, why: str) -> None:
        """Nothing goes on: whatever is under way, and whatever will be submitted, ends with this."""
        if self._failure is None:
            self._failure = why
            self.on_failure(why)
        for running in list(self._running.values()):
            running.end(RunError(self._failure))

    def _begin(self, key: Key, exchange: Exchange, on_done: OnDone) -> None:
        if self._failure is not None:
            on_done(RunError(self._failure))
            return

        def send(rank: int, view: memoryview, left: Callable[[], None]) -> None:
            link = self._links.get(rank)
            if link is None:
                raise LostError(self._ended_before(rank))
            link.send(key, view, left)

        def over(error: Exception | None) -> None:
            del self._running[key]
            on_done(error)

        running = self._running[key] = Running(exchange, send, over)
        try:
            running.begin()
            for rank, inlet in running.inlets.items():
                link = self._links.get(rank)
                # One that has ended may have sent its part before.
                (self._gone[rank] if link is None else link).expect(key, inlet)
                if link is None and not inlet.is_full:
                    running.end(RunError(self._ended_before(rank)))
                    return
        except LostError as error:
            self._fail(str(error))
        if not running.is_over:
            running.end_if_done()
