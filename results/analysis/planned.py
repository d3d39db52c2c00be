"""Planned faults as analysis sees them: what was done when, and what follows for what a run must show."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from echelonflow.model.dag import Job
from echelonflow.model.faults import ControllerStop, Fault, LinkRate, Slowdown, ended_jobs
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.agent_log import Sent
from echelonflow.records.outcome import FaultDone
from echelonflow.records.run_record import DecisionRecord

SLACK_S = 0.2
"""An outage is noticed by the agents up to so much before or after the emulator notes its bounds."""
ALONE = "no controller"
"""Trigger of what agents put in force by themselves."""


@dataclass(frozen=True, slots=True)
class FaultShown:
    """A planned fault as it was carried out, in seconds since the run's zero."""

    what: str
    """The fault in words. From the experiment file."""
    planned_s: float
    """When it was to begin. From the experiment file."""
    begin_s: float
    """When it began. From run.json, or in a simulation as planned."""
    end_s: float | None
    """When it was over; null where it held to the end of the run. From run.json, or in a simulation as planned."""


def faults_done(done: Iterable[FaultDone]) -> tuple[FaultShown, ...]:
    """The faults of an emulated run."""
    return tuple(FaultShown(d.fault.what, d.fault.at_s, d.begin_s, d.end_s) for d in done)


def faults_simulated(faults: Iterable[Fault], end_s: float) -> tuple[FaultShown, ...]:
    """The faults of a simulated run that ended at `end_s`: those that began before."""
    return tuple(
        FaultShown(fault.what, fault.at_s, fault.at_s, fault.until_s if fault.until_s < math.inf else None)
        for fault in faults
        if fault.at_s < end_s
    )


def jobs_ended(done: Iterable[FaultDone], jobs: Sequence[Job]) -> frozenset[str]:
    """The jobs that a planned crash has ended, or would have if they had not been done."""
    return frozenset(ended_jobs([d.fault for d in done], jobs))


def accounted_for(done: Iterable[FaultDone]) -> frozenset[str]:
    """The measures of fidelity that have no limit in a run, as they follow from what was planned.

    A controller that is started again keeps a core or two busy for a second. Agents and switches go before it, and
    whether computations ended in time is judged all the same.
    """
    restarted = any(isinstance(d.fault, ControllerStop) and d.end_s is not None for d in done)
    return frozenset({"cpu_busy_max"} if restarted else ())


def beyond_simulation(done: Iterable[FaultDone]) -> bool:
    """Whether a fault happened of which the fluid simulation knows less than the whole.

    It knows no TCP, which waits after an outage of a link, and no messages that could be lost. Without a controller, and
    where a job ends, it is chance which flow is served and which iteration counts.
    """
    return any(not isinstance(d.fault, LinkRate | Slowdown) for d in done)


def alone(
    done: Sequence[FaultDone], sent: Mapping[FlowKey, Sent], decisions: Sequence[DecisionRecord]
) -> list[DecisionRecord]:
    """What agents put in force by themselves while there was no controller: one record for each outage.

    Only marks that nobody had decided for their flow are in it: those are what it takes to judge packets.
    """
    decided = {(*key, dscp) for d in decisions for key, dscp in d.marks}
    found = []
    for outage in (d for d in done if isinstance(d.fault, ControllerStop)):
        begin_s = outage.begin_s - SLACK_S
        end_s = math.inf if outage.end_s is None else outage.end_s + SLACK_S
        changed = [
            (job, iteration, flow, mark.dscp, mark.rate_Bps)
            for (job, iteration, flow), line in sent.items()
            for mark in line.marks
            if begin_s <= mark.time_s <= end_s and (job, iteration, flow, mark.dscp) not in decided
        ]
        if changed:
            record = DecisionRecord(
                outage.begin_s, ALONE, len(changed), 0, "", policy_ms=0.0, total_ms=0.0, changed=tuple(changed)
            )
            found.append(record)
    return found
