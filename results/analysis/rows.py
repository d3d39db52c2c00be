"""Rows of iterations.csv, groups.csv and flows.csv, from records of a run (emulated or simulated).

Definitions are those of docs/design.md, "The mathematics". The reference time of a group is the release of its head
flow less that flow's offset, and a flow is ideally finished at reference + offset. Its tardiness is its finish less
that; a group's tardiness is the largest of its flows'. All times are seconds since the run's zero.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from echelonflow.model.dag import Job, iteration_times_without_network
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.run_record import FlowRecord, RunRecord
from results.analysis.packets import FlowPackets

GroupKey = tuple[str, int, str]
"""(job, iteration, group)."""


@dataclass(frozen=True, slots=True)
class RunKey:
    """Which run a row belongs to: the first columns of every table."""

    policy: str
    """Policy with its options, as the experiment file names it. From the experiment file."""
    repeat: int
    """Number of the run among those of its policy, counted from 0. From the experiment file."""


@dataclass(frozen=True, slots=True)
class IterationKey(RunKey):
    """Which iteration of which job in which run a row belongs to."""

    job: str
    """Name of the job. From the experiment file."""
    iteration: int
    """Number of the iteration, counted from 0. From the agents' logs."""


@dataclass(frozen=True, slots=True)
class IterationRow(IterationKey):
    """One completed iteration of one job in one run."""

    start_s: float
    """When it began: as the previous iteration ended, the first when the job starts. From the agents' logs."""
    finish_s: float
    """When its last computation ended. From the agents' logs."""
    duration_s: float
    """`finish_s` less `start_s`. Computed."""
    exposed_s: float
    """Exposed communication: `duration_s` less what it would be if transfers took no time. Computed."""
    predicted_s: float | None
    """The iteration's duration in the fluid simulation of the same jobs, network and policy. From prediction.json."""
    in_force: str | None = None
    """Policies in force during the iteration, in order; empty in a run in which none was swapped in. From events.jsonl."""


@dataclass(frozen=True, slots=True)
class GroupRow(IterationKey):
    """One EchelonFlow in one iteration, as soon as one of its flows was released."""

    group: str
    """Name of the EchelonFlow in its job. From the paradigm."""
    kind: str
    """What the EchelonFlow is for, such as `pp-forward`. From the paradigm."""
    reference_s: float
    """Reference time: the release of the head flow, which has the least offset, less that offset. Computed."""
    finish_s: float | None
    """When the last byte of its last flow was received; empty while a flow is unfinished. From the agents' logs."""
    tardiness_s: float | None
    """The largest tardiness of its flows; empty while a flow is unfinished. Computed."""


@dataclass(frozen=True, slots=True)
class FlowRow(IterationKey):
    """One released flow in one iteration, from the agents' logs and (pcap_*) from the packets."""

    group: str
    """Name of the EchelonFlow to which the flow belongs. From the paradigm."""
    flow: str
    """Name of the flow in its job. From the paradigm."""
    src: str
    """Host that sends it. From the job's placement."""
    dst: str
    """Host that receives it. From the job's placement."""
    size_bytes: int
    """Payload of the flow. From the paradigm."""
    release_s: float
    """When it could be sent: all that it waits for had ended, and its job held it back no longer. From the sender's log."""
    start_s: float
    """When its first byte was handed to TCP. From the sender's log."""
    finish_s: float | None
    """When its last byte was received; empty while it is unfinished. From the receiver's log."""
    ideal_finish_s: float
    """Ideal finish time: its group's reference time plus its offset in the arrangement. Computed."""
    tardiness_s: float | None
    """`finish_s` less `ideal_finish_s`; empty while it is unfinished. Computed."""
    dscp: int | None
    """The mark (DSCP, 0 to 63) that was decided last; empty in a simulated run. From decisions.jsonl."""
    pcap_start_s: float | None
    """When its first packet left the sender; empty where no packet was captured. From the packets."""
    pcap_finish_s: float | None
    """When the receiver's interface had seen all its bytes; empty where it did not. From the packets."""
    pcap_bytes: int | None
    """Payload that the receiver's interface saw, each byte counted once. From the packets."""
    pcap_dscp: int | None
    """The mark of the byte that arrived last. From the packets."""
    retransmissions: int
    """Segments that were sent again. From the packets, else TCP's own count."""
    ahead: bool | None = None
    """Whether it was decided on before its release; empty where flows always wait for a decision. From the sender's log."""
    held: bool | None = None
    """Whether it was to wait at its sender by that decision; empty as before. From the sender's log."""
    corrected_s: float | None = None
    """How long after its release something else was in force than was decided ahead; empty if nothing was. From
    decisions.jsonl and the sender's log."""
    ready_s: float | None = None
    """When all that it waits for had ended, where its job held it back until `release_s`; empty where it did not. From the
    sender's log."""


