"""A PyTorch program trains on the emulated network; a rank that is killed ends the run by its name."""

import importlib.util
import json
import re
import subprocess
import sys
import textwrap
import time
from collections import defaultdict
from pathlib import Path

import pytest

from echelonflow.errors import EXIT_FAILED, EXIT_INVALID, EXIT_VALID
from echelonflow.records.budget import read_budgets
from echelonflow.records.folder import RunFolder
from echelonflow.records.live_part import PART_VARIABLE, read_live_outcome
from echelonflow.records.outcome import read_outcome
from echelonflow.records.plan import read_plan
from echelonflow.wire.classes import DATA_CLASSES, dscp_of_class
from results.analysis.read_run import read_run
from tests.live.processes import ROOT

pytestmark = [
    pytest.mark.emulation,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="no PyTorch: scripts/setup.sh --live installs it"
    ),
]
STEPS = 6


def experiment(folder, steps, more="", program="train_ddp.py", options=""):
    path = folder / "live.yaml"
    path.write_text(
        textwrap.dedent(f"""\
            name: live
            network: {{topology: single-switch, hosts: 3, rate: 50 Mbit/s}}
            jobs:
            - name: gpt
              program: {ROOT / "examples/live" / program}
              arguments: [--steps, {steps}, --width, 64{options}]
              ranks: 3
              compute: {{profiled: 300 ms}}{more}
            policies: [echelonflow]
            """)
    )
    return path


def command(path, root):
    return [sys.executable, "-m", "echelon.cli", "live", str(path), "--out", str(root)]


