"""Jitter and stragglers: drawn alike by whoever asks, for every policy, and told from lateness."""

from __future__ import annotations

import dataclasses
import statistics
from pathlib import Path

import pytest

from echelon.experiment import schema
from echelon.running import runner
from echelon.running.simulated import ALL_THE_SAME
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Job, JobDag, iteration_times_without_network
from echelonflow.model.draws import Draws, Durations, drawn
from echelonflow.records.manifest import Manifest
from echelonflow.records.placed_job import PlacedJob
from echelonflow.records.progress import Progress, Warned
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import policies
from results.analysis.context import Context
from results.analysis.rows import iteration_rows
from simulator.fluid import simulate
from traffic.agent.replay import Computed, Replay
from traffic.workloads import paradigms

RANKS = 4
DAG = JobDag(RANKS, tuple(Compute(f"c{rank}", rank, 1.0) for rank in range(RANKS)))
HOSTS = ("h1", "h2", "h3", "h4")
NETWORK = topologies.build("single-switch", {"hosts": 4, "rate_bps": 1e9})


def job(draws: Draws | None, name: str = "j", iterations: int = 1) -> Job:
    return Job(name, DAG, HOSTS, iterations, draws=draws)


def factors(draws: Draws, repeat: int = 0, name: str = "j", iterations: int = 2000) -> list[float]:
    durations = Durations(job(draws, name), repeat)
    return [durations.of(i, DAG.computes[0]) for i in range(iterations)]


def test_jitter_is_lognormal_of_median_one_and_the_coefficient_of_variation_that_is_asked_for():
    drawn_s = factors(Draws(1, jitter=0.2), iterations=20_000)
    assert statistics.median(drawn_s) == pytest.approx(1.0, rel=0.01)
    assert statistics.pstdev(drawn_s) / statistics.fmean(drawn_s) == pytest.approx(0.2, rel=0.03)


def test_a_draw_depends_on_seed_repeat_and_job_and_can_be_made_again():
    first = factors(Draws(1, jitter=0.1))
    assert factors(Draws(1, jitter=0.1)) == first
    others = [
        factors(Draws(2, jitter=0.1)),
        factors(Draws(1, jitter=0.1), repeat=1),
        factors(Draws(1, jitter=0.1), name="k"),
    ]
    for other in others:
        assert abs(statistics.correlation(first, other)) < 0.1


def test_stragglers_are_listed_or_drawn_anew_in_every_repeat():
    listed = Draws(1, slowdown=2.0, slow_ranks=(2,))
    assert [Durations(job(listed), 5).of(0, step) for step in DAG.computes] == [1.0, 1.0, 2.0, 1.0]
    counted = Draws(1, slowdown=2.0, slow_count=1)
    slow = [counted.stragglers("j", RANKS, repeat) for repeat in range(20)]
    assert all(len(ranks) == 1 for ranks in slow)
    assert len(set(slow)) > 1


@pytest.mark.parametrize(
    ("draws", "words"),
    [
        (lambda: Draws(1, jitter=-0.1), "jitter is -0.1"),
        (lambda: Draws(1, slowdown=0.5), "slowdown is 0.5"),
        (lambda: job(Draws(1, slowdown=2.0, slow_ranks=(4,))), "there is no rank 4"),
        (lambda: job(Draws(1, slowdown=2.0, slow_count=5)), "5 are asked for; the job has 4 ranks"),
    ],
)
def test_what_cannot_be_drawn_is_refused(draws, words):
    with pytest.raises(InputError, match=words):
        draws()


def test_simulator_agents_and_analysis_draw_the_same():
    drawing = job(Draws(3, jitter=0.3, slowdown=1.5, slow_count=1), iterations=3)
    record = simulate([drawing], NETWORK, policies.load("fair"), 2)
    simulated = {(c.rank, c.iteration): c.finish_s - c.start_s for c in record.computes}
    replayed = {}
    for host in HOSTS:
        replay = Replay([drawing], host, repeat=2)
        replay.begin(0.0)
        ended = [action for action in replay.advance(1e6) if isinstance(action, Computed)]
        replayed.update({(c.step.rank, c.iteration): c.due_s - c.start_s for c in ended})
    assert len(simulated) == RANKS * 3
    assert replayed == pytest.approx(simulated)
    assert all(row.exposed_s == pytest.approx(0.0, abs=1e-12) for row in iteration_rows(record, [drawing]))
    assert sum(iteration_times_without_network(DAG, 3, drawn(drawing, 2))) == pytest.approx(record.end_s)