@dataclass(frozen=True, slots=True)
class RunRows:
    """The rows of one run in all three tables: computed once, and read by whoever needs them."""

    iterations: Sequence[IterationRow] = ()
    groups: Sequence[GroupRow] = ()
    flows: Sequence[FlowRow] = ()


def run_rows(
    record: RunRecord,
    jobs: Sequence[Job],
    *,
    predicted: Sequence[IterationRow] = (),
    packets: Mapping[FlowKey, FlowPackets] | None = None,
) -> RunRows:
    """All rows of a run of `jobs`; `predicted` and `packets` as for `iteration_rows` and `flow_rows`."""
    references = reference_times_s(record.flows)
    return RunRows(
        iteration_rows(record, jobs, predicted),
        group_rows(record, jobs, references),
        flow_rows(record, packets, references),
    )


def iteration_rows(
    record: RunRecord, jobs: Sequence[Job], predicted: Sequence[IterationRow] = ()
) -> list[IterationRow]:
    """Completed iterations of all jobs. `predicted` are those of a fluid run of the same jobs and policy."""
    rows = []
    expected_s = {(row.job, row.iteration): row.duration_s for row in predicted}
    finishes = _compute_finishes(record)
    for job in jobs:
        unavoidable_s = iteration_times_without_network(job.dag, job.iterations)
        start_s = job.start_s
        for iteration, finish_s in enumerate(_iteration_ends(finishes, job)):
            duration_s = finish_s - start_s
            rows.append(
                IterationRow(
                    record.policy, record.repeat, job.name, iteration, start_s, finish_s, duration_s,
                    duration_s - unavoidable_s[iteration], expected_s.get((job.name, iteration)),
                )
            )  # fmt: skip
            start_s = finish_s
    return rows


def _compute_finishes(record: RunRecord) -> dict[tuple[str, int], list[float]]:
    """When the computes of every (job, iteration) finished."""
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    for compute in record.computes:
        found[compute.job, compute.iteration].append(compute.finish_s)
    return found


def _iteration_ends(finishes: Mapping[tuple[str, int], Sequence[float]], job: Job) -> list[float]:
    """Last compute finish of each iteration, up to the first that is not complete."""
    ends = []
    for iteration in range(job.iterations):
        mine = finishes.get((job.name, iteration), ())
        if len(mine) < len(job.dag.computes):
            break
        ends.append(max(mine))
    return ends


def reference_times_s(flows: Sequence[FlowRecord]) -> dict[GroupKey, float]:
    """Reference time of every (job, iteration, group): the earliest release of a head flow, less its offset.

    Head flows are those with the least offset of the flows given.
    """
    head: dict[GroupKey, tuple[float, float]] = {}
    for f in flows:
        key = (f.job, f.iteration, f.group)
        head[key] = min(head.get(key, (math.inf, math.inf)), (f.offset_s, f.release_s))
    return {key: release_s - offset_s for key, (offset_s, release_s) in head.items()}


def group_rows(
    record: RunRecord, jobs: Sequence[Job], references: Mapping[GroupKey, float] | None = None
) -> list[GroupRow]:
    """Groups of all iterations of which any flow was released; `references` where they are known already."""
    if references is None:
        references = reference_times_s(record.flows)
    members: dict[GroupKey, list[FlowRecord]] = defaultdict(list)
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
                found[job.name, job.dag.group_of[transfer.name].name] += 1
    return found


def flow_rows(
    record: RunRecord,
    packets: Mapping[FlowKey, FlowPackets] | None = None,
    references: Mapping[GroupKey, float] | None = None,
) -> list[FlowRow]:
    """Every released flow; `packets` says what captures saw of it (none in a simulation).

    Retransmissions are those that the packets show where there are packets, else TCP's own count. `references` are
    those of the groups where they are known already.
    """
    if references is None:
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
                f.ahead,
                None if f.ahead is None else f.held,
                f.corrected_s,
                f.ready_s,
            )
        )  # fmt: skip
    return rows
