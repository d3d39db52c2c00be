"""A simulation can begin where jobs are: what was heard of their flows tells all the rest."""

from __future__ import annotations

import random

import numpy as np
import pytest

from echelonflow.errors import InputError
from echelonflow.scheduling import kernels, policies
from echelonflow.scheduling.flow_windows import KEPT, FlowWindows
from echelonflow.wire.graph import graph_of
from echelonflow.wire.messages import GraphStep, JobGraph, decode, encode
from simulator.columns import engine
from simulator.columns import tables as t
from simulator.columns.placing import placed
from simulator.columns.plan import Outline, asked_by
from simulator.columns.twin import Twin
from simulator.fluid import simulate
from tests.unit.looking_ahead import drawn, stopped

pytestmark = pytest.mark.skipif(not kernels.can_compile(), reason="looking ahead needs compiled loops (numba)")


def continued(case, policy, at_s, end_s):
    """Ends of iterations after a moment, by job: as they come, and from where the jobs are said to be."""
    known = stopped(case, policy, at_s)
    where, told = known.where, {each.graph.job: each for each in known.known}
    outlines = [Outline.told(told[each.job].graph, told[each.job].graph.iterations - each.first) for each in where]
    given = [group for each in where for group in told[each.job].groups]
    asked = asked_by(given, outlines, case.network, clocks=True)
    tables = placed(asked, outlines, where, at_s)
    tables.pace_s[t.OWN] = asked.clocks.loads.iteration_s
    begun = engine.Simulation(asked, tables, case.network, policies.load(policy))
    begun.set_pace()
    begun.run(None, end_s)
    known.simulation.run(None, end_s)
    truth = dict(zip((job.name for job in case.jobs), known.simulation.iteration_ends_s(), strict=True))
    found = dict(zip((each.job for each in where), begun.iteration_ends_s(), strict=True))
    return {job: (ends[ends > at_s], truth[job][truth[job] > at_s]) for job, ends in found.items()}


@pytest.mark.parametrize("policy", ["fair", "clock", "echelonflow(order=due,within=strict)"])
@pytest.mark.parametrize("seed", range(6))
def test_what_follows_is_what_would_have_followed(seed, policy):
    case = drawn(f"placing/{seed}")
    end_s = max(flow.finish_s for flow in simulate(case.jobs, case.network, policies.load(policy)).flows)
    at_s = random.Random(seed).uniform(0.05, 0.9) * end_s
    found = continued(case, policy, at_s, 2 * end_s)
    assert found
    for ends, truth in found.values():
        assert len(ends) == len(truth)
        np.testing.assert_allclose(ends, truth, rtol=0.01)


def test_a_job_that_goes_on_forever_is_told_by_its_last_iterations():
    case = drawn("long", jobs=2, iterations=40)
    record = simulate(case.jobs, case.network, policies.load("fair"))
    known = stopped(case, "fair", 0.7 * max(flow.finish_s for flow in record.flows))
    for where in known.where:
        assert where.rows <= KEPT + 4
        assert where.first >= where.last - KEPT


def test_a_twin_is_never_worse_than_a_candidate_and_says_when_iterations_end(monkeypatch):
    case = drawn("twin")
    known = stopped(
        case, "fair", 0.4 * max(f.finish_s for f in simulate(case.jobs, case.network, policies.load("fair")).flows)
    )
    judged = []
    real = engine.planner.value_s

    def noted(*arguments):
        judged.append(real(*arguments))
        return judged[-1]

    monkeypatch.setattr(engine.planner, "value_s", noted)
    now_s = 0.0
    twin = Twin(case.network, lambda: now_s)
    for job in known.known:
        twin.know(job)
    made = twin.plan(known.question(tries=0))
    values = dict(zip(("clock", "fair", "fifo"), judged, strict=True))
    assert values[made.chosen] == min(values.values())
    assert [each.job for each in made.foreseen] == list(known.under_way)
    for each in made.foreseen:
        assert list(each.ends_s) == sorted(each.ends_s)
        assert each.ends_s[0] > known.at_s
    assert (made.judged, made.number) == (3, 1)


