"""Runs that are wrong although every process ended well: each is invalid for its own reason, and counts for nothing.

The folders have no seal, as if it had been made after the fault: the records themselves have to show it.
"""

from __future__ import annotations

import csv
import json
from dataclasses import replace

import msgspec
import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.records.assignment import read_assignment, write_assignment
from echelonflow.records.calibration import read_calibration, write_calibration
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest, write_manifest
from echelonflow.records.network_file import write_network
from echelonflow.records.outcome import ClassCounters, RunOutcome, read_outcome, write_outcome
from echelonflow.records.plan import read_plan, write_plan
from echelonflow.records.run_record import ComputeRecord, DecisionRecord, FlowRecord, RunRecord
from echelonflow.records.seal import write_seal
from results.analysis.contradictions import of_times
from results.folder import analyse
from results.report.table import summary_table
from tests.unit.synthetic_run import (
    paper_job,
    paper_network,
    synthetic_run,
    write_experiment,
    write_swap,
)

LABEL = "fair-r0"
NETWORK = paper_network()
JOBS = [paper_job(NETWORK, iterations=2)]


def written(root, change=None, *, network=NETWORK):
    """A folder of one run that keeps every limit, but for what `change` does to it; made on `network`."""
    run = synthetic_run(JOBS, network, "fair", 0)
    if change is not None:
        change(run)
    write_experiment(root, NETWORK, JOBS, ["fair"], [run])
    return root


def judged(root):
    """The reasons of a folder's one run; it must count for nothing if there is one."""
    summary = analyse(root, pictures="none")
    (run,) = summary.runs
    (result,) = summary.results
    assert summary.valid == run.valid
    assert (result.valid_runs, result.iteration_s is None) == (int(run.valid), not run.valid)
    return [reason.removeprefix(f"{LABEL}: ") for reason in summary.reasons]


def only(root, *words):
    """There is one reason, and it has these words."""
    (reason,) = judged(root)
    for one in words:
        assert one in reason, reason


def lines_of(root, host):
    path = RunFolder(root).run(LABEL).agent(host)
    return path, path.read_text().splitlines(keepends=True)


def outcome_changed(root, **changes):
    path = RunFolder(root).run(LABEL).outcome
    write_outcome(path, msgspec.structs.replace(read_outcome(path), **changes))
    return root


def test_the_folder_that_faults_are_put_into_is_valid(tmp_path):
    assert judged(written(tmp_path / "run")) == []


@pytest.mark.parametrize(("share", "off"), [(0.6, "+47%"), (0.5, "+71%")])
def test_links_that_got_slow_after_they_were_measured(tmp_path, share, off):
    slow = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e6 * share})
    told = judged(written(tmp_path / "run", network=slow))
    assert any(off in reason and "predicted (limit 20%)" in reason for reason in told), told
    assert any("of what it declares while flows waited for it (limit 10% off)" in reason for reason in told), told


def test_a_link_that_was_slow_though_no_iteration_got_much_longer(tmp_path):
    """What flows took is in flows.csv, whether or not a computation had to wait for them."""
    slow = topologies.build("single-switch", {"hosts": 2, "rate_bps": 0.8e6})
    root = written(tmp_path / "run", network=slow)
    path = RunFolder(root).manifest
    write_manifest(path, msgspec.structs.replace(read_manifest(path), limits={"max_prediction_error": 0.8}))
    only(root, "link h1->s1 carried 8", "of what it declares while flows waited for it")


def test_limits_of_prediction_and_links_can_be_changed(tmp_path):
    slow = topologies.build("single-switch", {"hosts": 2, "rate_bps": 0.6e6})
    root = written(tmp_path / "run", network=slow)
    path = RunFolder(root).manifest
    limits = {"max_prediction_error": 0.8, "max_carried_error": 0.5}
    write_manifest(path, msgspec.structs.replace(read_manifest(path), limits=limits))
    assert judged(root) == []


def test_a_job_that_was_not_predicted(tmp_path):
    root = written(tmp_path / "run")
    RunFolder(root).prediction.unlink()
    only(root, "job pipeline was not predicted")


@pytest.mark.parametrize(
    ("links", "words"),
    [
        ((), "links were not calibrated"),
        (({"links": ("h1->s1", "s1->h1")},), "the links of h2 were not calibrated"),
        (({"measured_Bps": 1e5},), "calibration.json contradicts itself"),
        (({"measured_Bps": 0.6e5, "error": -0.4},), "carried -40.0% of what they declare"),
    ],
    ids=["no links", "one host", "contradiction", "slow"],
)
def test_calibrations_that_say_too_little(tmp_path, links, words):
    root = written(tmp_path / "run")
    path = RunFolder(root).calibration
    found = read_calibration(path)
    assert found is not None
    measured = tuple(msgspec.structs.replace(found.last.links[0], **change) for change in links)
    attempt = msgspec.structs.replace(found.last, links=measured)
    write_calibration(path, msgspec.structs.replace(found, attempts=(attempt,)))
    only(root, words)


