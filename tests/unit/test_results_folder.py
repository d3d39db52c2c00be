"""Whole run folders, analysed: tables, verdict, exclusion, repetition, damage, simulation."""

from __future__ import annotations

import csv
import itertools
import json
import re
from dataclasses import replace

import msgspec
import pytest

from echelonflow.errors import InputError
from echelonflow.records.calibration import write_calibration
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest, write_manifest
from echelonflow.records.outcome import read_outcome, write_outcome
from echelonflow.records.plan import read_plan
from echelonflow.records.run_record import DecisionRecord
from echelonflow.records.runs import load_runs, save_runs
from echelonflow.scheduling import policies
from results.analysis import pcap
from results.analysis import rows as run_tables
from results.analysis.lanes import lanes
from results.analysis.read_run import last_marks, read_run
from results.analysis.summary import read_summary
from results.folder import analyse
from results.report.table import summary_table
from simulator.fluid import simulate
from tests.unit.synthetic_run import calibration, paper_job, paper_network, synthetic_run, write_experiment

NAMES = ["fair", "coflow(grouping=group)", "echelonflow"]


def experiment(root, repeats=1, iterations=1, change=None):
    network = paper_network()
    jobs = [paper_job(network, iterations)]
    runs = []
    for repeat in range(repeats):
        for name in NAMES:
            runs.append(synthetic_run(jobs, network, name, repeat, len(runs)))
    if change is not None:
        change(runs)
    return write_experiment(root, network, jobs, NAMES, runs)


def rows(root, table):
    with (root / f"{table}.csv").open() as file:
        return list(csv.DictReader(file))


def change_manifest(root, **changes):
    path = root / "manifest.json"
    write_manifest(path, msgspec.structs.replace(read_manifest(path), **changes))


def derived(root):
    return {p.relative_to(root): p.read_bytes() for p in root.rglob("*") if p.is_file()}


def test_a_valid_experiment(tmp_path):
    root = experiment(tmp_path / "run", repeats=2, iterations=2)
    summary = analyse(root)
    assert summary.valid, summary.reasons
    iteration = {r.policy: r.iteration_s.median for r in summary.results}
    assert iteration == pytest.approx(dict(zip(NAMES, (8.5, 10, 8), strict=True)), abs=1e-4)
    assert {r.policy: r.tardiness_s.median for r in summary.results} == pytest.approx(
        dict(zip(NAMES, (4.5, 6, 4), strict=True)), abs=1e-4
    )
    assert [r.speedup for r in summary.results] == pytest.approx([1, 0.85, 1.0625], abs=1e-4)
    assert all(abs(r.exposed_difference) < 1e-6 for r in summary.results)
    assert [len(rows(root, t)) for t in ("iterations", "groups", "flows")] == [12, 12, 36]
    for row in rows(root, "flows"):
        assert row["pcap_bytes"] == row["size_bytes"]
        assert row["pcap_dscp"] == row["dscp"]
        assert float(row["pcap_finish_s"]) == pytest.approx(float(row["finish_s"]), abs=1e-5)
        assert float(row["pcap_start_s"]) >= float(row["start_s"]) - 1e-5  # behind others it waits in its host's queue
    written = json.loads((root / "summary.json").read_text())
    assert written["valid"] is True
    assert written["reasons"] == []
    assert {"median", "low", "high", "n"} == set(written["results"][0]["iteration_s"])
    assert read_summary(root / "summary.json") == summary
    assert all(
        (root / "figures" / f"{name}.png").stat().st_size > 5000
        for name in ("gantt", "times", "tardiness", "throughput")
    )
    decisions = [json.loads(line) for line in (root / "decisions.jsonl").read_text().splitlines()]
    assert {(d["policy"], d["repeat"]) for d in decisions} == {(n, r) for n in NAMES for r in range(2)}


def test_every_capture_is_read_once_and_rows_are_computed_once(tmp_path, monkeypatch):
    root = experiment(tmp_path / "run", repeats=2)
    read, computed = [], []

    def reading(path):
        read.append(path.name)
        return pcap_read(path)

    def computing(record, jobs, references):
        computed.append((record.policy, record.repeat))
        return group_rows(record, jobs, references)

    pcap_read, group_rows = pcap.read, run_tables.group_rows
    monkeypatch.setattr(pcap, "read", reading)
    monkeypatch.setattr(run_tables, "group_rows", computing)
    analyse(root)
    assert sorted(read) == sorted(path.name for path in (root / "pcap").iterdir())
    assert len(read) == 12
    # Once for each run and once for the prediction of each policy (repeat 0).
    assert sorted(computed) == sorted([(name, r) for name in NAMES for r in (0, 0, 1)])


