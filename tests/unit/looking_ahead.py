"""A fluid simulation that is stopped, and what a coordinator would have heard of it by then."""

from __future__ import annotations

import dataclasses
import random

import numpy as np

from echelon.cases import random_jobs
from echelonflow.scheduling import policies
from echelonflow.scheduling.flow_windows import FlowWindows
from echelonflow.scheduling.planning import AskPlan, KnowJob, no_moves
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.declare import declarations
from echelonflow.wire.graph import graph_of
from simulator.columns import engine, room
from simulator.columns import tables as t
from simulator.columns.plan import asked_of
from simulator.fluid import simulate


def drawn(seed, jobs=3, iterations=8):
    """Random jobs that go on for a while."""
    case = random_jobs.draw(random.Random(seed), "one-link", jobs=jobs)
    return dataclasses.replace(case, jobs=tuple(dataclasses.replace(job, iterations=iterations) for job in case.jobs))


@dataclasses.dataclass
class Stopped:
    """A simulation of a case under a policy, stopped at a moment: `simulation` is how it is, the rest what was heard."""

    case: random_jobs.Case
    simulation: engine.Simulation
    state: SchedulerState
    windows: FlowWindows
    at_s: float

    @property
    def under_way(self):
        return self.state.clocks.names_under_way()

    @property
    def where(self):
        """Where the jobs are, as a coordinator would say."""
        sent = {job: {} for job in self.under_way}
        tables, plan = self.simulation.tables, self.simulation._plan
        for row in range(int(tables.counts[t.FLOWS])):
            job = int(tables.rows[t.JOB, row])
            steps = plan.jobs[t.FIRST_STEP, job + 1] - plan.jobs[t.FIRST_STEP, job]
            iteration = (tables.rows[t.INSTANCE, row] - plan.jobs[t.FIRST_INSTANCE, job]) // steps
            passed_s = self.at_s - tables.times[t.MOVED_S]
            left = tables.row_floats[t.LEFT_BYTES, row] - tables.row_floats[t.RATE_BPS, row] * passed_s
            index = int(plan.flows[t.FLOW_INDEX, tables.rows[t.DECLARED, row]])
            sent[self.case.jobs[job].name][int(iteration), index] = float(tables.row_floats[t.SIZE_BYTES, row] - left)
        clocks = {job: self.state.clocks.before(job) for job in self.under_way}
        return tuple(self.windows.now(job, clocks[job].last, clocks[job].ended_s, sent[job]) for job in self.under_way)

    @property
    def known(self):
        given = declarations(self.case.jobs, ahead=False, network=self.case.network)
        return [
            KnowJob(graph_of(job), tuple(group for group in given if group.job == job.name)) for job in self.case.jobs
        ]

    def question(self, number=1, **options):
        asked = {
            "candidates": ("clock", "fair", "fifo"), "tries": 4, "rounds": 4, "seed": 0, "plans": 0, "budget_s": 5.0,
            "chosen": "clock", "moves": no_moves(),
        } | options  # fmt: skip
        return AskPlan(number, self.at_s, self.where, **asked)


def stopped(case, policy, at_s):
    """The case under a policy, stopped."""
    asked = asked_of(case.jobs, case.network, clocks=True)
    tables = room.tables_of(asked.plan, np.array([job.start_s for job in case.jobs], np.float64))
    tables.pace_s[t.OWN] = asked.clocks.loads.iteration_s
    simulation = engine.Simulation(asked, tables, case.network, policies.load(policy))
    simulation.run(None, at_s)
    record = simulate(case.jobs, case.network, policies.load(policy))
    state, windows = SchedulerState(case.network), FlowWindows()
    index = {}
    for group in declarations(case.jobs, ahead=False, network=case.network):
        state.declare(group)
        index.update({(group.job, flow.flow): flow.index for flow in group.flows})
    for job in case.jobs:
        windows.tell(graph_of(job))
    events = [(f.release_s, 0, f) for f in record.flows] + [(f.finish_s, 1, f) for f in record.flows]
    for time_s, ends, f in sorted(events, key=lambda event: event[:2]):
        if time_s <= at_s:
            key = (f.job, f.iteration, f.flow)
            (state.finish if ends else state.release)(key, time_s)
            (windows.finish if ends else windows.release)(f.job, f.iteration, index[f.job, f.flow], time_s)
    return Stopped(case, simulation, state, windows, at_s)
