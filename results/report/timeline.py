"""Computes, flows and decisions as a Chrome trace (JSON), which ui.perfetto.dev and chrome://tracing open.

Format: "Trace Event Format" (complete events "X", instants "i", counters "C", arrows "s" and "f", metadata "M"; times in
microseconds). docs/report.md says what there is in it.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from echelonflow.files import writing
from echelonflow.model.dag import Job
from echelonflow.records.run_record import ComputeRecord, DecisionRecord, FlowRecord, as_far_as_run
from results.analysis.lanes import lanes
from results.analysis.sample import MOST_STEPS, Bounds, beyond_reading, sampled
from results.analysis.shown import ShownRun
from results.report.timeline_arrows import arrows
from results.report.timeline_counters import arrived_counters, host_counters
from results.report.timeline_events import Event, Slice, Track, counter, instant, name_of, slice_events

_DECISIONS, _FAULTS, _ARRIVED = "decisions", "planned faults", "arrived at all hosts"
_SAMPLED_HOSTS = 64
_CLOCK_S = 1e-6
"""Readings of one clock in a log are as exact as that."""


def write_timeline(path: Path, runs: Sequence[ShownRun], jobs: Sequence[Job] = (), *, whole: bool = False) -> None:
    """Write `runs` one after the other in one trace: a process per run and host, a thread per rank of a job or flow lane.

    Slices of one thread never overlap. With `jobs`, arrows lead from what released a flow to the flow, and from there to what
    waited for it. Runs with more than `MOST_STEPS` are sampled, unless the `whole` is asked for: their shown iteration, or
    its first part. Names in the trace say so.
    """
    parts: list[_Part] = [_Part(run, run.record.computes, run.record.flows, run.record.decisions) for run in runs]
    if not whole and beyond_reading(runs):
        parts = _sampled(runs)
    first_process = 1
    with writing(path) as file:
        file.write(b'{"traceEvents":[')
        for i, part in enumerate(parts):
            events = _Trace(part, first_process).events(as_far_as_run(jobs, part.run.record))
            first_process = max(event["pid"] for event in events) + 1
            file.write(b"," if i else b"")
            file.write(msgspec.json.encode(events)[1:-1])
        file.write(b'],"displayTimeUnit":"ms"}\n')


@dataclass(frozen=True, slots=True)
class _Part:
    """What of a run is in the trace, and a note for its names."""

    run: ShownRun
    computes: Sequence[ComputeRecord]
    flows: Sequence[FlowRecord]
    decisions: Sequence[DecisionRecord]
    note: str = ""


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
        found.append(_Part(run, sample.computes(run), sample.flows(run), decisions, f" (sample: {words})"))
    return found


@dataclass
class _Trace:
    """The events of one run: processes are numbered from `first_process` on, threads within each as they are asked for."""

    part: _Part
    first_process: int
    _processes: dict[str, int] = field(default_factory=dict)
    _threads: dict[int, list[str]] = field(default_factory=lambda: defaultdict(list))

    def events(self, jobs: Sequence[Job]) -> list[Event]:
        part, record = self.part, self.part.run.record
        finished = [f for f in part.flows if not math.isnan(f.finish_s)]
        for host in sorted({c.host for c in part.computes} | {f.src_host for f in part.flows}):
            self._process(host)
        computes, flows = self._computes(), self._flows(finished)
        slices = [*computes.values(), *flows.values()]
        for fault in part.run.faults:
            end_s = max(record.end_s, fault.begin_s) if fault.end_s is None else fault.end_s
            slices += self._laid(
                _FAULTS, "", [Slice(fault.what, "fault", fault.begin_s, end_s, {"planned_s": fault.planned_s})]
            )
        events = slice_events(slices)
        decided = self._process(_DECISIONS)
        events += [instant(Track(decided, 0), d.trigger, "decision", d.time_s, _decision(d)) for d in part.decisions]
        for host, values in host_counters(finished).items():
            pid = self._process(host)
            events += [counter(pid, name, time_s, series) for name, time_s, series in values]
        for name, time_s, series in arrived_counters(part.run):
            events.append(counter(self._process(_ARRIVED), name, time_s, series))
        events += arrows(jobs, computes, flows, id_prefix=f"{self.first_process}.")
        return [*self._names(), *events]

    def _process(self, name: str) -> int:
        return self._processes.setdefault(name, self.first_process + len(self._processes))

    def _thread(self, pid: int, name: str) -> int:
        names = self._threads[pid]
        if name not in names:
            names.append(name)
        return names.index(name)

    def _names(self) -> list[Event]:
        title = f"{self.part.run.title} #{self.part.run.record.repeat}{self.part.note}"
        found = [name_of("process_name", Track(pid, 0), f"{title}: {name}") for name, pid in self._processes.items()]
        for pid, names in self._threads.items():
            found += [name_of("thread_name", Track(pid, tid), name) for tid, name in enumerate(names)]
        return found

    def _laid(self, process: str, thread: str, slices: Sequence[Slice]) -> list[Slice]:
        """The same slices on threads of a process, as few as there may be without overlap; the first has the plain name."""
        pid = self._process(process)
        places = lanes([(one.start_s, one.finish_s) for one in slices])
        for place, one in zip(places, slices, strict=True):
            words = thread if thread and not place else f"{thread} {place}".strip()
            one.track = Track(pid, self._thread(pid, words))
        return list(slices)

    def _computes(self) -> dict[tuple[str, int, str], Slice]:
        """Slices of computations by (job, iteration, step): the ranks of a job each on a thread of their own."""
        found: dict[tuple[str, int, str], Slice] = {}
        by_rank: dict[tuple[str, str, int], list[Slice]] = defaultdict(list)
        for c in self.part.computes:
            arguments = {"job": c.job, "iteration": c.iteration, "late_ms": c.late_s * 1e3}
            made = Slice(f"{c.step} ({c.kind})", "compute", c.start_s, c.finish_s, arguments)
            found[c.job, c.iteration, c.step] = made
            by_rank[c.host, c.job, c.rank].append(made)
        for (host, job, rank), mine in sorted(by_rank.items()):
            _end_as_asked(mine)
            self._laid(host, f"{job} rank {rank}", mine)
        return found

    def _flows(self, finished: Sequence[FlowRecord]) -> dict[tuple[str, int, str], Slice]:
        """Slices of flows by (job, iteration, flow): what a host sends at the same time on threads side by side."""
        found: dict[tuple[str, int, str], Slice] = {}
        by_host: dict[str, list[Slice]] = defaultdict(list)
        for f in finished:
            arguments = {
                "job": f.job, "iteration": f.iteration, "group": f.group, "coflow": f.coflow, "to": f.dst_host,
                "size_bytes": f.size_bytes, "release_s": f.release_s, "start_s": f.start_s, "dscp": f.dscp,
                "retransmissions": f.retransmissions, "ready_s": f.ready_s,
            }  # fmt: skip
            made = Slice(f"{f.flow} to {f.dst_host}", "flow", f.release_s, f.finish_s, arguments)
            found[f.job, f.iteration, f.flow] = made
            by_host[f.src_host].append(made)
        for host, mine in sorted(by_host.items()):
            self._laid(host, "sends", mine)
        return found


def _end_as_asked(mine: Sequence[Slice]) -> None:
    """End what ended late where the next one of its rank began, as that was asked to: the clock of a rank does not slip."""
    ordered = sorted(mine, key=lambda one: one.start_s)
    for one, other in itertools.pairwise(ordered):
        if one.finish_s - one.arguments["late_ms"] / 1e3 - _CLOCK_S <= other.start_s < one.finish_s:
            one.finish_s = other.start_s


def _decision(d: DecisionRecord) -> dict[str, Any]:
    return {
        "flows": d.flows, "groups": d.groups, "digest": d.digest, "policy_ms": d.policy_ms, "total_ms": d.total_ms,
        "changed": [list(change) for change in d.changed], "number": d.number, "ahead": d.ahead,
        "corrected": [list(flow) for flow in d.corrected],
    }  # fmt: skip