def test_what_was_found_is_a_candidate_again_in_the_same_phase():
    case = drawn("twin")
    known = stopped(
        case, "fair", 0.4 * max(f.finish_s for f in simulate(case.jobs, case.network, policies.load("fair")).flows)
    )
    twin = Twin(case.network, lambda: 0.0)
    for job in known.known:
        twin.know(job)
    first = twin.plan(known.question(tries=32))
    again = twin.plan(known.question(number=2, tries=32))
    assert again.judged > first.judged - 1
    assert again.roll_outs < first.roll_outs or not again.was_remembered


def test_a_budget_ends_the_search_and_what_is_in_force_is_judged_first():
    case = drawn("twin")
    known = stopped(
        case, "fair", 0.4 * max(f.finish_s for f in simulate(case.jobs, case.network, policies.load("fair")).flows)
    )
    clock = iter(float(10 * each) for each in range(10_000))
    twin = Twin(case.network, lambda: next(clock))
    for job in known.known:
        twin.know(job)
    made = twin.plan(known.question(tries=32, plans=1, chosen="fifo"))
    assert (made.chosen, made.judged) == ("fifo", 1)


# What a job tells


def test_a_graph_says_what_a_job_waits_for():
    case = drawn("graph", jobs=1)
    job = case.jobs[0]
    graph = decode(encode(graph_of(job)))
    assert graph == graph_of(job)
    assert sorted(step.flow for step in graph.steps if step.flow >= 0) == [
        i for i, transfer in enumerate(job.dag.transfers) if not job.is_local(transfer)
    ]
    told, own = Outline.told(graph, job.iterations), Outline.of(job)
    assert told.duration_s.tolist() == own.duration_s.tolist()
    assert told.edges.after.tolist() == own.edges.after.tolist()
    assert told.edges.next.tolist() == own.edges.next.tolist()


@pytest.mark.parametrize(
    ("graph", "words"),
    [
        (JobGraph("j", 1, (GraphStep(0, 0.0, (1,)), GraphStep(-1, 1.0, (0,)))), "in a circle"),
        (JobGraph("j", 1, (GraphStep(0, 0.0, (2,)),)), "step 0 waits for step 2; there are 1"),
        (JobGraph("j", 1, (GraphStep(0, 0.0, ()), GraphStep(0, 0.0, ()))), "the same flow"),
        (JobGraph("j", 1, (GraphStep(0, 0.0, ()), GraphStep(-1, 0.0, (0, 0)))), "waits for a step twice"),
        (JobGraph("j", 1, (GraphStep(0, 0.0, ()),), ((0, 3),)), "next_iteration names step 3; there are 1"),
    ],
)
def test_a_graph_that_makes_no_sense_is_refused(graph, words):
    windows = FlowWindows()
    with pytest.raises(InputError, match=words):
        windows.tell(graph)
    assert windows.graph("j") is None


def test_a_job_tells_one_graph(monkeypatch):
    windows = FlowWindows()
    graph = JobGraph("j", 1, (GraphStep(0, 0.0, ()),))
    assert windows.tell(graph)
    assert not windows.tell(graph)
    with pytest.raises(InputError, match="has told its graph already, and another one"):
        windows.tell(JobGraph("j", 2, (GraphStep(0, 0.0, ()),)))
    monkeypatch.setattr("echelonflow.scheduling.flow_windows.MOST_STEPS", 1)
    with pytest.raises(InputError, match="more than 1 steps of all jobs"):
        windows.tell(JobGraph("k", 2, (GraphStep(0, 0.0, ()),)))
    windows.withdraw("j")
    assert windows.tell(JobGraph("k", 2, (GraphStep(0, 0.0, ()),)))