def test_a_swap_in_mid_run(tmp_path):
    """Iteration 0 ends at 8.5 s, iteration 1 at 17 s."""
    run = synthetic_run(JOBS, NETWORK, "fair", 0)
    root = write_experiment(tmp_path / "run", NETWORK, JOBS, ["fair"], [run])
    write_swap(root, run, 9.0, "echelonflow")
    only(root, "the policy was swapped in mid-run (echelonflow at 9.000 s)")
    (kept,) = json.loads((root / "summary.json").read_text())["runs"]
    assert [(part["policy"], part["since_s"], list(part["jobs"])) for part in kept["parts"]] == [
        ("fair", None, ["pipeline"]),
        ("echelonflow", 9.0, []),
    ]
    assert kept["parts"][0]["jobs"]["pipeline"]["iteration_s"] == pytest.approx(8.5, abs=1e-3)
    with (root / "iterations.csv").open() as file:
        assert [row["in_force"] for row in csv.DictReader(file)] == ["fair", "fair > echelonflow"]
    assert "policies swapped in mid-run, which count for neither:" in summary_table(analyse(root, pictures="none"))
    assert "Policies swapped in mid-run" in (root / "report.html").read_text()


def test_a_swap_that_only_a_decision_tells_of(tmp_path):
    def swap(run):
        run.record.decisions[1] = replace(run.record.decisions[1], trigger="release pipeline/x1#0, policy")

    (reason,) = judged(written(tmp_path / "run", swap))
    assert "swapped in mid-run (unknown at" in reason


def test_computations_without_a_record(tmp_path):
    root = written(tmp_path / "run")
    for host in ("h1", "h2"):
        path, lines = lines_of(root, host)
        path.write_text("".join(line for line in lines if '"type":"compute"' not in line))
    only(root, "0 of 12 computations finished (all must)", "pipeline/p0 of iteration 0")


def test_one_computation_without_a_record(tmp_path):
    root = written(tmp_path / "run")
    path, lines = lines_of(root, "h1")
    path.write_text("".join(line for line in lines if '"step":"p1"' not in line or '"iteration":1' not in line))
    only(root, "11 of 12 computations finished", "pipeline/p1 of iteration 1")


def test_an_iteration_without_records(tmp_path):
    root = written(tmp_path / "run")
    for host in ("h1", "h2"):
        path, lines = lines_of(root, host)
        path.write_text("".join(line for line in lines if '"iteration":1' not in line))
    told = judged(root)
    assert any("6 of 12 computations finished" in reason for reason in told)
    assert any("3 of 6 flows finished" in reason for reason in told)


def test_lines_that_are_there_twice(tmp_path):
    root = written(tmp_path / "run")
    path, lines = lines_of(root, "h2")
    received = next(line for line in lines if '"type":"received"' in line)
    path.write_text("".join([*lines, received]))
    only(root, "logs tell twice of pipeline/x0 of iteration 0")


@pytest.mark.parametrize("keep", [None, 0, 24], ids=["absent", "no bytes", "no packets"])
@pytest.mark.parametrize("host", ["h1", "h2"])
def test_a_capture_of_either_end_that_is_empty(tmp_path, host, keep):
    root = written(tmp_path / "run")
    path = RunFolder(root).capture(LABEL, host)
    content = path.read_bytes()
    path.unlink()
    if keep is not None:
        path.write_bytes(content[:keep])
    assert any(f"capture of {host}" in reason for reason in judged(root))


def test_a_source_that_is_seen_to_send_less(tmp_path):
    root = written(tmp_path / "run")
    path = RunFolder(root).capture(LABEL, "h1")
    content = path.read_bytes()
    path.write_bytes(content[: -(96 + 16) * 3] if len(content) > 1000 else content)
    assert any("in packets at the source" in reason for reason in judged(root))


def test_packets_that_never_obey_their_last_decided_class(tmp_path):
    """Both marks were decided for the flow; a second before its end it moves down, and its packets do not."""

    def moved(run):
        flow = run.record.flows[0]
        at_s = flow.finish_s - 1.0
        change = (flow.job, flow.iteration, flow.flow, 8, None)
        run.record.decisions.append(DecisionRecord(at_s, "release", 1, 1, "00", 0.2, 0.5, (change,)))

    only(written(tmp_path / "run", moved), "arrived with another mark than was in force")


