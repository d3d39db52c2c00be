"""The process that runs one policy of a user: `python -m controller.policy_worker FD`, a socket that is inherited.

It loads what it is told, then answers snapshots until the socket ends. Whatever the user's code does, also in
C and for ever, happens here and ends with a kill. Frames are an 8-byte length and a pickle.
"""

from __future__ import annotations

import contextlib
import ctypes
import pickle
import signal
import socket
import struct
import sys
from typing import Any

import numpy as np

from echelonflow import policies
from echelonflow.errors import EchelonError

HEADER = struct.Struct("!Q")
_PR_SET_PDEATHSIG = 1


def frame(body: Any) -> bytes:
    """`body` as it goes over the socket."""
    data = pickle.dumps(body, pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(data)) + data


def serve(connection: socket.socket) -> None:
    """Answer requests: first the policy's text, then snapshots; ("error", why) is the answer to what fails."""
    policy = policies.load(_receive(connection))
    connection.sendall(frame(("loaded", policy.enforcer, policy.summary)))
    while True:
        snapshot = _receive(connection)
        try:
            found = policy(snapshot)
            rates_Bps, rank = np.asarray(found.rates_Bps, np.float64), np.asarray(found.rank, np.int64)
            answer: tuple[Any, ...] = ("allocation", rates_Bps, rank, float(found.valid_until_s))
        except EchelonError as error:
            answer = ("error", str(error))
        connection.sendall(frame(answer))


def _receive(connection: socket.socket) -> Any:
    (length,) = HEADER.unpack(_exactly(connection, HEADER.size))
    return pickle.loads(_exactly(connection, length))  # noqa: S301 from the controller, over a private socket


def _exactly(connection: socket.socket, length: int) -> bytes:
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(length - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)


def main(descriptor: int) -> None:
    """Serve on an inherited socket until it ends."""
    # A policy that never looks at its socket again must not outlive the controller.
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    connection = socket.socket(fileno=descriptor)
    try:
        serve(connection)
    except EchelonError as error:
        with contextlib.suppress(OSError):
            connection.sendall(frame(("error", str(error))))
    except (EOFError, OSError):  # the controller has no more use for this policy
        pass


if __name__ == "__main__":
    main(int(sys.argv[1]))
