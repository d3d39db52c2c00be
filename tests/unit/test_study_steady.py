"""Steady state: only what happens while all jobs run counts, and nothing hangs on a tie."""

from __future__ import annotations

import dataclasses
import random

import pytest

from echelon.cases.random_jobs import Case
from echelon.study import arrivals, few_queues, sensitivity, steady, steady_cases
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer, derived_offsets
from echelonflow.scheduling import policies
from simulator import fluid
from simulator.fluid import simulate

NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})
SECOND = round(NETWORK.capacity_Bps[0])


def job(name, compute_s, transfer_s, start_s=0.0):
    """Computes, sends, and begins anew."""
    steps = (Compute("c", 0, compute_s), Transfer("t", 0, 1, round(transfer_s * SECOND), "t", ("c",)))
    dag = JobDag(2, steps, (Group("g", "test", ("t",), (0.0,)),), (("t", "c"),))
    return Job(name, dag, ("h1", "h2"), start_s=start_s)


def case(*jobs):
    return Case(jobs, NETWORK, "made here")


def test_a_job_alone_takes_what_it_takes():
    assert steady.measure(case(job("a", 1.0, 2.0)), "fair").iteration_s == pytest.approx([3.0], rel=1e-4)


def test_jobs_that_fill_a_link_share_it():
    times_s = steady.measure(case(job("a", 0.1, 1.0), job("b", 0.1, 1.0, 0.3)), "fair").iteration_s
    assert times_s == pytest.approx([2.0, 2.0], rel=0.02)


def test_what_a_short_job_does_when_the_long_one_has_ended_does_not_count():
    counted = steady.measure(case(job("short", 0.5, 1.0), job("long", 5.0, 10.0)), "fair")
    short_s, long_s = counted.iteration_s
    assert counted.fewest >= steady.FEWEST
    assert short_s > 1.5, "alone it takes 1.5 s"
    assert long_s > 15.0


def test_of_a_job_that_starves_a_floor_is_told(monkeypatch):
    monkeypatch.setattr(steady, "MOST_ROUNDS", steady.ROUNDS)
    counted = steady.measure(case(job("a", 0.0, 1.0), job("b", 0.0, 1.0)), "job-priority")
    first_s, starving_s = counted.iteration_s
    assert counted.fewest < steady.FEWEST
    assert first_s == pytest.approx(1.0, rel=1e-3)
    assert starving_s > 10.0, "it waits until the other has ended"


def test_the_pace_of_all_is_what_the_link_allows():
    loads = steady.loads_of([job("a", 0.1, 1.0), job("b", 0.1, 4.0)], NETWORK)
    assert loads.together_s == pytest.approx([3.0, 6.0], rel=1e-4)


def test_sizes_are_perturbed_by_little_and_the_same_way_again():
    original = case(job("a", 1.0, 2.0))
    one, again = (steady.perturbed(original, random.Random(7)) for _ in range(2))
    (was,), (now,) = original.jobs[0].dag.transfers, one.jobs[0].dag.transfers
    assert one.jobs == again.jobs
    assert 0 < abs(now.size_bytes / was.size_bytes - 1) <= steady.TIE_BREAK
    assert one.jobs[0].dag.computes == original.jobs[0].dag.computes


@pytest.mark.parametrize("load", [0.3, 2.0])
def test_a_case_of_a_load_has_it(load):
    drawn = steady_cases.Drawer("here", load=load)(0)
    assert steady_cases.load_of(drawn) == pytest.approx(load, rel=0.01)


def test_what_arrives_has_the_load_of_its_section():
    drawn = arrivals.Drawer(0.5)(1)
    loads = steady.loads_of(drawn.jobs, drawn.network)
    asked_s = [0.0] * len(drawn.network.capacity_Bps)
    for place, each in enumerate(drawn.jobs):
        for k in range(loads.link_start[place], loads.link_start[place + 1]):
            asked_s[loads.link[k]] += each.iterations * loads.load_s[k]
    last_s = max(each.start_s for each in drawn.jobs)
    assert last_s <= max(asked_s) / 0.5
    assert all(arrivals.ITERATIONS[0] <= each.iterations <= arrivals.ITERATIONS[1] for each in drawn.jobs)


def test_aalo_is_scaled_to_the_case():
    text = steady_cases.text_of(steady_cases.AALO, case(job("a", 1.0, 2.0)))
    assert text == f"aalo(first_bytes={round(2 * SECOND / 10)})"
    assert steady_cases.text_of("fair", case(job("a", 1.0, 2.0))) == "fair"


def test_scores_hold_every_policy_the_bound_and_each_job_alone():
    scores = steady_cases.measure(case(job("a", 1.0, 2.0), job("b", 0.5, 1.0)))
    assert set(scores) == {*steady_cases.policies_compared(), "bound", "alone"}
    assert scores["alone"] == pytest.approx([3.0, 1.5], rel=1e-4)
    for name in steady_cases.policies_compared():
        *times_s, fewest = scores[name]
        assert len(times_s) == 2
        if fewest >= steady.FEWEST:
            assert sum(times_s) >= sum(scores["bound"]) * 0.97, name


