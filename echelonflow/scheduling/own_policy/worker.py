"""The process that runs one policy of a user: `python -m echelonflow.scheduling.own_policy.worker IN OUT WARM`.

IN and OUT are inherited pipes; with WARM "warm" our compiled kernels are made ready. First all of ours is loaded. Then
the process gives up what it does not need (`sandbox`), says so, and only then takes the user's file, as text. From
there on it answers snapshots until the pipe ends. Whatever the user's code does, also in C and for ever, happens here,
and ends with a kill. What goes through the pipes is in `pipe`.
"""

from __future__ import annotations

import contextlib
import linecache
import signal
import sys
import traceback
from pathlib import Path
from typing import BinaryIO

import numpy as np

import echelonflow
from echelonflow.errors import EchelonError, InputError, PolicyError
from echelonflow.scheduling import kernels, policies, user_file
from echelonflow.scheduling.own_policy import sandbox
from echelonflow.scheduling.own_policy.pipe import (
    WARM,
    Allocated,
    Answer,
    AskAllocation,
    Failed,
    Loaded,
    LoadPolicy,
    Started,
    decode_request,
    frame,
    read_frame,
    write_frame,
)
from echelonflow.scheduling.policies import Policy


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Load the policy that is named first, then answer questions; what fails is answered by why."""
    write_frame(answers, frame(Started()))
    named = decode_request(read_frame(requests))
    assert isinstance(named, LoadPolicy)
    path, options = user_file.parse(named.text)
    # For tracebacks: the file itself cannot be read any more.
    lines = named.source.decode(errors="replace").splitlines(keepends=True)
    linecache.cache[str(path)] = (len(named.source), None, lines, str(path))
    try:
        policy = policies.bind(user_file.execute(path, named.source), named.text, options)
    except BaseException as error:  # noqa: BLE001 it is the user's code
        write_frame(answers, frame(_failed(path, error)))
        return
    p = policy.promises
    write_frame(
        answers, frame(Loaded(policy.enforcer, policy.summary, p.knows_sizes, p.work_conserving, p.starvation_free))
    )
    while True:
        question = decode_request(read_frame(requests))
        assert isinstance(question, AskAllocation)
        try:
            answer = _answer(policy, question)
        except BaseException as error:  # noqa: BLE001 it is the user's code
            answer = _failed(path, error)
        write_frame(answers, frame(answer))


def _answer(policy: Policy, question: AskAllocation) -> Answer:
    found = policy(question.snapshot)
    return Allocated(
        np.asarray(found.rates_Bps, np.float64),
        np.asarray(found.rank, np.int64),
        float(found.valid_until_s),
        {str(name): int(count) for name, count in policy.counters().items()},
    )


def _failed(path: Path, error: BaseException) -> Failed:
    """Why there is no answer; with file and line where it is the user's code that raised."""
    cause = error if not isinstance(error, EchelonError) else error.__cause__
    trace = "" if cause is None else "".join(traceback.format_exception(cause))
    told_by_us = isinstance(error, InputError) and not (isinstance(error, PolicyError) and cause is not None)
    return Failed(str(error) if told_by_us or cause is None else user_file.fault(path, cause), trace)


def main(incoming: int, outgoing: int, *, warm: bool) -> None:
    """Serve on inherited pipes until the one for requests ends."""
    sandbox.end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sandbox.leave_network()
    with open(incoming, "rb") as requests, open(outgoing, "wb", buffering=0) as answers:
        try:
            if warm:  # as who may keep what is compiled for the next process
                kernels.warm_up()
            sandbox.confine(Path(echelonflow.__file__).parent)
            serve(requests, answers)
        except EchelonError as error:
            with contextlib.suppress(OSError):
                write_frame(answers, frame(Failed(str(error))))
        except (EOFError, OSError):  # whoever asked has no more use for this policy
            pass


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), warm=sys.argv[3] == WARM)
