"""What the benchmark of budgets makes of runs: a median over all, and no valid one far off."""

from __future__ import annotations

from echelon.benchmarks.budget import Off, figures, offs
from echelonflow.model.measured import Measured, Settings
from results.folder import analyse
from tests.unit.test_results_budget import folder


def test_every_explained_job_counts(tmp_path):
    root = folder(tmp_path / "run", Measured(settings=Settings()))
    summary = analyse(root, pictures="none")
    assert [off.valid for off in offs(summary)] == [True, True]
    assert max(off.share for off in offs(summary)) < 1e-6


def test_invalid_runs_count_for_the_median_alone():
    median, far, worst = figures([Off(True, 0.004), Off(True, 0.006), Off(False, 0.2)])
    assert (median.measured, median.ok) == ("0.60%", True)
    assert (far.measured, far.ok) == ("0 of 2", True)
    assert worst.measured == "0.60%"


def test_a_valid_run_that_is_far_off_misses_the_figure():
    median, far, _ = figures([Off(True, 0.031), Off(True, 0.02)])
    assert (median.ok, far.ok) == (False, False)
    assert far.measured == "1 of 2"


def test_nothing_explained_is_no_success():
    (figure,) = figures([])
    assert figure.ok is False
    assert figures([Off(False, 0.001)])[1].ok is False
