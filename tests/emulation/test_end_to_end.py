"""The main job as a user runs it: real packets, three policies, the answer; and what happens when parts die."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys

import pytest

from echelon.benchmarks._experiments import Kept
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import read_outcome
from testbed import queues
from testbed.processes import alive, descendants
from tests.emulation.conftest import CSV_COLUMNS, SHORT_PIPELINE, echelon, echelon_run, own_interfaces
from tests.waiting import end_of, wait_until

pytestmark = pytest.mark.emulation
ONCE = ("--attempts", "1")
"""Where what becomes of a run is looked at, and no other is to be made in its place."""


def carried_out(folder, text, *options, compiled=False):
    """An experiment that has run to its end in `folder`: the run's folder, and the exit code."""
    experiment, out = folder / "experiment.yaml", folder / "out"
    experiment.write_text(text)
    with echelon_run(experiment, "--out", out, *options, compiled=compiled) as process:
        code, stdout, stderr = end_of(process, 180, [out / "logs"])
    assert code in (0, 3), stdout + stderr
    return out, code


@pytest.fixture(scope="module")
def compared(tmp_path_factory):
    """The short pipeline under three policies, on Ryu, with compiled loops."""
    return carried_out(tmp_path_factory.mktemp("ryu"), SHORT_PIPELINE, "--framework", "ryu", compiled=True)


COFLOWS = "3 2\n1 0 1 0 1 1:4\n2 100 1 0 1 2:1.5\n"
"""Facebook's format: 4 MB (of 2^20 bytes) from port 0 to port 1; 100 ms later 1.5 MB from port 0 to port 2."""

