"""What the controller and the process that looks ahead for it say to each other: typed, written and read here.

A frame is a length of 8 bytes and one record in MessagePack, as with users' policies. Flows are named by job and index, which
mean the same at both ends whatever other jobs there are. Times are seconds since the run's zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec
import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints, array_from_data, array_to_data, read_only_array
from echelonflow.model.network import Network
from echelonflow.scheduling.flow_windows import JobNow
from echelonflow.scheduling.own_policy.pipe import framed
from echelonflow.scheduling.state import stable_id
from echelonflow.wire.messages import Declare, JobGraph

PLANNER = "simulator.columns.background"
"""The module that is run as that process. It is named, not imported: nothing in the controller simulates."""


class Moves(msgspec.Struct, frozen=True, eq=False):
    """By how many seconds due times of flows are earlier: each is the flow of an index of one of `jobs`. Others are not moved."""

    jobs: tuple[str, ...]
    of_job: Ints
    index: Ints
    earlier_s: Floats

    def templates(self, place: Mapping[str, int]) -> tuple[Ints, Floats]:
        """Ids of the flows without their iterations, where jobs have these places; those of other jobs are left out.

        InputError where columns do not fit each other.
        """
        if len(self.of_job) and not 0 <= self.of_job.min() <= self.of_job.max() < len(self.jobs):
            raise InputError(f"moves of flows of {len(self.jobs)} jobs name job {int(self.of_job.max())}")
        if not len(self.of_job) == len(self.index) == len(self.earlier_s):
            raise InputError("moves of flows have columns of different lengths")
        if not len(self.of_job):
            return np.zeros(0, np.int64), np.zeros(0)
        places = np.array([place.get(job, -1) for job in self.jobs], np.int64)[self.of_job]
        known = places >= 0
        ids: Ints = np.asarray(stable_id(places[known], 0, self.index[known]), np.int64)  # type: ignore[arg-type]
        return ids, self.earlier_s[known]


def no_moves() -> Moves:
    """That no due time is moved."""
    return Moves((), np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


class KnowNetwork(msgspec.Struct, frozen=True, tag=True):
    """To the process, first: the network. What jobs it knew are forgotten."""

    network: Network


class KnowJob(msgspec.Struct, frozen=True, tag=True):
    """To the process: a job that may be asked about from now on."""

    graph: JobGraph
    groups: tuple[Declare, ...]


class AskPlan(msgspec.Struct, frozen=True, tag=True, eq=False):
    """To the process: where jobs are at `now_s`, what is in force, and what it may try."""

    number: int
    now_s: float
    jobs: tuple[JobNow, ...]
    """Those that are under way, in order of their names."""
    candidates: tuple[str, ...]
    tries: int
    rounds: int
    seed: int
    plans: int
    """That were in force before."""
    budget_s: float
    chosen: str
    moves: Moves
    slowdown: float = math.inf


class Foreseen(msgspec.Struct, frozen=True, eq=False):
    """When iterations of a job are to end, from iteration `first` on, by what was found."""

    job: str
    first: int
    ends_s: Floats


class PlannerReady(msgspec.Struct, frozen=True, tag=True):
    """From the process: all is loaded and compiled."""


class PlanMade(msgspec.Struct, frozen=True, tag=True, eq=False):
    """From the process: what it found best, by `roll_outs` roll-outs; `judged` candidates were compared."""

    number: int
    chosen: str
    moves: Moves
    foreseen: tuple[Foreseen, ...]
    until_s: float
    """So far it looked ahead: then it is time for another plan."""
    roll_outs: int
    judged: int
    took_s: float
    was_remembered: bool = False
    """Whether an earlier plan for the same jobs in the same phase was the best."""


class PlanningFailed(msgspec.Struct, frozen=True, tag=True):
    """From the process: it cannot go on, and why."""

    reason: str


Request = KnowNetwork | KnowJob | AskPlan
Answer = PlannerReady | PlanMade | PlanningFailed

_ENCODER = msgspec.msgpack.Encoder(enc_hook=array_to_data)
_REQUESTS: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request, dec_hook=read_only_array)
_ANSWERS: msgspec.msgpack.Decoder[Answer] = msgspec.msgpack.Decoder(Answer, dec_hook=array_from_data)


def frame(record: Request | Answer) -> bytes:
    """A record as it goes through a pipe."""
    return framed(_ENCODER.encode(record))


def decode_request(data: bytes) -> Request:
    """The request in a frame's body; ValueError if it is none."""
    return _REQUESTS.decode(data)


def decode_answer(data: bytes) -> Answer:
    """The answer in a frame's body; ValueError if it is none."""
    return _ANSWERS.decode(data)
