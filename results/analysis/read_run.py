"""From the raw files of one emulated run to one `RunRecord`: agents' logs, plan and decisions joined.

What a run that failed has left is read as far as it goes. A missing file, a last line that was cut off and a flow that
only one end tells of are no errors here. The verdict names them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from echelonflow.errors import InputError
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.agent_log import Computed, Received, Sent, read_agent_log
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFiles
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.plan import Plan
from echelonflow.records.run_record import ComputeRecord, DecisionRecord, FlowRecord, RunRecord
from results.analysis.planned import alone


def read_run(files: RunFiles, outcome: RunOutcome, plan: Plan) -> RunRecord:
    """All records of the run; times in seconds since the run's zero.

    A flow that its sender tells of and its receiver does not has finish_s nan and 0 received bytes. Decisions are those
    of all controllers that the run had, and what agents did by themselves between them.
    Raises InputError where a line in the middle of a log is malformed, or tells of a rank that no job has.
    """
    record = RunRecord(outcome.policy, outcome.repeat)
    record.decisions = [d for part in (files, *files.restarts()) for d in read_decisions(part.decisions)]
    placement = {job.name: job.placement for job in plan.placed}
    sent: dict[FlowKey, Sent] = {}
    received: dict[FlowKey, Received] = {}
    for path in sorted(files.agents.glob("*.jsonl")):
        for line in read_agent_log(path):
            if isinstance(line, Computed):
                hosts = placement.get(line.job, ())
                if not 0 <= line.rank < len(hosts):
                    raise InputError(f"{path}: computes on rank {line.rank} of job {line.job!r}, which the plan lacks")
                record.computes.append(_compute(line, hosts[line.rank]))
            elif isinstance(line, Sent):
                sent[line.job, line.iteration, line.flow] = line
            else:
                received[line.job, line.iteration, line.flow] = line
    record.decisions += alone(outcome.faults, sent, record.decisions)
    record.decisions.sort(key=lambda d: d.time_s)
    record.computes.sort(key=lambda c: (c.start_s, c.job, c.iteration, c.step))
    record.flows = _flows(plan, sent, received, last_marks(record.decisions))
    return record


def last_marks(decisions: list[DecisionRecord]) -> dict[FlowKey, tuple[int, float]]:
    """The DSCP that was decided last for every flow, and when it was first decided in that row, in seconds."""
    found: dict[FlowKey, tuple[int, float]] = {}
    for decision in decisions:
        for job, iteration, flow, dscp, _ in decision.changed:
            key = (job, iteration, flow)
            if key not in found or found[key][0] != dscp:  # else only its rate has changed
                found[key] = (dscp, decision.time_s)
    return found


def _compute(line: Computed, host: str) -> ComputeRecord:
    return ComputeRecord(
        job=line.job,
        iteration=line.iteration,
        step=line.step,
        kind=line.kind,
        rank=line.rank,
        host=host,
        start_s=line.start_s,
        finish_s=line.finish_s,
        late_s=line.late_s,
    )


def _flows(
    plan: Plan,
    sent: Mapping[FlowKey, Sent],
    received: Mapping[FlowKey, Received],
    marks: Mapping[FlowKey, tuple[int, float]],
) -> list[FlowRecord]:
    found = []
    iterations = {job.name: job.iterations for job in plan.placed}
    for group in plan.groups:
        for flow in group.flows:
            for iteration in range(iterations[group.job]):
                key = (group.job, iteration, flow.flow)
                out, back = sent.get(key), received.get(key)
                if out is None:
                    continue
                dscp, _ = marks.get(key, (None, None))
                found.append(
                    FlowRecord(
                        job=group.job,
                        iteration=iteration,
                        flow=flow.flow,
                        group=group.group,
                        kind=group.kind,
                        coflow=flow.coflow,
                        src_host=flow.src_host,
                        dst_host=flow.dst_host,
                        src_port=flow.src_port,
                        dst_port=flow.dst_port,
                        size_bytes=flow.size_bytes,
                        offset_s=flow.offset_s,
                        release_s=out.release_s,
                        start_s=out.start_s,
                        finish_s=math.nan if back is None else back.finish_s,
                        sent_bytes=out.sent_bytes,
                        received_bytes=0 if back is None else back.received_bytes,
                        dscp=dscp,
                        retransmissions=out.retransmissions,
                    )
                )
    found.sort(key=lambda f: (f.release_s, f.job, f.iteration, f.flow))
    return found
