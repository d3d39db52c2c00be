"""Lines of an agent's log: what its parts tell, in seconds since the run's zero."""

from __future__ import annotations

from echelonflow.records.agent_log import Computed as ComputedLine
from echelonflow.records.agent_log import Held, Mark, Received, Sent
from traffic.agent.receiver import ReceivedFlow
from traffic.agent.replay import Computed, HeldBack
from traffic.agent.sender import SentFlow


def computed_line(action: Computed, zero_s: float) -> ComputedLine:
    """A computation has ended."""
    step = action.step
    return ComputedLine(
        job=action.job,
        iteration=action.iteration,
        step=step.name,
        kind=step.kind,
        rank=step.rank,
        start_s=_since(zero_s, action.start_s),
        finish_s=_since(zero_s, action.finish_s),
        late_s=round(action.finish_s - action.due_s, 9),
    )


def held_line(action: HeldBack, zero_s: float) -> Held:
    """An iteration is held back."""
    return Held(
        job=action.job,
        iteration=action.iteration,
        ready_s=_since(zero_s, action.ready_s),
        begin_s=_since(zero_s, action.begin_s),
    )


def sent_line(job: str, flow: str, sent: SentFlow, acked_s: float, zero_s: float) -> Sent:
    """The last byte of a flow has been acknowledged."""
    assert sent.start_s is not None  # it has been acknowledged
    return Sent(
        job=job,
        iteration=sent.iteration,
        flow=flow,
        release_s=_since(zero_s, sent.release_s),
        start_s=_since(zero_s, sent.start_s),
        acked_s=_since(zero_s, acked_s),
        sent_bytes=sent.written_bytes,
        retransmissions=sent.retransmissions,
        marks=tuple(Mark(_since(zero_s, time_s), dscp, rate) for time_s, dscp, rate in sent.marks),
        by=sent.by,
        held=sent.held,
        ready_s=None if sent.ready_s is None else _since(zero_s, sent.ready_s),
    )


def received_line(job: str, flow: str, received: ReceivedFlow, zero_s: float) -> Received:
    """The last byte of a flow has arrived."""
    return Received(
        job=job,
        iteration=received.iteration,
        flow=flow,
        first_s=_since(zero_s, received.first_s),
        finish_s=_since(zero_s, received.finish_s),
        received_bytes=received.received_bytes,
    )


def _since(zero_s: float, time_s: float) -> float:
    return round(time_s - zero_s, 9)