OF_A_TRACE = """
name: coflows
network: {topology: single-switch, hosts: 3, rate: 50 Mbit/s}
jobs:
  - {name: trace, import: {format: coflow-benchmark, files: [coflows.txt]}}
policies: [fair, coflow]
emulation: {framework: os-ken, limits: {max_link_error: 1, max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1,
                     max_unexplained_exposed: 1}}
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory):
    """Coflows of an imported trace under two policies, on os-ken."""
    folder = tmp_path_factory.mktemp("os-ken")
    (folder / "coflows.txt").write_text(COFLOWS)
    return carried_out(folder, OF_A_TRACE)


@pytest.fixture(params=["compared", "imported"])
def finished(request):
    """Either of them: folder and exit code."""
    return request.getfixturevalue(request.param)


def table(folder, name):
    with (folder / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def test_every_file_of_the_interface_is_there(finished):
    out, *_ = finished
    for name, header in CSV_COLUMNS.items():
        assert (out / f"{name}.csv").read_text().splitlines()[0] == header
    for name in ("manifest.json", "summary.json", "decisions.jsonl", "timeline.json", "report.html"):
        assert (out / name).stat().st_size > 0
    assert list((out / "pcap").glob("*.pcap"))
    assert list((out / "figures").glob("*.png")) + list((out / "figures").glob("*.svg"))


def test_echelonflow_beats_fair_beats_whole_group_coflow(compared):
    out, *_ = compared
    duration = {row["policy"]: float(row["duration_s"]) for row in table(out, "iterations")}
    assert duration["echelonflow"] < duration["fair"] < duration["coflow(grouping=group)"]


def test_every_byte_was_sent_once_and_seen(finished):
    out, *_ = finished
    flows = table(out, "flows")
    manifest = json.loads((out / "manifest.json").read_text())
    of_each = {"short": 3, "coflows": 2}[manifest["name"]]
    assert sorted(row["policy"] for row in flows) == sorted(manifest["policies"] * of_each)
    assert all(row["pcap_bytes"] == row["size_bytes"] for row in flows)


def test_flows_finish_staggered_under_echelonflow_and_together_under_coflow(compared):
    out, *_ = compared
    finish = {}
    for row in table(out, "flows"):
        finish.setdefault(row["policy"], []).append(float(row["pcap_finish_s"]))
    spread = {policy: (max(times) - min(times)) / max(times) for policy, times in finish.items()}
    assert spread["coflow(grouping=group)"] < 0.1
    assert spread["echelonflow"] > 0.3


def test_packets_carry_the_decided_mark(finished):
    out, *_ = finished
    for row in table(out, "flows"):
        assert row["dscp"] in row["pcap_dscp"].split("|")


def test_echelonflow_puts_flows_into_several_classes(compared):
    out, *_ = compared
    marks = {row["pcap_dscp"] for row in table(out, "flows") if row["policy"] == "echelonflow"}
    assert len(marks) > 1


def test_summary_and_manifest_say_what_was_run(finished):
    out, code = finished
    summary, manifest = (json.loads((out / name).read_text()) for name in ("summary.json", "manifest.json"))
    assert summary["valid"] is (code == 0)
    assert manifest["backend"] == "emulation"
    assert [result["policy"] for result in summary["results"]] == manifest["policies"]
    assert (manifest["name"], manifest["framework"]) in (("short", "ryu"), ("coflows", "os-ken"))


def test_coflows_of_an_imported_trace_run_on_packets(imported):
    out, *_ = imported
    rows = table(out, "flows")
    assert sorted(int(row["pcap_bytes"]) for row in rows) == [3 << 19] * 2 + [4 << 20] * 2
    small = {row["policy"]: row for row in rows if row["size_bytes"] == str(3 << 19)}
    took_s = {policy: float(row["pcap_finish_s"]) - float(row["release_s"]) for policy, row in small.items()}
    # 0.25 s where the smaller Coflow goes first, 0.5 s where the two share the link.
    assert took_s["coflow"] < 0.75 * took_s["fair"]


def on_flows_in_flight(path):
    """Decisions so far, but those ahead of any release."""
    return [decision for decision in read_decisions(path) if not decision.ahead]


def test_a_policy_is_swapped_while_flows_are_in_flight(tmp_path):
    experiment, out = tmp_path / "slow.yaml", tmp_path / "out"
    experiment.write_text(SHORT_PIPELINE.replace("800 ms", "3 s"))
    with echelon_run(experiment, "--out", out, "--policy", "coflow(grouping=group)", *ONCE) as process:
        decisions = out / "raw" / "coflow-grouping-group-r0" / "decisions.jsonl"
        wait_until(lambda: len(on_flows_in_flight(decisions)) >= 2, 90, "two decisions", process, [out / "logs"])
        assert "coflow(grouping=group)" in echelon("status", "--at", out)
        assert "in force: echelonflow" in echelon("policy", "echelonflow", "--at", out)
        bad = tmp_path / "bad.py"
        bad.write_text("def allocate(snapshot):\n    return None\n")
        assert "not an Allocation" in echelon("policy", bad, "--at", out, code=2)
        assert "echelonflow" in echelon("status", "--at", out)
        code, stdout, stderr = end_of(process, 90, [out / "logs"])
    assert code in (0, 3), stdout + stderr
    swap = next(decision for decision in read_decisions(decisions) if "policy" in decision.trigger)
    assert {mark for *_, mark, _ in swap.changed} != {48}, "the order of EchelonFlow was not enforced at once"
    (run,) = json.loads((out / "summary.json").read_text())["runs"]
    assert not run["valid"]
    assert [part["policy"] for part in run["parts"]] == ["coflow(grouping=group)", "echelonflow"]


def test_a_link_that_slows_down_after_it_was_measured(short_pipeline, tmp_path):
    """One host's own link at 60 % of its rate from the first flow on: nobody planned it, and calibration was before."""
    out = tmp_path / "out"
    text = short_pipeline.read_text().replace("max_moved_iteration: 1", "max_moved_iteration: 0.2")
    short_pipeline.write_text(text)
    with echelon_run(short_pipeline, "--out", out, "--policy", "fair", *ONCE) as process:
        decisions = out / "raw" / "fair-r0" / "decisions.jsonl"
        wait_until(lambda: on_flows_in_flight(decisions), 90, "flows in flight", process, [out / "logs"])
        inside = ["nsenter", "-t", str(running(process, "--host h1")), "-n", "tc", "-batch", "-"]
        slow = queues.burst_lines("h1-eth0", 0.6 * 50e6, 1500, 65_536, 0.004)
        subprocess.run(inside, input="\n".join(slow) + "\n", text=True, check=True)
        code, stdout, stderr = end_of(process, 90, [out / "logs"])
    assert code == 3, stdout + stderr
    (run,) = json.loads((out / "summary.json").read_text())["runs"]
    told = "\n".join(run["reasons"])
    assert "link h1->s1 carried 6" in told, told
    assert "the machine moved iterations of job pipeline by" in told, told
    assert "links (" not in told, told  # calibration found nothing


def running(process, part):
    """Pid of a process of the emulation whose command line holds `part`."""
    return next((pid for pid, line in descendants(process.pid).items() if part in line), None)


