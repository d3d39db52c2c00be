"""What an iteration is: it ends with its last step, transfers included, whoever asks."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from echelon.experiment import schema
from echelon.running import runner
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer, iteration_times_without_network
from echelonflow.model.iterations import durations_s, ends_s, mean_duration_s
from echelonflow.scheduling import bounds, policies
from results.analysis.figures import JobFigures, job_figures
from results.analysis.rows import iteration_rows, run_rows
from results.analysis.statistics import estimate
from results.analysis.summary import PolicyResult, RunResult, policy_results
from simulator.fluid import simulate
from traffic.workloads import formats

SENT_BYTES = 125_000_000
SENT_S = SENT_BYTES * 8 / 1e9 * 1514 / 1460
NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e9})


def job(*computes, tied=(), iterations=3, start_s=0.0):
    """Two ranks that exchange `SENT_BYTES` behind what they compute; nothing in an iteration waits for that."""
    transfers = [
        Transfer(f"x{rank}", rank, 1 - rank, SENT_BYTES, "x", tuple(c.name for c in computes if c.rank == rank))
        for rank in (0, 1)
    ]
    group = Group("g", "all-reduce", ("x0", "x1"), (0.0, 0.0))
    return Job("j", JobDag(2, (*computes, *transfers), (group,), tied), ("h1", "h2"), iterations, 1.0, start_s)


def trailing(iterations=3, start_s=0.0):
    """1 s of computation, then the exchange, for which the next iteration waits."""
    tied = tuple((f"x{rank}", f"c{rank}") for rank in (0, 1))
    return job(Compute("c0", 0, 1.0), Compute("c1", 1, 1.0), tied=tied, iterations=iterations, start_s=start_s)


def rows_of(one: Job, policy="fair"):
    return iteration_rows(simulate([one], NETWORK, policies.load(policy)), [one])


@pytest.mark.parametrize("iterations", [1, 3])
@pytest.mark.parametrize("start_s", [0.0, 2.5])
def test_communication_behind_the_last_computation_counts(iterations, start_s):
    rows = rows_of(trailing(iterations, start_s))
    assert [row.duration_s for row in rows] == pytest.approx([1 + SENT_S] * iterations, abs=1e-6)
    assert [row.exposed_s for row in rows] == pytest.approx([SENT_S] * iterations, abs=1e-6)
    assert [row.start_s for row in rows] == pytest.approx(
        [start_s + k * (1 + SENT_S) for k in range(iterations)], abs=1e-5
    )


def test_where_the_next_iteration_begins_is_for_the_dag_to_say():
    """Computations go on beside what is sent: a second iteration costs what the longer of the two takes."""
    tied = tuple((f"c{rank}", f"c{rank}") for rank in (0, 1))
    rows = rows_of(job(Compute("c0", 0, 1.0), Compute("c1", 1, 1.0), tied=tied, iterations=4), "fifo")
    assert rows[0].duration_s == pytest.approx(1 + SENT_S, abs=1e-6)
    # Flows of one iteration begin while those of the one before are under way: the link never rests behind the first.
    assert rows[-1].finish_s == pytest.approx(1 + 4 * SENT_S, abs=1e-5)
    assert math.fsum(row.duration_s for row in rows) == pytest.approx(rows[-1].finish_s)


def test_an_iteration_does_not_end_before_those_before_it():
    assert ends_s([3.0, 2.0, 5.0], 1.0) == [3.0, 3.0, 5.0]
    assert durations_s([3.0, 3.0, 5.0], 1.0) == [2.0, 0.0, 2.0]
    assert mean_duration_s([3.0, 3.0, 5.0], 1.0) == pytest.approx(4 / 3)
    assert mean_duration_s([3.0, 3.0, 5.0], skip=1) == 1.0
    with pytest.raises(ValueError, match="3 iterations of which 3"):
        mean_duration_s([3.0, 3.0, 5.0], skip=3)


def test_an_iteration_with_a_flow_on_its_way_is_not_complete():
    one = trailing()
    record = simulate([one], NETWORK, policies.load("fair"))
    record.flows = [replace(f, finish_s=math.nan) if (f.iteration, f.flow) == (2, "x1") else f for f in record.flows]
    assert [row.iteration for row in iteration_rows(record, [one])] == [0, 1]


def test_a_job_that_computes_nothing_has_iterations():
    one = job(tied=tuple((f"x{rank}", f"x{rank}") for rank in (0, 1)))
    assert iteration_times_without_network(one.dag, 3) == [0.0, 0.0, 0.0]
    assert [row.duration_s for row in rows_of(one)] == pytest.approx([SENT_S] * 3, abs=1e-6)
    assert [row.exposed_s for row in rows_of(one)] == pytest.approx([SENT_S] * 3, abs=1e-6)


@pytest.mark.parametrize("one", [trailing(), job(), job(Compute("c0", 0, 1.0))])
def test_no_scheduler_beats_the_bound_and_the_bound_knows_what_trails(one):
    figures = job_figures(run_rows(simulate([one], NETWORK, policies.load("fair")), [one]), [one])["j"]
    bound_s = bounds.iteration_bound([one], NETWORK).mean_s
    assert bound_s == pytest.approx(figures.iteration_s, rel=1e-5)


def figures_of(iteration_s: float) -> JobFigures:
    return JobFigures(iteration_s, 0.0, None)


def test_iterations_that_took_no_time_are_nobodys_mistake():
    one = trailing()
    runs = [RunResult(f"{name} 0", name, 0, (), {"j": figures_of(0.0)}, None) for name in ("fair", "srpt")]
    results = policy_results(runs, ["fair", "srpt"], [one], {"fair": {"j": figures_of(0.0)}})
    assert [result.speedup for result in results] == [None, None]
    assert [result.iteration_difference for result in results] == [None, None]
    measured = PolicyResult("fair", "j", 1, 1, estimate([2.0]), None, None, figures_of(1.0), None)
    assert measured.iteration_difference == 1.0


@pytest.mark.parametrize("seconds", [None, 0.0])
def test_a_job_that_computes_nothing_is_run_and_reported(tmp_path, seconds):
    """No computation at all, or one that takes no time before everything is sent."""
    computes = () if seconds is None else (Compute("c0", 0, seconds), Compute("c1", 1, seconds))
    formats.write_job(job(*computes).dag, tmp_path / "job.json")
    given = {
        "name": "sends",
        "network": {"topology": "single-switch", "hosts": 2, "rate": "1 Gbit/s"},
        "jobs": [{"name": "j", "iterations": 1, "import": {"format": "job", "files": ["job.json"]}}],
        "policies": ["fair", "srpt"],
    }
    experiment = schema.check(given, tmp_path / "e.yaml")
    code, summary = runner.run(experiment, tmp_path / "out", "fluid", lambda _: None)
    assert (code, summary.valid) == (0, True)
    assert [result.iteration_s.median for result in summary.results] == pytest.approx([SENT_S] * 2)
    assert [result.exposed_s.median for result in summary.results] == pytest.approx([SENT_S] * 2)
    assert [result.speedup for result in summary.results] == [1.0, 1.0]
    assert {path.name for path in (tmp_path / "out" / "figures").iterdir()} >= {"gantt.png", "times.png"}
