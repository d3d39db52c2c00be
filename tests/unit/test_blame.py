"""Blame: what iterations were spent on, in small cases by hand, and adding up in random ones."""

from __future__ import annotations

import random

import numpy as np
import pytest

from echelon.cases import random_jobs
from echelonflow.model.counting import ALL, Counting
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec, Window
from echelonflow.model.measured import Measured, Settings
from echelonflow.model.network import Cable, Network
from echelonflow.records import rates as rate_log
from echelonflow.records.blame import Blame
from echelonflow.records.rates import RateLog
from echelonflow.scheduling import policies
from results.analysis.blame import blame, ends_by_job_s
from results.analysis.blamed import mean_blame, with_unexplained
from results.analysis.critical_path import times_of
from results.analysis.figures import JobFigures
from results.analysis.link_load import PARTS, loads_by_rates, loads_by_records
from simulator import fluid
from simulator.realism import Realism

HOSTS = ("h1", "h2", "h3", "h4")
NETWORK = Network("switch", HOSTS, ("s1",), tuple(Cable(host, "s1", 8e6) for host in HOSTS))
LINK_BPS = NETWORK.capacity_Bps[0]


def size_of(seconds):
    """Bytes that take a link so long."""
    return round(seconds * LINK_BPS)


def sender(name, src="h1", dst="h3", *, compute_s=1.0, send_s=1.0, flows=1, iterations=3, start_s=0.0):
    """Computes, then sends so many flows at once; its next iteration waits for all of them."""
    steps = [Compute("c", 0, compute_s)]
    steps += [Transfer(f"t{i}", 0, 1, size_of(send_s), f"t{i}", ("c",)) for i in range(flows)]
    names = tuple(f"t{i}" for i in range(flows))
    dag = JobDag(2, tuple(steps), (Group("g", "", names, (0.0,) * flows),), tuple((name, "c") for name in names))
    return Job(name, dag, (src, dst), iterations, start_s=start_s)


def blamed(jobs, policy="fair", counting=ALL, network=NETWORK, **how):
    """What each job's mean iteration was spent on, by (cause, other, link)."""
    rates = RateLog()
    record = fluid.simulate(jobs, network, policies.load(policy), rates=rates, **how)
    counted = counted_in(record, jobs, counting)
    found = {job.name: {} for job in jobs}
    for each in blame(record, jobs, network, rates, counted):
        found[each.job][each.cause, each.other, each.link] = each.blamed_s
    return found


def counted_in(record, jobs, counting=ALL):
    return counting.counted({job.name: job.start_s for job in jobs}, ends_by_job_s(record, jobs))


def test_a_job_alone_waits_for_nobody():
    found = blamed([sender("a", compute_s=0.5, send_s=2.0)])["a"]
    assert found == {("computation", "", ""): 0.5, ("communication", "", ""): pytest.approx(2.0, abs=1e-6)}


def test_two_jobs_that_share_a_link_in_halves_blame_each_other():
    """Both send for 2 s what takes 1 s alone, at once, at half the rate, to one host from two."""
    found = blamed([sender("a", "h1"), sender("b", "h2")])
    for own, other in (("a", "b"), ("b", "a")):
        assert found[own] == {
            ("computation", "", ""): pytest.approx(1.0),
            ("communication", "", ""): pytest.approx(1.0, abs=1e-5),
            ("other job", other, "s1->h3"): pytest.approx(1.0, abs=1e-5),
        }


def test_who_goes_first_waits_for_nobody_and_who_goes_second_for_the_first():
    """Two flows of different jobs, released together, and one is served first: the other stands still meanwhile."""
    jobs = [sender("a", "h1", iterations=1, send_s=1.0), sender("b", "h2", iterations=1, send_s=3.0)]
    found = blamed(jobs, "srpt")
    assert ("other job", "b", "s1->h3") not in found["a"]
    assert found["b"]["other job", "a", "s1->h3"] == pytest.approx(1.0, abs=1e-5)
    assert found["b"]["communication", "", ""] == pytest.approx(3.0, abs=1e-5)