@pytest.mark.parametrize("victim", ["traffic.agent", "controller.main", "ovs-vswitchd"])
def test_a_part_that_dies_ends_the_run_with_a_reason(short_pipeline, tmp_path, victim):
    out = tmp_path / "out"
    with echelon_run(short_pipeline, "--out", out, "--policy", "fair", *ONCE) as process:
        decisions = out / "raw" / "fair-r0" / "decisions.jsonl"
        wait_until(lambda: on_flows_in_flight(decisions), 90, "flows in flight", process, [out / "logs"])
        os.kill(running(process, victim), signal.SIGKILL)
        code, _, stderr = end_of(process, 60, [out / "logs"])  # it says within 10 s; a busy machine may need more
    assert code == 1, stderr
    name = {"traffic.agent": "agent", "controller.main": "controller", "ovs-vswitchd": "Open vSwitch"}[victim]
    assert name.lower() in stderr.lower()
    assert (out / "manifest.json").exists()


@pytest.mark.parametrize("moment", ["echelon.running.emulator", "traffic.agent"])
def test_kill_9_leaves_nothing(short_pipeline, tmp_path, moment):
    before = own_interfaces()
    with echelon_run(short_pipeline, "--out", tmp_path / "out", "--policy", "fair") as process:
        wait_until(lambda: running(process, moment), 90, moment, process, [tmp_path / "out" / "logs"])
        family = set(descendants(process.pid))
        process.kill()
        process.wait()
    wait_until(lambda: not any(alive(pid) for pid in family), 10, "the end of all its processes")
    assert own_interfaces() == before


def test_ctrl_c_keeps_what_was_finished_and_the_experiment_goes_on(short_pipeline, tmp_path):
    out = tmp_path / "out"
    with echelon_run(short_pipeline, "--out", out, "--policy", "fair", "--repeat", "3", "--attempts", "3") as process:
        wait_until((out / "raw" / "fair-r1").exists, 90, "the second run", process, [out / "logs"])
        process.send_signal(signal.SIGINT)
        code, _, stderr = end_of(process, 60, [out / "logs"])
    assert code == 130, stderr
    assert {row["repeat"] for row in table(out, "iterations")} >= {"0"}
    assert (out / "report.html").exists()
    before = Kept.of(out)
    with echelon_run("--resume", out, "--attempts", "3") as process:
        code, stdout, stderr = end_of(process, 90, [out / "logs"])
    assert code in (0, 3), stdout + stderr
    assert "fair-r0" in {path.parent.name for path in before.digests}
    assert before.difference(out) is None
    assert {row["repeat"] for row in table(out, "iterations")} == {"0", "1", "2"}


@pytest.mark.parametrize("victim", ["tcpdump", "controller.main", "echelon.running.emulator"])
def test_what_breaks_costs_one_run_and_another_is_made_in_its_place(short_pipeline, tmp_path, victim):
    out = tmp_path / "out"
    with echelon_run(short_pipeline, "--out", out, "--policy", "fair", "--repeat", "2") as process:
        decisions = out / "raw" / "fair-r0" / "decisions.jsonl"
        wait_until(lambda: on_flows_in_flight(decisions), 90, "flows in flight", process, [out / "logs"])
        inner = [pid for pid, line in descendants(process.pid).items() if victim in line and "init.py" not in line]
        os.kill(inner[-1], signal.SIGKILL)
        code, stdout, stderr = end_of(process, 120, [out / "logs"])
    valid = json.loads((out / "summary.json").read_text())["valid"]
    assert code == (0 if valid else 1), stdout + stderr
    assert "run 1 of 2 failed (fair, repeat 0): " in stderr
    assert "is made again" in stderr
    outcomes = [read_outcome(run.outcome) for run in RunFolder(out).runs()]
    assert [(outcome.repeat, outcome.completed) for outcome in outcomes] == [(0, False), (1, True), (2, True)]
    assert {row["repeat"] for row in table(out, "iterations")} == {"1", "2"}
    assert "fair: 3 attempts for 2 valid runs" in stdout
    assert "nobody asked for" not in stdout
    assert "differ in" not in stdout
    assert (out / "report.html").exists()
    assert not list(out.glob("*.sock"))


def test_experiments_on_full_disks_go_on_and_end_the_same(tmp_path):
    program = """if True:
        import random, sys
        from pathlib import Path
        from echelon.benchmarks import full_disk
        from echelon.benchmarks._small_disks import private_mounts
        private_mounts()
        file = Path(sys.argv[1]) / "jobs.yaml"
        file.write_text(full_disk.EXPERIMENTS["jobs, simulated"])
        subject = full_disk.Subject("jobs, simulated", file, Path(sys.argv[1]) / "disk")
        subject.measure()
        rng = random.Random(3)
        print([subject.moment(way, rng) for way in ("filled up", "too small", "too small")])
    """
    done = subprocess.run([sys.executable, "-c", program, tmp_path], capture_output=True, text=True, check=False)
    assert done.stdout == "[None, None, None]\n", done.stdout + done.stderr
