"""Runs of a job that holds its transfers back: tables, report and verdict know of both moments, ready and released."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest

from echelonflow.model.discipline import Window
from results.folder import analyse
from results.report.table import summary_table
from tests.unit.gated_jobs import gradients_job
from tests.unit.synthetic_run import explain_runs, paper_job, paper_network, synthetic_run, write_experiment


def analysed(root, job, spoil=None):
    network = paper_network()
    run = synthetic_run([job], network, "fair", 0)
    if spoil is not None:
        run.record.flows = spoil(run.record.flows)
    write_experiment(root, network, [job], ["fair"], [run])
    return run, explain_runs(root, network, [job])


def gated(window):
    return gradients_job(window, size_bytes=50_000, backward_s=0.1, iterations=2)


@pytest.mark.parametrize("window", [Window(slots=1), Window(credit_bytes=50_001), Window(99_999, overdraw=False)])
def test_how_long_flows_waited_inside_their_job_is_told(tmp_path, window):
    run, root = analysed(tmp_path / "run", gated(window))
    summary = analyse(root, pictures="none")
    assert summary.valid, summary.reasons
    with (root / "flows.csv").open() as file:
        rows = list(csv.DictReader(file))
    waited_s = [float(row["release_s"]) - float(row["ready_s"]) for row in rows if row["ready_s"]]
    assert len(waited_s) == len([f for f in run.record.flows if f.ready_s is not None]) >= 4
    assert min(waited_s) > 0
    (result,) = summary.results
    assert result.in_job_share.median == pytest.approx(len(waited_s) / len(rows))
    assert result.in_job_s.median == pytest.approx(sum(waited_s) / len(rows), abs=1e-5)
    table = summary_table(summary)
    assert "waits inside jobs:" in table
    assert f"{result.in_job_share.median:.0%}" in table
    assert "Waits inside jobs" in (root / "report.html").read_text()
    (of_run,) = summary.runs
    budget = of_run.budgets["gated"]  # of a simulation with seven classes and bursts; the run was exact
    assert abs(budget.unexplained_s) < 0.01 * budget.iteration_s


def test_a_job_that_holds_nothing_back_has_no_such_table(tmp_path):
    _, root = analysed(tmp_path / "run", paper_job(paper_network()))
    summary = analyse(root, pictures="none")
    assert "waits inside jobs" not in summary_table(summary)
    assert "Waits inside jobs" not in (root / "report.html").read_text()
    assert summary.results[0].in_job_s is None


def test_a_run_whose_logs_break_the_discipline_is_invalid(tmp_path):
    def released_at_once(flows):
        return [f if f.ready_s is None else replace(f, release_s=f.ready_s, ready_s=None) for f in flows]

    _, root = analysed(tmp_path / "run", gated(Window(slots=1)), released_at_once)
    (run,) = analyse(root, pictures="none").runs
    assert any("did not keep to its own scheduler: gated, rank 0: layer" in reason for reason in run.reasons)