def test_flows_of_the_job_itself_are_its_own_fault():
    found = blamed([sender("a", flows=3)])["a"]
    # All three end together after 3 s, of which one alone takes 1 s; its host's link comes first on the way.
    assert found["communication", "", ""] == pytest.approx(1.0, abs=1e-5)
    assert found["own flows", "", "h1->s1"] == pytest.approx(2.0, abs=1e-5)


def test_waiting_is_shared_among_others_by_their_rates():
    """A flow of `a` meets two of `b` and one of `c` at one link: two thirds of the waiting are b's."""
    jobs = [
        sender("a", "h1", iterations=1, send_s=1.0),
        sender("b", "h2", iterations=1, send_s=4.0, flows=2),
        sender("c", "h4", iterations=1, send_s=4.0),
    ]
    found = blamed(jobs)["a"]
    assert found["other job", "b", "s1->h3"] == pytest.approx(2.0, abs=1e-4)
    assert found["other job", "c", "s1->h3"] == pytest.approx(1.0, abs=1e-4)


def test_blame_falls_on_the_link_that_holds_a_flow_up_and_not_on_others_that_are_busy():
    """The flow shares its first link, where there is room, with one job, and waits at a narrow one for another."""
    cables = (Cable("h1", "s1", 8e6), Cable("h2", "s1", 8e6), Cable("h4", "s1", 8e6), Cable("h3", "s1", 4e6))
    network = Network("narrow", ("h1", "h2", "h4", "h3"), ("s1",), cables)
    jobs = [
        sender("a", "h1", "h3", iterations=1, send_s=1.0),
        sender("rival", "h2", "h3", iterations=1, send_s=4.0),
        sender("neighbour", "h1", "h4", iterations=1, send_s=1.0),
    ]
    found = blamed(jobs, network=network)["a"]
    waited = {key: spent for key, spent in found.items() if key[0] == "other job"}
    assert set(waited) == {("other job", "rival", "s1->h3")}
    assert sum(waited.values()) == pytest.approx(found["communication", "", ""], rel=1e-3)  # half of the link each


def test_room_that_nobody_uses_is_the_enforcers():
    """A setting that comes late: the flow waits, and so does its link."""
    settings = Settings(first_s={("a", k, "t0"): 0.25 for k in range(3)})
    found = blamed([sender("a")], realism=Realism(classes=7), measured=Measured(settings=settings))["a"]
    assert found["enforcement", "", ""] == pytest.approx(0.25, abs=1e-4)
    assert found["communication", "", ""] == pytest.approx(1.0, abs=1e-4)


def test_what_a_job_holds_back_itself_is_its_schedulers():
    """Two flows are ready at once; a window of one task lets the second go when the first has ended."""
    steps = (
        Compute("c", 0, 1.0),
        Transfer("t0", 0, 1, size_of(1.0), "t0", ("c",)),
        Transfer("t1", 0, 1, size_of(2.0), "t1", ("c",)),
        Compute("end", 1, 0.5, ("t0", "t1")),
    )
    dag = JobDag(2, steps, (Group("g", "", ("t0", "t1"), (0.0, 0.0)),))
    tasks = tuple(TaskSpec(f"task{i}", 0, size_of(1.0 + i), i, (f"t{i}",)) for i in range(2))
    job = Job("a", dag, ("h1", "h3"), discipline=Discipline("fifo", Window(slots=1), tasks))
    found = blamed([job])["a"]
    assert found["computation", "", ""] == pytest.approx(1.5)
    assert found["job scheduler", "", ""] == pytest.approx(1.0, abs=1e-5)
    assert found["communication", "", ""] == pytest.approx(2.0, abs=1e-5)


def test_transfers_within_a_host_take_no_time_and_the_path_goes_through_them():
    steps = (Compute("c", 0, 1.0), Transfer("t", 0, 1, 10, "t", ("c",)), Compute("d", 1, 2.0, ("t",)))
    job = Job("a", JobDag(2, steps, (Group("g", "", ("t",), (0.0,)),)), ("h1", "h1"))
    assert blamed([job])["a"] == {("computation", "", ""): 3.0}


def test_a_job_that_starts_late_is_blamed_from_its_start():
    found = blamed([sender("a", start_s=5.0, iterations=1)])["a"]
    assert sum(found.values()) == pytest.approx(2.0, abs=1e-4)


