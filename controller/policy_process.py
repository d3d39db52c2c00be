"""A user's policy as the controller sees it: a policy whose answers come from a process that may be killed.

How to wait for the process is the caller's to say: a decision must not stop the event loop, a test has none.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from typing import Protocol

from controller.deadline import POLICY_DEADLINE_S
from controller.policy_pipe import (
    HEADER,
    Allocated,
    Answer,
    AskAllocation,
    Failed,
    Loaded,
    LoadPolicy,
    Request,
    answer_length,
    decode_answer,
    frame,
)
from echelonflow.child_process import module_argv
from echelonflow.errors import InputError, PolicyError
from echelonflow.scheduling import user_file
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import Snapshot

LOAD_LIMIT_S = 10.0
"""For Python and numpy to start on a busy machine, and the file to be loaded."""


class Wait(Protocol):
    """Waits until a descriptor can be read (or written), at most so long; whether it can."""

    def __call__(self, descriptor: int, *, write: bool, limit_s: float) -> bool: ...


class Ready(Protocol):
    """Returns when the process can be read or written; TimeoutError when the time is up."""

    def __call__(self, *, write: bool) -> None: ...


class PolicyProcess:
    """One policy file in a process of its own: `load` once, then `allocate`; `close` ends it at once.

    `deadline_s` (wall clock) bounds each answer, and `wait` waits for it. After an answer that did not come the
    process is gone. One call at a time.
    """

    def __init__(self, text: str, wait: Wait, deadline_s: float = POLICY_DEADLINE_S) -> None:
        self._text = text
        self._wait = wait
        self._deadline_s = deadline_s
        self._process: subprocess.Popen[bytes] | None = None
        self._to = self._from = -1
        self._waiting = False

    def load(self) -> tuple[str, str]:
        """Start the process and load the policy: its enforcer and summary.

        Raises InputError for what is wrong in the file, PolicyError if loading takes too long.
        """
        # Plain pipes: an event loop's sockets close their descriptors when it sees fit.
        requests, self._to = os.pipe()
        self._from, answers = os.pipe()
        # -u: what a policy printed before it was killed is what its author wants to see.
        argv = module_argv("controller.policy_worker", str(requests), str(answers), unbuffered=True)
        self._process = subprocess.Popen(argv, pass_fds=[requests, answers], stdin=subprocess.DEVNULL, stdout=2)
        os.close(requests)
        os.close(answers)
        os.set_blocking(self._to, False)
        os.set_blocking(self._from, False)
        answer = self._exchange(LoadPolicy(self._text), LOAD_LIMIT_S, "loaded")
        if isinstance(answer, Loaded):
            return answer.enforcer, answer.summary
        self.close()
        raise InputError(self._reason(answer))

    def allocate(self, snapshot: Snapshot) -> Allocation:
        """The policy's answer (PolicyError if it raises, is too slow, or its process ends)."""
        if self._process is None:
            raise PolicyError(f"policy {self._text}: its process has ended")
        answer = self._exchange(AskAllocation(snapshot), self._deadline_s, "decided")
        if isinstance(answer, Allocated):
            return answer.allocation()
        raise PolicyError(self._reason(answer))

    def _reason(self, answer: Answer) -> str:
        return answer.reason if isinstance(answer, Failed) else f"policy {self._text}: its answer is to no question"

    def close(self) -> None:
        """End the process, whatever it is doing; a call that waits for it raises PolicyError."""
        if self._process is not None:
            self._process.kill()
            if not self._waiting:
                self._forget()

    def _forget(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.poll()  # it may take a moment to die: whoever starts a process next reaps it
            self._process = None
            os.close(self._to)
            os.close(self._from)

    def _exchange(self, request: Request, limit_s: float, done: str) -> Answer:
        """Send a request and return the answer; the process is killed if none comes in time."""
        until_s = time.monotonic() + limit_s

        def ready(*, write: bool) -> None:
            if not self._wait(
                self._to if write else self._from, write=write, limit_s=max(until_s - time.monotonic(), 0.0)
            ):
                raise TimeoutError

        self._waiting = True
        try:
            self._write(frame(request), ready)
            length = answer_length(self._read(HEADER.size, ready))
            return decode_answer(self._read(length, ready))
        except ValueError as error:
            self._forget()
            raise PolicyError(f"policy {self._text}: what its process says is no answer: {error}") from None
        except TimeoutError:
            self._forget()
            raise PolicyError(f"policy {self._text} had not {done} after {limit_s:g} s") from None
        except (EOFError, OSError):
            self._forget()
            raise PolicyError(f"policy {self._text}: its process ended before it had {done}") from None
        except BaseException:
            self._forget()
            raise
        finally:
            self._waiting = False

    def _write(self, data: bytes, ready: Ready) -> None:
        rest = memoryview(data)
        while rest:
            ready(write=True)
            # A descriptor that is ready takes and gives at least something, so nothing blocks here.
            rest = rest[os.write(self._to, rest) :]

    def _read(self, length: int, ready: Ready) -> bytes:
        data = bytearray()
        while len(data) < length:
            ready(write=False)
            piece = os.read(self._from, min(length - len(data), 1 << 20))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)


def load_isolated(
    load: Callable[[str], Policy], wait: Wait, deadline_s: float = POLICY_DEADLINE_S
) -> Callable[[str], Policy]:
    """A `load` that has users' files loaded and run in processes of their own, and all else as before.

    `wait` waits for the process to load the file, and for each answer of at most `deadline_s`.
    """

    def load_policy(text: str) -> Policy:
        if not user_file.is_named(text):
            return load(text)
        process = PolicyProcess(text, wait, deadline_s)
        enforcer, summary = process.load()
        return Policy(text, enforcer, summary, process.allocate, isolated=True, close=process.close)

    return load_policy
