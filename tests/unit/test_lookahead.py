"""Looking ahead: roll-outs begin where the jobs are, and what is in force is never worse in them than a candidate."""

from __future__ import annotations

import dataclasses
import random

import numpy as np
import pytest

from echelon.cases import random_jobs
from echelonflow.errors import InputError
from echelonflow.model.clock import clock_of
from echelonflow.model.discipline import Discipline, Window
from echelonflow.scheduling import kernels, policies
from simulator.columns import engine, planner
from simulator.fluid import simulate
from simulator.realism import Realism

pytestmark = pytest.mark.skipif(not kernels.can_compile(), reason="looking ahead needs compiled loops (numba)")


@pytest.fixture
def case():
    drawn = random_jobs.draw(random.Random("lookahead"), "one-link", jobs=3)
    return dataclasses.replace(drawn, jobs=tuple(dataclasses.replace(job, iterations=30) for job in drawn.jobs))


@pytest.fixture
def planned(monkeypatch):
    """Every plan, judged as far as all are: all candidates, in order; what a search made; and what is in force then."""
    found = []
    real = planner.best_of

    def best_of(in_force, flows, pace_s, roll_out, **others):
        judged = []

        def noted(candidate, rounds):
            value = roll_out(candidate, rounds)
            if rounds == planner.JUDGED * in_force.rounds:
                judged.append(value)
            return value

        known = len(in_force.candidates) + (in_force.plans > 0)
        best = real(in_force, flows, pace_s, noted, **others)
        found.append((judged[:known], judged[known:], roll_out(best.best, planner.JUDGED * in_force.rounds)))
        return best

    monkeypatch.setattr(planner, "best_of", best_of)
    return found


def alone_s(job, network):
    return clock_of(job, network).iteration_s


def ends_s(record, job):
    return [
        max(f.finish_s for f in record.flows if (f.job, f.iteration) == (job.name, k)) for k in range(job.iterations)
    ]


def test_what_is_in_force_is_never_worse_in_the_twin_than_a_candidate(case, planned):
    simulate(case.jobs, case.network, policies.load("lookahead(tries=8)"))
    assert len(planned) >= len(case.jobs), "it plans when a job comes"
    for candidates, searched, chosen in planned:
        assert chosen == min(*candidates, *searched)


def test_a_search_finds_more_than_candidates_alone(case, planned):
    simulate(case.jobs, case.network, policies.load("lookahead(tries=64)"))
    assert any(chosen < min(candidates) for candidates, _, chosen in planned)


def test_without_a_search_it_is_the_best_candidate(case, planned):
    policy = policies.load("lookahead(tries=0)")
    simulate(case.jobs, case.network, policy)
    for candidates, searched, chosen in planned:
        assert searched == []
        assert chosen == min(candidates)
    assert policy.counters() == {
        "plans": len(planned),
        "roll-outs": sum(len(candidates) for candidates, _, _ in planned),
    }


def test_a_roll_out_goes_on_exactly_as_the_simulation_itself_would(case, planned, monkeypatch):
    """With one candidate and no search nothing changes, and what a roll-out foresaw is what happens."""
    foreseen = []
    real = engine.Simulation.iteration_ends_s

    def noted(self):
        foreseen.append(real(self))
        return foreseen[-1]

    monkeypatch.setattr(engine.Simulation, "iteration_ends_s", noted)
    policy = policies.load("lookahead(candidates=few,tries=0)")
    policy.memory.candidates = ("clock",)
    found = simulate(case.jobs, case.network, policy)
    plain = simulate(case.jobs, case.network, policies.load("clock"))
    for job in case.jobs:
        assert ends_s(found, job) == ends_s(plain, job)
    last = foreseen[len(case.jobs) * 2 - 2]  # the plan for all jobs; each one here rolls out twice
    for job, ends in zip(case.jobs, last, strict=True):
        finishes = ends_s(found, job)
        rest_s = ends[0] - finishes[0]
        assert rest_s >= -1e-9
        assert np.allclose(np.maximum.accumulate(np.array(finishes[: len(ends)]) + rest_s), ends)


def test_it_is_the_same_for_a_seed_and_another_for_another(case):
    def finish(text):
        return simulate(case.jobs, case.network, policies.load(text)).flows[-1].finish_s

    assert finish("lookahead(tries=8)") == finish("lookahead(tries=8)")
    assert finish("lookahead(tries=8,seed=1)") != finish("lookahead(tries=8)")


def test_the_policy_itself_answers_as_the_columns_do_that_follow_its_choice(case):
    """Due times are moved in the snapshot that it is shown, and in columns for compiled loops: the same comes out."""
    policy = policies.load("lookahead(tries=16)")
    record = simulate(case.jobs, case.network, policy)
    asked = policies.load("lookahead(tries=16)")
    again = simulate(case.jobs, case.network, asked.deciding(asked._allocate))
    assert [flow.finish_s for flow in again.flows] == [flow.finish_s for flow in record.flows]
    assert policy.counters() == asked.counters()


def test_moves_are_found_by_flow_whatever_the_iteration():
    memory = policies.load("lookahead").memory
    memory.adopt(memory.chosen, np.array([70, 30, 50]), np.array([0.7, 0.3, 0.5]), 1)
    assert memory.of(np.array([50, 10, 70, 90, 30])).tolist() == [0.5, 0.0, 0.7, 0.0, 0.3]


