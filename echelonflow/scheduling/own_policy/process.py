"""A user's policy as all others see it: a policy whose answers come from a process that may be killed.

How to wait for the process is the caller's to say: a decision must not stop the controller's event loop, a simulation
has nothing else to do.
"""

from __future__ import annotations

import logging
import math
import re
import weakref
from collections.abc import Mapping
from itertools import islice

from echelonflow.errors import InputError, PolicyError
from echelonflow.scheduling import user_file
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.own_policy.child import Child, Patience, TimeLimit, Wait, wait_here
from echelonflow.scheduling.own_policy.output import plain
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

START = TimeLimit(math.inf, 50.0)
"""For Python, numpy and our own code: the user's is not there yet. Compiling our kernels takes most of it, once."""
LOADING = TimeLimit(10.0, 20.0)
ANSWER = TimeLimit(1.0, 5.0)
LONGEST_LOAD_S = START.wall_s + LOADING.wall_s

_WORKER = "echelonflow.scheduling.own_policy.worker"
_WITHOUT_KERNELS = re.compile(rb"echelonflow\.(scheduling\.(allocation|snapshot)|errors|model(\.\w+)?)")
_LONGEST_REASON, _LONGEST_SUMMARY = 2000, 200
_MOST_COUNTERS, _LONGEST_NAME = 100, 100

log = logging.getLogger("echelon.own_policy")


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
        self._child: Child | None = None
        self._waiting = False
        self._knows_sizes = True
        self._counters: Mapping[str, int] = {}

    def load(self, *, warm: bool = True) -> Loaded:
        """Start the process and load the policy: what it says of itself. With `warm` our compiled loops are ready then.

        Raises InputError for what is wrong in the file, PolicyError if loading takes too long.
        """
        path, _ = user_file.parse(self._text)
        source = user_file.read(path)
        self._child = child = _started(warm=warm and _may_use_kernels(source))
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
        ready = Patience(child, self._wait, limit)
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


def _started(*, warm: bool) -> Child:
    return Child(_WORKER, WARM if warm else "")


def _may_use_kernels(source: bytes) -> bool:
    """Whether a policy's text names more of ours than what every policy needs: then our loops are to be ready first."""
    return any(not _WITHOUT_KERNELS.fullmatch(name) for name in re.findall(rb"echelonflow[.\w]*", source))
