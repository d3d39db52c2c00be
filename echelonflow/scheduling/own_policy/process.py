"""A user's policy as all others see it: a policy whose answers come from a process that may be killed.

How to wait for the process is the caller's to say: a decision must not stop the controller's event loop, a simulation
has nothing else to do.
"""

from __future__ import annotations

import logging
import math
import os
import re
import select
import signal
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Protocol

from echelonflow.child_process import module_argv
from echelonflow.errors import InputError, PolicyError
from echelonflow.scheduling import user_file
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.own_policy import sandbox
from echelonflow.scheduling.own_policy.output import Output, plain
from echelonflow.scheduling.own_policy.pipe import (
    HEADER,
    WARM,
    Allocated,
    Answer,
    AskAllocation,
    Failed,
    Loaded,
    LoadPolicy,
    Request,
    Started,
    answer_length,
    decode_answer,
    frame,
)
from echelonflow.scheduling.policies import ENFORCERS, Policy, Promises
from echelonflow.scheduling.snapshot import Snapshot


@dataclass(frozen=True)
class TimeLimit:
    """How long the process may take for something: computing, and in all, also on a machine that others keep busy."""

    cpu_s: float
    wall_s: float


START = TimeLimit(math.inf, 50.0)
"""For Python, numpy and our own code: the user's is not there yet. Compiling our kernels takes most of it, once."""
LOADING = TimeLimit(10.0, 20.0)
ANSWER = TimeLimit(1.0, 5.0)
LONGEST_LOAD_S = START.wall_s + LOADING.wall_s

_WORKER = "echelonflow.scheduling.own_policy.worker"
_KEPT = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "ECHELON_PLAIN", "LD_LIBRARY_PATH")
"""What our own code in the process may know of the environment. The user's knows nothing of it."""
_WITHOUT_KERNELS = re.compile(rb"echelonflow\.(scheduling\.(allocation|snapshot)|errors|model(\.\w+)?)")
_LONGEST_REASON, _LONGEST_SUMMARY = 2000, 200
_MOST_COUNTERS, _LONGEST_NAME = 100, 100
_LAST_LOOK_S = 0.5
"""How long to wait for a process whose pipe has ended to say how it ended itself."""

log = logging.getLogger("echelon.own_policy")


class Wait(Protocol):
    """Waits until a descriptor can be read (or written), at most so long; whether it can."""

    def __call__(self, descriptor: int, *, write: bool, limit_s: float) -> bool: ...


class Ready(Protocol):
    """Returns when the process can be read or written; TimeoutError when the time is up."""

    def __call__(self, *, write: bool) -> None: ...


def wait_here(descriptor: int, *, write: bool, limit_s: float) -> bool:
    """Wait with nothing else to do."""
    poll = select.poll()
    poll.register(descriptor, select.POLLOUT if write else select.POLLIN)
    return bool(poll.poll(math.ceil(limit_s * 1000)))


def load(text: str, wait: Wait = wait_here, limit: TimeLimit = ANSWER) -> Policy:
    """The policy in a user's file, in a process of its own until it is closed.

    `limit` bounds each answer, and `wait` waits for it. InputError for what is wrong in the file, PolicyError where
    loading it takes too long.
    """
    process = PolicyProcess(text, wait, limit)
    loaded = process.load()
    promises = Promises(loaded.knows_sizes, loaded.work_conserving, loaded.starvation_free)
    return Policy(
        text,
        loaded.enforcer,
        loaded.summary,
        process.allocate,
        isolated=True,
        close=process.close,
        promises=promises,
        counters=process.counters,
    )


def enforcer_of(text: str) -> str:
    """What enforces the policy in a user's file; otherwise as `load`, and nothing of it stays."""
    process = PolicyProcess(text)
    try:
        return process.load(warm=False).enforcer
    finally:
        process.close()


