"""A job that schedules its own transfers, on real packets: in order, never beyond its credit, and with nothing lost."""

from __future__ import annotations

import csv
import json
import subprocess
import sys

import pytest

from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import read_outcome
from tests.emulation.conftest import echelon
from tests.waiting import end_of, started

pytestmark = pytest.mark.emulation

LAYERS, ITERATIONS = 8, 12
PROGRAM = """
import dataclasses, sys
from pathlib import Path
from echelon.experiment import schema
from echelon.running import runner
from echelonflow.model.discipline import Window
from tests.unit.gated_jobs import gradients_job

file, out, layers, iterations = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
size = 250_000  # 40 ms of the link, beside 8 ms of computation: most of what is ready has to wait
job = gradients_job(
    Window(credit_bytes=2 * size), size_bytes=size, backward_s=0.008, iterations=iterations, layers=layers
)
experiment = dataclasses.replace(schema.load(file), jobs=(job,))
out.mkdir()
code, summary = runner.run(experiment, out, "emulation", lambda progress: print(progress, file=sys.stderr))
sys.exit(code)
"""
EXPERIMENT = """
name: gated
network: {topology: single-switch, hosts: 2, rate: 50 Mbit/s}
jobs: [{name: gated, paradigm: pipeline, stages: 2, micro_batches: 1, forward: 1 ms, activation: 1 kB}]
policies: [echelonflow]
# The machine may be busy: what is tested here is what happened, not how fast.
emulation: {limits: {max_link_error: 1, max_cpu_busy: 1, max_switch_thread_busy: 1, max_late_p99_s: 1, max_late_share: 1,
                     max_queue_drop_share: 1, max_stray_share: 0.05, max_log_pcap_median_s: 1, max_log_pcap_p99_s: 1,
                     max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1, max_unexplained_exposed: 1}}
"""
FAULTS = {
    "calm": "",
    "without a controller for a while": "faults: [{fault: controller-stop, at: 500 ms, for: 200 ms}]\n",
}


@pytest.fixture(scope="module", params=FAULTS)
def finished(request, tmp_path_factory):
    """The folder of a run, calm or not."""
    folder = tmp_path_factory.mktemp("gated")
    experiment, out = folder / "experiment.yaml", folder / "out"
    experiment.write_text(EXPERIMENT + FAULTS[request.param])
    command = [sys.executable, "-c", PROGRAM, experiment, out, LAYERS, ITERATIONS]
    with started([*map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        code, stdout, stderr = end_of(process, 150, [out / "logs"])
    assert code in (0, 3), stdout + stderr
    return out


def flows(out):
    with (out / "flows.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def pushes(out):
    """Of each iteration, in order of release."""
    found = [row for row in flows(out) if row["flow"].startswith("push")]
    by_iteration = [[row for row in found if row["iteration"] == str(k)] for k in range(ITERATIONS)]
    return [sorted(rows, key=lambda row: float(row["release_s"])) for rows in by_iteration]


def layer(row):
    return int(row["flow"].removeprefix("push "))


def ready_s(row):
    return float(row["ready_s"] or row["release_s"])


def test_every_byte_of_every_flow_arrived_once(finished):
    rows = flows(finished)
    assert len(rows) == 2 * LAYERS * ITERATIONS
    assert all(row["pcap_bytes"] == row["size_bytes"] for row in rows)
    (run,) = json.loads((finished / "summary.json").read_text())["runs"]
    assert run["fidelity"]["flows_finished"] == run["fidelity"]["flows_asked"]
    assert not run["fidelity"]["bytes_wrong"]


def test_what_is_ready_goes_by_the_order_of_its_layers(finished):
    held = as_they_came = 0
    for rows in pushes(finished):
        # A busy machine may wake the agent after two computations have ended: then the later one's is the more urgent.
        as_they_came += [layer(row) for row in rows[:2]] == [LAYERS - 1, LAYERS - 2]
        for place, row in enumerate(rows):
            released_s = float(row["release_s"])
            later = [other for other in rows[place + 1 :] if float(other["release_s"]) > released_s]
            waiting = [layer(other) for other in later if ready_s(other) < released_s]
            assert all(other > layer(row) for other in waiting)
            held += bool(waiting)
    assert as_they_came  # while the link is idle, what is ready waits for nothing that is not
    assert held > ITERATIONS * LAYERS // 4  # most of the time there was something to choose from


def test_no_more_is_under_way_than_the_credit_allows_as_packets_show(finished):
    rows = [row for found in pushes(finished) for row in found]
    for row in rows:
        at_s = float(row["pcap_start_s"])
        beside = [o for o in rows if float(o["pcap_start_s"]) < at_s < float(o["pcap_finish_s"])]
        assert len(beside) < 2


def test_the_verdict_the_budget_and_the_replay_know_of_the_discipline(finished):
    (run,) = json.loads((finished / "summary.json").read_text())["runs"]
    assert not [reason for reason in run["reasons"] if "scheduler" in reason or "contradict" in reason], run["reasons"]
    assert run["jobs"]["gated"]["in_job_share"] > 0.25
    assert "Waits inside jobs" in (finished / "report.html").read_text()
    faults = read_outcome(RunFolder(finished).runs()[0].outcome).faults
    assert ("gated" in run["budgets"]) is not bool(faults), run["reasons"]
    said = echelon("replay", finished)
    assert ("was killed" in said) is bool(faults)