def test_analysis_again_gives_the_same_to_the_byte(tmp_path):
    root = experiment(tmp_path / "run")
    analyse(root)
    first = derived(root)
    analyse(root)
    assert derived(root) == first


def test_an_invalid_run_in_whose_place_another_was_made_is_told_of_and_costs_nothing(tmp_path):
    def spoil(runs):
        runs[0].outcome.load = msgspec.structs.replace(runs[0].outcome.load, cpu_busy=0.99)

    root = experiment(tmp_path / "run", repeats=3, change=spoil)
    manifest = read_manifest(root / "manifest.json")
    given = {"attempts": dict.fromkeys(manifest.policies, 3), "repeats": 2, "sealed": False}
    write_manifest(root / "manifest.json", msgspec.structs.replace(manifest, **given))
    summary = analyse(root, pictures="none")
    assert summary.valid, summary.reasons
    spoiled = next(run for run in summary.runs if not run.valid)
    (reason,) = summary.set_aside
    assert reason.startswith(f"{spoiled.label}: ")
    result = next(result for result in summary.results if result.policy == spoiled.policy)
    assert (result.asked, result.runs, result.valid_runs, result.iteration_s.n) == (2, 3, 2, 2)
    table = summary_table(summary)
    assert f"{spoiled.policy}: 3 attempts for 2 valid runs\n" in table
    assert table.endswith("verdict: valid")
    assert "processors were busy" in (root / "report.html").read_text()


def test_an_invalid_run_is_kept_marked_and_left_out(tmp_path):
    def spoil(runs):
        runs[3].outcome.load = msgspec.structs.replace(runs[3].outcome.load, cpu_busy=0.99)

    root = experiment(tmp_path / "run", repeats=2, change=spoil)
    summary = analyse(root, pictures="none")
    assert not summary.valid
    (reason,) = summary.reasons
    assert reason.startswith("fair-r1: ")
    fair = summary.results[0]
    assert (fair.runs, fair.valid_runs, fair.iteration_s.n) == (2, 1, 1)
    assert fair.iteration_s.median == pytest.approx(8.5, abs=1e-4)
    assert len([row for row in rows(root, "iterations") if row["policy"] == "fair"]) == 2
    assert "verdict: INVALID" in summary_table(summary)
    assert "processors were busy" in (root / "report.html").read_text()


def test_retransmissions_wrong_marks_and_missing_bytes_show_in_tables_and_verdict(tmp_path):
    def spoil(runs):
        runs[0].retransmit = {"x0"}
        runs[1].wire_dscp = {"x1": 8}
        runs[2].missing_tail = {"x2"}

    root = experiment(tmp_path / "run", change=spoil)
    summary = analyse(root, pictures="none")
    flows = {(row["policy"], row["flow"]): row for row in rows(root, "flows")}
    again = flows["fair", "x0"]
    assert again["retransmissions"] == "1"
    assert again["pcap_bytes"] == again["size_bytes"]
    assert float(again["pcap_finish_s"]) == pytest.approx(float(again["finish_s"]) + 0.01, abs=1e-5)
    assert flows["coflow(grouping=group)", "x1"]["pcap_dscp"] == "8"
    lost = flows["echelonflow", "x2"]
    assert lost["pcap_finish_s"] == ""
    assert int(lost["pcap_bytes"]) < int(lost["size_bytes"])
    told = "\n".join(summary.reasons)
    assert "coflow-grouping-group-r0: 33.3% of the bytes arrived with a mark" in told
    assert "echelonflow-r0: bytes do not agree" in told


def test_log_and_packets_must_agree(tmp_path):
    def late(runs):
        runs[0].log_later_s = 0.004

    summary = analyse(experiment(tmp_path / "run", change=late), pictures="none")
    told = [reason for reason in summary.reasons if "times in logs contradict each other" not in reason]
    assert told
    assert all("apart by log and by packets" in reason for reason in told)


def test_what_a_killed_run_left_is_read_as_far_as_it_goes(tmp_path):
    root = experiment(tmp_path / "run")
    raw = root / "raw" / "fair-r0"
    log = raw / "agents" / "h2.jsonl"
    log.write_text(log.read_text()[:-20])
    (root / "raw" / "echelonflow-r0" / "agents" / "h2.jsonl").unlink()
    capture = root / "pcap" / "fair-r0-h2.pcap"
    capture.write_bytes(capture.read_bytes()[:-50])
    (root / "pcap" / "coflow-grouping-group-r0-h1.pcap").unlink()
    (root / "failure.txt").write_text("the agent on h2 died\n")
    files = RunFolder(root).run("fair-r0")
    record = read_run(files, read_outcome(files.outcome), read_plan(files.plan)).record
    assert len(record.flows) == 3
    summary = analyse(root, pictures="none")
    told = "\n".join(summary.reasons)
    assert "the agent on h2 died" in told
    assert "the capture of h2 ends in mid-packet" in told
    assert "there is no capture of h1" in told
    assert "echelonflow-r0: 0 of 3 flows finished" in told