def test_captures_that_nobody_counted(tmp_path):
    told = judged(outcome_changed(written(tmp_path / "run"), captures={}))
    assert told[0] == "run.json has no counts of the capture of h1: packets cannot be checked; see logs/"


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        ({}, "queues counted no bytes"),
        ({"s1-eth2": {1: ClassCounters(-5, 3, 0)}}, "less after the run than before"),
        ({"h1-eth0": {1: ClassCounters(5, 3, 0)}}, "the queue of h1 counted 5 bytes"),
    ],
)
def test_queues_that_counted_nothing_or_too_little(tmp_path, classes, words):
    assert any(words in reason for reason in judged(outcome_changed(written(tmp_path / "run"), classes=classes)))


@pytest.mark.parametrize(
    ("load", "words"),
    [
        ({"cpu_busy_max": 1.0}, "all the machine's processors were busy 100%"),
        ({"switch_thread_busy_max": 1.0}, "thread was busy 100% of two whole seconds"),
        ({"core_busy": 1.0}, "one processor was busy 100%"),
        ({"cpu_busy": -0.5}, "cpu_busy is -0.5, which is no share"),
    ],
)
def test_what_was_busy_all_the_time(tmp_path, load, words):
    root = written(tmp_path / "run")
    before = read_outcome(RunFolder(root).run(LABEL).outcome).load
    only(outcome_changed(root, load=msgspec.structs.replace(before, **load)), words)


def test_who_allows_for_a_busy_machine_allows_for_busy_moments(tmp_path):
    root = written(tmp_path / "run")
    path = RunFolder(root).manifest
    write_manifest(path, msgspec.structs.replace(read_manifest(path), limits={"max_cpu_busy": 1.0}))
    before = read_outcome(RunFolder(root).run(LABEL).outcome).load
    load = msgspec.structs.replace(before, cpu_busy_max=1.0, core_busy=1.0)
    assert judged(outcome_changed(root, load=load)) == []


def test_a_plan_with_fewer_iterations_than_the_manifest(tmp_path):
    root = written(tmp_path / "run")
    path = RunFolder(root).run(LABEL).plan
    plan = read_plan(path)
    write_plan(path, msgspec.structs.replace(plan, placed=(msgspec.structs.replace(plan.placed[0], iterations=1),)))
    assert judged(root)[0] == ("plan.json asks for other work than manifest.json: job pipeline has 1 iterations, not 2")


def test_a_plan_that_declares_other_flows_than_its_jobs(tmp_path):
    root = written(tmp_path / "run")
    path = RunFolder(root).run(LABEL).plan
    plan = read_plan(path)
    group = plan.groups[0]
    flows = (msgspec.structs.replace(group.flows[0], size_bytes=5), *group.flows[1:])
    write_plan(path, msgspec.structs.replace(plan, groups=(msgspec.structs.replace(group, flows=flows),)))
    only(root, "plan.json: declares other flows than its jobs have")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"run_index": 4}, "assignment.json"),
        ({"policy": "srpt"}, "nobody asked for srpt repeat 0"),
        ({"enforcer": "rate"}, "assignment.json"),
        ({"label": "other-r0"}, "run.json is that of other-r0"),
        ({"clock": []}, "no clock readings"),
        ({"zero_monotonic_s": 1.0}, "zero lies outside its clock readings"),
    ],
)
def test_a_run_json_that_contradicts_others(tmp_path, change, words):
    root = outcome_changed(written(tmp_path / "run"), **change)
    summary = analyse(root, pictures="none")
    assert any(words in reason for reason in summary.reasons), summary.reasons


def test_a_clock_that_was_set_in_mid_run(tmp_path):
    root = written(tmp_path / "run")
    begin, end = read_outcome(RunFolder(root).run(LABEL).outcome).clock
    late = msgspec.structs.replace(end, realtime_s=end.realtime_s + 5)
    assert "the clock was set during the run" in judged(outcome_changed(root, clock=[begin, late]))[0]


def test_an_assignment_and_a_network_of_another_experiment(tmp_path):
    root = written(tmp_path / "run")
    folder = RunFolder(root)
    other = topologies.build("single-switch", {"hosts": 2, "rate_bps": 2e6})
    write_network(folder.network, other)
    assignment = read_assignment(folder.assignment)
    write_assignment(folder.assignment, msgspec.structs.replace(assignment, network=other, jobs=()))
    assert analyse(root, pictures="none").reasons == (
        "manifest.json and network.json differ in the network",
        "manifest.json and assignment.json differ in the jobs",
        "manifest.json and assignment.json differ in the network",
    )


