"""Jobs that come after others: rank by rank, in simulations, replays and experiment files, and in what is made of their records."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from pathlib import Path

import pytest

from echelon.experiment import schema
from echelon.running.yardsticks import yardsticks_of
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.following import Following, why_not_after
from echelonflow.model.measured import Measured, Settings
from echelonflow.records.placed_job import PlacedJob
from echelonflow.records.run_record import as_begun, as_run
from echelonflow.records.runs import load_runs, save_runs
from echelonflow.scheduling import kernels, policies
from results.analysis.blame import ends_by_job_s
from results.folder import analyse
from simulator import fluid
from tests.unit.synthetic_run import explain_runs, paper_job, paper_network, synthetic_run, write_experiment
from traffic.agent.replay import Computed, Replay

NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})
HOSTS = ("h1", "h2")


def job(name, times_s=(1.0, 3.0), iterations=2, after=None, waits=False, hosts=HOSTS):
    """Each rank computes by itself; where rank 0 `waits`, what it sends must have come before rank 1 computes."""
    steps = (
        Compute("c0", 0, times_s[0]),
        Transfer("t0", 0, 1, 1000, "t", ("c0",)),
        Compute("c1", 1, times_s[1], ("t0",) if waits else ()),
    )
    dag = JobDag(2, steps, (Group("g", "test", ("t0",), (0.0,)),), (("c0", "c0"), ("c1", "c1")))
    return Job(name, dag, hosts, iterations, after=after)


def simulated(*jobs, measured=None, policy="fair"):
    with contextlib.closing(policies.load(policy)) as loaded:
        return fluid.simulate(jobs, NETWORK, loaded, measured=measured)


def spans_s(record, name):
    return {(c.iteration, c.step): (c.start_s, c.finish_s) for c in record.computes if c.job == name}


class TestSimulated:
    """What follows from ends of computations."""

    def test_each_rank_begins_when_it_has_ended_the_job_before(self):
        record = simulated(job("a"), job("b", (2.0, 1.0), after="a"))
        later = spans_s(record, "b")
        assert later[0, "c0"] == (pytest.approx(2.0), pytest.approx(4.0))
        assert later[0, "c1"] == (pytest.approx(6.0), pytest.approx(7.0))
        assert record.began == {"b": pytest.approx(6.0)}

    def test_a_step_that_waits_for_another_rank_waits_for_its_own_too(self):
        record = simulated(job("a"), job("b", after="a", waits=True))
        assert spans_s(record, "b")[0, "c1"][0] == pytest.approx(6.0)  # what it waits for came after 3 s
        record = simulated(job("a", (4.0, 1.0)), job("b", after="a", waits=True))
        assert spans_s(record, "b")[0, "c1"][0] == pytest.approx(9.001, abs=1e-3)  # and here after it had ended

    def test_jobs_may_follow_one_another_in_any_order_of_the_file(self):
        record = simulated(job("c", after="b"), job("b", after="a"), job("a"))
        assert record.began == {"b": pytest.approx(6.0), "c": pytest.approx(12.0)}

    def test_what_was_measured_says_when_it_began(self):
        held_s = {("b", 0, "h1"): 2.5, ("b", 0, "h2"): 5.0}
        record = simulated(job("a"), job("b", after="a"), measured=Measured(held_s=held_s))
        later = spans_s(record, "b")
        assert (later[0, "c0"][0], later[0, "c1"][0]) == (pytest.approx(2.5), pytest.approx(6.0))

    def test_iterations_are_counted_from_when_it_began(self):
        jobs = job("a"), job("b", after="a")
        record = simulated(*jobs)
        begun = as_run(jobs, record)
        assert [each.start_s for each in begun] == [0.0, pytest.approx(6.0)]
        assert ends_by_job_s(record, begun)["b"] == [pytest.approx(9.0), pytest.approx(12.0)]

    @pytest.mark.parametrize("policy", ["fair", "clock", "cassini", "echelonflow"])
    def test_nobody_takes_a_job_that_has_not_begun_for_one_that_is_late_or_under_way(self, policy):
        rival = job("rival", (1.0, 1.0), 6)
        alone = simulated(job("a"), rival, policy=policy)
        beside = simulated(job("a"), rival, job("b", after="a"), policy=policy)
        until_s = 2.0  # then rank 0 begins with `b`
        before = [[f for f in each.flows if f.job == "rival" and f.finish_s < until_s] for each in (alone, beside)]
        assert [(f.release_s, f.finish_s) for f in before[0]] == [(f.release_s, f.finish_s) for f in before[1]]
        assert before[0]

    def test_where_jobs_follow_others_simulations_are_not_in_columns(self, monkeypatch):
        monkeypatch.setattr(kernels, "can_compile", lambda: True)
        monkeypatch.setattr(fluid._Patience, "steps", fluid.COMPILING_STEPS)
        asked = policies.load("fair"), fluid.EXACT, (), None
        assert fluid._in_columns([job("a"), job("b")], NETWORK, *asked)
        assert not fluid._in_columns([job("a"), job("b", after="a")], NETWORK, *asked)

    def test_when_a_job_began_is_kept(self, tmp_path):
        record = simulated(job("a"), job("b", after="a"))
        save_runs(tmp_path / "runs.json", [record])
        (kept,) = load_runs(tmp_path / "runs.json")
        assert kept.began == record.began


class TestReplayed:
    """The same by an agent, which knows of its own host alone."""

    def test_a_rank_goes_on_at_the_moment_at_which_it_was_due(self):
        replay = Replay([job("a", iterations=1), job("b", after="a", iterations=1)], "h1")
        replay.begin(100.0)
        actions = replay.advance(101.25)
        assert [(each.job, each.due_s) for each in actions if isinstance(each, Computed)] == [("a", 101.0)]
        assert replay.next_due_s == 102.0  # not a quarter of a second later
        assert [each.job for each in replay.advance(102.0) if isinstance(each, Computed)] == ["b"]

    def test_two_ranks_on_a_host_begin_each_by_itself(self):
        both = ("h1", "h1")
        replay = Replay([job("a", iterations=1, hosts=both), job("b", (5.0, 1.0), 1, "a", hosts=both)], "h1")
        replay.begin(0.0)
        ended = [(each.step.name, each.due_s) for each in replay.advance(10.0) if isinstance(each, Computed)]
        assert ended == [("c0", 1.0), ("c1", 3.0), ("c1", 4.0), ("c0", 6.0)]
        assert replay.done

    def test_what_was_ended_lets_nothing_begin(self):
        replay = Replay([job("a", iterations=1), job("b", after="a")], "h1")
        replay.begin(0.0)
        replay.end_job("b")
        assert [each.job for each in replay.advance(9.0) if isinstance(each, Computed)] == ["a"]


@pytest.mark.parametrize(
    ("jobs", "words"),
    [
        ([job("b", after="gtp"), job("gpt")], "there is no job 'gtp'.*gpt"),
        ([job("b", after="b")], "each of b waits for another of them"),
        ([job("b", after="a"), job("a", after="b")], "each of b, a waits for another of them, so that none begins"),
        ([job("b", after="a"), job("a", hosts=("h2", "h1"))], "it is on h1, h2, and a on h2, h1; give both the same"),
        ([job("b", after="a"), Job("a", JobDag(2, (Compute("c", 0, 1.0),)), HOSTS)], "rank 1 of a computes nothing"),
    ],
)
def test_why_a_job_cannot_come_after_another_is_said(jobs, words):
    by_name = {each.name: each for each in jobs}
    assert re.search(words, why_not_after(jobs[0], by_name) or "")
    with pytest.raises(InputError, match=words):
        Following(jobs)
    with pytest.raises(InputError, match=words):
        simulated(*jobs)


ENTRY = {"paradigm": "pipeline", "stages": 2, "micro_batches": 2, "forward": "100 ms", "activation": "20 kB", "placement": ["h1", "h2"]}  # fmt: skip


def checked(*entries, **more):
    network = {"topology": "single-switch", "hosts": 2, "rate": "8 Mbit/s"}
    data = {"name": "x", "network": network, "jobs": [{**ENTRY, **entry} for entry in entries], "policies": ["fair"]}
    return schema.check({**data, **more}, Path("x.yaml"))


class TestWritten:
    """`after:` in an experiment file."""

    def test_a_job_comes_after_another(self):
        experiment = checked({"name": "a", "iterations": 2}, {"name": "b", "after": "a"})
        assert [each.after for each in experiment.jobs] == [None, "a"]
        assert PlacedJob.of(experiment.jobs[1]).job() == experiment.jobs[1]
        assert yardsticks_of(experiment).bound_kind == "alone"

    @pytest.mark.parametrize(
        ("entries", "more", "words"),
        [
            ([{"name": "a"}, {"name": "b", "after": "c"}], {}, "jobs.1.after: there is no job 'c'"),
            ([{"name": "a", "after": "b"}, {"name": "b", "after": "a"}], {}, "jobs.0.after: each of a, b waits"),
            ([{"name": "a"}, {"name": "b", "after": "a", "placement": ["h2", "h1"]}], {}, "jobs.1.after: it is on h2"),
            ([{"name": "a"}, {"name": "b", "after": "a", "start": "1 s"}], {}, "jobs.1.start: does not go with after"),
            ([{"name": "a"}, {"name": "b", "after": "a", "count": 2}], {}, "jobs.1.count: does not go with after"),
            ([{"name": "a"}, {"name": "b", "after": "a"}], {"queue": "fifo"}, "queue: does not go with .*after"),
            ([{"name": "a", "iterations": 9}, {"name": "b", "after": "a", "iterations": 9}], {"window": "steady"}, "window: steady does not go"),
            ([{"name": "a"}, {"name": "b", "after": 3}], {}, "jobs.1.after: 3 is not the name of another job"),
        ],
    )  # fmt: skip
    def test_what_cannot_be_is_named_with_its_place(self, entries, more, words):
        with pytest.raises(InputError, match=words):
            checked(*entries, **more)

    def test_of_a_job_that_is_at_fault_itself_only_that_is_said(self):
        with pytest.raises(InputError) as found:
            checked({"name": "a", "stages": 0}, {"name": "b", "after": "a"})
        assert "after" not in str(found.value)

    def test_arrivals_are_not_given_to_what_follows(self):
        arrivals = {"process": "even", "every": "2 s"}
        experiment = checked({"name": "a"}, {"name": "b", "after": "a"}, {"name": "c"}, arrivals=arrivals)
        assert experiment.jobs[1].start_s == 0.0


def test_a_run_of_jobs_that_follow_one_another_counts(tmp_path):
    network = paper_network()
    first = paper_job(network, 2)
    jobs = [first, dataclasses.replace(paper_job(network, 2, 0.5), name="later", after=first.name)]
    run = synthetic_run(jobs, network, "fifo", 0, 0, Measured(settings=Settings()))
    began_s = run.record.began["later"]
    run.segment_bytes = 500
    write_experiment(tmp_path, network, jobs, ("fifo",), [run])
    summary = analyse(explain_runs(tmp_path, network, jobs), pictures="few")
    (result,) = summary.runs
    assert result.valid, result.reasons
    ends = ends_by_job_s(run.record, as_begun(jobs, run.record))["later"]
    assert result.jobs["later"].iteration_s == pytest.approx((ends[-1] - began_s) / 2, abs=1e-6)
    assert result.measures["later"].completion_s == pytest.approx(ends[-1] - began_s, abs=1e-6)
