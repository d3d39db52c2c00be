"""Rows of iterations.csv, groups.csv and flows.csv, from records of a run (emulated or simulated).

Definitions are those of docs/design.md, "The mathematics". The reference time of a group is the release of its head
flow less that flow's offset, and a flow is ideally finished at reference + offset. Its tardiness is its finish less
that; a group's tardiness is the largest of its flows'. All times are seconds since the run's zero.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.dag import Job, iteration_times_without_network
from echelonflow.model.draws import drawn
from echelonflow.model.flow_key import FlowKey
from echelonflow.model.iterations import durations_s, ends_s
from echelonflow.model.network import Network
from echelonflow.records.run_columns import FlowColumns, FlowStep
from echelonflow.records.run_record import FlowRecord, RunRecord
from results.analysis.columns import ByColumn
from results.analysis.numbers import FlowNumbers, GroupTimes, last_ends_s
from results.analysis.packets import FlowPackets


@dataclass(frozen=True, slots=True)
class RunKey:
    """Which run a row belongs to: the first columns of every table."""

    policy: str
    """Policy with its options, as the experiment file names it. From the experiment file."""
    repeat: int
    """Number of the run among those of its policy, counted from 0. From the experiment file."""


@dataclass(frozen=True, slots=True)
class RunMark:
    """Whether the run that a row belongs to counts: the last column of every table."""

    valid: bool
    """`true` where the run kept all limits. Averages are to be over such rows alone. Computed."""


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
    """When its last step ended, transfers included, and all of the iterations before. From the agents' logs."""
    duration_s: float
    """`finish_s` less `start_s`. Computed."""
    exposed_s: float
    """Exposed communication: `duration_s` less what it would be if transfers took no time. Computed."""
    predicted_s: float | None
    """The iteration's duration in the fluid simulation of the same jobs, network and policy. From prediction.json."""
    in_force: str | None = None
    """Policies in force during the iteration, in order; empty in a run in which none was swapped in. From events.jsonl."""
    counted: bool = True
    """Whether it counts: it lies in the window that the experiment file asks for. Computed."""


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
    path: str | None = None
    """Switches on its way, in order, such as `l1 p2 l3`; `#2` behind one is its second cable from the one before. From the network
    and the flow's ports."""


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
    network: Network | None = None,
    is_prediction: bool = False,
    took_s: Mapping[FlowKey, float] | None = None,
) -> RunRows:
    """All rows of a run of `jobs`; `predicted`, `took_s`, `packets` and `network` as for `iteration_rows` and `flow_rows`.

    A run that is a fluid simulation itself `is_prediction` of its own iterations.
    """
    times = GroupTimes.of(FlowNumbers.of(record.flows))
    iterations = iteration_rows(record, jobs, predicted, took_s)
    if is_prediction:
        iterations = [dataclasses.replace(row, predicted_s=row.duration_s) for row in iterations]
    return RunRows(
        iterations,
        group_rows(record, jobs, times),
        flow_rows(record, packets, times, network),
    )


def iteration_rows(
    record: RunRecord,
    jobs: Sequence[Job],
    predicted: Sequence[IterationRow] = (),
    took_s: Mapping[FlowKey, float] | None = None,
) -> list[IterationRow]:
    """Completed iterations of all jobs (`echelonflow.model.iterations`).

    `predicted` are those of a fluid run of the same jobs and policy. Computations take what they `took_s` by the run's
    log, where that is what they take. Background traffic has no iterations.
    """
    rows = []
    expected_s = {(row.job, row.iteration): row.duration_s for row in predicted}
    last_s = last_ends_s(record, jobs)
    for job in jobs:
        if job.is_background:
            continue
        unavoidable_s = iteration_times_without_network(job.dag, job.iterations, drawn(job, record.repeat, took_s))
        ends = ends_s(last_s[job.name], job.start_s)
        for iteration, duration_s in enumerate(durations_s(ends, job.start_s)):
            rows.append(
                IterationRow(
                    record.policy, record.repeat, job.name, iteration,
                    ends[iteration - 1] if iteration else job.start_s, ends[iteration], duration_s,
                    duration_s - unavoidable_s[iteration], expected_s.get((job.name, iteration)),
                )
            )  # fmt: skip
    return rows


def group_rows(record: RunRecord, jobs: Sequence[Job], times: GroupTimes | None = None) -> list[GroupRow]:
    """Groups of all iterations of which any flow was released; `times` where they are known already."""
    times = times or GroupTimes.of(FlowNumbers.of(record.flows))
    expected = _flows_on_network(jobs)
    groups = times.numbers.groups
    columns = (times.group, times.iteration, times.reference_s, times.flows(), *times.latest_s())
    rows = []
    for place, iteration, reference_s, flows, finish_s, late_s in zip(*(c.tolist() for c in columns), strict=True):
        job, group, kind = groups[place]
        complete = flows == expected[job, group] and not math.isnan(finish_s)
        rows.append(
            GroupRow(
                record.policy, record.repeat, job, iteration, group, kind, reference_s,
                finish_s if complete else None, late_s if complete else None,
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
    times: GroupTimes | None = None,
    network: Network | None = None,
) -> Sequence[FlowRow]:
    """Every released flow; `packets` says what captures saw of it (none in a simulation), `network` by which way it went.

    Retransmissions are those that the packets show where there are packets, else TCP's own count. `times` are
    those of the groups where they are known already. Of a simulation rows are made when they are asked for.
    """
    times = times or GroupTimes.of(FlowNumbers.of(record.flows))
    if isinstance(record.flows, FlowColumns):
        return SimulatedFlowRows(record.policy, record.repeat, record.flows, times.ideal_finish_s, network)
    rows = []
    paths = _Paths(network)
    for f, ideal_s in zip(record.flows, times.ideal_finish_s.tolist(), strict=True):
        seen = (packets or {}).get((f.job, f.iteration, f.flow))
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
                paths.of(f),
            )
        )  # fmt: skip
    return rows


