"""Many cases, each within limits of time and memory, in children of this process that have all modules loaded.

A case that takes more loses its child, and another one goes on behind it.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from echelon.benchmarks import Say
from echelon.benchmarks._own_process import memory_bytes

MOST_S = 10.0
MOST_BYTES = 1 << 30
GRACE_S = 1.0
"""A child that has not answered so long after its limit is ended."""
SLOW_S = 2.0
"""What took longer is worth a line."""
_CASES_OF_A_CHILD = 400
_SAID_EVERY = 500


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one case: a fault's kind, or none; in words; and what it took."""

    fault: str
    words: str
    good: bool
    took_s: float
    memory_bytes: int


Judged = tuple[str, str, bool]
"""Fault, words and whether it is good, of an `Outcome`."""


@dataclass
class Tally:
    """What became of the cases of one kind."""

    cases: int = 0
    good: int = 0
    longest_s: float = 0.0
    most_bytes: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    """How often there was each kind of fault: "traceback", "time", "memory", and those that the reader names."""


def tallied(read: Callable[[int], Judged], kind: str, cases: int, say: Say) -> Tally:
    """All `outcomes` of a kind together; each fault is said in words, and what took long."""
    tally = Tally()
    for number, outcome in outcomes(read, cases):
        tally.cases += 1
        tally.good += outcome.good
        if outcome.took_s > max(tally.longest_s, SLOW_S):
            say(f"{kind} {number}: took {outcome.took_s:.1f} s, the longest so far")
        tally.longest_s = max(tally.longest_s, outcome.took_s)
        tally.most_bytes = max(tally.most_bytes, outcome.memory_bytes)
        if outcome.fault:
            tally.faults[outcome.fault] += 1
            say(f"{kind} {number}: {outcome.fault}: {outcome.words}")
        if tally.cases % _SAID_EVERY == 0:
            say(f"{kind}: {tally.cases:,} of {cases:,}")
    return tally


def outcomes(read: Callable[[int], Judged], cases: int) -> Iterator[tuple[int, Outcome]]:
    """What `read` makes of cases 0 to `cases` - 1, in the order in which they end, on all processors.

    `read` runs in children. Whatever it raises is a fault of kind "traceback", or "memory" where that ran out.
    """
    workers = os.cpu_count() or 1
    lanes = [_Lane(read, iter(range(lane, cases, workers))) for lane in range(workers)]
    try:
        while any(not lane.done for lane in lanes):
            for lane in lanes:
                yield from lane.step()
    finally:
        for lane in lanes:
            lane.end()


def within_limits(read: Callable[[int], Judged], number: int) -> Outcome:
    """One case in this process, measured."""
    _forget_peak()
    before_bytes, started_s = memory_bytes("VmRSS"), time.monotonic()
    try:
        fault, words, good = read(number)
    except MemoryError:
        fault, words, good = "memory", "needs more than there is", False
    except BaseException as error:  # noqa: BLE001  (whatever it is, it is what this looks for)
        where = traceback.extract_tb(error.__traceback__)[-1]
        fault, good = "traceback", False
        words = f"{type(error).__name__}: {str(error)[:200]} ({where.filename}:{where.lineno})"
    took_s = time.monotonic() - started_s
    most_bytes = max(memory_bytes("VmHWM") - before_bytes, 0)
    if not fault and took_s > MOST_S:
        fault, words = "time", f"took {took_s:.1f} s"
    return Outcome(fault, words, good, took_s, most_bytes)


class _Lane:
    """One child at a time, which reads cases one after the other and says what became of each."""

    def __init__(self, read: Callable[[int], Judged], numbers: Iterator[int]) -> None:
        self._read, self._numbers = read, numbers
        self._child: Any = None
        self._pipe: Connection | None = None
        self._waiting: list[int] = []
        self._asked_s = 0.0
        self.done = False

    def step(self) -> list[tuple[int, Outcome]]:
        """Wait a little for the child; what it has found since."""
        if not self._waiting:
            self._next_child()
            return []
        assert self._pipe is not None
        try:
            if self._pipe.poll(0.02):
                outcome: Outcome = self._pipe.recv()
                self._asked_s = time.monotonic()
                return [(self._waiting.pop(0), outcome)]
        except EOFError:  # killed by a limit of the kernel's
            return [self._lost(Outcome("memory", "its process was ended", good=False, took_s=0.0, memory_bytes=0))]
        waited_s = time.monotonic() - self._asked_s
        if waited_s <= MOST_S + GRACE_S:
            return []
        return [self._lost(Outcome("time", "never ended", good=False, took_s=waited_s, memory_bytes=0))]

    def _next_child(self) -> None:
        self.end()
        self._waiting = list(islice(self._numbers, _CASES_OF_A_CHILD))
        self.done = not self._waiting
        if not self.done:
            self._start()

    def _start(self) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe(duplex=False)
        self._child = context.Process(target=_read_all, args=(self._read, self._waiting, theirs), daemon=True)
        self._child.start()
        theirs.close()
        self._asked_s = time.monotonic()

    def _lost(self, outcome: Outcome) -> tuple[int, Outcome]:
        """The child is given up, and another one goes on behind the case that it failed at."""
        number = self._waiting.pop(0)
        self.end()
        if self._waiting:
            self._start()
        return number, outcome

    def end(self) -> None:
        """End the child, if there is one."""
        if self._child is not None:
            self._child.kill()
            self._child.join()
            self._child = None


def _read_all(read: Callable[[int], Judged], numbers: Sequence[int], pipe: Connection) -> None:
    """In a child: read the cases, within limits."""
    base_bytes = memory_bytes("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (base_bytes + MOST_BYTES, resource.RLIM_INFINITY))
    for number in numbers:
        pipe.send(within_limits(read, number))
    pipe.close()
    os._exit(0)  # nothing of the parent's is to be tidied up here


def _forget_peak() -> None:
    """Let VmHWM begin anew (Linux; man 5 proc, clear_refs)."""
    Path("/proc/self/clear_refs").write_text("5")
