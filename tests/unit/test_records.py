"""Records that cross a disk boundary: written and read by one file each, versioned, refused in one line."""

from __future__ import annotations

import contextlib
import json
import tarfile
from pathlib import Path

import pytest

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.records.agent_log import AgentLog, Computed, Mark, Received, Sent, last_iteration, read_agent_log
from echelonflow.records.assignment import AssignedRun, Assignment, read_assignment, write_assignment
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest
from echelonflow.records.outcome import read_outcome
from echelonflow.records.placed_job import PlacedJob
from echelonflow.records.plan import read_plan, write_plan
from echelonflow.records.progress import Failed, Running, parse_progress, progress_line
from echelonflow.wire.declare import declarations
from results.analysis.read_run import read_run
from traffic.agent.plan import make_plan
from traffic.workloads.paradigms import gpipe

V0 = Path(__file__).parents[1] / "data" / "run-v0.tar.xz"
"""A small emulated run, made by the last revision that wrote no versions."""
NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e8})
STEP = {"job": "j", "iteration": 3}
LINES = [
    Computed(**STEP, step="c", kind="forward", rank=1, start_s=1.0, finish_s=2.5, late_s=0.5),
    Sent(**STEP, flow="x", release_s=1.0, start_s=1.1, acked_s=2.0, sent_bytes=9, retransmissions=0,
         marks=(Mark(1.0, 48, None), Mark(1.5, 40, 0.0))),
    Sent(**STEP, flow="y", release_s=1.0, start_s=1.1, acked_s=2.0, sent_bytes=9, retransmissions=0, marks=(), by=3,
         held=True, ready_s=0.25),
    Received(**STEP, flow="x", first_s=1.2, finish_s=2.0, received_bytes=9),
]  # fmt: skip


def job() -> Job:
    dag = gpipe.build(stages=2, micro_batches=3, forward_s=0.01, backward_s=0.02, activation_bytes=1000)
    return Job("j", dag, ("h2", "h1"), 3, 2.0, 1.5)


@pytest.fixture
def v0(tmp_path) -> RunFolder:
    with tarfile.open(V0) as archive:
        archive.extractall(tmp_path / "v0")  # ours, and with nothing but files
    return RunFolder(tmp_path / "v0")


def test_a_plan_holds_what_the_simulator_declares(tmp_path):
    """Agents declare what is in the plan, whole: sizes, offsets, ports, and the computation by which `crux` decides."""
    write_plan(tmp_path / "plan.json", make_plan([job()], NETWORK, 4))
    groups = read_plan(tmp_path / "plan.json").groups
    assert list(groups) == declarations([job()], 4, network=NETWORK)
    assert all(group.compute_s == pytest.approx(3 * 2 * 0.03) for group in groups)


def test_a_run_is_read_by_the_ports_of_its_plan_however_ports_are_dealt_now(v0, monkeypatch):
    """Before, analysis dealt them again: after a change of how, a valid folder had "0 in packets"."""
    files = v0.run("fair-r0")
    write_plan(files.plan, read_plan(files.plan))
    monkeypatch.setattr("echelonflow.records.plan.declarations", None)
    found = read_run(files, read_outcome(files.outcome), read_plan(files.plan)).record
    kept = {(f.flow, f.src_port, f.dst_port) for f in found.flows}
    assert len(kept) == 3
    assert {port for _, port, _ in kept} == {10_000, 10_001, 10_002}


def test_what_had_no_versions_is_read(v0):
    assert read_manifest(v0.manifest).policies == ("fair", "echelonflow")
    for files in v0.runs():
        run = read_run(files, read_outcome(files.outcome), read_plan(files.plan)).record
        assert (len(run.computes), len(run.flows)) == (12, 6)
        assert len(run.decisions) > 6


def test_lines_of_an_agent_survive_the_file(tmp_path):
    with contextlib.closing(AgentLog(tmp_path / "agents" / "h1.jsonl")) as log:
        assert last_iteration(tmp_path / "agents" / "h1.jsonl") is None
        for line in LINES:
            log.write(line)
        # While it is open: what a killed run leaves.
        assert list(read_agent_log(tmp_path / "agents" / "h1.jsonl")) == LINES
        assert last_iteration(tmp_path / "agents" / "h1.jsonl") == 3


def test_a_log_is_read_up_to_a_line_that_was_cut_off_and_not_beyond_one_that_is_wrong(tmp_path):
    path = tmp_path / "h1.jsonl"
    with contextlib.closing(AgentLog(path)) as log:
        for line in LINES:
            log.write(line)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    assert list(read_agent_log(path)) == LINES[:-1]
    path.write_bytes(whole.replace(b'"rank":1', b'"rank":"1"'))
    with pytest.raises(InputError, match=r"h1\.jsonl, line 2: rank: expected int, not str"):
        list(read_agent_log(path))
    assert list(read_agent_log(tmp_path / "none.jsonl")) == []


def test_an_assignment_survives_the_file(tmp_path):
    runs = (AssignedRun(0, "fair", "fair-r0", 0, "priority", 2.5),)
    assignment = Assignment(network=NETWORK, jobs=(PlacedJob.of(job()),), runs=runs, tso=True)
    write_assignment(tmp_path / "assignment.json", assignment)
    found = read_assignment(tmp_path / "assignment.json")
    assert (found.network, found.runs, found.tso, found.jobs[0].job()) == (NETWORK, runs, True, job())
    assert [path.name for path in tmp_path.iterdir()] == ["assignment.json"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 99}, "is echelon-plan of version 99; this revision reads up to 1: use the revision that wrote it"),
        ({"schema": "echelon-manifest"}, "is 'echelon-manifest'; 'echelon-plan' was expected"),
        ({"run_index": "x"}, "run_index: expected int, not str"),
        ({"run_index": -1}, "run_index is -1; runs count from 0"),
        ({"progress_interval_s": 0}, "progress_interval_s is 0.0; an interval must be positive"),
        ({"addresses": {}}, "job j is placed on host 'h1', for which there is no address"),
        ({"groups": [{}]}, r"groups\[0\]: missing field job"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, change, words):
    path = tmp_path / "plan.json"
    write_plan(path, make_plan([job()], NETWORK, 0))
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InputError, match=rf"plan\.json: {words}") as refused:
        read_plan(path)
    assert "\n" not in str(refused.value)


def test_a_version_that_is_no_longer_read_is_refused_in_one_line(tmp_path):
    path = tmp_path / "assignment.json"
    write_assignment(path, Assignment(network=NETWORK))
    old = json.loads(path.read_text())
    del old["schema"], old["version"]
    path.write_text(json.dumps(old))
    with pytest.raises(InputError, match="of version 0, which this revision no longer reads"):
        read_assignment(path)


@pytest.mark.parametrize("report", [Running(1, 6, "fair", 0, 2.5), Failed("the agent on h2 died")])
def test_progress_survives_the_pipe(report):
    assert parse_progress(progress_line(report)) == report


@pytest.mark.parametrize("line", [b"", b"Warning: a library speaks\n", b'{"stage": "dancing"}\n', b"[1]\n", b"\xff\n"])
def test_what_is_no_progress_is_passed_over(line):
    assert parse_progress(line) is None
