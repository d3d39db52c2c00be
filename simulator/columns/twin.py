"""The fluid twin of a running system: begins where its jobs are, and finds what is best for them from now on.

What was found for the same jobs in the same phase is remembered, and is a candidate again. There is no search where it is the best.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence

import numpy as np

from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.network import Cable, Network
from echelonflow.scheduling import policies
from echelonflow.scheduling.flow_windows import FlowWindows, JobNow
from echelonflow.scheduling.planning import AskPlan, Foreseen, KnowJob, Moves, PlanMade, no_moves
from echelonflow.scheduling.policies.lookahead import CANDIDATES, InForce
from echelonflow.wire.declare import declarations
from echelonflow.wire.graph import graph_of
from simulator.columns import engine, planner
from simulator.columns import tables as t
from simulator.columns.placing import AHEAD, placed
from simulator.columns.plan import Asked, Outline, asked_by

PHASES = 8
"""Parts of an iteration that are told apart."""
MOST_REMEMBERED = 64


class Twin:
    """Plans for one network; `clock` (seconds) measures how long that takes."""

    def __init__(self, network: Network, clock: Callable[[], float]) -> None:
        self._network = network
        self._clock = clock
        self._jobs: dict[str, KnowJob] = {}
        self._found: OrderedDict[Hashable, tuple[str, Moves]] = OrderedDict()
        self._took_s: float | None = None
        """How long the last plan took."""

    def know(self, job: KnowJob) -> None:
        """A job that may be asked about."""
        self._jobs[job.graph.job] = job

    def plan(self, asked: AskPlan) -> PlanMade:
        """What is best from when it will be in force. InputError for a job that is not known."""
        begun_s = self._clock()
        simulation, plan, earlier_s = self._where(asked)
        simulation.set_pace()
        simulation.go_on(earlier_s, asked.now_s + min(asked.budget_s, self._took_s or asked.budget_s))
        flows = simulation.declared()
        chosen = policies.load(asked.chosen)
        in_force = InForce(
            asked.candidates, asked.tries, asked.rounds, asked.seed, chosen, plans=asked.plans, slowdown=asked.slowdown
        )
        order = np.argsort(flows.template)
        in_force.template, in_force.earlier_s = flows.template[order], earlier_s[order]
        phase = self._phase(asked, simulation)
        known = self._found.get(phase)
        remembered = None if known is None else planner.Candidate(policies.load(known[0]), _seconds(plan, known[1]))
        until_s = begun_s + asked.budget_s
        made = simulation.plan(in_force, lambda: self._clock() < until_s, remembered)
        best = made.found.best
        moves = _moves(plan, asked, best.earlier_s)
        self._remember(phase, best.policy.name, moves)
        end_s = made.begin_s + made.horizon_s
        ends_s = simulation.rolled_out(best, end_s)
        self._took_s = self._clock() - begun_s
        return PlanMade(
            asked.number,
            best.policy.name,
            moves,
            tuple(_foreseen(job, ends) for job, ends in zip(asked.jobs, ends_s, strict=True)),
            end_s,
            made.found.roll_outs + 1,
            made.found.judged,
            self._took_s,
            best is remembered,
        )

    def _where(self, asked: AskPlan) -> tuple[engine.Simulation, Asked, Floats]:
        """A simulation that begins where jobs are, under what is in force."""
        known = [self._known(where.job) for where in asked.jobs]
        given = [group for each in known for group in each.groups]
        slowest_s = max((group.clock.iteration_s for group in given if group.clock is not None), default=0.0)
        outlines = [
            Outline.told(each.graph, _iterations(each, where, asked, slowest_s))
            for each, where in zip(known, asked.jobs, strict=True)
        ]
        plan = asked_by(given, outlines, self._network, clocks=True)
        tables = placed(plan, outlines, asked.jobs, asked.now_s)
        if plan.clocks is not None:
            tables.pace_s[t.OWN] = plan.clocks.loads.iteration_s
        simulation = engine.Simulation(plan, tables, self._network, policies.load(asked.chosen))
        return simulation, plan, _seconds(plan, asked.moves)

    def _known(self, job: str) -> KnowJob:
        if job not in self._jobs:
            raise InputError(f"job {job!r} is asked about, but was not told")
        return self._jobs[job]

    def _phase(self, asked: AskPlan, simulation: engine.Simulation) -> Hashable:
        """The jobs, and in which part of an iteration each is."""
        own_s, shared_s = simulation.tables.pace_s[t.OWN], simulation.tables.pace_s[t.SHARED]
        pace_s = np.where(np.isfinite(shared_s), shared_s, own_s)
        since_s = simulation.tables.times[t.NOW_S] - simulation.tables.last_end_s
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.nan_to_num(np.floor(since_s / pace_s * PHASES) % PHASES, nan=0.0, posinf=0.0, neginf=0.0)
        return asked.candidates, tuple(where.job for where in asked.jobs), tuple(part.tolist())

    def _remember(self, phase: Hashable, chosen: str, moves: Moves) -> None:
        self._found[phase] = chosen, moves
        self._found.move_to_end(phase)
        while len(self._found) > MOST_REMEMBERED:
            self._found.popitem(last=False)


def _iterations(known: KnowJob, where: JobNow, asked: AskPlan, slowest_s: float) -> int:
    """So many iterations of a job are simulated: those that are left, or more than roll-outs can reach."""
    rows = where.rows + AHEAD
    own_s = max((group.clock.iteration_s for group in known.groups if group.clock is not None), default=0.0)
    reach = math.inf
    if own_s > 0:
        jobs = len(asked.jobs)
        far_s = asked.budget_s + planner.JUDGED * asked.rounds * slowest_s * max(jobs, 1)
        reach = rows + math.ceil(far_s / own_s) + 1
    left = known.graph.iterations - where.first if known.graph.iterations else math.inf
    return int(max(min(left, reach, 1 << 16), where.rows, 1))


def _seconds(plan: Asked, moves: Moves) -> Floats:
    """Moves by declared flow."""
    place = {(moves.jobs[job], index): earlier_s for job, index, earlier_s in _rows(moves)}
    return np.array([place.get((group.job, flow.index), 0.0) for group, flow in plan.declared], np.float64)


def _rows(moves: Moves) -> list[tuple[int, int, float]]:
    return list(zip(moves.of_job.tolist(), moves.index.tolist(), moves.earlier_s.tolist(), strict=True))


def _moves(plan: Asked, asked: AskPlan, earlier_s: Floats) -> Moves:
    jobs = tuple(where.job for where in asked.jobs)
    place = {job: number for number, job in enumerate(jobs)}
    moved = np.flatnonzero(earlier_s != 0.0)
    named: Sequence[tuple[int, int]] = [
        (place[group.job], flow.index) for group, flow in (plan.declared[each] for each in moved.tolist())
    ]
    of_job, index = (np.array([each[end] for each in named], np.int64) for end in (0, 1))
    return Moves(jobs, of_job, index, earlier_s[moved])


def _foreseen(where: JobNow, ends_s: Floats) -> Foreseen:
    """Ends that are still to come; those in the window before were heard of."""
    over = max(where.last + 1 - where.first, 0)
    return Foreseen(where.job, where.first + over, ends_s[over:])


def rehearse(clock: Callable[[], float]) -> None:
    """Plan for a job of two steps: all that plans are made by is compiled then, or loaded."""
    cables = Cable("h1", "s1", 1e9), Cable("h2", "s1", 1e9)
    network = Network("two hosts", ("h1", "h2"), ("s1",), cables)
    steps = Transfer("t", 0, 1, 1_000_000, "t"), Compute("c", 1, 0.01, ("t",))
    job = Job("j", JobDag(2, steps, (Group("g", "", ("t",), (0.0,)),), (("c", "t"),)), ("h1", "h2"), 100)
    windows, twin, graph = FlowWindows(), Twin(network, clock), graph_of(job)
    windows.tell(graph)
    windows.release("j", 0, 0, 0.0)
    twin.know(KnowJob(graph, tuple(declarations([job], ahead=False, network=network))))
    where = windows.now("j", -1, 0.0, {})
    twin.plan(AskPlan(0, 0.001, (where,), CANDIDATES, 1, 2, 0, 0, 60.0, CANDIDATES[0], no_moves()))
