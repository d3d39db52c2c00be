"""The thread that moves bytes: every operation of a process, of all its groups, in one loop.

Others hand it exchanges, and are called back when one has ended. An operation has ended here when all that this rank expects
has come, and TCP has taken all that it sends: then its tensors may be used again.
"""

from __future__ import annotations

import contextlib
import select
import sys
import threading
import time
from collections.abc import Callable, Mapping

from echelonflow.errors import RunError
from traffic.live.anysource import AnySource
from traffic.live.early import Early, MismatchError
from traffic.live.exchange import Exchange, Key
from traffic.live.link import Link, LostError
from traffic.live.mailbox import Mailbox
from traffic.live.priority import go_first
from traffic.live.running import OnDone, Running

LONGEST_WAIT_S = 3600.0
FAREWELL_S = 5.0
"""How long the last bytes may take to arrive."""
_LOOK_S = 0.005
"""How often it is looked whether they have."""
_SWITCH_S = 0.0005
"""How long a Python thread that computes may keep this one from running; Python's own 5 ms are long for a network."""


class Engine:
    """`links` has a connected link for every other rank; `names` says in errors who a rank is, and `own` who this one is.

    What has no place in an operation of the engine's waits in `early`, or goes to the thread that carries its operation out.
    """

    def __init__(
        self, links: Mapping[int, Link], names: Mapping[int, str], early: Early, own: str = "this rank"
    ) -> None:
        self._links = dict(links)
        self._names, self._own = names, own
        self.early = early
        self._mailbox = Mailbox()
        self._gone: set[int] = set()
        """Ranks that have ended: what they sent may still be waiting."""
        self._running: dict[Key, Running] = {}
        self._any: list[AnySource] = []
        """Messages that are awaited, from whichever rank sends first."""
        self._failure: str | None = None
        self.on_failure: Callable[[str], None] = lambda _: None
        """Is told, in the engine's thread, why nothing goes on; also at the proper end."""
        self.on_parting: Callable[[int, str], None] = lambda _, __: None
        """Is told, in the engine's thread, that a rank has ended, and what is to be said to whoever still expects something of it."""
        self._closing_until_s = float("inf")
        self._is_over = threading.Event()
        self._poll = select.epoll()
        self._poll.register(self._mailbox.fileno(), select.EPOLLIN)
        self._heeded: dict[int, int] = {}
        self._unread: set[int] = set()
        """Ranks of which nothing is read at the moment, as too much waits."""
        self._by_descriptor = {link.fileno(): rank for rank, link in self._links.items()}
        for link in self._links.values():
            self._poll.register(link.fileno(), select.EPOLLIN)
            self._heeded[link.fileno()] = select.EPOLLIN
        early.on_begun = self._look_again
        sys.setswitchinterval(min(sys.getswitchinterval(), _SWITCH_S))
        self._thread = threading.Thread(target=self._run, name="echelon", daemon=True)
        self._thread.start()

    # From any thread

    def submit(self, key: Key, exchange: Exchange, on_done: OnDone) -> None:
        """Begin an operation. `on_done` is called in the engine's own thread, with what went wrong if anything did."""
        self._mailbox.put(lambda: self._begin(key, exchange, on_done))

    def submit_any(self, awaited: AnySource) -> None:
        """Begin to receive a message from whoever sends one first."""
        self._mailbox.put(lambda: self._begin_any(awaited))

    def send(
        self,
        key: Key,
        rank: int,
        view: memoryview,
        total_bytes: int,
        left: Callable[[], None],
        lost: Callable[[Exception], None],
    ) -> None:
        """Send the next of `total_bytes` of an operation that another thread carries out. One of both is called, in the engine's thread."""

        def begin() -> None:
            link = self._links.get(rank)
            if self._failure is not None or link is None:
                lost(RunError(self._failure or self._ended_before(rank)))
            else:
                link.send(key, view, total_bytes, left)

        self._mailbox.put(begin)

    def fail(self, why: str) -> None:
        """Another part of this process cannot go on: all ranks are told."""
        self._mailbox.put(lambda: self._fail(f"{self._own}: {why}"))

    def close(self) -> None:
        """Take leave of the other ranks when all that was submitted has left, and end the thread."""
        if self._is_over.is_set():
            return

        def begin_closing() -> None:
            self._closing_until_s = time.monotonic() + FAREWELL_S
            if self._failure is None:
                for link in self._links.values():
                    link.say_farewell()

        self._mailbox.put(begin_closing)
        self._is_over.wait(FAREWELL_S)

    def _look_again(self) -> None:
        """Something has begun that may need what is not read at the moment."""
        if self._unread:
            self._mailbox.put(lambda: None)

    # In the engine's thread

    @property
    def _is_closing(self) -> bool:
        """Whether farewells have been said."""
        return self._closing_until_s < float("inf")

    def _run(self) -> None:
        go_first()
        try:
            self._loop()
        except Exception as error:  # noqa: BLE001 nobody would ever hear of it
            self._fail(f"{self._own}: the agent of this process failed: {type(error).__name__}: {error}")
            with contextlib.suppress(LostError):
                for link in self._links.values():
                    link.write()
        finally:
            self._is_over.set()
            self._end_all(self._failure or "the process group has been destroyed")
            self._mailbox.close()
            for link in self._links.values():
                link.close()
            self._poll.close()

    def _loop(self) -> None:
        while True:
            for rank, link in list(self._links.items()):
                if link.wants_write:
                    self._guarded(rank, link.write)
                self._heed(rank, link)
            now_s = time.monotonic()
            left_s = min(LONGEST_WAIT_S, max(self._closing_until_s - now_s, 0.0))
            if self._is_closing:
                if not left_s or all(not link.wants_write and link.is_acknowledged for link in self._links.values()):
                    return
                left_s = min(left_s, _LOOK_S)
            for descriptor, events in self._poll.poll(left_s):
                if descriptor == self._mailbox.fileno():
                    self._mailbox.empty()
                    continue
                known = self._by_descriptor.get(descriptor)
                if known is not None and events & ~select.EPOLLOUT:
                    self._guarded(known, self._links[known].read)
            if self._any:
                self._match()

    def _heed(self, rank: int, link: Link) -> None:
        """Say for what a link is to be looked at."""
        descriptor = link.fileno()
        if descriptor < 0 or descriptor not in self._heeded:
            return
        if self._failure is None and self.early.is_much(rank):
            link.ask_for_patience()
        if self._failure is None and not link.is_awaited and self.early.is_enough(rank):
            self._unread.add(rank)
        else:
            self._unread.discard(rank)
        wanted = select.EPOLLRDHUP if rank in self._unread else select.EPOLLIN
        wanted |= select.EPOLLOUT if link.wants_write else 0
        if wanted != self._heeded[descriptor]:
            self._poll.modify(descriptor, wanted)
            self._heeded[descriptor] = wanted

    def _guarded(self, rank: int, action: Callable[[], object]) -> None:
        link = self._links.get(rank)
        if link is None:  # it was parted from since it was seen to be ready
            return
        try:
            action()
        except MismatchError as error:
            self._fail(f"{self._own}: {error}")
        except LostError as error:
            if self._failure is not None or self._is_closing:  # whoever has heard our farewell closes its end
                self._part_from(rank)
            elif link.said_farewell:
                self._fail(self._ended_before(rank))
            else:
                self._fail(f"lost {self._names[rank]}: {error}")
                self._part_from(rank)
            return
        if not link.said_farewell:
            return
        if link.why:
            self._fail(link.why)
        if not link.wants_write:
            self._part_from(rank)

    def _part_from(self, rank: int) -> None:
        """There is nothing more to hear from a rank."""
        link = self._links.pop(rank, None)
        if link is None:
            return
        descriptor = link.fileno()
        self._by_descriptor.pop(descriptor, None)
        self._unread.discard(rank)
        if self._heeded.pop(descriptor, None) is not None:
            self._poll.unregister(descriptor)
        link.close()
        self._gone.add(rank)
        for running in list(self._running.values()):
            inlet = running.inlets.get(rank)
            if inlet is not None and not inlet.is_full:
                running.end(RunError(self._ended_before(rank)))
        if self._failure is None:
            self.on_parting(rank, self._ended_before(rank))

    def _ended_before(self, rank: int) -> str:
        return f"{self._names[rank]} ended before an operation that it takes part in"

    def _fail(self, why: str) -> None:
        """Nothing goes on: whatever is under way, and whatever will be submitted, ends with this. All ranks are told the same."""
        if self._failure is None:
            self._failure = why
            for link in () if self._is_closing else self._links.values():
                link.say_farewell(why)
            self.on_failure(why)
        self._end_all(self._failure)

    def _end_all(self, why: str) -> None:
        if self._failure is None:
            self._failure = why
            self.on_failure(why)
        for running in list(self._running.values()):
            running.end(RunError(why))
        for awaited in self._any:
            awaited.on_done(RunError(why))
        self._any.clear()

    def _begin(self, key: Key, exchange: Exchange, on_done: OnDone) -> None:
        if self._failure is not None:
            on_done(RunError(self._failure))
            return

        def send(rank: int, view: memoryview, left: Callable[[], None]) -> None:
            link = self._links.get(rank)
            if link is None:
                running.end(RunError(self._ended_before(rank)))
            else:
                link.send(key, view, exchange.sent_bytes[rank], left)

        def over(error: Exception | None) -> None:
            del self._running[key]
            on_done(error)

        running = self._running[key] = Running(exchange, send, over)
        try:
            running.begin()
            if not running.is_over:
                self._expect(key, running)
        except MismatchError as error:
            self._fail(f"{self._own}: {error}")
        if not running.is_over:
            running.end_if_done()

    def _expect(self, key: Key, running: Running) -> None:
        come = self.early.begin(key, running.inlets)
        for rank, inlet in running.inlets.items():
            link = self._links.get(rank)
            if link is not None:
                link.expect(key, inlet, come.get(rank))
                continue
            # One that has ended may have sent its part before.
            if rank in come:
                inlet.put(come[rank].data)
            if not inlet.is_full:
                running.end(RunError(self._ended_before(rank)))
                return

    def _begin_any(self, awaited: AnySource) -> None:
        if self._failure is not None:
            awaited.on_done(RunError(self._failure))
            return
        self._any.append(awaited)
        self._match()

    def _match(self) -> None:
        """Give messages that have begun to come to whoever awaits one from anybody, in the order in which they were asked for."""
        for awaited in list(self._any):
            found = self.early.first_of(awaited.streams())
            if found is not None:
                self._any.remove(awaited)
                self._begin(*awaited.taken_from(*found), awaited.on_done)
            elif not any(rank in self._links for rank in awaited.lanes):
                self._any.remove(awaited)
                awaited.on_done(RunError("all ranks that could send it have ended"))