@pytest.mark.parametrize(("kind", "key"), [("compute", "start_s"), ("compute", "finish_s"), ("received", "finish_s")])
def test_a_time_that_was_garbled(tmp_path, kind, key):
    root = written(tmp_path / "run")
    path, lines = lines_of(root, "h2")
    place = next(n for n, line in enumerate(lines) if f'"type":"{kind}"' in line)
    line = json.loads(lines[place])
    lines[place] = json.dumps({**line, key: line[key] + 0.009}) + "\n"
    path.write_text("".join(lines))
    assert any("times in logs contradict each other" in reason for reason in judged(root))


@pytest.mark.parametrize(
    ("acked_s", "begins_s", "wrong"),
    [(1.5, 1.5, False), (1.5, 1.4, True), (1.5, 1.6, True)],
    ids=["then", "before", "later"],
)
def test_who_sends_goes_on_with_the_acknowledgement(acked_s, begins_s, wrong):
    """The receiver has the last byte at 1.4 s; its sender hears of that later, and only then goes on."""
    steps = (Transfer("x", 0, 1, 100, "x"), Compute("c", 0, 1.0, ("x",)), Compute("d", 1, 1.0, ("x",)))
    job = Job("j", JobDag(2, steps, (Group("g", "g", ("x",), (0.0,)),)), ("h1", "h2"))
    flow = FlowRecord("j", 0, "x", "g", "g", "x", "h1", "h2", 1, 2, 100, 0.0, 0.0, 0.0, 1.4, 100, 100)
    computes = [
        ComputeRecord("j", 0, "c", "", 0, "h1", begins_s, begins_s + 1.0),
        ComputeRecord("j", 0, "d", "", 1, "h2", 1.4, 2.4),
    ]
    record = RunRecord("fair", 0, computes, [flow])
    outcome = RunOutcome(policy="fair", repeat=0, run_index=0, label="fair-r0", enforcer="priority")
    found = of_times(record, {("j", 0, "x"): acked_s}, outcome, [job])
    assert bool(found) == wrong
    assert not wrong or "j/c of iteration 0 began" in found[0]
    assert bool(of_times(record, {("j", 0, "x"): acked_s}, outcome, [job], may_be_late=True)) == (begins_s < acked_s)


@pytest.mark.parametrize(("release_s", "wrong"), [(0.003, False), (0.5, True)])
def test_a_flow_that_waits_for_nothing_is_released_when_the_start_is_noticed(release_s, wrong):
    job = Job("j", JobDag(2, (Transfer("x", 0, 1, 100, "x"),), (Group("g", "g", ("x",), (0.0,)),)), ("h1", "h2"))
    flow = FlowRecord("j", 0, "x", "g", "g", "x", "h1", "h2", 1, 2, 100, 0.0, release_s, release_s, 1.4, 100, 100)
    outcome = RunOutcome(policy="fair", repeat=0, run_index=0, label="fair-r0", enforcer="priority")
    assert bool(of_times(RunRecord("fair", 0, [], [flow]), {("j", 0, "x"): 1.5}, outcome, [job])) == wrong


def sealed(root):
    folder = RunFolder(root)
    write_manifest(folder.manifest, msgspec.structs.replace(read_manifest(folder.manifest), sealed=True))
    write_seal(folder)
    return folder


def test_raw_files_that_were_changed_after_the_run_are_named(tmp_path):
    folder = sealed(written(tmp_path / "run"))
    assert judged(folder.root) == []
    log, calibration = folder.run(LABEL).agent("h1"), folder.calibration
    log.write_text(log.read_text() + " ")
    calibration.write_text(calibration.read_text().replace("userspace", "Userspace"))
    (folder.pcap / f"{LABEL}-h3.pcap").write_bytes(b"")
    folder.network.unlink()
    assert analyse(folder.root, pictures="none").reasons == (
        "calibration.json was changed after the run",
        "network.json is gone",
        f"{LABEL}: pcap/{LABEL}-h3.pcap was added after the run",
        f"{LABEL}: raw/{LABEL}/agents/h1.jsonl was changed after the run",
    )


@pytest.mark.parametrize("content", [None, b"", b"{}"])
def test_a_seal_that_is_missing_or_garbled(tmp_path, content):
    folder = sealed(written(tmp_path / "run"))
    folder.seal.unlink()
    if content is not None:
        folder.seal.write_bytes(content)
    (reason,) = analyse(folder.root, pictures="none").reasons
    assert "seal.json" in reason