def test_wrong_profiles_are_what_is_declared_and_not_what_happens():
    drawn = steady_cases.Drawer("here", ("1f1b",), 2)(0)
    level = sensitivity.Level(sensitivity.WRONG, 0.5)
    declared = sensitivity.profiles_of(level, drawn)
    assert declared == sensitivity.profiles_of(level, drawn)
    for job_, profile in zip(drawn.jobs, declared, strict=True):
        errors = [b.duration_s / a.duration_s - 1 for a, b in zip(job_.dag.computes, profile.dag.computes, strict=True)]
        assert 0.1 < max(map(abs, errors)) <= 0.5
        assert profile.dag.offset_s == pytest.approx(derived_offsets(profile.dag))
        assert profile.dag.transfers == job_.dag.transfers
    told, right = (
        simulate(drawn.jobs, drawn.network, policies.load("clock"), profiles=profiles) for profiles in (declared, None)
    )
    lasts_s = {(c.job, c.step): c.finish_s - c.start_s for c in right.computes}
    assert {(c.job, c.step): c.finish_s - c.start_s for c in told.computes} == pytest.approx(lasts_s)
    assert [f.finish_s for f in told.flows] != [f.finish_s for f in right.flows]
    fair = [simulate(drawn.jobs, drawn.network, policies.load("fair"), profiles=p) for p in (declared, None)]
    assert [f.finish_s for f in fair[0].flows] == [f.finish_s for f in fair[1].flows]


def test_compiled_loops_are_told_the_same_profiles(monkeypatch):
    drawn = steady_cases.Drawer("here", ("fsdp",), 2)(1)
    declared = sensitivity.profiles_of(sensitivity.Level(sensitivity.WRONG, 0.5), drawn)
    ends = []
    for in_columns in (True, False):
        monkeypatch.setattr(fluid, "_in_columns", lambda *_, here=in_columns: here)
        found = simulate(drawn.jobs, drawn.network, policies.load("clock"), profiles=declared)
        ends.append(sorted((f.job, f.flow, f.iteration, f.finish_s) for f in found.flows))
    assert ends[0] == ends[1]


def test_a_size_that_is_declared_wrong_changes_the_order_and_not_what_is_sent():
    jobs = [job("long", 1.0, 4.0), job("short", 1.0, 2.0)]
    wrong = [
        dataclasses.replace(each, dag=each.dag.with_values(steps, each.dag.groups, {}))
        for each, other in zip(jobs, reversed(jobs), strict=True)
        for steps in [
            (each.dag.steps[0], dataclasses.replace(each.dag.steps[1], size_bytes=other.dag.steps[1].size_bytes))
        ]
    ]
    ends = []
    for profiles in (None, wrong):
        record = simulate(jobs, NETWORK, policies.load("srpt"), profiles=profiles)
        ends.append({flow.job: flow.finish_s for flow in record.flows})
        assert {flow.job: flow.size_bytes for flow in record.flows} == {"long": 4 * SECOND, "short": 2 * SECOND}
    assert ends[0] == pytest.approx({"short": 3.0, "long": 7.0}, rel=1e-3)
    assert ends[1] == pytest.approx({"long": 5.0, "short": 7.0}, rel=1e-3)


def test_scores_hold_every_level_and_fair_where_it_feels_it(monkeypatch):
    monkeypatch.setattr(sensitivity, "CLASSES", (1,))
    monkeypatch.setattr(sensitivity, "LATENCIES", (0.05,))
    monkeypatch.setattr(sensitivity, "ERRORS", (0.5,))
    monkeypatch.setattr(sensitivity, "SIZES", (0.5,))
    monkeypatch.setattr(sensitivity, "JITTERS", (0.2,))
    scores = sensitivity.measure(case(job("a", 1.0, 2.0), job("b", 0.5, 1.0)))
    names = sensitivity.policies_compared()
    levels = ("", " | classes 1", " | latency 5.0%", " | profile error 50.0%", " | size error 50.0%", " | jitter 20.0%")
    assert set(scores) == {name + level for name in names for level in levels} | {
        "fair", "fair | jitter 20.0%", "bound", "alone"
    }  # fmt: skip
    assert scores["fair | jitter 20.0%"][:2] != scores["fair"][:2], "computations end late"
    one_class = scores["clock | classes 1"][:2]
    assert one_class == pytest.approx(scores["clock"][:2], rel=1e-3), (
        "what waits is held back, so one class will do here"
    )


def test_few_queues_are_measured_for_every_folding(monkeypatch):
    monkeypatch.setattr(few_queues, "CLASSES", (1,))
    scores = few_queues.measure(case(job("a", 1.0, 2.0), job("b", 0.5, 1.0)))
    names = few_queues.policies_compared()
    assert set(scores) == {"fair", "bound", "alone", *names} | {
        f"{n} | {way} 1" for n in names for way in few_queues.foldings()
    }
    assert few_queues.foldings()[0] == "links"
    alike = [scores[f"clock | {way} 1"] for way in few_queues.foldings() if way != "links"]
    assert all(each == alike[0] for each in alike), "in one class everybody shares fairly"
    assert alike[0][:2] == pytest.approx(scores["fair"][:2], rel=1e-6)
