"""Rows of iterations.csv, groups.csv and flows.csv, from records of a run (emulated or simulated).

Definitions are those of docs/design.md, "The mathematics": the reference time of a group is the release of its head
flow less that flow's offset; a flow is ideally finished at reference + offset; its tardiness is its finish less
that; a group's tardiness is the largest of its flows'. All times are seconds since the run's zero.
"""

from __future__ import annotations

import csv
import dataclasses
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from echelonflow.model.dag import Job, iteration_times_without_network
from echelonflow.records.run_record import FlowRecord, RunRecord
from results.flows import FlowPackets
from results.read_run import FlowKey


@dataclass(frozen=True, slots=True)
class IterationRow:
    """One iteration of a job; `exposed_s` is what it took longer than it would without a network."""

    policy: str
    repeat: int
    job: str
    iteration: int
    start_s: float
    finish_s: float
    duration_s: float
    exposed_s: float
    predicted_s: float | None


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One EchelonFlow in one iteration; finish and tardiness are None while a flow of it is unfinished."""

    policy: str
    repeat: int
    job: str
    iteration: int
    group: str
    kind: str
    reference_s: float
    finish_s: float | None
    tardiness_s: float | None


@dataclass(frozen=True, slots=True)
class FlowRow:
    """One flow in one iteration, from the agents' log and (pcap_*) from the packets.

    `dscp` is the mark last decided, `pcap_dscp` the mark of the byte that arrived last.
    """

    policy: str
    repeat: int
    job: str
    iteration: int
    group: str
    flow: str
    src: str
    dst: str
    size_bytes: int
    release_s: float
    start_s: float
    finish_s: float | None
    ideal_finish_s: float
    tardiness_s: float | None
    dscp: int | None
    pcap_start_s: float | None
    pcap_finish_s: float | None
    pcap_bytes: int | None
    pcap_dscp: int | None
    retransmissions: int


def iteration_rows(record: RunRecord, jobs: Sequence[Job], predicted: RunRecord | None = None) -> list[IterationRow]:
    """Completed iterations of all jobs. `predicted` is a fluid run of the same jobs and policy."""
    rows = []
    expected_s: Mapping[tuple[str, int], float] = {}
    if predicted is not None:
        expected_s = {(r.job, r.iteration): r.duration_s for r in iteration_rows(predicted, jobs)}
    for job in jobs:
        unavoidable_s = iteration_times_without_network(job.dag, job.iterations)
        start_s = job.start_s
        for iteration, finish_s in enumerate(_iteration_ends(record, job)):
            duration_s = finish_s - start_s
            rows.append(
                IterationRow(
                    record.policy, record.repeat, job.name, iteration, start_s, finish_s, duration_s,
                    duration_s - unavoidable_s[iteration], expected_s.get((job.name, iteration)),
                )
            )  # fmt: skip
            start_s = finish_s
    return rows


def _iteration_ends(record: RunRecord, job: Job) -> list[float]:
    """Last compute finish of each iteration, up to the first that is not complete."""
    finishes: dict[int, list[float]] = defaultdict(list)
    for compute in record.computes:
        if compute.job == job.name:
            finishes[compute.iteration].append(compute.finish_s)
    ends = []
    for iteration in range(job.iterations):
        if len(finishes[iteration]) < len(job.dag.computes):
            break
        ends.append(max(finishes[iteration]))
    return ends


def reference_times_s(flows: Sequence[FlowRecord]) -> dict[tuple[str, int, str], float]:
    """Reference time of every (job, iteration, group): the earliest release of a head flow, less its offset.

    Head flows are those with the least offset of the flows given.
    """
    head: dict[tuple[str, int, str], tuple[float, float]] = {}
    for f in flows:
        key = (f.job, f.iteration, f.group)
        head[key] = min(head.get(key, (math.inf, math.inf)), (f.offset_s, f.release_s))
    return {key: release_s - offset_s for key, (offset_s, release_s) in head.items()}


def group_rows(record: RunRecord, jobs: Sequence[Job]) -> list[GroupRow]:
    """Groups of all iterations of which any flow was released."""
    references = reference_times_s(record.flows)
    members: dict[tuple[str, int, str], list[FlowRecord]] = defaultdict(list)
    for flow in record.flows:
        members[flow.job, flow.iteration, flow.group].append(flow)
    expected = _flows_on_network(jobs)
    rows = []
    for (job, iteration, group), flows in members.items():
        reference_s = references[job, iteration, group]
        complete = len(flows) == expected[job, group] and not any(math.isnan(f.finish_s) for f in flows)
        rows.append(
            GroupRow(
                record.policy, record.repeat, job, iteration, group, flows[0].kind, reference_s,
                max(f.finish_s for f in flows) if complete else None,
                max(f.finish_s - reference_s - f.offset_s for f in flows) if complete else None,
            )
        )  # fmt: skip
    return sorted(rows, key=lambda r: (r.job, r.iteration, r.reference_s, r.group))


def _flows_on_network(jobs: Sequence[Job]) -> dict[tuple[str, str], int]:
    """Flows of every (job, group) that cross the network."""
    found: dict[tuple[str, str], int] = defaultdict(int)
    for job in jobs:
        for transfer in job.dag.transfers:
            if not job.is_local(transfer):
                found[job.name, transfer.group] += 1
    return found


def flow_rows(record: RunRecord, packets: Mapping[FlowKey, FlowPackets] | None = None) -> list[FlowRow]:
    """Every released flow; `packets` says what captures saw of it (none in a simulation).

    Retransmissions are those that the packets show where there are packets, else TCP's own count.
    """
    references = reference_times_s(record.flows)
    rows = []
    for f in record.flows:
        seen = (packets or {}).get((f.job, f.iteration, f.flow))
        ideal_s = references[f.job, f.iteration, f.group] + f.offset_s
        finished = not math.isnan(f.finish_s)
        rows.append(
            FlowRow(
                record.policy, record.repeat, f.job, f.iteration, f.group, f.flow, f.src_host, f.dst_host,
                f.size_bytes, f.release_s, f.start_s,
                f.finish_s if finished else None,
                ideal_s,
                f.finish_s - ideal_s if finished else None,
                f.dscp,
                seen.start_s if seen else None,
                seen.finish_s if seen else None,
                seen.unique_bytes if seen else None,
                seen.last_dscp if seen else None,
                seen.retransmitted_segments if seen else f.retransmissions,
            )
        )  # fmt: skip
    return rows


def write_csv(path: Path, kind: type, rows: Sequence[Any]) -> None:
    """Write `rows` of dataclass `kind`, one column per field; None is empty, times have six decimals (µs)."""
    names = [field.name for field in dataclasses.fields(kind)]
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(names)
        writer.writerows([_cell(getattr(row, name)) for name in names] for row in rows)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.6f}" if isinstance(value, float) else value
