"""What the runner does with what an emulation leaves; the emulation itself is played."""

from __future__ import annotations

import contextlib

import msgspec
import pytest

from echelon.experiment.schema import check
from echelon.running import runner, worlds
from echelon.running.bursts import allowing_for_bursts
from echelonflow.records.calibration import write_calibration
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import RunOutcome, write_outcome
from echelonflow.records.runs import load_runs
from testbed import preflight, world
from tests.unit.synthetic_run import calibration

PIPELINE = {
    "name": "e",
    "network": {"topology": "single-switch", "hosts": 2, "rate": "10 Mbit/s"},
    "jobs": [
        {"name": "j", "paradigm": "pipeline", "stages": 2, "micro_batches": 1, "forward": "1 s", "activation": "2 s of link"}
    ],
    "policies": ["fair"],
}  # fmt: skip


@pytest.fixture
def predicted_s(monkeypatch, tmp_path):
    """Carries out an experiment whose emulation measures links, and nothing more; the predicted end of its last step."""

    def carry_out(calibrated, **changes):
        def emulate(assignment, folder, report):
            if calibrated is not None:
                write_calibration(folder.calibration, calibrated)
            return "it was played"

        monkeypatch.setattr(worlds, "emulate", emulate)
        monkeypatch.setattr(preflight, "require", lambda: None)
        monkeypatch.setattr(preflight, "machine_facts", dict)
        monkeypatch.setattr(world, "machine_lock", contextlib.nullcontext)
        experiment = check({**PIPELINE, **changes}, tmp_path / "e.yaml")
        runner.run(experiment, tmp_path / "out", "emulation", lambda _: None, pictures="none")
        (run,) = load_runs(RunFolder(tmp_path / "out").prediction)
        return max(compute.finish_s for compute in run.computes)

    return carry_out


def test_predictions_allow_for_the_bursts_that_links_were_given(predicted_s):
    # One flow, of 2 s, on links that were idle before: the last attempt's 4 ms are gained once.
    assert predicted_s(calibration(-0.2, 0.0)) == pytest.approx(4 - 0.004, abs=1e-5)


def test_a_policy_is_predicted_with_the_burst_that_most_of_its_runs_had(tmp_path):
    """Links were measured again before the fourth run, and given more: one run of `fair` alone came after it."""
    first, second = calibration(0.0, 0.0).attempts
    again = msgspec.structs.replace(second, first_run=3, burst_s=0.1)
    folder = RunFolder(tmp_path)
    for run_index, policy in enumerate(["fair", "fair", "edf", "fair", "edf"]):
        files = folder.run(f"{policy}-r{run_index}")
        files.root.mkdir(parents=True)
        label = files.root.name
        write_outcome(
            files.outcome,
            RunOutcome(policy=policy, repeat=run_index, run_index=run_index, label=label, enforcer="priority"),
        )
    experiment = check({**PIPELINE, "policies": ["fair", "edf", "srpt"]}, tmp_path / "e.yaml")
    allowed = allowing_for_bursts(
        experiment, folder, msgspec.structs.replace(calibration(0.0), attempts=(first, again))
    )
    assert {policy: one.realism.burst_s for policy, one in allowed.items()} == {
        "fair": first.burst_s, "edf": 0.1, "srpt": 0.1
    }  # fmt: skip


def test_predictions_of_what_was_never_measured_stay_what_they_were(predicted_s):
    assert predicted_s(None) == pytest.approx(4, abs=1e-5)


def test_a_burst_that_the_experiment_names_stays(predicted_s):
    assert predicted_s(calibration(0.0), fluid={"burst": "100 ms"}) == pytest.approx(3.9, abs=1e-5)
