"""Runs training jobs in columns: between two decisions everything is compiled (`loops`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.dag import Compute, Job
from echelonflow.model.network import Network
from echelonflow.records.run_columns import ComputeColumns, ComputeStep, FlowColumns, FlowStep
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import decision_loops, kernels
from echelonflow.scheduling.decision import Decision
from echelonflow.scheduling.forms import Form
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.snapshot import CoflowTable, GroupTable, JobTable, Snapshot
from simulator.columns import loops, room
from simulator.columns import tables as t
from simulator.columns.plan import Asked, asked_of
from simulator.engine import IDLE_DECISIONS, MOVED_SHARE, no_progress, stuck, waits_for_ever


def run(
    jobs: Sequence[Job],
    network: Network,
    policy: Policy,
    record: RunRecord,
    on_progress: Callable[[float], None] | None = None,
) -> None:
    """All iterations of `jobs`; what happens is written into `record`. Raises what `simulator.engine` does."""
    asked = asked_of(jobs, network)
    simulation = _Simulation(asked, np.array([job.start_s for job in jobs], np.float64), network, policy)
    simulation.run(on_progress)
    for job, unfinished in zip(jobs, simulation.tables.unfinished.tolist(), strict=True):
        if unfinished:
            raise waits_for_ever(job.name)
    _write(asked, jobs, simulation.tables, record)


class _Simulation:
    def __init__(self, asked: Asked, start_s: Floats, network: Network, policy: Policy) -> None:
        self._policy = policy
        self._plan = asked.plan
        self._capacity_Bps = asked.capacity_Bps
        self._link_names = tuple(link.name for link in network.links)
        self.tables = room.tables_of(asked.plan, start_s)
        self._decide = Decision(policy)
        form = None if policy.isolated else policy.form()
        self._counts_pending = form is None or form.counts_pending
        self._keeps = np.ndarray.copy if form is None else np.asarray
        """A policy without a form may keep what it is shown."""
        self._form = decision_loops.asked(form or Form((), "greedy"))
        is_whole = form is not None and not form.counts_pending and decision_loops.GIVEN not in self._form.measure
        self._by_form = is_whole and _can_decide()
        self._seen = self._room_to_see()

    def run(self, on_progress: Callable[[float], None] | None) -> None:
        """Until nothing is left to happen."""
        while True:
            times, counts = self.tables.times, self.tables.counts
            for stop in loops.events(
                self._plan, self.tables, self._seen, self._capacity_Bps, self._form, self._by_form,
                IDLE_DECISIONS, MOVED_SHARE,
            ):  # fmt: skip
                now_s = float(times[t.NOW_S])
                if on_progress is not None:
                    on_progress(now_s)
                if stop == loops.DECISION:
                    allocation = self._decide(self._snapshot(now_s))
                    self.tables.row_floats[t.RATE_BPS, : counts[t.FLOWS]] = allocation.rates_Bps
                    times[t.EXPIRES_S] = allocation.valid_until_s
                elif stop == loops.STALLED:
                    raise no_progress(now_s, self._policy.name, int(counts[t.FLOWS]))
                elif stop == loops.OVER:
                    if counts[t.FLOWS]:
                        raise stuck(now_s, self._policy.name, int(counts[t.FLOWS]))
                    return
            self.tables = room.grown(self.tables)
            self._seen = room.copied(self._seen, self._room_to_see())

    def _room_to_see(self) -> t.Seen:
        return room.seen_of(self._plan, self.tables, pending=self._counts_pending)

    def _snapshot(self, now_s: float) -> Snapshot:
        """What the policy sees now."""
        counts, seen = self.tables.counts, self._seen
        flows, groups = int(counts[t.FLOWS]), int(counts[t.GROUPS_SEEN])
        coflows, jobs = int(counts[t.COFLOWS_SEEN]), int(counts[t.JOBS_SEEN])
        mine = self._keeps
        remaining_bytes, sent_bytes, ideal_finish_s = mine(seen.flow_floats[:, :flows])
        group, coflow = mine(seen.flow_ints[:, :flows])
        weight, arrival_s, coflow_bytes = mine(seen.coflow_floats[:, :coflows])
        compute_s, alone_s = mine(seen.job_floats[:, :jobs])
        return Snapshot(
            now_s=now_s,
            flow_id=mine(self.tables.rows[t.FLOW_ID, :flows]),
            remaining_bytes=remaining_bytes,
            sent_bytes=sent_bytes,
            release_s=mine(self.tables.row_floats[t.RELEASE_S, :flows]),
            ideal_finish_s=ideal_finish_s,
            group=group,
            coflow=coflow,
            path_start=mine(seen.path_start[: flows + 1]),
            path_link=mine(seen.path_link[: counts[t.HOPS_SEEN]]),
            capacity_Bps=self._capacity_Bps,
            groups=self._group_table(groups, mine),
            coflows=CoflowTable(mine(seen.coflow_ids[:coflows]), weight, arrival_s, coflow_bytes),
            jobs=JobTable(mine(seen.job_ids[:jobs]), compute_s, alone_s),
            link_names=self._link_names,
        )

    def _group_table(self, groups: int, mine: Callable[[np.ndarray], np.ndarray]) -> GroupTable:
        seen, pending = self._seen, int(self._seen.pending_start[groups])
        weight, reference_s, incurred_tardiness_s, span_s, alone_s = mine(seen.group_floats[:, :groups])
        group_id, job = mine(seen.group_ints[:, :groups])
        return GroupTable(
            id=group_id,
            weight=weight,
            reference_s=reference_s,
            incurred_tardiness_s=incurred_tardiness_s,
            job=job,
            span_s=span_s,
            alone_s=alone_s,
            pending_start=mine(seen.pending_start[: groups + 1]),
            pending_link=mine(seen.pending_link[:pending]),
            pending_bytes=mine(seen.pending_bytes[:pending]),
        )


def _can_decide() -> bool:
    """Whether decisions are made in compiled loops."""
    return kernels.of_this_process().are_compiled


def _write(asked: Asked, jobs: Sequence[Job], tables: t.Tables, record: RunRecord) -> None:
    plan = asked.plan
    _, iteration, step = _places(plan, tables.flow_records)
    flows = FlowColumns(
        [
            FlowStep(
                group.job, d.flow, group.group, group.kind, d.coflow, d.src_host, d.dst_host, d.src_port, d.dst_port,
                d.size_bytes, d.offset_s,
            )
            for group, d in asked.declared
        ]
    )  # fmt: skip
    release_s, start_s, finish_s = tables.flow_records_s
    never_held_s = np.full(len(step), np.nan)
    flows.extend(plan.steps[t.STEP_FLOW, step], iteration, release_s, start_s, finish_s, never_held_s)
    _, iteration, step = _places(plan, tables.compute_records)
    computes = ComputeColumns(
        [
            ComputeStep(job.name, each.name, each.kind, each.rank, job.placement[each.rank])
            for job in jobs
            for each in job.dag.computes
        ]
    )
    is_compute = np.array([isinstance(each, Compute) for job in jobs for each in job.dag.steps], bool)
    start_s, finish_s = tables.compute_records_s
    place = np.cumsum(is_compute) - 1
    computes.extend(place[step], iteration, start_s, finish_s, np.zeros(len(step)))
    record.flows, record.computes = flows, computes


def _places(plan: t.Plan, records: Ints) -> tuple[Ints, Ints, Ints]:
    """Job, iteration and step of what has ended."""
    job, instance = records
    first = plan.jobs[t.FIRST_STEP, job]
    steps = plan.jobs[t.FIRST_STEP, job + 1] - first
    iteration, place = np.divmod(instance - plan.jobs[t.FIRST_INSTANCE, job], steps)
    return job, iteration, first + place