def test_a_job_that_comes_long_after_the_others_have_gone_is_waited_for(case):
    first, second, _ = case.jobs
    jobs = [dataclasses.replace(first, iterations=3), dataclasses.replace(second, iterations=3, start_s=1000.0)]
    record = simulate(jobs, case.network, policies.load("lookahead(candidates=few,tries=0,rounds=2)"))
    assert {flow.job for flow in record.flows if flow.finish_s > 1000.0} == {second.name}
    assert {flow.job for flow in record.flows} == {first.name, second.name}


def test_where_decisions_take_time_in_force_is_what_is_planned_without(case):
    """The plans of the ideal, each from its time on; and what follows a script of plans says so as often."""
    jobs = [dataclasses.replace(job, iterations=6) for job in case.jobs]
    ideal = policies.load("lookahead(tries=4)")
    simulate(jobs, case.network, ideal)
    late = policies.load("lookahead(tries=4)")
    simulate(jobs, case.network, late, realism=Realism(decision_latency_s=0.001))
    planned = [(each.at_s, each.chosen) for each in ideal.memory.history]
    assert [(each.at_s, each.chosen) for each in late.memory.history] == planned[: late.memory.plans]
    assert late.memory.plans >= len(jobs)


def test_a_script_of_its_own_plans_leads_to_the_same(case):
    """So a run can be simulated again with what was in force."""
    jobs = [dataclasses.replace(job, iterations=6) for job in case.jobs]
    policy = policies.load("lookahead(tries=8)")
    record = simulate(jobs, case.network, policy)
    again = policies.load("lookahead(tries=8)")
    again.memory.follow(policy.memory.history)
    repeated = simulate(jobs, case.network, again)
    for one, other in zip(sorted(record.flows, key=_key), sorted(repeated.flows, key=_key), strict=True):
        assert one.finish_s == pytest.approx(other.finish_s, rel=1e-9)


def _key(flow):
    return flow.job, flow.iteration, flow.flow


def test_where_it_cannot_look_ahead_it_says_so(case):
    jobs = [dataclasses.replace(case.jobs[0], discipline=Discipline("by hand", Window(slots=1), ()))]
    with pytest.raises(
        InputError, match="jobs that are placed, come after no other and do not hold back flows by themselves"
    ):
        simulate(jobs, case.network, policies.load("lookahead"))


@pytest.mark.parametrize("options", ["tries=-1", "rounds=1", "seed=-1", "slowdown=0.9"])
def test_options_that_make_no_sense_are_refused(options):
    with pytest.raises(InputError, match="policy lookahead"):
        policies.load(f"lookahead({options})")


def test_what_a_roll_out_is_judged_by():
    """From 1 s on: the first job ends at 2 and 4 and is half through with the next at 5.5; the second once, and waits as long."""
    ends = [np.array([1.0, 2.0, 4.0, 9.0]), np.array([3.25])]
    first_s, second_s = 4.5 / (2 + 1), 4.5 / (1 + 1)
    assert planner.iteration_times_s(ends, [9, 9], 1.0, 5.5) == pytest.approx([first_s, second_s])


def test_it_is_over_when_the_first_job_has_ended_its_last_iteration():
    ends = [np.array([2.0, 3.0, 4.0]), np.array([2.5, 3.5, 3.6, 3.7, 3.8, 4.0])]
    # nothing after 3 s counts, where the first job has two iterations left; the second is then 0.5 of 1.5 s into its next one
    assert planner.iteration_times_s(ends, [2, 9], 1.0, 9.0) == pytest.approx([2.0 / 2, 2.0 / (1 + 0.5 / 1.5)])


def test_one_that_starves_costs_all_the_time_it_waits():
    assert planner.iteration_times_s([np.zeros(0)], [3], 1.0, 9.0) == pytest.approx([8.0])
    assert np.isnan(planner.iteration_times_s([np.zeros(0)], [0], 1.0, 9.0)).all()


def test_the_worst_slowdown_counts_beyond_its_bound():
    times_s, alone_s = np.array([2.0, 6.0, np.nan]), np.array([1.0, 2.0, 1.0])
    assert planner.value_s(times_s, alone_s, np.inf) == pytest.approx(4.0)
    assert planner.value_s(times_s, alone_s, 3.0) == pytest.approx(4.0)
    assert planner.value_s(times_s, alone_s, 2.0) == pytest.approx(4.0 * 3.0 / 2.0)
    assert planner.value_s(np.full(2, np.nan), np.ones(2), 2.0) == 0.0


def test_a_bound_on_the_worst_slowdown_makes_it_less(case):
    """The bound is no more than the job that is slowed down most takes without one."""
    found = {}
    for text in ("lookahead(tries=4)", "lookahead(tries=4,slowdown=1)"):
        record = simulate(case.jobs, case.network, policies.load(text))
        found[text] = max(ends_s(record, job)[-1] / job.iterations / alone_s(job, case.network) for job in case.jobs)
    bound, free = found["lookahead(tries=4,slowdown=1)"], found["lookahead(tries=4)"]
    assert bound <= free * 1.001