def test_transfers_that_nothing_waits_for_are_not_blamed_while_the_job_goes_on():
    """Beside each computation of 1 s goes a transfer of 0.9 s that only the end of the job waits for."""
    steps = (Compute("c", 0, 1.0), Transfer("t", 0, 1, size_of(0.9), "t", ("c",)))
    dag = JobDag(2, steps, (Group("g", "", ("t",), (0.0,)),), (("c", "c"),))
    found = blamed([Job("a", dag, ("h1", "h3"), 10)])["a"]
    assert found["computation", "", ""] == pytest.approx(1.0)
    assert found["communication", "", ""] == pytest.approx(0.09, abs=1e-4)  # of the last iteration alone


def test_what_does_not_count_is_left_out():
    jobs = [sender("a", "h1", iterations=6), sender("b", "h2", iterations=2)]
    everything, later = blamed(jobs)["a"], blamed(jobs, counting=Counting(from_s=6.5))["a"]
    assert ("other job", "b", "s1->h3") in everything
    assert later == {("computation", "", ""): 1.0, ("communication", "", ""): pytest.approx(1.0, abs=1e-5)}


def totals_are_exact(jobs, network, record, rates, counted):
    """Causes of each job add up to its mean iteration, none is negative, and waiting is for those that are there."""
    ends = ends_by_job_s(record, jobs)
    found = blame(record, jobs, network, rates, counted)
    links = {link.name for link in network.links}
    for job in jobs:
        mine = [each for each in found if each.job == job.name]
        k = counted.get(job.name)
        if not k:
            assert not mine
            continue
        lasts_s = ends[job.name][k[-1]] - (ends[job.name][k[0] - 1] if k[0] else job.start_s)
        assert sum(each.blamed_s for each in mine) == pytest.approx(lasts_s / len(k), rel=1e-9, abs=1e-12)
        for each in mine:
            assert each.blamed_s > -1e-12
            assert (each.cause == "other job") == bool(each.other)
            assert each.other != job.name
            assert (each.cause in ("other job", "own flows")) == (each.link in links)
    return found


RANDOM = [(seed, topology, policy) for seed, (topology, policy) in enumerate(
    (topology, policy) for topology in random_jobs.TOPOLOGIES for policy in ("fair", "coflow", "echelonflow", "weighted", "sincronia")
)]  # fmt: skip


@pytest.mark.parametrize(("seed", "topology", "policy"), RANDOM)
def test_causes_add_up_in_random_cases(seed, topology, policy):
    case = random_jobs.draw(random.Random(seed), topology)
    rates = RateLog()
    record = fluid.simulate(case.jobs, case.network, policies.load(policy), rates=rates)
    for counting in (ALL, Counting(warm_up=1), Counting(from_s=0.1)):
        found = totals_are_exact(case.jobs, case.network, record, rates, counted_in(record, case.jobs, counting))
    assert "unexplained" not in {each.cause for each in found}


@pytest.mark.parametrize("seed", range(3))
def test_causes_add_up_with_few_classes_bursts_and_late_decisions(seed):
    case = random_jobs.draw(random.Random(100 + seed), "leaf-spine")
    rates = RateLog()
    realism = Realism(classes=3, decision_latency_s=0.002, undecided="wait", burst_s=0.002)
    record = fluid.simulate(case.jobs, case.network, policies.load("echelonflow"), rates=rates, realism=realism)
    found = totals_are_exact(case.jobs, case.network, record, rates, counted_in(record, case.jobs))
    assert "enforcement" in {each.cause for each in found}


