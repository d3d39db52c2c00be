"""A run's rooms together, and what its agents say of flows, told to the room that it concerns."""

from __future__ import annotations

from dataclasses import dataclass

from controller.decision_cycle import DecisionCycle
from controller.flow_books import FlowBooks
from controller.instructions import Instruction
from controller.planning import Planning
from controller.session import Session
from echelonflow.wire.messages import Declare, Finish, FinishAgain, JobGraph, Progress, Release, ReleaseAgain

OfFlows = Declare | JobGraph | Release | ReleaseAgain | Progress | Finish | FinishAgain
"""What those say that have flows."""


@dataclass(frozen=True)
class Run:
    """Who takes part under which policy, what flows there are, and what is decided on them."""

    session: Session
    books: FlowBooks
    decisions: DecisionCycle
    planning: Planning

    def heard(self, message: OfFlows, client: int, host: str, now_s: float) -> list[Instruction]:
        """Enter into the books what `client` on `host` says at `now_s`, a monotonic time. Raises InputError for what does not fit."""
        session, books = self.session, self.books
        if session.has_ended(message.job):
            return []
        if isinstance(message, Progress | Finish | FinishAgain) and books.is_withdrawn(message.job):
            return []
        since_zero_s = session.since_zero_s(now_s)
        match message:
            case Declare():
                return [*books.declare(message, client)]
            case JobGraph():
                books.tell_graph(message, client)
            case Release():
                books.release(message, client, host, session.event_s(message.time_s, now_s), since_zero_s)
            case ReleaseAgain():
                release_s = session.past_s(message.time_s, now_s)
                return books.release_again(message, client, host, release_s, since_zero_s)
            case Progress():
                books.progress(message, host, since_zero_s)
            case FinishAgain():
                books.finish_again(message, host, session.past_s(message.time_s, now_s))
            case Finish() if session.resumed:  # its release may be on its way, from another host
                books.finish_again(message, host, session.event_s(message.time_s, now_s))
            case Finish():
                books.finish(message, host, session.event_s(message.time_s, now_s))
        return []
