"""The benchmark of what results cost: its jobs are as large as it says, and its verdicts are those of its limits."""

from __future__ import annotations

import pytest

from echelon.benchmarks import analysis_cost
from echelon.benchmarks.analysis_cost import bounded, carried_out, experiment, share_outside, simulated
from echelon.experiment import schema


def test_the_workload_is_as_large_as_it_says(tmp_path):
    found = schema.load(experiment(tmp_path / "e", 1, analysis_cost.POLICIES), {}, ())
    assert tuple(found.policies) == analysis_cost.POLICIES
    (job,) = found.jobs
    assert len(job.placement) == analysis_cost.RANKS
    assert 18_000 < len(job.dag.steps) < 20_500
    assert 700_000 < len(job.dag.steps) * analysis_cost.MANY_ITERATIONS < 780_000


def test_costs_are_of_the_parts_that_they_name(tmp_path, monkeypatch):
    monkeypatch.setattr(analysis_cost, "LAYERS", 2)
    monkeypatch.setattr(analysis_cost, "RANKS", 8)
    file = str(experiment(tmp_path / "e", 1, ("fair",)))
    for cost in (simulated(file), carried_out(file, "none")):
        assert 0 < cost.simulation_s < cost.whole_s


@pytest.mark.parametrize(("whole_s", "ok"), [([3.0, 1.9, 1.0], True), ([3.0, 2.1, 1.0], False)])
def test_the_share_is_of_medians(whole_s, ok):
    figure = share_outside("x", [9.0, 1.0, 0.5], whole_s)
    assert figure.ok is ok
    assert figure.measured.startswith(f"{1 - 1 / whole_s[1]:.0%}: ")


@pytest.mark.parametrize(("cost_s", "peak_GB", "ok"), [(59.0, 1.9, True), (61.0, 1.9, False), (59.0, 2.1, False)])
def test_time_and_memory_have_limits(cost_s, peak_GB, ok):
    assert bounded("x", [cost_s], [0.1, peak_GB]).ok is ok