def test_a_run_that_never_started_and_one_that_is_missing(tmp_path):
    root = experiment(tmp_path / "run")
    run = root / "raw" / "fair-r0" / "run.json"
    never = {"zero_monotonic_s": None, "completed": False, "failure": "h1 was not ready"}
    write_outcome(run, msgspec.structs.replace(read_outcome(run), **never))
    (root / "raw" / "echelonflow-r0" / "run.json").unlink()
    summary = analyse(root, pictures="none")
    told = "\n".join(summary.reasons)
    assert "fair-r0: the run did not end: h1 was not ready" in told
    assert "1 of 3 runs are missing: echelonflow repeat 0" in told
    assert summary.results[0].iteration_s is None
    assert (root / "report.html").exists()


def test_a_network_that_is_not_the_declared_one_makes_all_runs_invalid(tmp_path):
    root = experiment(tmp_path / "run")
    write_calibration(root / "calibration.json", calibration(0.05))
    summary = analyse(root, pictures="none")
    assert not summary.valid
    assert all(r.valid_runs == 0 and r.iteration_s is None for r in summary.results)


def test_only_runs_made_while_links_were_off_are_invalid(tmp_path):
    root = experiment(tmp_path / "run")
    write_calibration(root / "calibration.json", calibration(0.0, -0.05, 0.01))
    summary = analyse(root, pictures="none")
    assert [run.valid for run in summary.runs] == [True, False, True]
    assert "carried -5.0% of what they declare" in summary.runs[1].reasons[0]
    report = (root / "report.html").read_text()
    assert "Measured 3 times" in report
    assert "4.00 ms of its rate at once" in report


def test_nothing_ran_at_all(tmp_path):
    network = paper_network()
    root = write_experiment(tmp_path / "run", network, [paper_job(network)], NAMES, [])
    summary = analyse(root)
    assert not summary.valid
    assert rows(root, "iterations") == []
    assert "INVALID" in (root / "report.html").read_text()


def test_a_simulated_experiment_says_so(tmp_path):
    network = paper_network()
    jobs = [paper_job(network)]
    root = write_experiment(tmp_path / "run", network, jobs, NAMES, [])
    change_manifest(root, backend="fluid")
    (root / "calibration.json").unlink()
    save_runs(root / "runs.json", [simulate(jobs, network, policies.load(name)) for name in NAMES])
    summary = analyse(root)
    assert summary.valid
    assert [r.iteration_s.median for r in summary.results] == pytest.approx([8.5, 10, 8], abs=1e-4)
    assert "no packets were sent" in summary_table(summary)
    report = (root / "report.html").read_text()
    assert "nothing was measured" in report
    assert all(row["pcap_bytes"] == "" for row in rows(root, "flows"))


def test_predictions_given_are_kept_for_the_next_analysis(tmp_path):
    root = experiment(tmp_path / "run")
    (root / "prediction.json").unlink()
    assert analyse(root, pictures="none").results[0].predicted is None
    network = paper_network()
    given = {"fair": simulate([paper_job(network)], network, policies.load("fair"))}
    analyse(root, given, pictures="none")
    assert analyse(root, pictures="none").results[0].predicted.iteration_s == pytest.approx(8.5, abs=1e-4)


def test_the_report_stands_alone_and_escapes_what_it_quotes(tmp_path):
    root = experiment(tmp_path / "run")
    change_manifest(root, title="<script>alert(1)</script>")
    analyse(root)
    report = (root / "report.html").read_text()
    assert "<script>alert" not in report
    assert report.count("<script") == report.count("</script>") == 3  # the data, the library, and what draws with it
    outside = re.sub(r"<script.*?</script>", "", report, flags=re.DOTALL)
    assert 'src="' not in outside


def test_the_timeline_holds_every_step_of_the_shown_runs(tmp_path):
    root = experiment(tmp_path / "run")
    analyse(root, pictures="none")
    events = json.loads((root / "timeline.json").read_text())["traceEvents"]
    spans = [e for e in events if e["ph"] == "X"]
    assert len([e for e in spans if e["cat"] == "compute"]) == 18
    assert len([e for e in spans if e["cat"] == "flow"]) == 9
    assert len([e for e in events if e["ph"] == "i"]) == 9
    named = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in spans} <= named
    by_thread: dict = {}
    for e in spans:
        by_thread.setdefault((e["pid"], e["tid"]), []).append((e["ts"], e["ts"] + e["dur"]))
    for thread in by_thread.values():
        thread.sort()
        assert all(end <= start + 1e-3 for (_, end), (start, _) in itertools.pairwise(thread))