def losses(path):
    return re.findall(r"step \d+ loss (\S+)", path.read_text())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    done = subprocess.run(
        command(experiment(folder, STEPS), folder / "out"), capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode in (EXIT_VALID, EXIT_INVALID), done.stdout + done.stderr
    (files,) = RunFolder(folder / "out" / "live").runs()
    return folder / "out", files


def test_losses_are_those_of_the_lesson(trained):
    root, files = trained
    lesson = losses(root / "lesson/learned/gpt/rank0.txt")
    assert len(lesson) == STEPS
    assert losses(files.output("gpt", 0)) == lesson


def test_all_bytes_of_iterations_that_count_went_by_declared_flows(trained):
    _, files = trained
    found = [read_live_outcome(files.live(f"h{number}")) for number in (1, 2, 3)]
    assert all(each.other_bytes == 0 and each.scheduled_bytes > 0 for each in found)
    plan = read_plan(files.plan)
    outcome = read_outcome(files.outcome)
    assert outcome.completed
    record = read_run(files, outcome, plan).record
    declared = {flow.flow: flow.size_bytes for group in plan.groups for flow in group.flows}
    (job,) = plan.jobs
    counted = defaultdict(int)
    for flow in record.flows:
        counted[flow.flow] += 1
        assert flow.sent_bytes == declared[flow.flow]
    assert counted == dict.fromkeys(declared, job.iterations)


def test_flows_are_marked_and_released_by_decisions(trained):
    _, files = trained
    plan = read_plan(files.plan)
    record = read_run(files, read_outcome(files.outcome), plan).record
    assert record.decisions
    for flow in record.flows:
        assert flow.release_s <= flow.start_s < flow.finish_s
    lines = [line for log in files.agents.iterdir() for line in map(json.loads, log.read_text().splitlines())]
    sent = [line for line in lines if "marks" in line]
    assert len(sent) == len(record.flows)
    classes = {dscp_of_class(number) for number in DATA_CLASSES}
    assert all(dscp in classes for line in sent for _, dscp, _ in line["marks"])
    assert all(line["marks"] for line in sent)


def test_a_job_scheduler_crosses_the_barrier_in_an_unchanged_program(tmp_path):
    scheduler = "bytescheduler(partition=20 kB, credit=60 kB)"
    path = experiment(tmp_path, STEPS, f"\n              scheduler: {scheduler}")
    done = subprocess.run(command(path, tmp_path / "out"), capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode in (EXIT_VALID, EXIT_INVALID), done.stdout + done.stderr
    assert "did not keep to its own scheduler" not in done.stdout
    (files,) = RunFolder(tmp_path / "out" / "live").runs()
    assert losses(files.output("gpt", 0)) == losses(tmp_path / "out/lesson/learned/gpt/rank0.txt")
    outcomes = [read_live_outcome(files.live(f"h{number}")) for number in (1, 2, 3)]
    assert all(each.other_bytes == 0 and each.scheduled_bytes > 0 for each in outcomes)
    plan = read_plan(files.plan)
    (job,) = plan.jobs
    assert job.discipline.scheduler == scheduler
    record = read_run(files, read_outcome(files.outcome), plan).record
    begins_s = {}
    for step in record.computes:
        if step.iteration:
            begins_s[step.iteration] = min(step.start_s, begins_s.get(step.iteration, step.start_s))
    crossing = [flow for flow in record.flows if begins_s.get(flow.iteration + 1, flow.finish_s) < flow.finish_s]
    assert crossing  # gradients came while the next forward pass was under way
    assert any(flow.ready_s is not None for flow in record.flows)  # and were held back for more urgent ones


def test_a_program_that_changes_in_mid_run_is_scheduled_after_that_as_before(tmp_path):
    steps = 8
    path = experiment(tmp_path, steps, program="train_pipeline.py", options=", --grow-after, 4")
    done = subprocess.run(command(path, tmp_path / "out"), capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode in (EXIT_VALID, EXIT_INVALID), done.stdout + done.stderr
    assert "of 8 iterations these are alike: 2 to 4 (gpt), 6 to 8 (gpt.2);" in done.stdout
    assert "never decided" not in done.stdout  # though what it sends in between is in a class of its own
    assert "contradict" not in done.stdout
    (files,) = RunFolder(tmp_path / "out" / "live").runs()
    lesson = losses(tmp_path / "out/lesson/learned/gpt/rank2.txt")
    assert losses(files.output("gpt", 2)) == lesson
    assert len(lesson) == steps
    outcomes = [read_live_outcome(files.live(f"h{number}")) for number in (1, 2, 3)]
    assert all(each.other_bytes == 0 and each.scheduled_bytes > 0 for each in outcomes)
    plan = read_plan(files.plan)
    assert [(job.name, job.iterations, job.after) for job in plan.jobs] == [("gpt", 3, None), ("gpt.2", 3, "gpt")]
    record = read_run(files, read_outcome(files.outcome), plan).record
    counted = defaultdict(int)
    for flow in record.flows:
        counted[flow.job, flow.flow] += 1
    assert counted == {(group.job, flow.flow): 3 for group in plan.groups for flow in group.flows}
    first_ends_s = max(step.finish_s for step in record.computes if step.job == "gpt")
    assert first_ends_s < record.began["gpt.2"] < max(step.start_s for step in record.computes)
    explained = read_budgets(RunFolder(tmp_path / "out" / "live").budget).runs[files.root.name]
    assert explained.failure is None
    assert explained.links_s.keys() == {"gpt", "gpt.2"}


def test_the_death_of_a_rank_ends_the_run_by_its_name(tmp_path):
    root = tmp_path / "out"
    running = subprocess.Popen(
        command(experiment(tmp_path, 40), root), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        victim = wait_for_rank(running, root)
        subprocess.run(["kill", "-KILL", str(victim)], check=True)
        out, err = running.communicate(timeout=120)
    finally:
        if running.poll() is None:
            running.terminate()
            running.wait()
    assert running.returncode == EXIT_FAILED, out + err
    (files, *_) = RunFolder(root / "live").runs()
    assert "rank 1 of 'gpt' on h2 died (exit -9); see raw/" in read_outcome(files.outcome).failure
    for rank in (0, 2):
        assert re.search(r"Error: .*lost rank 1", files.output("gpt", rank).read_text())


def wait_for_rank(running, root):
    """The process of rank 1, once an iteration that counts has ended."""
    deadline_s = time.monotonic() + 200
    while time.monotonic() < deadline_s:
        assert running.poll() is None, running.communicate()
        logs = list(root.glob("live/raw/*/agents/h2.jsonl"))
        if logs and '"iteration":2' in logs[0].read_text():
            return process_of(str(logs[0].parents[1] / "live" / "part-gpt-rank1.json"))
        time.sleep(0.05)
    raise AssertionError("no iteration that counts was made")


def process_of(part):
    """The process whose part in the run is in the file `part`."""
    wanted = f"{PART_VARIABLE}={part}".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in path.read_bytes().split(b"\0"):
                return int(path.parent.name)
        except OSError:  # it has ended
            continue
    raise AssertionError(f"no process has {part}")