class PolicyProcess:
    """One policy file in a process of its own: `load` once, then `allocate`; `close` ends it at once.

    After an answer that did not come the process is gone. One call at a time.
    """

    def __init__(self, text: str, wait: Wait = wait_here, limit: TimeLimit = ANSWER) -> None:
        self._text = text
        self._wait = wait
        self._limit = limit
        self._child: _Child | None = None
        self._waiting = False
        self._knows_sizes = True
        self._counters: Mapping[str, int] = {}

    def load(self, *, warm: bool = True) -> Loaded:
        """Start the process and load the policy: what it says of itself. With `warm` our compiled loops are ready then.

        Raises InputError for what is wrong in the file, PolicyError if loading takes too long.
        """
        path, _ = user_file.parse(self._text)
        source = user_file.read(path)
        self._child = child = _Child(warm=warm and _may_use_kernels(source))
        weakref.finalize(self, child.end)
        started = self._receive(None, START, "started")
        if isinstance(started, Started):
            loaded = self._receive(LoadPolicy(self._text, source), LOADING, "loaded")
            if isinstance(loaded, Loaded) and loaded.enforcer in ENFORCERS:
                self._knows_sizes = loaded.knows_sizes
                return Loaded(
                    loaded.enforcer,
                    plain(loaded.summary, _LONGEST_SUMMARY),
                    loaded.knows_sizes,
                    loaded.work_conserving,
                    loaded.starvation_free,
                )
            started = loaded
        self.close()
        raise InputError(self._reason(started))

    def allocate(self, snapshot: Snapshot) -> Allocation:
        """The policy's answer (PolicyError if it raises, is too slow, or its process ends)."""
        shown = snapshot if self._knows_sizes else snapshot.without_sizes()
        answer = self._receive(AskAllocation(shown), self._limit, "decided")
        if isinstance(answer, Allocated):
            self._counters = {
                plain(name, _LONGEST_NAME): count for name, count in islice(answer.counters.items(), _MOST_COUNTERS)
            }
            return answer.allocation()
        raise PolicyError(self._reason(answer))

    def counters(self) -> Mapping[str, int]:
        """What the policy's memory had counted at its last answer."""
        return self._counters

    def close(self) -> None:
        """End the process, whatever it is doing; a call that waits for it raises PolicyError."""
        if self._child is not None:
            self._child.process.kill()
            if not self._waiting:
                self._forget()

    def _forget(self) -> None:
        if self._child is not None:
            self._child.end()
            self._child = None

    def _reason(self, answer: Answer) -> str:
        if not isinstance(answer, Failed):
            return f"policy {self._text}: its answer is to no question"
        if answer.traceback:
            log.info("policy %s:\n%s", self._text, plain(answer.traceback, _LONGEST_REASON))
        return plain(answer.reason, _LONGEST_REASON)

    def _receive(self, request: Request | None, limit: TimeLimit, done: str) -> Answer:
        """Send a request, if there is one, and return what comes next; the process is killed if nothing comes in time."""
        child = self._child
        if child is None:
            raise PolicyError(f"policy {self._text}: its process has ended")
        ready = _Patience(child, self._wait, limit)
        self._waiting = True
        try:
            if request is not None:
                child.write(frame(request), ready)
            length = answer_length(child.read(HEADER.size, ready))
            answer = decode_answer(child.read(length, ready))
            child.output.show()
        except ValueError as error:
            self._forget()
            raise PolicyError(f"policy {self._text}: what its process says is no answer: {error}") from None
        except TimeoutError:
            self._forget()
            raise PolicyError(f"policy {self._text} had not {done} after {ready.spent()}") from None
        except (EOFError, OSError):
            how = child.how_it_ended()
            self._forget()
            raise PolicyError(f"policy {self._text}: its process ended before it had {done} ({how})") from None
        except BaseException:
            self._forget()
            raise
        finally:
            self._waiting = False
        return answer


class _Child:
    """The process itself, the ends of its pipes, and what it prints."""

    def __init__(self, *, warm: bool) -> None:
        # Plain pipes: an event loop's sockets close their descriptors when it sees fit.
        requests, self._to = os.pipe()
        self._from, answers = os.pipe()
        self.output = Output()
        self._ended = False
        # -u: what a policy printed before it was killed is what its author wants to see.
        argv = module_argv(_WORKER, str(requests), str(answers), WARM if warm else "", unbuffered=True)
        environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
        try:
            self.process = subprocess.Popen(
                argv,
                pass_fds=[requests, answers],
                stdin=subprocess.DEVNULL,
                stdout=self.output.fileno(),
                stderr=self.output.fileno(),
                cwd="/",
                env={**environment, **sandbox.ENVIRONMENT},
            )
        finally:
            os.close(requests)
            os.close(answers)
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)

    def cpu_s(self) -> float:
        """How long it has computed so far; 0 where the system does not say."""
        if not sys.platform.startswith("linux"):
            return 0.0
        return time.clock_gettime((~self.process.pid << 3) | 2)  # the clock of that process (clock_getcpuclockid)

    def how_it_ended(self) -> str:
        """In words, of a process whose pipes have ended."""
        until_s = time.monotonic() + _LAST_LOOK_S
        while (code := self.process.poll()) is None:
            if time.monotonic() > until_s:
                return "it closed its pipes"
            time.sleep(0.002)
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name

    def end(self) -> None:
        """End it and give back what it holds; once."""
        if self._ended:
            return
        self._ended = True
        self.process.kill()
        self.process.poll()  # it may take a moment to die: whoever starts a process next reaps it
        self.output.close()
        os.close(self._to)
        os.close(self._from)

    def write(self, data: bytes, ready: Ready) -> None:
        rest = memoryview(data)
        while rest:
            ready(write=True)
            # A descriptor that is ready takes and gives at least something, so nothing blocks here.
            rest = rest[os.write(self._to, rest) :]

    def read(self, length: int, ready: Ready) -> bytes:
        data = bytearray()
        while len(data) < length:
            ready(write=False)
            piece = os.read(self._from, min(length - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def descriptor(self, *, write: bool) -> int:
        return self._to if write else self._from


class _Patience:
    """Waits for a process as long as a limit lets it: what it computes counts, and what passes meanwhile."""

    def __init__(self, child: _Child, wait: Wait, limit: TimeLimit) -> None:
        self._child = child
        self._wait = wait
        self._limit = limit
        self._began_s = time.monotonic()
        self._began_cpu_s = child.cpu_s()

    def __call__(self, *, write: bool) -> None:
        descriptor = self._child.descriptor(write=write)
        while True:
            left_s = self._began_s + self._limit.wall_s - time.monotonic()
            left_cpu_s = self._began_cpu_s + self._limit.cpu_s - self._child.cpu_s()
            # It has one thread, so it cannot have used up its computing sooner than that.
            if self._wait(descriptor, write=write, limit_s=max(min(left_s, left_cpu_s), 0.0)):
                return
            if min(left_s, left_cpu_s) <= 0.0:
                raise TimeoutError

    def spent(self) -> str:
        """In words, the limit that was met."""
        computed_s = self._child.cpu_s() - self._began_cpu_s
        if computed_s >= self._limit.cpu_s:
            return f"{self._limit.cpu_s:g} s of computing"
        return f"{self._limit.wall_s:g} s"


def _may_use_kernels(source: bytes) -> bool:
    """Whether a policy's text names more of ours than what every policy needs: then our loops are to be ready first."""
    return any(not _WITHOUT_KERNELS.fullmatch(name) for name in re.findall(rb"echelonflow[.\w]*", source))
