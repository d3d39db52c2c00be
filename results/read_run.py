"""From the raw files of one emulated run to one `RunRecord`: agents' logs, plan and decisions joined.

What a run that failed has left is read as far as it goes. A missing file, a last line that was cut off and a flow that
only one end tells of are no errors here. The verdict names them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelonflow.errors import InputError
from echelonflow.model.dag import Job, job_from_dict
from echelonflow.records.run_record import ComputeRecord, DecisionRecord, FlowRecord, RunRecord
from echelonflow.wire.declare import declarations
from results.record_json import decision_from_dict

FlowKey = tuple[str, int, str]
"""(job, iteration, flow)."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What every agent of a run was told (plan.json)."""

    jobs: tuple[Job, ...]
    run_index: int
    addresses: dict[str, str]
    """IPv4 address of every host."""


def read_json(path: Path) -> Any:
    """The JSON document in `path` (InputError, naming the file, if there is none)."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise InputError(f"{path}: is not JSON: {error}") from None


def read_plan(raw: Path) -> Plan:
    """plan.json of the run whose raw records lie in `raw` (InputError where it is missing or malformed)."""
    data = read_json(raw / "plan.json")
    try:
        jobs = tuple(job_from_dict(job) for job in data["jobs"])
        return Plan(jobs, data["run_index"], dict(data["addresses"]))
    except (KeyError, TypeError) as error:
        raise InputError(f"{raw / 'plan.json'}: is malformed: {error!r}") from error


def read_run(raw: Path) -> RunRecord:
    """All records of the run in folder `raw`; times in seconds since the run's zero.

    A flow that its sender tells of and its receiver does not has finish_s nan and 0 received bytes.
    Raises InputError where run.json or plan.json is missing, or a line in the middle of a log is malformed.
    """
    run, plan = read_json(raw / "run.json"), read_plan(raw)
    record = RunRecord(run["policy"], run["repeat"])
    record.decisions = read_decisions(raw)
    placement = {job.name: job.placement for job in plan.jobs}
    sent: dict[FlowKey, dict[str, Any]] = {}
    received: dict[FlowKey, dict[str, Any]] = {}
    for path in sorted((raw / "agents").glob("*.jsonl")):
        for line in _lines(path):
            kind = line.pop("type", None)
            if kind == "compute":
                record.computes.append(ComputeRecord(host=placement[line["job"]][line["rank"]], **line))
            elif kind in ("sent", "received"):
                into = sent if kind == "sent" else received
                into[line["job"], line["iteration"], line["flow"]] = line
            else:
                raise InputError(f"{path}: a line has unknown type {kind!r}")
    record.computes.sort(key=lambda c: (c.start_s, c.job, c.iteration, c.step))
    record.flows = _flows(plan, sent, received, last_marks(record.decisions))
    return record


def read_decisions(raw: Path) -> list[DecisionRecord]:
    """What the coordinator decided in the run whose raw records lie in `raw`, in order."""
    return [decision_from_dict(line) for line in _lines(raw / "decisions.jsonl")]


def last_marks(decisions: list[DecisionRecord]) -> dict[FlowKey, tuple[int, float]]:
    """The DSCP that was decided last for every flow, and when it was first decided in that row, in seconds."""
    found: dict[FlowKey, tuple[int, float]] = {}
    for decision in decisions:
        for job, iteration, flow, dscp, _ in decision.changed:
            key = (job, iteration, flow)
            if key not in found or found[key][0] != dscp:  # else only its rate has changed
                found[key] = (dscp, decision.time_s)
    return found


def _flows(
    plan: Plan,
    sent: dict[FlowKey, dict[str, Any]],
    received: dict[FlowKey, dict[str, Any]],
    marks: dict[FlowKey, tuple[int, float]],
) -> list[FlowRecord]:
    found = []
    iterations = {job.name: job.iterations for job in plan.jobs}
    for group in declarations(plan.jobs, plan.run_index):
        for flow in group.flows:
            for iteration in range(iterations[group.job]):
                key = (group.job, iteration, flow.flow)
                if key not in sent:
                    continue
                out, back = sent[key], received.get(key, {})
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
                        release_s=out["release_s"],
                        start_s=out["start_s"],
                        finish_s=back.get("finish_s", math.nan),
                        sent_bytes=out["sent_bytes"],
                        received_bytes=back.get("received_bytes", 0),
                        dscp=dscp,
                        retransmissions=out["retransmissions"],
                    )
                )
    found.sort(key=lambda f: (f.release_s, f.job, f.iteration, f.flow))
    return found


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects in a JSON-lines file; none where it does not exist, and not a last line without an end."""
    if not path.exists():
        return
    complete, _, _ = path.read_text(encoding="utf-8").rpartition("\n")
    for number, line in enumerate(complete.splitlines(), start=1):
        yield _object(line, f"{path}, line {number}")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError as error:
        raise InputError(f"{where}: is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise InputError(f"{where}: is not a JSON object")
    return found
