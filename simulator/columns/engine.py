"""Runs training jobs in columns: between two decisions everything is compiled (`loops`)."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time
from collections.abc import Callable, Sequence

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.dag import Compute, Job
from echelonflow.model.draws import Durations
from echelonflow.model.network import Network
from echelonflow.records.rates import RateLog
from echelonflow.records.run_columns import ComputeColumns, ComputeStep, FlowColumns, FlowStep
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import decision_loops, kernels
from echelonflow.scheduling.decision import Decision
from echelonflow.scheduling.forms import CLOCKS, Form
from echelonflow.scheduling.policies import Policy
from echelonflow.scheduling.policies.lookahead import InForce
from echelonflow.scheduling.snapshot import ClockTable, CoflowTable, GroupTable, JobTable, Snapshot
from echelonflow.scheduling.state import stable_id
from echelonflow.scheduling.steady import JobLoads
from simulator.columns import loops, planner, room
from simulator.columns import tables as t
from simulator.columns.connections import Connections
from simulator.columns.plan import Asked, Clocks, asked_of
from simulator.engine import IDLE_DECISIONS, MOVED_SHARE, no_progress, stuck, waits_for_ever


def run(
    jobs: Sequence[Job],
    network: Network,
    policy: Policy,
    record: RunRecord,
    on_progress: Callable[[float], None] | None = None,
    profiles: Sequence[Job] | None = None,
    rates: RateLog | None = None,
) -> None:
    """All iterations of `jobs`; what happens is written into `record`. Raises what `simulator.engine` does.

    `profiles` are the jobs as they are declared, if that is not how they are. In `rates` is noted how fast flows go.
    """
    asked = asked_of(jobs, network, profiles, clocks=policy.promises.reads_clock)
    asked = _with_drawn(asked, _drawn_s(jobs, record.repeat))
    tables = room.tables_of(asked.plan, np.array([job.start_s for job in jobs], np.float64))
    if asked.clocks is not None:
        tables.pace_s[t.OWN] = asked.clocks.loads.iteration_s
    simulation = Simulation(asked, tables, network, policy, rates)
    simulation.run(on_progress)
    for job, unfinished in zip(jobs, simulation.tables.unfinished.tolist(), strict=True):
        if unfinished:
            raise waits_for_ever(job.name)
    _write(asked, jobs, simulation.tables, record)
    if rates is not None:
        rates.end(simulation.tables.flow_records[1])


def _drawn_s(jobs: Sequence[Job], repeat: int) -> Floats:
    """What each step of every iteration takes in a repeat, one job after the other; empty where nothing is drawn."""
    if all(job.draws is None for job in jobs):
        return np.zeros(0)
    found: list[float] = []
    for job in jobs:
        durations, steps = Durations(job, repeat), job.dag.steps
        for iteration in range(job.iterations):
            found += [durations.of(iteration, step) if isinstance(step, Compute) else 0.0 for step in steps]
    return np.array(found)


def _with_drawn(asked: Asked, drawn_s: Floats) -> Asked:
    return dataclasses.replace(asked, plan=asked.plan._replace(drawn_s=drawn_s))


@dataclasses.dataclass(frozen=True, eq=False)
class Planned:
    """What a planner found at a moment, and for how long that is to hold."""

    found: planner.Found
    flows: planner.Flows
    begin_s: float
    horizon_s: float


class Simulation:
    """A simulation under way in `tables`."""

    def __init__(
        self, asked: Asked, tables: t.Tables, network: Network, policy: Policy, rates: RateLog | None = None
    ) -> None:
        self._asked = asked
        self._rates = rates
        self._plan = asked.plan
        self._network = network
        self._clocks = asked.clocks
        self._connections = Connections(asked) if policy.promises.reads_connections else None
        self._under_way = np.zeros(0, np.int64)
        """Places of the jobs in `_loads`."""
        self._loads: JobLoads | None = None
        self._link_names = tuple(link.name for link in network.links)
        self.tables = tables
        self._in_force: InForce | None = policy.memory if policy.promises.plans else None
        """Where the policy has a planner."""
        self._named = policy
        self._horizon_s = math.inf
        self._follow(policy if self._in_force is None or policy.is_asked else self._in_force.chosen)

    def _follow(self, policy: Policy) -> None:
        """Let this policy decide from now on."""
        self._decide = Decision(policy)
        form = None if policy.isolated else policy.form()
        self._counts_pending = form is None or form.counts_pending
        self._keeps = np.ndarray.copy if form is None else np.asarray
        """A policy without a form may keep what it is shown."""
        self._form = decision_loops.asked(form or Form((), "greedy"))
        known = form is not None and {key.measure for key in decision_loops.given_of(form)} <= _GIVEN_HERE
        self._by_form = form is not None and known and not form.counts_pending and _can_decide()
        self._tells_others = self._in_force is not None or (self._by_form and len(self._form.given) > 0)
        self._seen = self._room_to_see()

    def run(self, on_progress: Callable[[float], None] | None, end_s: float = math.inf) -> None:
        """Until nothing is left to happen up to `end_s`; who has a planner plans again when its horizon is reached."""
        while True:
            horizon_s = min(end_s, self._horizon_s)
            times, counts = self.tables.times, self.tables.counts
            stop = loops.ROOM
            for stop in loops.events(
                self._plan, self.tables, self._seen, self._asked.capacity_Bps, self._form, self._by_form,
                self._tells_others, horizon_s, IDLE_DECISIONS, MOVED_SHARE, self._pause_decisions(),
            ):  # fmt: skip
                now_s = float(times[t.NOW_S])
                if on_progress is not None:
                    on_progress(now_s)
                if stop == loops.DECISION:
                    allocation = self._decide(self._snapshot(now_s))
                    self.tables.row_floats[t.RATE_BPS, : counts[t.FLOWS]] = allocation.rates_Bps
                    times[t.EXPIRES_S] = allocation.valid_until_s
                    self._note_rates(now_s)
                elif stop == loops.PAUSE:
                    self._note_rates(now_s)
                elif stop == loops.STALLED:
                    raise no_progress(now_s, self._named.name, int(counts[t.FLOWS]))
                elif stop == loops.OVER:
                    if counts[t.FLOWS]:
                        raise stuck(now_s, self._named.name, int(counts[t.FLOWS]))
                    return
            if stop == loops.HORIZON and self._in_force is None:
                return
            if stop in {loops.PACE, loops.HORIZON}:
                self.set_pace()
                if self._in_force is not None:
                    self._look_ahead(self._in_force)
            else:
                self.tables = room.grown(self.tables)
                self._seen = room.copied(self._seen, self._room_to_see())

    def _pause_decisions(self) -> int:
        """After how many decisions that it makes itself the compiled loop pauses."""
        return loops.PAUSE_DECISIONS if self._rates is None or self._rates.is_full else 1

    def _note_rates(self, now_s: float) -> None:
        if self._rates is not None:
            flows = int(self.tables.counts[t.FLOWS])
            instance, rate_Bps = self.tables.rows[t.INSTANCE, :flows], self.tables.row_floats[t.RATE_BPS, :flows]
            self._rates.note(now_s, instance, rate_Bps)

    def _look_ahead(self, in_force: InForce) -> None:
        """Have the planner find what is to decide from now on; it does so at once."""
        if not len(self._under_way):
            self._horizon_s = math.inf  # the next job that comes is the next occasion
            return
        self.tables.times[t.EXPIRES_S] = self.tables.times[t.NOW_S]
        begun_s = time.perf_counter()
        planned = self.plan(in_force)
        in_force.took_s += time.perf_counter() - begun_s
        # The horizon has to move on, or nothing would.
        since_s = planned.begin_s if self._horizon_s == math.inf else max(planned.begin_s, self._horizon_s)
        self._horizon_s = since_s + planned.horizon_s
        best = planned.found.best
        in_force.adopt(
            best.policy, planned.flows.template, best.earlier_s, planned.found.roll_outs, at_s=planned.begin_s
        )
        if not self._named.is_asked:
            self._plan = self._moved(best.earlier_s).plan
            self._follow(best.policy)

    def plan(
        self,
        in_force: InForce,
        goes_on: Callable[[], bool] = planner.always,
        remembered: planner.Candidate | None = None,
    ) -> Planned:
        """What is best from now on, found as long as it `goes_on`; nothing of that is in force."""
        own_s, shared_s = self.tables.pace_s[t.OWN], self.tables.pace_s[t.SHARED]
        pace_s = np.where(np.isfinite(shared_s), shared_s, own_s)
        begin_s, slowest_s = float(self.tables.times[t.NOW_S]), float(pace_s[self._under_way].max(initial=0.0))
        left = self._iterations_left().tolist()

        def roll_out(candidate: planner.Candidate, rounds: int) -> float:
            end_s = begin_s + rounds * slowest_s
            times_s = planner.iteration_times_s(self.rolled_out(candidate, end_s), left, begin_s, end_s)
            return planner.value_s(times_s, own_s, in_force.slowdown)

        flows = self.declared()
        found = planner.best_of(in_force, flows, pace_s, roll_out, goes_on=goes_on, remembered=remembered)
        return Planned(found, flows, begin_s, planner.JUDGED * in_force.rounds * slowest_s)

    def rolled_out(self, candidate: planner.Candidate, end_s: float) -> list[Floats]:
        """When iterations of each job end up to a moment if a candidate decides from now on.

        What computations will draw, nobody knows: those that begin later take what they declare.
        """
        tables = room.forked(self.tables)
        asked = _with_drawn(self._moved(candidate.earlier_s), np.zeros(0))
        fork = Simulation(asked, tables, self._network, candidate.policy)
        fork.run(None, end_s)
        return fork.iteration_ends_s()

    def declared(self) -> planner.Flows:
        """The declared flows, as a planner knows them."""
        flows = self._plan.flows[:, :-1]
        job = self._plan.groups[t.GROUP_JOB, flows[t.FLOW_GROUP]]
        template = np.asarray(stable_id(self._plan.jobs[t.JOB_PLACE, job], 0, flows[t.FLOW_INDEX]))
        return planner.Flows(template, self._plan.parts[t.PART_COFLOW, flows[t.FLOW_PART]], job)

    def go_on(self, earlier_s: Floats, end_s: float) -> None:
        """Go on to a moment with due times moved until then, from tables that were placed."""
        fork = Simulation(self._moved(earlier_s), self.tables, self._network, self._named)
        fork.set_pace()
        fork.run(None, end_s)
        self.tables = fork.tables
        self.tables.times[t.NOW_S] = max(end_s, self.tables.times[t.NOW_S])
        self.tables.times[t.EXPIRES_S] = self.tables.times[t.NOW_S]
        self._seen = self._room_to_see()
        self.set_pace()

    def _iterations_left(self) -> Ints:
        """Iterations of each job under way whose flows have not all ended; of the others 0."""
        first = self._plan.jobs[t.FIRST_ITERATION]
        left = np.add.reduceat(np.append(self.tables.iteration_left > 0, 0), first[:-1])
        is_under_way = np.zeros(len(left), np.int64)
        is_under_way[self._under_way] = 1
        return left * is_under_way

    def _moved(self, earlier_s: Floats) -> Asked:
        """The same with due times moved."""
        clock = self._asked.plan.clock.copy()
        clock[[t.TAIL_S, t.TO_END_S]] += earlier_s
        return dataclasses.replace(self._asked, plan=self._asked.plan._replace(clock=clock))

    def iteration_ends_s(self) -> list[Floats]:
        """When those iterations of each job ended whose flows all have, in order; none of jobs without flows."""
        tables, first = self.tables, self._plan.jobs[t.FIRST_ITERATION]
        found = []
        for begin, end in itertools.pairwise(first.tolist()):
            ends_s = tables.iteration_end_s[begin:end][tables.iteration_left[begin:end] == 0]
            found.append(np.maximum.accumulate(ends_s[ends_s > -math.inf]))
        return found

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
            capacity_Bps=self._asked.capacity_Bps,
            groups=self._group_table(groups, mine),
            coflows=CoflowTable(mine(seen.coflow_ids[:coflows]), weight, arrival_s, coflow_bytes),
            jobs=JobTable(mine(seen.job_ids[:jobs]), compute_s, alone_s),
            link_names=self._link_names,
            clock=None if self._clocks is None else self._clock_table(self._clocks, flows),
            connections=None if self._connections is None else self._connections.table(self.tables, sent_bytes),
        )

    def _clock_table(self, clocks: Clocks, flows: int) -> ClockTable:
        """What clocks say of the flows in flight; jobs are under way from their first flow's release to their last one's end."""
        jobs, tables = self._plan.jobs, self.tables
        declared, instance, job = tables.rows[[t.DECLARED, t.INSTANCE, t.JOB], :flows]
        iteration = (instance - jobs[t.FIRST_INSTANCE, job]) // (jobs[t.FIRST_STEP, job + 1] - jobs[t.FIRST_STEP, job])
        behind = iteration + 1 - tables.last_ended[job]
        return ClockTable(
            tables.last_end_s[job],
            behind,
            self._plan.clock[t.TAIL_S, declared],
            self._plan.clock[t.TO_END_S, declared],
            self._plan.clock[t.LAYER, declared].astype(np.int64),
            self._together(clocks),
        )

    def _together(self, clocks: Clocks) -> JobLoads:
        """Loads of the jobs under way; the same while these are."""
        tables = self.tables
        under_way = clocks.in_order(np.flatnonzero((tables.last_end_s < math.inf) & (tables.flows_left > 0)))
        if self._loads is None or not np.array_equal(under_way, self._under_way):
            self._under_way, self._loads = under_way, clocks.of(under_way)
        return self._loads

    def set_pace(self) -> None:
        """Note what the jobs that are under way now can keep up together."""
        tables = self.tables
        if self._clocks is not None:
            together_s = self._together(self._clocks).together_s
            tables.pace_s[t.SHARED, self._under_way] = together_s
        tables.counts[t.OTHERS] = 0

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


_GIVEN_HERE = frozenset({*CLOCKS, "layer"})
"""Keys that are made in compiled loops, although they are given elsewhere."""


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
