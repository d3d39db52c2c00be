"""The decisions that were made last, in words for who watches. What is said is worked out only when somebody asks."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

import numpy as np

from controller.in_flight import FlowInFlight
from controller.instructions import Question
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.run_record import DecisionRecord
from echelonflow.scheduling.allocation import Allocation
from echelonflow.wire.classes import class_of_dscp
from echelonflow.wire.live import (
    MOST_CHANGED,
    MOST_ORDERED,
    MOST_RECENT,
    DecisionBrief,
    DecisionLive,
    FlowChanged,
    FlowInOrder,
)


class LastDecisions:
    """The last decisions of a run; those ahead of releases are left out, as nothing has happened that they answer."""

    def __init__(self) -> None:
        self._last: tuple[Question, Allocation, DecisionRecord] | None = None
        self._before: deque[DecisionRecord] = deque(maxlen=MOST_RECENT)

    def note(self, question: Question, allocation: Allocation, record: DecisionRecord) -> None:
        """A decision was made; `record` says what it has changed."""
        if self._last is not None:
            self._before.appendleft(self._last[2])
        self._last = question, allocation, record

    def last(self, flows: Mapping[FlowKey, FlowInFlight]) -> DecisionLive | None:
        """The last decision; `flows` are those in flight now."""
        if self._last is None:
            return None
        question, allocation, record = self._last
        return DecisionLive(
            number=record.number,
            time_s=record.time_s,
            policy=question.policy.name,
            trigger=record.trigger,
            flows=record.flows,
            groups=record.groups,
            policy_ms=record.policy_ms,
            total_ms=record.total_ms,
            order=_order(question, allocation, flows),
            changes=len(record.changed),
            changed=tuple(
                FlowChanged(job=job, iteration=iteration, flow=flow, traffic_class=class_of_dscp(dscp), rate_Bps=rate)
                for job, iteration, flow, dscp, rate in record.changed[:MOST_CHANGED]
            ),
        )

    @property
    def before(self) -> tuple[DecisionBrief, ...]:
        """Those before the last one, the latest first."""
        return tuple(
            DecisionBrief(
                number=record.number,
                time_s=record.time_s,
                trigger=record.trigger,
                flows=record.flows,
                changes=len(record.changed),
            )
            for record in self._before
        )


def _order(
    question: Question, allocation: Allocation, flows: Mapping[FlowKey, FlowInFlight]
) -> tuple[FlowInOrder, ...]:
    """The first flows of an answer, in its order."""
    due_s, found = question.snapshot.ideal_finish_s, []
    for row in np.argsort(allocation.rank, kind="stable")[:MOST_ORDERED].tolist():
        job, iteration, flow = question.keys[row]
        known = flows.get(question.keys[row])
        treatment = None if known is None else known.treatment
        found.append(
            FlowInOrder(
                job=job,
                iteration=iteration,
                flow=flow,
                rank=int(allocation.rank[row]),
                traffic_class=None if treatment is None else class_of_dscp(treatment.dscp),
                rate_Bps=float(allocation.rates_Bps[row]),
                due_s=float(due_s[row]),
            )
        )
    return tuple(found)
