"""The process that runs one policy of a user: `python -m controller.policy_worker IN OUT`, inherited pipes.

It loads what it is told, then answers snapshots until the pipe ends. Whatever the user's code does, also in
C and for ever, happens here and ends with a kill. What goes through the pipes is in `controller.policy_pipe`.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
from typing import BinaryIO

import numpy as np

from controller.policy_pipe import (
    HEADER,
    Allocated,
    Answer,
    AskAllocation,
    Failed,
    Loaded,
    LoadPolicy,
    Request,
    decode_request,
    frame,
)
from echelonflow.errors import EchelonError
from echelonflow.scheduling import kernels, policies

_PR_SET_PDEATHSIG = 1


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Load the policy that is named first, then answer questions; what fails is answered by why."""
    named = _receive(requests)
    assert isinstance(named, LoadPolicy)
    policy = policies.load(named.text)
    # If it shares our arithmetic, have that ready before a question with a deadline.
    if "echelonflow.scheduling.fill" in sys.modules:
        kernels.warm_up()
    _send(answers, Loaded(policy.enforcer, policy.summary))
    while True:
        question = _receive(requests)
        assert isinstance(question, AskAllocation)
        try:
            found = policy(question.snapshot)
            rates_Bps, rank = np.asarray(found.rates_Bps, np.float64), np.asarray(found.rank, np.int64)
            answer: Answer = Allocated(rates_Bps, rank, float(found.valid_until_s))
        except EchelonError as error:
            answer = Failed(str(error))
        _send(answers, answer)


def _send(answers: BinaryIO, answer: Answer) -> None:
    rest = memoryview(frame(answer))
    while rest:
        rest = rest[answers.write(rest) :]


def _receive(requests: BinaryIO) -> Request:
    (length,) = HEADER.unpack(_exactly(requests, HEADER.size))
    return decode_request(_exactly(requests, length))


def _exactly(requests: BinaryIO, length: int) -> bytes:
    data = requests.read(length)
    if len(data) < length:
        raise EOFError
    return data


def main(incoming: int, outgoing: int) -> None:
    """Serve on inherited pipes until the one for requests ends."""
    # A policy that never looks at its pipe again must not outlive the controller.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(incoming, "rb") as requests, open(outgoing, "wb", buffering=0) as answers:
        try:
            serve(requests, answers)
        except EchelonError as error:
            with contextlib.suppress(OSError):
                _send(answers, Failed(str(error)))
        except (EOFError, OSError):  # the controller has no more use for this policy
            pass


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
