"""Planned faults on real packets: two jobs through a broken link, a restarted controller, lost messages and a crash."""

from __future__ import annotations

import csv
import json

import pytest

from echelonflow.records.outcome import read_outcome
from tests.emulation.conftest import echelon, echelon_run
from tests.waiting import end_of

pytestmark = pytest.mark.emulation

EXPERIMENT = """
name: faults
network: {topology: single-switch, hosts: 4, rate: 50 Mbit/s}
jobs:
  - {name: lives, paradigm: gpipe, stages: 2, micro_batches: 3, forward: 60 ms, backward: 60 ms,
          activation: 60 ms of link, iterations: 16, placement: [h1, h3]}
  - {name: dies, paradigm: gpipe, stages: 2, micro_batches: 3, forward: 60 ms, backward: 60 ms,
     activation: 60 ms of link, iterations: 16, placement: [h1, h2]}
policies: [echelonflow]
faults:
  - {fault: link-down, link: [h3, s1], at: 800 ms, for: 300 ms}
  - {fault: controller-stop, at: 1500 ms, for: 200 ms}
  - {fault: lost-messages, host: h3, share: 20 %, at: 5500 ms, for: 1 s}
  - {fault: slowdown, host: h1, factor: 1.5, at: 6500 ms, for: 500 ms}
  - {fault: crash, host: h2, at: 7 s}
# The machine may be busy: what is tested here is what happened, not how fast.
emulation: {limits: {max_link_error: 1, max_cpu_busy: 1, max_switch_thread_busy: 1, max_late_p99_s: 1, max_late_share: 1,
                     max_queue_drop_share: 1, max_stray_share: 0.05, max_log_pcap_median_s: 1, max_log_pcap_p99_s: 1}}
"""


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("faults")
    experiment, out = folder / "experiment.yaml", folder / "out"
    experiment.write_text(EXPERIMENT)
    with echelon_run(experiment, "--out", out, "--attempts", "1") as process:
        code, stdout, stderr = end_of(process, 180, [out / "logs"])
    assert code in (0, 3), stdout + stderr
    return out


def test_the_run_completes_and_counts_the_job_that_lives(finished):
    (run,) = json.loads((finished / "summary.json").read_text())["runs"]
    assert run["fidelity"]["completed"], run["reasons"]
    with (finished / "iterations.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len([row for row in rows if row["job"] == "lives"]) == 16
    assert 1 < len([row for row in rows if row["job"] == "dies"]) < 16
    assert run["fidelity"]["flows_finished"] == run["fidelity"]["flows_asked"]
    assert not run["fidelity"]["bytes_wrong"]
    assert run["fidelity"]["stray_dscp_share"] < 0.05


def test_every_fault_happened_when_it_was_planned(finished):
    done = read_outcome(finished / "raw" / "echelonflow-r0" / "run.json").faults
    assert len(done) == 5
    for fault in done:
        planned = fault.fault
        assert planned.at_s <= fault.begin_s < planned.at_s + 0.5
        if planned.for_s is None:
            assert fault.end_s is None
        else:
            assert fault.end_s is not None
            assert fault.end_s >= planned.until_s
    (run,) = json.loads((finished / "summary.json").read_text())["runs"]
    assert [fault["what"] for fault in run["faults"]] == [fault.fault.what for fault in done]
    assert "Planned faults" in (finished / "report.html").read_text()


def test_the_restarted_controller_decides_and_both_of_them_can_be_replayed(finished):
    run = finished / "raw" / "echelonflow-r0"
    assert (run / "restart-1" / "decisions.jsonl").read_text().count("\n") > 20
    said = echelon("replay", finished)
    assert "its controller was killed" in said
    assert "echelonflow-r0/restart-1" in said
