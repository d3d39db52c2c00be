"""Computes, flows and decisions as a Chrome trace (JSON), which ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" (complete events "X", instants "i", metadata "M"; times in microseconds).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from echelonflow.files import writing
from echelonflow.records.run_record import ComputeRecord, DecisionRecord, FlowRecord
from results.analysis.lanes import lanes
from results.analysis.sample import MOST_STEPS, Bounds, beyond_reading, sampled
from results.analysis.shown import ShownRun

_DECISIONS = "decisions"
_SAMPLED_HOSTS = 64


def write_timeline(path: Path, runs: Sequence[ShownRun], *, whole: bool = False) -> None:
    """Write `runs` one after the other in one trace: a process per run and host, a thread per rank or flow lane.

    Runs with more than `MOST_STEPS` are sampled, unless the `whole` is asked for: their shown iteration, or its first
    part. Names in the trace say so.
    """
    parts: list[_Part] = [(run, run.record.computes, run.record.flows, run.record.decisions, "") for run in runs]
    if not whole and beyond_reading(runs):
        parts = _sampled(runs)
    first_process = 1
    with writing(path) as file:
        file.write(b'{"traceEvents":[')
        for i, part in enumerate(parts):
            events = _events(*part, first_process=first_process)
            first_process = max(event["pid"] for event in events) + 1
            file.write(b"," if i else b"")
            file.write(msgspec.json.encode(events)[1:-1])
        file.write(b'],"displayTimeUnit":"ms"}\n')


_Part = tuple[ShownRun, Sequence[ComputeRecord], Sequence[FlowRecord], Sequence[DecisionRecord], str]


def _sampled(runs: Sequence[ShownRun]) -> list[_Part]:
    """The shown iteration of every run, or the first part of it, on some hosts."""
    hosts = max(_SAMPLED_HOSTS // len(runs), 1)
    sample = sampled(runs, Bounds(hosts, MOST_STEPS // (2 * hosts * len(runs))))
    found: list[_Part] = []
    for run in runs:
        part = run.window
        end_s = min(part.start_s + sample.until_s, part.finish_s)
        decisions = [d for d in run.record.decisions if part.start_s <= d.time_s <= end_s]
        words = ", ".join(filter(None, (f"iteration {part.iteration}", sample.words)))
        found.append((run, sample.computes(run), sample.flows(run), decisions, f" (sample: {words})"))
    return found


def _events(
    shown: ShownRun,
    computes: Sequence[ComputeRecord],
    flows: Sequence[FlowRecord],
    decisions: Sequence[DecisionRecord],
    note: str,
    *,
    first_process: int,
) -> list[dict[str, Any]]:
    run = shown.record
    finished = [f for f in flows if not math.isnan(f.finish_s)]
    hosts = sorted({c.host for c in computes} | {f.src_host for f in flows})
    process = {host: first_process + i for i, host in enumerate([*hosts, _DECISIONS])}
    title = f"{shown.title} #{run.repeat}{note}"
    events = [_name("process_name", pid, 0, f"{title}: {host}") for host, pid in process.items()]
    threads: set[tuple[int, int, str]] = set()
    for c in computes:
        threads.add((process[c.host], c.rank, f"{c.job} rank {c.rank}"))
        arguments = {"job": c.job, "iteration": c.iteration, "late_ms": c.late_s * 1e3}
        name = f"{c.step} ({c.kind})"
        events.append(_span((process[c.host], c.rank), name, "compute", (c.start_s, c.finish_s), arguments))
    sent: dict[str, list[FlowRecord]] = {host: [] for host in hosts}
    for f in finished:
        sent[f.src_host].append(f)
    for host, mine in sent.items():
        # Beyond the ranks' threads, one per flow that is open at the same time.
        for lane, f in zip(lanes([(f.release_s, f.finish_s) for f in mine]), mine, strict=True):
            thread = 10_000 + lane
            threads.add((process[host], thread, f"sends {lane}"))
            arguments = {
                "job": f.job, "iteration": f.iteration, "group": f.group, "coflow": f.coflow, "to": f.dst_host,
                "size_bytes": f.size_bytes, "release_s": f.release_s, "start_s": f.start_s, "dscp": f.dscp,
                "retransmissions": f.retransmissions, "ready_s": f.ready_s,
            }  # fmt: skip
            name = f"{f.flow} to {f.dst_host}"
            events.append(_span((process[host], thread), name, "flow", (f.release_s, f.finish_s), arguments))
    for d in decisions:
        arguments = {
            "flows": d.flows, "groups": d.groups, "digest": d.digest, "policy_ms": d.policy_ms, "total_ms": d.total_ms,
            "changed": [list(change) for change in d.changed], "number": d.number, "ahead": d.ahead,
            "corrected": [list(flow) for flow in d.corrected],
        }  # fmt: skip
        common = {"ph": "i", "s": "p", "name": d.trigger, "cat": "decision", "args": arguments}
        events.append({**common, "pid": process[_DECISIONS], "tid": 0, "ts": d.time_s * 1e6})
    if shown.faults:
        pid = first_process + len(process)
        events.append(_name("process_name", pid, 0, f"{title}: planned faults"))
        for lane, fault in enumerate(shown.faults):
            span_s = (fault.begin_s, max(run.end_s, fault.begin_s) if fault.end_s is None else fault.end_s)
            events.append(_span((pid, lane), fault.what, "fault", span_s, {"planned_s": fault.planned_s}))
    events += [_name("thread_name", pid, tid, name) for pid, tid, name in sorted(threads)]
    return events


def _name(what: str, pid: int, tid: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}}


def _span(
    thread: tuple[int, int], name: str, category: str, span_s: tuple[float, float], arguments: dict[str, Any]
) -> dict[str, Any]:
    return {
        "ph": "X", "name": name, "cat": category, "pid": thread[0], "tid": thread[1],
        "ts": span_s[0] * 1e6, "dur": (span_s[1] - span_s[0]) * 1e6, "args": arguments,
    }  # fmt: skip
