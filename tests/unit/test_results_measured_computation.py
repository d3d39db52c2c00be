"""Training programs whose computation is measured: what it took in a run it takes, and nobody was late."""

from __future__ import annotations

import dataclasses
import statistics

import msgspec
import pytest

from echelonflow.model.dag import iteration_times_without_network
from echelonflow.model.draws import Durations, drawn
from echelonflow.model.measured import Measured, Settings
from echelonflow.records.assignment import LiveProgram, write_assignment
from echelonflow.records.calibration import write_calibration
from echelonflow.records.folder import RunFolder
from echelonflow.scheduling import policies
from results.analysis.rows import iteration_rows
from results.folder import analyse
from simulator.fluid import simulate
from tests.unit.synthetic_run import (
    assignment,
    calibration,
    explain_runs,
    paper_job,
    paper_network,
    synthetic_run,
    write_experiment,
)

NETWORK = paper_network()
ITERATIONS = 3
JOB = paper_job(NETWORK, ITERATIONS)
POLICY = "echelonflow"
FACTORS = (1.4, 0.6, 1.0, 1.3, 0.7, 0.9, 1.2)
"""How much of the declared second each computation takes, one after the other: up to 40 % more and less."""
TOOK_S = {
    (JOB.name, iteration, step.name): step.duration_s * FACTORS[(iteration * 5 + place * 3) % len(FACTORS)]
    for iteration in range(ITERATIONS)
    for place, step in enumerate(JOB.dag.computes)
}
MEASURED = Measured(took_s=TOOK_S, settings=Settings())


def run_of(tmp_path, *, profiled):
    """A run whose computations took `TOOK_S`, explained and judged."""
    run = synthetic_run([JOB], NETWORK, POLICY, 0, 0, MEASURED)
    run.segment_bytes = 500
    if profiled:
        # So the agent logs what was to take a second.
        run.record.computes = [dataclasses.replace(c, late_s=c.finish_s - c.start_s - 1.0) for c in run.record.computes]
    root = write_experiment(tmp_path / "run", NETWORK, [JOB], (POLICY,), [run])
    program = LiveProgram(job=JOB.name, program="train.py", arguments=(), placement=JOB.placement, profiled=profiled)
    told = msgspec.structs.replace(assignment(NETWORK, [JOB], (POLICY,), 1), programs=(program,))
    write_assignment(RunFolder(root).assignment, told)
    found = calibration(0.0)
    still = tuple(msgspec.structs.replace(each, burst_s=0.0) for each in found.attempts)
    write_calibration(RunFolder(root).calibration, msgspec.structs.replace(found, attempts=still))
    (judged,) = analyse(explain_runs(root, NETWORK, [JOB]), pictures="none").runs
    return judged, run.record


def test_what_a_computation_takes_in_a_run_comes_before_what_is_declared():
    first, *_ = JOB.dag.computes
    durations = Durations(JOB, 0, {(JOB.name, 1, first.name): 0.25})
    assert [durations.of(iteration, first) for iteration in range(3)] == [1.0, 0.25, 1.0]
    assert drawn(JOB, 0, {}) is None


def test_the_simulation_of_a_run_takes_what_was_logged_and_exposes_what_is_beyond_that():
    record = simulate([JOB], NETWORK, policies.load("fair"), measured=MEASURED.ideal)
    assert {(c.job, c.iteration, c.step): c.finish_s - c.start_s for c in record.computes} == pytest.approx(TOOK_S)
    unavoidable_s = iteration_times_without_network(JOB.dag, ITERATIONS, drawn(JOB, 0, TOOK_S))
    rows = iteration_rows(record, [JOB], took_s=TOOK_S)
    assert [row.exposed_s for row in rows] == pytest.approx(
        [row.duration_s - alone_s for row, alone_s in zip(rows, unavoidable_s, strict=True)]
    )
    assert [row.exposed_s for row in iteration_rows(record, [JOB])] != pytest.approx([row.exposed_s for row in rows])


def test_a_run_whose_computations_vary_by_two_fifths_is_explained_where_they_are_measured(tmp_path):
    found, record = run_of(tmp_path, profiled=False)
    assert found.reasons == ()
    budget = found.budgets[JOB.name]
    assert (budget.computation_s, budget.unexplained_s) == (pytest.approx(0, abs=1e-9), pytest.approx(0, abs=1e-6))
    alone_s = iteration_times_without_network(JOB.dag, ITERATIONS, drawn(JOB, 0, TOOK_S))
    assert found.jobs[JOB.name].exposed_s == pytest.approx(record.end_s / ITERATIONS - statistics.fmean(alone_s))


def test_the_same_run_counts_for_nothing_where_they_had_a_profile(tmp_path):
    found, _ = run_of(tmp_path, profiled=True)
    told = " ".join(found.reasons)
    assert "late computations" in told
    assert "that the measured causes explain" in told
