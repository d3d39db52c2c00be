"""Time stretched: everything takes so many times as long, ratios stay, and results say so."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.experiment.schema import check, load
from echelon.running import resuming, runner
from echelonflow.errors import InputError
from echelonflow.model.units import payload_rate_Bps
from echelonflow.records.manifest import read_manifest
from results.report.table import summary_table
from tests.unit.test_experiments import YAML

JOB = {
    "name": "j", "paradigm": "pipeline", "stages": 2, "micro_batches": 3, "forward": "1 s", "activation": "2 s of link",
    "start": "500 ms",
}  # fmt: skip
DATA = {
    "name": "e", "time_unit": "1 s", "network": {"topology": "single-switch", "hosts": 2, "rate": "100 Mbit/s"},
    "jobs": [JOB], "policies": ["fair", "echelonflow"],
}  # fmt: skip


def times_s(experiment):
    """When every computation of every policy's simulation ends."""
    return [c.finish_s for policy in experiment.policies for c in runner.predict(experiment, policy).computes]


def test_all_times_of_a_simulation_are_so_many_times_as_long():
    plain, twice = check(DATA, Path("e.yaml")), check({**DATA, "stretch": 2}, Path("e.yaml"))
    assert times_s(twice) == pytest.approx([2 * time_s for time_s in times_s(plain)], rel=1e-6)
    assert twice.time_unit_s == 2
    assert twice.network == plain.network


def test_sizes_are_so_many_times_as_large_and_stretching_multiplies_a_jobs_own_scaling():
    scaled = {**DATA, "jobs": [{**JOB, "scaling": {"time": 0.5, "bandwidth": 2}}], "stretch": 3}
    (flow, *_) = check(scaled, Path("e.yaml")).jobs[0].dag.transfers
    assert flow.size_bytes == pytest.approx(2 * payload_rate_Bps(100e6, 1500) * 0.5 * 3 / 2, abs=2)


def test_faults_are_stretched_with_the_jobs():
    fault = {"fault": "slowdown", "host": "h1", "factor": 2, "at": "1 s", "for": "500 ms"}
    (found,) = check({**DATA, "faults": [fault], "stretch": 2}, Path("e.yaml")).faults
    assert (found.at_s, found.for_s) == (2, 1)
    (endless,) = check({**DATA, "faults": [{**fault, "for": "1 s"}]}, Path("e.yaml")).faults
    assert (endless.at_s, endless.for_s) == (1, 1)


@pytest.mark.parametrize("stretch", [0.5, 1001, "2 s"])
def test_what_stretches_nothing_is_refused(stretch):
    with pytest.raises(InputError, match=r"stretch: .* is not a number from 1 to 1,000"):
        check({**DATA, "stretch": stretch}, Path("e.yaml"))


def test_results_say_that_time_was_stretched_and_resuming_keeps_it(tmp_path):
    path, out = tmp_path / "e.yaml", tmp_path / "out"
    YAML().dump(DATA, path)
    _, summary = runner.run(load(path, {"stretch": 2.0}), out, "fluid", lambda _: None, pictures="none")
    assert summary.results[0].iteration_s.median == pytest.approx(2 * 8.5, rel=1e-6)
    words = "time was stretched 2 times (--stretch): seconds over 2 are those of the experiment as its file says"
    assert words in summary_table(summary)
    report = (out / "report.html").read_text()
    assert words in report
    assert "--stretch 2 " in report
    assert read_manifest(out / "manifest.json").stretch == 2
    assert resuming.begun(out).experiment.stretch == 2
