"""The process that runs one policy of a user: `python -m controller.policy_worker IN OUT`, inherited pipes.

It loads what it is told, then answers snapshots until the pipe ends. Whatever the user's code does, also in
C and for ever, happens here and ends with a kill. Frames are an 8-byte length and a pickle.
"""

from __future__ import annotations

import contextlib
import ctypes
import pickle
import signal
import struct
import sys
from typing import Any, BinaryIO

import numpy as np

from echelonflow.errors import EchelonError
from echelonflow.scheduling import kernels, policies

HEADER = struct.Struct("!Q")
_PR_SET_PDEATHSIG = 1


def frame(body: Any) -> bytes:
    """`body` as it goes through the pipe."""
    data = pickle.dumps(body, pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(data)) + data


def serve(requests: BinaryIO, answers: BinaryIO) -> None:
    """Answer requests: first the policy's text, then snapshots; ("error", why) is the answer to what fails."""
    policy = policies.load(_receive(requests))
    if (
        "echelonflow.scheduling.fill" in sys.modules
    ):  # it shares our arithmetic: have that ready before a question with a deadline
        kernels.warm_up()
    _send(answers, ("loaded", policy.enforcer, policy.summary))
    while True:
        snapshot = _receive(requests)
        try:
            found = policy(snapshot)
            rates_Bps, rank = np.asarray(found.rates_Bps, np.float64), np.asarray(found.rank, np.int64)
            answer: tuple[Any, ...] = ("allocation", rates_Bps, rank, float(found.valid_until_s))
        except EchelonError as error:
            answer = ("error", str(error))
        _send(answers, answer)


def _send(answers: BinaryIO, body: Any) -> None:
    rest = memoryview(frame(body))
    while rest:
        rest = rest[answers.write(rest) :]


def _receive(requests: BinaryIO) -> Any:
    (length,) = HEADER.unpack(_exactly(requests, HEADER.size))
    return pickle.loads(_exactly(requests, length))  # noqa: S301 from the controller, through a private pipe


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
                _send(answers, ("error", str(error)))
        except (EOFError, OSError):  # the controller has no more use for this policy
            pass


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
