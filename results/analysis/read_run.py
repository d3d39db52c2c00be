"""From the raw files of one emulated run to one `RunRecord`: agents' logs, plan and decisions joined.

What a run has left is read as far as it goes. A missing file, a last line that was cut off and a flow that only one end
tells of are no errors here. What cannot be read, or cannot be of this run, is named and left out. The verdict says it.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from echelonflow.model.flow_key import FlowKey
from echelonflow.records.agent_log import Computed, Held, Line, Mark, Received, Sent, read_agent_log
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFiles
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.plan import Plan
from echelonflow.records.run_record import ComputeRecord, DecisionRecord, FlowRecord, RunRecord
from results.analysis.asked import MOST_S, Asked, why_no_compute, why_no_flow
from results.analysis.began import began_s
from results.analysis.planned import alone

_Kept = TypeVar("_Kept")


@dataclass(frozen=True, slots=True)
class ReadRun:
    """What could be read of a run; `faults` names the rest, by file and line."""

    record: RunRecord
    faults: list[str] = field(default_factory=list)
    twice: list[FlowKey] = field(default_factory=list)
    """Steps of which an agent tells more than once; the last telling is in the record."""
    acked_s: dict[FlowKey, float] = field(default_factory=dict)
    """When the sender of each flow knew that all of it had arrived."""
    marks: dict[FlowKey, tuple[Mark, ...]] = field(default_factory=dict)
    """How each flow was sent, setting by setting."""
    held_s: dict[FlowKey, float] = field(default_factory=dict)
    """By job, iteration and host: when an iteration that was held back was to begin there."""


def read_run(files: RunFiles, outcome: RunOutcome, plan: Plan) -> ReadRun:
    """All records of the run; times in seconds since the run's zero.

    A flow that its sender tells of and its receiver does not has finish_s nan and 0 received bytes. Decisions are those
    of all controllers that the run had, and what agents did by themselves between them.
    """
    found = ReadRun(RunRecord(outcome.policy, outcome.repeat))
    record, asked = found.record, Asked(plan.jobs)
    for part in (files, *files.restarts()):
        record.decisions += _decisions(part.decisions, asked, found.faults)
    lines = _Lines()
    for path in sorted(files.agents.glob("*.jsonl")):
        for line in read_agent_log(path, found.faults):
            why = lines.add(line, path.stem, plan, asked)
            if why is not None:
                found.faults.append(f"{path}: {why}")
    record.computes = sorted(lines.computes.values(), key=lambda c: (c.start_s, c.job, c.iteration, c.step))
    found.twice.extend(lines.twice)
    found.acked_s.update((key, line.acked_s) for key, line in lines.sent.items())
    found.held_s.update((key, line.begin_s) for key, line in lines.held.items())
    found.marks.update((key, line.marks) for key, line in lines.sent.items())
    record.decisions += alone(outcome.faults, lines.sent, record.decisions)
    record.decisions.sort(key=lambda d: d.time_s)
    flows: list[FlowRecord] = []
    for flow in _flows(plan, lines.sent, lines.received, record.decisions):
        why = why_no_flow(asked, flow)
        if why is None:
            flows.append(flow)
        else:
            found.faults.append(f"{files.agents}: {why}")
    record.flows = flows
    record.began = began_s(record.computes, found.held_s, plan.jobs)
    return found


def _decisions(path: Path, asked: Asked, faults: list[str]) -> list[DecisionRecord]:
    found = []
    for decision in read_decisions(path, faults):
        after = decision.after or (None,) * len(decision.changed)
        if len(after) != len(decision.changed):
            faults.append(f"{path}: names {len(after)} ends at {decision.time_s} s for {len(decision.changed)} changes")
            continue
        # The coordinator does not know which iteration is the last: it may decide ahead for one that never comes.
        kept = [k for k, change in enumerate(decision.changed) if asked.knows(*change[:2]) or not decision.ahead]
        changed, after = tuple(decision.changed[k] for k in kept), tuple(after[k] for k in kept)
        strange = [k for k in changed if not asked.knows(k[0], k[1]) or (k[0], k[2]) not in asked.flows]
        if strange or not all(0 <= dscp < 64 for *_, dscp, _ in decision.changed):
            faults.append(f"{path}: decides at {decision.time_s} s on a flow that no job has, or a mark that is none")
        elif not all(abs(value) < MOST_S for value in (decision.time_s, decision.policy_ms, decision.total_ms)):
            faults.append(f"{path}: a decision at {decision.time_s} s took {decision.total_ms} ms")
        else:
            found.append(dataclasses.replace(decision, changed=changed, after=after if any(after) else ()))
    return found


@dataclass(frozen=True, slots=True)
class _Lines:
    """What the logs of all agents tell, by step."""

    computes: dict[FlowKey, ComputeRecord] = field(default_factory=dict)
    sent: dict[FlowKey, Sent] = field(default_factory=dict)
    received: dict[FlowKey, Received] = field(default_factory=dict)
    held: dict[FlowKey, Held] = field(default_factory=dict)
    """By job, iteration and host."""
    twice: list[FlowKey] = field(default_factory=list)

    def add(self, line: Line, host: str, plan: Plan, asked: Asked) -> str | None:
        """Keep a line of the log of `host`; or why it cannot be of this run."""
        if isinstance(line, Computed):
            return self._add_computed(line, host, plan, asked)
        if isinstance(line, Held):
            return self._add_held(line, host, plan, asked)
        key = (line.job, line.iteration, line.flow)
        known = asked.flows.get((line.job, line.flow))
        if known is None or not asked.knows(line.job, line.iteration):
            return f"tells of flow {line.job}/{line.flow} of iteration {line.iteration}, which no job has"
        end, whose = ("sends", known.src_host) if isinstance(line, Sent) else ("receives", known.dst_host)
        if whose != host:
            return f"{host} {end} flow {line.job}/{line.flow}, which is {whose}'s to do"
        if isinstance(line, Sent):
            self._keep(self.sent, key, line)
        else:
            self._keep(self.received, key, line)
        return None

    def _add_computed(self, line: Computed, host: str, plan: Plan, asked: Asked) -> str | None:
        hosts = _placement(plan, line.job)
        if not 0 <= line.rank < len(hosts) or hosts[line.rank] != host:
            return f"computes on rank {line.rank} of job {line.job!r}, which the plan does not place on {host}"
        compute = _compute(line, host)
        why = why_no_compute(asked, compute)
        if why is None:
            self._keep(self.computes, (line.job, line.iteration, line.step), compute)
        return why

    def _add_held(self, line: Held, host: str, plan: Plan, asked: Asked) -> str | None:
        if host not in _placement(plan, line.job) or not asked.knows(line.job, line.iteration):
            return f"tells of iteration {line.iteration} of job {line.job!r}, which begins nowhere on {host}"
        if not -MOST_S < line.ready_s <= line.begin_s < MOST_S:
            return f"holds iteration {line.iteration} of job {line.job!r} from {line.ready_s} s until {line.begin_s} s"
        self._keep(self.held, (line.job, line.iteration, host), line)
        return None

    def _keep(self, among: dict[FlowKey, _Kept], key: FlowKey, what: _Kept) -> None:
        if key in among:
            self.twice.append(key)
        among[key] = what


def _placement(plan: Plan, job: str) -> Sequence[str]:
    """The hosts of a job's ranks; none of a job that is not in the plan."""
    return next((placed.placement for placed in plan.placed if placed.name == job), ())


