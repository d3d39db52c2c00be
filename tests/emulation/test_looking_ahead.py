"""A policy that looks ahead, on packets: plans are made beside the run, put in force, and explained."""

from __future__ import annotations

import csv

import pytest

from controller.replay_log import difference, replay_all
from echelonflow.records import events
from echelonflow.records.budget import read_budgets
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import read_outcome
from echelonflow.scheduling import kernels
from tests.emulation.conftest import echelon_run
from tests.waiting import end_of

pytestmark = [
    pytest.mark.emulation,
    pytest.mark.skipif(not kernels.can_compile(), reason="looking ahead needs compiled loops (numba)"),
]

# The planner loads while the run goes on, at the lowest priority: jobs last long enough for that on a busy machine, too.
TWO_JOBS = """
name: two
network: {topology: single-switch, hosts: 4, rate: 40 Mbit/s}
jobs:
  - {name: one, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 100 ms, activation: 150 ms of link, iterations: 30,
     placement: [h1, h2]}
  - {name: other, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 100 ms, activation: 150 ms of link, iterations: 30,
     placement: [h3, h2]}
policies: ["lookahead(tries=8,budget=0.3)"]
emulation: {limits: {max_link_error: 1, max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1,
                     max_unexplained_exposed: 1}}
"""


def test_plans_are_put_in_force_while_packets_flow(tmp_path):
    experiment, out = tmp_path / "experiment.yaml", tmp_path / "out"
    experiment.write_text(TWO_JOBS)
    with echelon_run(experiment, "--out", out, "--attempts", "1", compiled=True) as process:
        code, stdout, stderr = end_of(process, 240, [out / "logs"])
    assert code in (0, 3), stdout + stderr
    (run,) = RunFolder(out).runs()
    outcome = read_outcome(run.outcome)
    assert outcome.completed
    faults = []
    plans = list(events.plans(run.events, faults))
    assert (plans != [], faults) == (True, [])
    decisions = read_decisions(run.decisions)
    assert any("plan" in decision.trigger.split(", ") for decision in decisions)
    replayed = replay_all(run.events)
    assert difference(replayed.of_these(decisions), replayed.decisions) is None
    explained = read_budgets(RunFolder(out).budget).runs[run.root.name]
    assert explained.failure is None
    with (out / "flows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["job"] for row in rows} == {"one", "other"}
    assert all(row["finish_s"] and int(row["pcap_bytes"]) == int(row["size_bytes"]) for row in rows)
