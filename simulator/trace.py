"""Simulates a trace of Coflows: columns all the way, because 700,000 flows are too many for objects.

Every Coflow is a group and a job of its own: its flows are due at once when it arrives (offset 0).
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.coflow_trace import CoflowTrace, TraceRecord
from echelonflow.model.network import Cable, Network
from echelonflow.model.path_rows import PathRows
from echelonflow.scheduling import policies
from echelonflow.scheduling.forms import Form
from echelonflow.scheduling.kernels import can_compile
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import CoflowTable, GroupTable, JobTable, Snapshot
from echelonflow.scheduling.trace_kernels import TraceFlows, loop_of
from simulator.engine import Engine
from simulator.flows import Flows
from simulator.paths import trace_paths
from simulator.realism import EXACT, Realism

KERNEL_FLOWS = 5000
"""A trace with fewer flows is not worth the compilation of a kernel."""


def simulate_trace(
    trace: CoflowTrace,
    network: Network,
    policy: Policy,
    repeat: int = 0,
    on_progress: Callable[[float], None] | None = None,
    *,
    realism: Realism = EXACT,
) -> TraceRecord:
    """Run `trace` on `network` under `policy` until its last flow has ended.

    A flow leaves by its sending port's cable and arrives by its receiving port's, even if they are one port.
    Raises InputError if the trace has ports that the network lacks, PolicyError if the policy fails or allocates
    too much, RunError if nothing moves any more. `on_progress` is told the simulated time.
    """
    source = _TraceSource(trace, network)
    form = compiled_form(policy, realism) if trace.flows >= KERNEL_FLOWS else None
    events = None if form is None else source.run_form(form)
    if events is None:
        engine = Engine(source, policy, realism)
        engine.run(on_progress)
        return source.record(policy.name, repeat, engine.events)
    record = source.record(policy.name, repeat, events)
    if on_progress is not None:
        on_progress(float(record.finish_s.max()))
    return record


def warm_up() -> None:
    """Have the kernels compiled and loaded, so that no simulation waits for it; nothing where they are not compiled."""
    one = np.zeros(1, np.int64)
    trace = CoflowTrace(one, np.zeros(1), one, one, one + 1, np.ones(1))
    cables = (Cable("h1", "s1", 1e9), Cable("h2", "s1", 1e9))
    source = _TraceSource(trace, Network("two hosts", ("h1", "h2"), ("s1",), cables))
    if not can_compile():
        return
    for name in policies.names():
        form = policies.load(name).form()
        if form is not None:
            source.run_form(form)


def compiled_form(policy: Policy, realism: Realism = EXACT) -> Form | None:
    """What a whole trace is run by under this policy, if it has a form, that can be compiled and nothing is left out."""
    if not can_compile() or realism.decision_latency_s > 0 or realism.burst_s > 0:
        return None
    form = policy.form()
    if form is None or (form.keys and realism.folds(policy.enforcer)):
        return None
    return form


class _TraceSource:
    """Releases the flows of each Coflow as it arrives. A flow's handle is its place in order of arrival."""

    def __init__(self, trace: CoflowTrace, network: Network) -> None:
        self._trace = trace
        self._capacity_Bps = np.array(network.capacity_Bps)
        self._link_names = tuple(link.name for link in network.links)
        by_arrival = np.lexsort((trace.coflow_id, trace.arrival_s))
        place = np.empty(trace.coflows, np.int64)
        place[by_arrival] = np.arange(trace.coflows)
        self._trace_row: Ints = np.lexsort((np.arange(trace.flows), place[trace.coflow]))
        """n; the trace's row of each handle."""
        self._coflow: Ints = place[trace.coflow][self._trace_row]
        """n; Coflows counted in order of arrival, as in all columns below."""
        self._first: Ints = np.searchsorted(self._coflow, np.arange(trace.coflows + 1))
        self._id: Ints = trace.coflow_id[by_arrival].astype(np.int64)
        self._weight: Floats = trace.weight[by_arrival].astype(np.float64)
        self._arrival_s: Floats = trace.arrival_s[by_arrival].astype(np.float64)
        self._size_bytes: Floats = trace.size_bytes[self._trace_row].astype(np.float64)
        self._paths: PathRows = trace_paths(trace, network).of(self._trace_row)
        self._alone_s = self._seconds_alone()
        self._ended_s: Floats = np.full(trace.flows, math.nan)
        self._latest_s: Floats = np.full(trace.coflows, -math.inf)
        self._ended_bytes: Floats = np.zeros(trace.coflows)
        self._arrived = self._released = 0

    def next_s(self) -> float:
        return float(self._arrival_s[self._arrived]) if self._arrived < len(self._arrival_s) else math.inf

    def run(self, now_s: float) -> None:
        self._arrived = int(np.searchsorted(self._arrival_s, now_s, side="right"))

    def take_released(self) -> tuple[Ints, Floats]:
        begin, end = self._released, int(self._first[self._arrived])
        self._released = end
        return np.arange(begin, end), self._size_bytes[begin:end]

    def end(self, handle: Ints, start_s: Floats, now_s: float) -> None:
        self._ended_s[handle] = now_s
        coflow = self._coflow[handle]
        self._latest_s[coflow] = now_s
        np.add.at(self._ended_bytes, coflow, self._size_bytes[handle])

    def snapshot(self, flows: Flows, now_s: float) -> tuple[Snapshot, Ints | None]:
        coflow = self._coflow[flows.handle]  # ascending: flows are in order of release
        new = np.concatenate(([True], coflow[1:] != coflow[:-1]))
        row = np.cumsum(new) - 1
        present = coflow[new]
        ids, weight, arrival_s = self._id[present], self._weight[present], self._arrival_s[present]
        alone_s, rows = self._alone_s[present], np.arange(len(present))
        release_s = arrival_s[row]
        sent_bytes = flows.sent_bytes
        paths = self._paths.of(flows.handle)
        return Snapshot(
            now_s=now_s,
            flow_id=flows.handle,
            remaining_bytes=np.maximum(flows.remaining_bytes, 1e-6),
            sent_bytes=sent_bytes,
            release_s=release_s,
            ideal_finish_s=release_s,
            group=row,
            coflow=row,
            path_start=paths.start,
            path_link=paths.link,
            capacity_Bps=self._capacity_Bps,
            groups=GroupTable(
                id=ids,
                weight=weight,
                reference_s=arrival_s,
                incurred_tardiness_s=self._latest_s[present] - arrival_s,
                job=rows,
                span_s=np.zeros(len(present)),
                alone_s=alone_s,
                pending_start=np.zeros(len(present) + 1, np.int64),
                pending_link=np.zeros(0, np.int64),
                pending_bytes=np.zeros(0),
            ),
            coflows=CoflowTable(
                id=ids,
                weight=weight,
                arrival_s=arrival_s,
                sent_bytes=self._ended_bytes[present] + np.bincount(row, weights=sent_bytes, minlength=len(present)),
            ),
            jobs=JobTable(id=ids, compute_s=np.zeros(len(present)), alone_s=alone_s),
            link_names=self._link_names,
        ), None

    def run_form(self, form: Form) -> int | None:
        """End all flows as `form` says; returns the number of events, None if nothing knows how to run it."""
        loop = loop_of(form)
        flows = TraceFlows(
            self._paths, self._size_bytes, self._first, self._arrival_s, self._id, self._weight, self._alone_s,
            self._capacity_Bps,
        )  # fmt: skip
        ended = None if loop is None else loop(form, flows)
        if ended is None:
            return None
        self._ended_s, events = ended
        return events

    def record(self, policy: str, repeat: int, events: int) -> TraceRecord:
        trace = self._trace
        finish_s: Floats = np.empty(trace.flows)
        finish_s[self._trace_row] = self._ended_s
        last_s: Floats = np.full(trace.coflows, -math.inf)
        np.maximum.at(last_s, trace.coflow, finish_s)
        return TraceRecord(policy, repeat, trace.arrival_s.astype(np.float64), last_s, finish_s, events)

    def _seconds_alone(self) -> Floats:
        """For each Coflow, the seconds that its bytes need at its slowest link if nothing else is on it."""
        links = len(self._capacity_Bps)
        hop_flow = np.repeat(np.arange(len(self._size_bytes)), np.diff(self._paths.start))
        cell = self._coflow[hop_flow] * links + self._paths.link
        volume = np.bincount(cell, weights=self._size_bytes[hop_flow], minlength=len(self._id) * links)
        alone_s: Floats = np.max(volume.reshape(-1, links) / self._capacity_Bps, axis=1, initial=0.0)
        return alone_s