class _Paths:
    """Paths of flows in words; None where no network is known that has them."""

    def __init__(self, network: Network | None) -> None:
        self._network = network
        self._known: dict[tuple[str, str, int], str | None] = {}

    def of(self, flow: FlowRecord | FlowStep) -> str | None:
        """The path of a flow."""
        network = self._network
        if network is None:
            return None
        way = (flow.src_host, flow.dst_host, flow.src_port if network.spreads_connections else 0)
        if way not in self._known:
            try:
                self._known[way] = network.path_in_words(*way)
            except InputError:  # the run's records contradict its network: the verdict says so
                self._known[way] = None
        return self._known[way]


class SimulatedFlowRows(Sequence[FlowRow]):
    """The rows of simulated flows, kept as columns: a table of a million takes no million objects."""

    def __init__(
        self, policy: str, repeat: int, flows: FlowColumns, ideal_finish_s: Floats, network: Network | None = None
    ) -> None:
        self._run = (policy, repeat)
        self._flows = flows
        self._paths = _Paths(network)
        self._ideal_finish_s = ideal_finish_s

    def __len__(self) -> int:
        return len(self._flows)

    @overload
    def __getitem__(self, place: int) -> FlowRow: ...
    @overload
    def __getitem__(self, place: slice) -> list[FlowRow]: ...
    def __getitem__(self, place: int | slice) -> FlowRow | list[FlowRow]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        f, ideal_s = self._flows[place], float(self._ideal_finish_s[place])
        finish_s = None if math.isnan(f.finish_s) else f.finish_s
        return FlowRow(
            *self._run, f.job, f.iteration, f.group, f.flow, f.src_host, f.dst_host, f.size_bytes, f.release_s,
            f.start_s, finish_s, ideal_s, None if finish_s is None else finish_s - ideal_s,
            None, None, None, None, None, 0, ready_s=f.ready_s, path=self._paths.of(f),
        )  # fmt: skip

    def tardiness_of(self, iteration: int) -> dict[tuple[str, str], float]:
        """Tardiness of one iteration's finished flows, by job and name."""
        flows, late_s = self._flows, self._flows.finish_s - self._ideal_finish_s
        places = np.flatnonzero((flows.iteration == iteration) & ~np.isnan(late_s))
        steps = [flows.steps[step] for step in flows.step[places].tolist()]
        return {(s.job, s.flow): one_s for s, one_s in zip(steps, late_s[places].tolist(), strict=True)}

    def held_s(self) -> dict[str, tuple[list[float], int]]:
        """By job, for how long each of its flows was held back that was, and how many flows there are."""
        names = list(dict.fromkeys(step.job for step in self._flows.steps))
        job = np.array([names.index(step.job) for step in self._flows.steps], np.int64)[self._flows.step]
        waited_s = self._flows.release_s - self._flows.ready_s
        held = ~np.isnan(waited_s)
        return {name: (waited_s[held & (job == i)].tolist(), int((job == i).sum())) for i, name in enumerate(names)}

    def by_column(self) -> ByColumn:
        """The same as columns, for tables."""
        flows, names = self._flows, ("policy", "repeat", "job", "group", "flow", "src", "dst", "size_bytes", "path")
        of_steps = (
            (*self._run, s.job, s.group, s.flow, s.src_host, s.dst_host, s.size_bytes, self._paths.of(s))
            for s in flows.steps
        )
        fixed = [{**dict(zip(names, cells, strict=True)), "retransmissions": 0} for cells in of_steps]
        varying: dict[str, Ints | Floats] = {
            "iteration": flows.iteration,
            "release_s": flows.release_s,
            "start_s": flows.start_s,
            "finish_s": flows.finish_s,
            "ideal_finish_s": self._ideal_finish_s,
            "tardiness_s": flows.finish_s - self._ideal_finish_s,
            "ready_s": flows.ready_s,
        }
        return ByColumn(fixed, flows.step, varying)


def tardiness_of(rows: Sequence[FlowRow], iteration: int) -> dict[tuple[str, str], float]:
    """Tardiness of one iteration's finished flows, by job and name; seconds."""
    if isinstance(rows, SimulatedFlowRows):
        return rows.tardiness_of(iteration)
    return {
        (row.job, row.flow): row.tardiness_s
        for row in rows
        if row.iteration == iteration and row.tardiness_s is not None
    }


def held_s(rows: Sequence[FlowRow]) -> dict[str, tuple[list[float], int]]:
    """By job, for how long each of its flows was held back that was, and how many flows it has in all."""
    if isinstance(rows, SimulatedFlowRows):
        return rows.held_s()
    waited_s: dict[str, list[float]] = defaultdict(list)
    for row in rows:
        if row.ready_s is not None:
            waited_s[row.job].append(row.release_s - row.ready_s)
    return {job: (waited_s[job], flows) for job, flows in Counter(row.job for row in rows).items()}
