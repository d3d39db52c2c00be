"""A process of ours that answers through pipes and may be killed: how it is started, waited for, and ended.

How to wait is the caller's to say: a decision must not stop the controller's event loop, a simulation has nothing else to do.
"""

from __future__ import annotations

import math
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import Protocol

from echelonflow.child_process import module_argv
from echelonflow.scheduling.own_policy import sandbox
from echelonflow.scheduling.own_policy.output import Output

_KEPT = ("HOME", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR", "ECHELON_PLAIN", "LD_LIBRARY_PATH")
"""What our own code in the process may know of the environment. The user's knows nothing of it."""
_LAST_LOOK_S = 0.5
"""How long to wait for a process whose pipe has ended to say how it ended itself."""


@dataclass(frozen=True)
class TimeLimit:
    """How long the process may take for something: computing, and in all, also on a machine that others keep busy."""

    cpu_s: float
    wall_s: float


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


class Child:
    """A process that runs one of our modules, the ends of its pipes, and what it prints.

    The module gets the descriptors of the pipe that it reads and of the one that it writes, then `arguments`.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        # Plain pipes: an event loop's sockets close their descriptors when it sees fit.
        requests, self._to = os.pipe()
        self._from, answers = os.pipe()
        self.output = Output()
        self._ended = False
        # -u: what a policy printed before it was killed is what its author wants to see.
        argv = module_argv(module, str(requests), str(answers), *arguments, unbuffered=True)
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
        """Have it hear all of `data`."""
        rest = memoryview(data)
        while rest:
            ready(write=True)
            # A descriptor that is ready takes and gives at least something, so nothing blocks here.
            rest = rest[os.write(self._to, rest) :]

    def read(self, length: int, ready: Ready) -> bytes:
        """So many bytes of what it says (EOFError where it says no more)."""
        data = bytearray()
        while len(data) < length:
            ready(write=False)
            piece = os.read(self._from, min(length - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)

    def descriptor(self, *, write: bool) -> int:
        """The end of a pipe on this side."""
        return self._to if write else self._from


class Patience:
    """Waits for a process as long as a limit lets it: what it computes counts, and what passes meanwhile."""

    def __init__(self, child: Child, wait: Wait, limit: TimeLimit) -> None:
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
