"""What goes through the pipes to and from the process of a user's policy: typed, written and read here.

A frame is a length of 8 bytes and one record in MessagePack. It is data and nothing else. A user's code runs at the
other end, so nothing that comes from there may be able to run here, as a pickle would be.
"""

from __future__ import annotations

import math
import struct
from typing import BinaryIO

import msgspec

from echelonflow.model.arrays import Floats, Ints, array_from_data, array_to_data, read_only_array
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.snapshot import Snapshot

HEADER = struct.Struct("!Q")
"""Before each frame: how many bytes follow."""
WARM = "warm"
"""Told to the process as it starts: have the compiled kernels ready."""
LONGEST_ANSWER_BYTES = 64 << 20
"""More than any allocation takes (100,000 flows: 1.6 MB); a process that answers more is not to be listened to."""


class LoadPolicy(msgspec.Struct, frozen=True, tag=True):
    """To the process, once it has started: load the policy of this text, such as "./mine.py(option=value)".

    `source` is what is in that file, which the process may not be allowed to read.
    """

    text: str
    source: bytes


class AskAllocation(msgspec.Struct, frozen=True, tag=True, eq=False):
    """To the process: what it is to allocate for."""

    snapshot: Snapshot


class Started(msgspec.Struct, frozen=True, tag=True):
    """From the process, first: all of ours is loaded, and all that a user's code might misuse is given up."""


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """From the process: the policy is loaded, and what it says of itself."""

    enforcer: str
    summary: str
    knows_sizes: bool = True
    work_conserving: bool = False
    starvation_free: bool = False


class Allocated(msgspec.Struct, frozen=True, tag=True, eq=False):
    """From the process: the policy's allocation."""

    rates_Bps: Floats
    rank: Ints
    valid_until_s: float = math.inf
    counters: dict[str, int] = {}
    """What the policy's memory has counted so far."""

    def allocation(self) -> Allocation:
        """The same in the policy's own form."""
        return Allocation(self.rates_Bps, self.rank, self.valid_until_s)


class Failed(msgspec.Struct, frozen=True, tag=True):
    """From the process: it could not be loaded, or has no answer to this question."""

    reason: str
    traceback: str = ""
    """Where in the user's code, for a log."""


Request = LoadPolicy | AskAllocation
Answer = Started | Loaded | Allocated | Failed

_ENCODER = msgspec.msgpack.Encoder(enc_hook=array_to_data)
_REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request, dec_hook=read_only_array)
_ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer, dec_hook=array_from_data)


def framed(data: bytes) -> bytes:
    """Some bytes as they go through a pipe."""
    return HEADER.pack(len(data)) + data


def write_frame(pipe: BinaryIO, frame: bytes) -> None:
    """Write all of a frame into a pipe without a buffer, which may take a part at a time."""
    rest = memoryview(frame)
    while rest:
        rest = rest[pipe.write(rest) :]


def read_frame(pipe: BinaryIO) -> bytes:
    """What the next frame holds; EOFError where the pipe ends before it does."""
    (length,) = HEADER.unpack(_exactly(pipe, HEADER.size))
    return _exactly(pipe, length)


def _exactly(pipe: BinaryIO, length: int) -> bytes:
    data = pipe.read(length)
    if len(data) < length:
        raise EOFError
    return data


def frame(record: Request | Answer) -> bytes:
    """A record as it goes through a pipe."""
    return framed(_ENCODER.encode(record))


def decode_request(data: bytes) -> Request:
    """The request in a frame's body, its arrays not to be written to; ValueError if it is none."""
    return _REQUESTS.decode(data)


def answer_length(header: bytes) -> int:
    """How long the answer is that follows `header`; ValueError if nobody should wait for it."""
    (length,) = HEADER.unpack(header)
    if length > LONGEST_ANSWER_BYTES:
        raise ValueError(f"{length} bytes are too many")
    return int(length)


def decode_answer(data: bytes) -> Answer:
    """The answer in a frame's body; ValueError if it is none."""
    return _ANSWERS.decode(data)
