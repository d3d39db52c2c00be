"""Computes, flows and decisions as a Chrome trace (JSON), which ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" (complete events "X", instants "i", metadata "M"; times in microseconds).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from echelonflow.files import write_whole
from results.analysis.lanes import lanes
from results.analysis.shown import ShownRun

_DECISIONS = "decisions"


def write_timeline(path: Path, runs: Sequence[ShownRun]) -> None:
    """Write `runs` one after the other in one trace: a process per run and host, a thread per rank or flow lane."""
    events: list[dict[str, Any]] = []
    for run in runs:
        events += _events(run, first_process=_processes(events))
    write_whole(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, separators=(",", ":")) + "\n")


def _processes(events: Sequence[dict[str, Any]]) -> int:
    return max((event["pid"] for event in events), default=0) + 1


def _events(shown: ShownRun, first_process: int) -> list[dict[str, Any]]:
    run = shown.record
    hosts = sorted({c.host for c in run.computes} | {f.src_host for f in run.flows})
    process = {host: first_process + i for i, host in enumerate([*hosts, _DECISIONS])}
    title = f"{shown.title} #{run.repeat}"
    events = [_name("process_name", pid, 0, f"{title}: {host}") for host, pid in process.items()]
    threads: set[tuple[int, int, str]] = set()
    for c in run.computes:
        threads.add((process[c.host], c.rank, f"{c.job} rank {c.rank}"))
        arguments = {"job": c.job, "iteration": c.iteration, "late_ms": c.late_s * 1e3}
        name = f"{c.step} ({c.kind})"
        events.append(_span((process[c.host], c.rank), name, "compute", (c.start_s, c.finish_s), arguments))
    finished = [f for f in run.flows if not math.isnan(f.finish_s)]
    for host in hosts:
        mine = [f for f in finished if f.src_host == host]
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
    for d in run.decisions:
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