def test_policies_are_compared_on_the_same_draws_and_repeats_differ():
    dag = paradigms.load("data-parallel").build(
        ranks=4, layers=2, forward_s=0.01, backward_s=0.02, parameter_bytes=1_000_000
    )
    drawing = Job("dp", dag, HOSTS, 2, draws=Draws(1, jitter=0.1))

    def durations(policy: str, repeat: int) -> dict[tuple[str, int], float]:
        record: RunRecord = simulate([drawing], NETWORK, policies.load(policy), repeat)
        return {(c.step, c.iteration): c.finish_s - c.start_s for c in record.computes}

    assert durations("fair", 0) == pytest.approx(durations("echelonflow", 0))
    assert durations("fair", 0) != pytest.approx(durations("fair", 1))


def test_a_job_with_draws_is_kept_as_it_is():
    drawing = job(Draws(3, jitter=0.3, slowdown=1.5, slow_ranks=(1,)))
    assert PlacedJob.of(drawing).job() == drawing
    assert dataclasses.replace(drawing, draws=None) != drawing


EXPERIMENT = """
name: drawn
network: {topology: single-switch, hosts: 4, rate: 100 Mbit/s}
jobs:
  - {name: pp, paradigm: pipeline, stages: 3, micro_batches: 2, forward: 50 ms, activation: 500 kB, iterations: 2VARY}
policies: [fair, echelonflow]
repeats: 3
seed: 5
"""


def experiment(tmp_path: Path, vary: str) -> schema.Experiment:
    path = tmp_path / "drawn.yaml"
    path.write_text(EXPERIMENT.replace("VARY", vary), encoding="utf-8")
    return schema.load(path)


def test_each_repeat_is_simulated_where_anything_is_drawn(tmp_path: Path):
    said: list[Progress] = []
    code, summary = runner.run(
        experiment(tmp_path, ", jitter: 10 %"), tmp_path / "out", "fluid", said.append, pictures="none"
    )
    assert code == 0
    assert [(run.policy, run.repeat) for run in summary.runs] == [
        (policy, repeat) for repeat in range(3) for policy in ("fair", "echelonflow")
    ]
    assert len({run.jobs["pp"].iteration_s for run in summary.runs if run.policy == "fair"}) == 3
    (compared,) = summary.comparisons
    assert (compared.policy, compared.pairs) == ("echelonflow", 3)
    assert not any(isinstance(each, Warned) for each in said)


def test_one_line_says_that_repeats_would_be_the_same_where_nothing_is(tmp_path: Path):
    said: list[Progress] = []
    _, summary = runner.run(experiment(tmp_path, ""), tmp_path / "out", "fluid", said.append, pictures="none")
    assert len(summary.runs) == 2
    assert [each.reason for each in said if isinstance(each, Warned)] == [ALL_THE_SAME.format(3)]


def test_a_run_on_packets_is_held_against_the_prediction_of_its_own_repeat(tmp_path: Path):
    drawn_ones, still = experiment(tmp_path, ", jitter: 10 %"), experiment(tmp_path, "")
    for asked, predicted in ((drawn_ones, 3), (still, 1)):
        records = runner._predicted({"fair": asked}, {"fair": 3})
        assert [record.repeat for record in records] == list(range(predicted))
        manifest = Manifest(name="x", backend="emulation", policies=("fair",), repeats=3)
        context = Context(tmp_path, manifest, asked.jobs, {("fair", record.repeat): record for record in records})
        mine = [context.predicted_figures("fair", repeat)["pp"].iteration_s for repeat in range(3)]
        assert len(set(mine)) == predicted
        mean_s = statistics.fmean(mine[:predicted])
        assert context.predicted_means()["fair"]["pp"].iteration_s == pytest.approx(mean_s)


@pytest.mark.parametrize(
    ("vary", "words"),
    [
        (", jitter: much", "jobs.0.jitter: 'much' is not a share"),
        (", jitter: 2000 %", "jobs.0.jitter: jitter is 20"),
        (", stragglers: {slowdown: 2}", "jobs.0.stragglers: name either a `count`"),
        (", stragglers: {count: 1, ranks: [0], slowdown: 2}", "jobs.0.stragglers: name either a `count`"),
        (", stragglers: {count: 1, slowdown: 0.5}", "0.5 is not a number above 1"),
        (", stragglers: {ranks: [3], slowdown: 2}", "there is no rank 3; the job's ranks are 0 to 2"),
        (", stragglers: {ranks: [0, -1], slowdown: 2}", "-1 is not a rank"),
    ],
)
def test_draws_that_cannot_be_are_refused_by_their_place(tmp_path: Path, vary: str, words: str):
    with pytest.raises(InputError, match=words):
        experiment(tmp_path, vary)