def test_lanes_are_few_and_free_of_overlap():
    assert lanes([(0, 2), (1, 3), (2, 4), (3, 5)]) == [0, 1, 0, 1]
    assert lanes([]) == []


def test_records_survive_the_file(tmp_path):
    network = paper_network()
    jobs = [paper_job(network, 2)]
    run = simulate(jobs, network, policies.load("fair"))
    save_runs(tmp_path / "r.json", [run])
    assert load_runs(tmp_path / "r.json") == [run]
    # The same as objects, which are what an emulation leaves.
    objects = replace(run, computes=list(run.computes), flows=list(run.flows))
    save_runs(tmp_path / "r.json", [objects])
    assert load_runs(tmp_path / "r.json") == [run] == [objects]
    with pytest.raises(ValueError, match="without marks"):
        save_runs(tmp_path / "r.json", [synthetic_run(jobs, network, "fair", 0).record])


@pytest.mark.parametrize(
    "text", ["", "[]", '{"schema": "else", "version": 1}', '{"schema": "echelon-runs", "version": 1, "runs": [{}]}']
)
def test_files_that_hold_no_records_are_named(tmp_path, text):
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(InputError, match=r"r\.json"):
        load_runs(tmp_path / "r.json")


def test_what_is_no_run_folder_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"manifest\.json"):
        analyse(tmp_path)


def test_a_folder_of_runs_is_refused_by_naming_them(tmp_path):
    for number in range(12):
        (tmp_path / "runs" / f"{number:02}-x").mkdir(parents=True)
        (tmp_path / "runs" / f"{number:02}-x" / "manifest.json").touch()
    with pytest.raises(InputError) as caught:
        analyse(tmp_path / "runs")
    assert str(caught.value).startswith(f"{tmp_path / 'runs'} is no run folder, but holds some: 02-x, 03-x, ")
    assert str(caught.value).endswith("11-x, and 2 more")
    with pytest.raises(InputError, match=r"holds some: runs/02-x"):
        analyse(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"\xff", b'{"schema": "echelon-manifest", "version": -7}'])
def test_a_garbled_manifest_is_one_line(tmp_path, damage):
    root = experiment(tmp_path / "run")
    (root / "manifest.json").write_bytes(damage)
    with pytest.raises(InputError, match=r"^[^\n]*manifest\.json: [^\n]+$"):
        analyse(root)


@pytest.mark.parametrize(
    "damage", [b"{broken", b"\x00" * 40, b"\xff\xfe{}", b"[" * 100_000], ids=["cut", "NUL", "0xff", "deep"]
)
def test_a_damaged_line_in_the_middle_of_a_log_is_named_and_left_out(tmp_path, damage):
    root = experiment(tmp_path / "run")
    log = root / "raw" / "fair-r0" / "agents" / "h1.jsonl"
    lines = log.read_bytes().splitlines()
    log.write_bytes(b"\n".join([*lines[:2], damage, *lines[2:]]) + b"\n")
    summary = analyse(root, pictures="none")
    (reason,) = summary.reasons
    assert reason.startswith("fair-r0: cannot be read, and is left out:")
    assert "h1.jsonl, line 3: " in reason
    assert [run.valid for run in summary.runs] == [False, True, True]
    assert len(rows(root, "flows")) == 9


@pytest.mark.parametrize(
    "text", [b"", b'{"schema": "echelon-run", "ver', b"[]", b"\xff" * 100], ids=["empty", "cut", "list", "0xff"]
)
def test_a_run_json_that_was_cut_off_costs_that_run_alone(tmp_path, text):
    root = experiment(tmp_path / "run")
    (root / "raw" / "coflow-grouping-group-r0" / "run.json").write_bytes(text)
    summary = analyse(root, pictures="none")
    assert [run.label for run in summary.runs if not run.valid] == ["coflow-grouping-group-r0"]
    assert all(reason.startswith("coflow-grouping-group-r0: ") for reason in summary.reasons)
    assert any("run.json: is not" in reason for reason in summary.reasons)
    assert [r.valid_runs for r in summary.results] == [1, 0, 1]


def test_a_mark_is_as_old_as_the_decision_that_chose_it_not_one_that_changed_the_rate_alone():
    key = ("job", 0, "a")
    decisions = [
        DecisionRecord(at_s, "release", 1, 1, "00", 0.2, 0.5, ((*key, dscp, rate_Bps),))
        for at_s, dscp, rate_Bps in [(1.0, 48, None), (2.0, 40, 10.0), (3.0, 40, 20.0)]
    ]
    assert last_marks(decisions) == {key: (40, 2.0)}