def last_marks(decisions: list[DecisionRecord]) -> dict[FlowKey, tuple[int, float]]:
    """The DSCP that was decided last for every flow, and when it was first decided in that row, in seconds."""
    found: dict[FlowKey, tuple[int, float]] = {}
    for decision in decisions:
        for key, dscp in decision.marks:
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


def _in_force_s(sent: Sent, decided_s: float | None) -> float | None:
    """How long after a flow's release what was decided at `decided_s` was in force."""
    if decided_s is None:
        return None
    in_force_s = (mark.time_s for mark in sent.marks if mark.time_s >= decided_s)
    return next(in_force_s, decided_s) - sent.release_s


def _flows(
    plan: Plan,
    sent: Mapping[FlowKey, Sent],
    received: Mapping[FlowKey, Received],
    decisions: list[DecisionRecord],
) -> list[FlowRecord]:
    found = []
    marks = last_marks(decisions)
    corrected_s = {key: decision.time_s for decision in decisions for key in decision.corrected}
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
                        ahead=out.by > 0,
                        held=out.held,
                        corrected_s=_in_force_s(out, corrected_s.get(key)),
                        ready_s=out.ready_s,
                    )
                )
    found.sort(key=lambda f: (f.release_s, f.job, f.iteration, f.flow))
    return found