@pytest.mark.parametrize("seed", range(4))
def test_rates_add_up_to_what_flows_carry(seed):
    case = random_jobs.draw(random.Random(200 + seed), "leaf-spine")
    rates = RateLog()
    record = fluid.simulate(case.jobs, case.network, policies.load("echelonflow"), rates=rates)
    row, begin_s, end_s, rate_Bps = rates.pieces(record.flows.finish_s)
    carried = np.bincount(row, weights=(end_s - begin_s) * rate_Bps, minlength=len(record.flows))
    sizes = np.array([flow.size_bytes for flow in record.flows])
    assert carried == pytest.approx(sizes, rel=1e-6, abs=1.0)
    assert (begin_s >= record.flows.release_s[row]).all()


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_how_much_is_looked_at_together_changes_nothing(most, monkeypatch):
    case = random_jobs.draw(random.Random(8), "leaf-spine")
    rates = RateLog()
    record = fluid.simulate(case.jobs, case.network, policies.load("fair"), rates=rates)
    whole = blame(record, case.jobs, case.network, rates, counted_in(record, case.jobs))
    monkeypatch.setattr("results.analysis.blame.PIECES_AT_ONCE", most)
    parts = blame(record, case.jobs, case.network, rates, counted_in(record, case.jobs))
    assert {(b.job, b.cause, b.other, b.link) for b in parts} == {(b.job, b.cause, b.other, b.link) for b in whole}
    assert sorted(b.blamed_s for b in parts) == pytest.approx(sorted(b.blamed_s for b in whole), abs=1e-9)


def test_a_log_that_is_full_says_nothing():
    jobs, rates = [sender("a"), sender("b", "h2")], RateLog(most=2)
    record = fluid.simulate(jobs, NETWORK, policies.load("fair"), rates=rates)
    assert rates.is_full
    assert blame(record, jobs, NETWORK, rates, counted_in(record, jobs)) == ()
    assert loads_by_rates(record, NETWORK, rates, 0.0, record.end_s) == []


def test_numbers_beyond_the_room_of_a_log_fill_it(monkeypatch):
    monkeypatch.setattr(rate_log, "MOST_NUMBER", 10)
    rates = RateLog()
    rates.note(0.0, np.array([10]), np.array([1.0]))
    assert rates.is_full


def test_a_path_covers_every_moment_once():
    case = random_jobs.draw(random.Random(11), "one-link")
    record = fluid.simulate(case.jobs, case.network, policies.load("fair"))
    for times in times_of(record, case.jobs):
        parts = list(times.path(times.job.iterations - 1, times.job.start_s))
        assert parts[0].end_s == ends_by_job_s(record, case.jobs)[times.job.name][-1]
        assert [part.end_s for part in parts[1:]] == [part.begin_s for part in parts[:-1]]
        assert parts[-1].begin_s == times.job.start_s


def test_links_are_as_busy_as_what_they_carry():
    jobs = [sender("a", iterations=2)]
    rates = RateLog()
    record = fluid.simulate(jobs, NETWORK, policies.load("fair"), rates=rates)
    loads = loads_by_rates(record, NETWORK, rates, 0.0, 4.0)
    assert [load.link for load in loads] == ["h1->s1", "s1->h3"]
    for load in loads:
        assert load.carried_bytes == pytest.approx(2 * size_of(1.0), rel=1e-6)
        assert load.mean_share == pytest.approx(0.5, rel=1e-3)
        assert load.peak_share == pytest.approx(1.0, rel=1e-6)
    (by_records, _) = loads_by_records(record.flows, NETWORK, 0.0, 4.0)
    assert by_records.peak_share is None
    assert by_records.mean_share == pytest.approx(0.5, rel=1e-3)


def test_no_link_carries_more_than_it_can():
    case = random_jobs.draw(random.Random(3), "leaf-spine")
    rates = RateLog()
    record = fluid.simulate(case.jobs, case.network, policies.load("echelonflow"), rates=rates)
    for load in loads_by_rates(record, case.network, rates, 0.0, record.end_s):
        assert 0 <= load.mean_share <= load.peak_share <= 1 + 1e-6
        assert load.mean_share >= load.peak_share / PARTS


def test_means_over_runs_add_up_and_leave_out_runs_that_say_nothing():
    first = [Blame("a", "computation", 1.0), Blame("a", "other job", 1.0, "b", "l")]
    second = [Blame("a", "computation", 1.0), Blame("b", "computation", 9.0)]
    found = mean_blame([first, second, []], "a")
    assert found == (Blame("a", "computation", 1.0), Blame("a", "other job", 0.5, "b", "l"))
    assert mean_blame([[]], "a") == ()


def test_what_a_simulation_leaves_unexplained_completes_it():
    figures = {"a": JobFigures(2.5, 1.5, None)}
    found = with_unexplained([Blame("a", "computation", 1.0), Blame("gone", "computation", 1.0)], figures)
    assert found == (Blame("a", "computation", 1.0), Blame("a", "unexplained", 1.5))
