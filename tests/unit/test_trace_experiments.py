"""Experiments whose job is a trace of Coflows: what is accepted, what is simulated, what is shown."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from ruamel.yaml import YAML

import experiments
from echelon.experiment import schema
from echelon.running import runner, simulated
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.records.progress import Simulating
from echelonflow.scheduling.kernels import can_compile
from results.analysis.coflows import coflow_results, load_trace_runs
from results.folder import analyse
from results.report.table import summary_table
from simulator.realism import Realism
from tests.unit.test_experiments import changed

ROOT = Path(__file__).resolve().parents[2]
SHIPPED = Path(experiments.__file__).parent / "traces" / "shuffles.yaml"
COFLOWSIM = SHIPPED.with_name("coflowsim.yaml")
MB = 1 << 20
# Two Coflows at port 0's uplink, and one that meets neither.
TEXT = "4 3\n0 0 1 0 1 1:4\n1 1000 1 0 1 2:1\n2 1000 1 3 1 3:1\n"


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.txt"
    path.write_text(TEXT)
    return path


def described(trace, policies=("fair", "coflow"), network=None, **options):
    """An experiment at one MB of payload per second and port."""
    return {
        "name": "small",
        "network": network or {"topology": "big-switch", "ports": 4, "rate": f"{MB} B/s", "rate_of": "payload"},
        "jobs": [{"name": "t", "trace": {"format": "coflow-benchmark", "file": trace.name, **options}}],
        "policies": list(policies),
    }


def checked(trace, **options):
    return schema.check(described(trace, **options), trace.parent / "e.yaml")


def fault(data, folder):
    with pytest.raises(InputError) as caught:
        schema.check(data, folder / "e.yaml")
    return str(caught.value)


def test_a_big_switch_has_no_links_but_its_ports():
    network = topologies.build("big-switch", {"ports": 3, "rate_bps": 1e9})
    assert len(network.links) == 6
    assert len(network.path("h1", "h3")) == 2
    assert network.capacity_Bps == topologies.build("single-switch", {"hosts": 3, "rate_bps": 1e9}).capacity_Bps
    payload = topologies.build("big-switch", {"ports": 3, "rate_bps": 1e9, "rate_of": "payload"})
    assert payload.capacity_Bps == pytest.approx([1e9 / 8] * 6)


def test_completion_times_are_those_worked_out_by_hand(trace, tmp_path):
    """Coflow 0 alone for 1 s. Fair: then half each, Coflow 1 ends after 2 s, 0 at 5 s. Coflow: 1 goes first."""
    code, summary = runner.run(checked(trace), tmp_path / "out", "fluid", lambda _: None)
    assert code == 0
    fair, coflow = summary.coflows
    assert fair.average_s == pytest.approx((5 + 2 + 1) / 3)
    assert (fair.median_s, fair.normalised) == (pytest.approx(2), (1, 1, 1, 1))
    assert coflow.average_s == pytest.approx((5 + 1 + 1) / 3)
    assert coflow.normalised[:2] == (pytest.approx(7 / 8), pytest.approx(1 / 2))
    assert coflow.p99_s == pytest.approx(np.percentile([5, 1, 1], 99))


def test_a_run_leaves_a_table_of_coflows_and_a_report_that_says_simulated(trace, tmp_path):
    out = tmp_path / "out"
    _, summary = runner.run(checked(trace), out, "fluid", lambda _: None)
    with (out / "coflows.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(r["policy"], r["coflow"], r["width"], float(r["cct_s"])) for r in rows[:2]] == [
        ("fair", "0", "1", 5.0),
        ("fair", "1", "1", 2.0),
    ]
    assert [float(r["size_bytes"]) for r in rows[:3]] == [4 * MB, MB, MB]
    report = (out / "report.html").read_text()
    assert "<title>small: simulated</title>" in report
    assert "small (simulated)</h1>" in report
    assert 'id="completion"' in report
    text = summary_table(summary)
    assert text.startswith("small (simulated):\n")
    assert "simulated (fluid), no packets were sent" in text
    before = {name: (out / name).read_bytes() for name in ("summary.json", "coflows.csv", "report.html")}
    assert analyse(out) == summary
    assert before == {name: (out / name).read_bytes() for name in before}


def test_the_first_to_arrive_are_taken_and_come_as_fast_as_asked(trace):
    trace.write_text("4 3\n9 3000 1 0 1 1:4\n5 1000 2 0 3 1 2:1\n7 500 1 3 1 3:1\n")
    chosen = checked(trace, coflows=2, speed_up=2.0).trace
    assert chosen.coflow_id.tolist() == [5, 7]
    assert chosen.arrival_s.tolist() == [0.5, 0.25]
    assert (chosen.coflow.tolist(), chosen.src.tolist()) == ([0, 0, 1], [0, 3, 3])


def test_arrivals_can_be_brought_forward_to_epochs(trace):
    trace.write_text("4 4\n0 0 1 0 1 1:4\n1 1 1 0 1 1:4\n2 2000 1 0 1 1:4\n3 2001 1 0 1 1:4\n")
    assert checked(trace, epoch="1 s").trace.arrival_s.tolist() == [0, 0, 1, 2]


def test_an_arrival_on_an_epoch_belongs_to_the_one_before_whatever_rounding_says(trace):
    at_ms = [10240 * k for k in range(1, 60)]
    lines = [f"{k} {ms} 1 0 1 1:1" for k, ms in enumerate(at_ms)]
    trace.write_text("\n".join([f"4 {len(lines)}", *lines]))
    assert checked(trace, epoch="10.24 s").trace.arrival_s == pytest.approx([10.24 * k for k in range(59)])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"format": "csv"}, "jobs.0.trace.format: unknown trace format 'csv'; there is: coflow-benchmark, sincronia"),
        ({"file": "nothing.txt"}, "jobs.0.trace.file: there is no file"),
        ({"file": "${NOT_SET_ANYWHERE}/x"}, "names the environment variable NOT_SET_ANYWHERE, which is not set"),
        ({"coflows": 0}, "jobs.0.trace.coflows: 0 is not a whole number of at least 1"),
        ({"coflows": 4}, "jobs.0.trace.coflows: 4 are asked for"),
        ({"speed_up": 0}, "jobs.0.trace.speed_up: 0 is not a number from 1e-06 to 1,000,000"),
        ({"epoch": "0 s"}, "jobs.0.trace.epoch: '0 s' must be greater than 0"),
        ({"epoch": "5"}, "jobs.0.trace.epoch: '5' is not a duration"),
        ({"megabyte": "1"}, "jobs.0.trace.megabyte: '1' is not a size"),
        ({"packets": 3}, "jobs.0.trace.packets: unknown key; there is: megabyte"),
        (
            {"network": {"topology": "big-switch", "ports": 3, "rate": "1 Gbit/s"}},
            "jobs.0.trace: Coflow 2 has a flow at port 3; network big-switch has ports 0 to 2",
        ),
    ],
)
def test_faults_of_a_trace_entry_are_named_by_their_path(trace, options, words):
    assert words in fault(described(trace, **options), trace.parent)


def test_a_bad_line_is_named_and_nothing_is_run(trace, tmp_path):
    trace.write_text(TEXT.replace("2:1", "2:-1"))
    assert "trace.txt: line 3: the size of reducer 1 of 1 is -1 MB" in fault(described(trace), tmp_path)


def test_a_trace_stands_alone(trace, tmp_path):
    data = described(trace)
    data["jobs"][0]["iterations"] = 3
    assert "jobs.0.iterations: does not go with a trace" in fault(data, tmp_path)
    data = described(trace)
    data["jobs"] += changed()["jobs"]
    assert "jobs: a trace is simulated by itself" in fault(data, tmp_path)
    assert "jobs.0: names neither a paradigm nor a trace" in fault(changed(jobs__0__paradigm=None), tmp_path)


def test_a_trace_is_refused_by_the_emulation_before_anything_starts(trace, tmp_path):
    with pytest.raises(InputError, match=r"a trace of Coflows \(3 flows\) is simulated.*add --backend fluid"):
        runner.run(checked(trace), tmp_path / "out", "emulation", lambda _: None)
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_made_is_refused(trace, tmp_path):
    with pytest.raises(InputError, match="cannot be made: Not a directory; name another folder with --out"):
        runner.run(checked(trace), trace / "out", "fluid", lambda _: None)


LACKING = """
import sys
sys.modules.update(dict.fromkeys(["mininet", "ryu", "os_ken", "eventlet", "scapy", "numba", "torch"]))  # as if not there
from echelon.cli.main import main
main()
"""


@pytest.mark.slow  # starts programs anew
@pytest.mark.parametrize("file", [SHIPPED, SHIPPED.parents[1] / "pipeline.yaml"], ids=lambda path: path.stem)
def test_the_fluid_backend_needs_no_package_but_the_base_ones(file, tmp_path):
    command = [sys.executable, "-c", LACKING, "run", str(file), "--backend", "fluid", "--out", str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "verdict: simulated" in done.stdout


def test_progress_of_a_long_simulation_is_told(trace, tmp_path, monkeypatch):
    monkeypatch.setattr(simulated, "_SAY_EVERY_S", 0.0)
    told = []
    runner.run(checked(trace), tmp_path / "out", "fluid", told.append, pictures="none")
    simulating = [report for report in told if isinstance(report, Simulating)]
    assert {report.policy for report in simulating} == {"fair", "coflow"}
    assert max(report.now_s for report in simulating) == pytest.approx(5)
    assert not (tmp_path / "out" / "figures").exists()


def test_realism_is_read_from_the_file_and_changes_what_is_simulated():
    plain = schema.check(changed(), Path("f"))
    slow = schema.check(changed(fluid={"classes": 8, "decision_latency": "5 ms"}), Path("f"))
    assert (plain.realism, slow.realism) == (Realism(), Realism(8, 0.005))
    ends = [max(c.finish_s for c in runner.predict(e, "fair").computes) for e in (plain, slow)]
    assert ends[0] < ends[1]


@pytest.mark.parametrize(
    ("fluid", "words"),
    [
        ({"classes": 9}, "fluid.classes: 9 is not a whole number from 1 to 8"),
        ({"decision_latency": "5"}, "fluid.decision_latency: '5' is not a duration"),
        ({"jitter": 1}, "fluid.jitter: unknown key"),
    ],
)
def test_faults_of_realism_are_named(fluid, words):
    assert words in fault(changed(fluid=fluid), Path())


def test_the_shipped_experiment_runs_and_coflow_beats_fair(tmp_path):
    _, summary = runner.run(schema.load(SHIPPED), tmp_path / "out", "fluid", lambda _: None, pictures="none")
    fair, coflow, _ = summary.coflows
    assert coflow.average_s < fair.average_s
    kinds = {kind.name: kind.coflows for kind in fair.kinds}
    assert sum(kinds.values()) == 60
    assert set(kinds) == {"short narrow", "long narrow", "short wide", "long wide"}


# Averages in seconds that CoflowSim (commit b61f209) prints for shuffles.txt.
COFLOWSIM_AVERAGE_S = {"fair": 1.98853, "sebf": 1.13867, "fifo": 1.56467}


def test_with_coflowsims_rules_and_conventions_its_averages_come_out(tmp_path, monkeypatch):
    """To half a per cent: it goes in steps of 8 ms, of which a Coflow's end loses half."""
    monkeypatch.chdir(ROOT)
    _, summary = runner.run(schema.load(COFLOWSIM), tmp_path / "out", "fluid", lambda _: None, pictures="none")
    found = {r.policy.partition("order=")[2].rstrip(")"): r.average_s for r in summary.coflows if ".py" in r.policy}
    assert found == pytest.approx(COFLOWSIM_AVERAGE_S, rel=0.005)
    ours = {r.policy: r.average_s for r in summary.coflows if ".py" not in r.policy}
    assert ours["fair"] < found["fair"]
    assert ours["coflow"] < found["sebf"]


HANDFUL = """6 10
1 0 2 0 1 2 2:880 3:250
2 0 1 2 1 4:190
3 120 3 0 1 2 3 3:610 4:130 5:430
4 3000 1 5 2 0:150 1:1800
5 9000 2 3 4 1 5:330
6 11000 4 0 1 2 3 2 4:2400 5:1600
7 12000 1 1 1 5:110
8 20000 2 2 0 1 3:1280
9 21000 1 4 3 0:170 1:170 2:45
10 30800 2 1 3 2 4:700 0:90
"""
"""Ten Coflows that meet at six ports, some of which arrive while others go on."""
# Their completion times in seconds, as CoflowSim (commit b61f209) prints them for SEBF.
HANDFUL_SEBF_S = (8.912, 1.520, 6.096, 15.600, 2.640, 19.200, 0.880, 10.240, 3.080, 5.600)
STEP_S = 0.008
"""CoflowSim's: an end is rounded up to the next one."""


def test_with_coflowsims_rules_every_coflow_of_a_handful_ends_when_it_does_there(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    (tmp_path / "handful.txt").write_text(HANDFUL)
    network = {"topology": "big-switch", "ports": 6, "rate": "1.048576 Gbit/s", "rate_of": "payload"}
    policy = "experiments/traces/coflowsim.py(order=sebf)"
    data = described(tmp_path / "handful.txt", [policy], network, epoch="10.24 s")
    experiment = schema.check(data, tmp_path / "e.yaml")
    runner.run(experiment, tmp_path / "out", "fluid", lambda _: None, pictures=False)
    with (tmp_path / "out" / "coflows.csv").open() as file:
        found_s = {int(row["coflow"]): float(row["cct_s"]) for row in csv.DictReader(file)}
    for coflow, expected_s in enumerate(HANDFUL_SEBF_S, 1):
        assert found_s[coflow] == pytest.approx(expected_s, rel=0.004, abs=STEP_S), coflow


FACEBOOK = ROOT.parent / "shared" / "data" / "coflow-benchmark"


@pytest.mark.slow  # the whole trace, twice
@pytest.mark.skipif(not FACEBOOK.is_dir(), reason="the Facebook trace is not there")
@pytest.mark.skipif(not can_compile(), reason="numba is not installed, or ECHELON_PLAIN is set: it would take hours")
def test_the_table_of_the_whole_facebook_trace_is_what_a_run_gives(tmp_path, monkeypatch):
    monkeypatch.setenv("COFLOW_BENCHMARK", str(FACEBOOK))
    _, summary = runner.run(
        schema.load(SHIPPED.with_name("facebook.yaml")), tmp_path / "out", "fluid", lambda _: None, pictures=False
    )
    page = (ROOT / "docs" / "traces.md").read_text().partition("## The whole Facebook trace")[2]
    for result, name in zip(summary.coflows, ("fair", "coflow (SEBF, MADD)"), strict=True):
        row = next(line for line in page.splitlines() if line.startswith(f"| {name} |"))
        told = [float(cell.replace(",", "")) for cell in row.split("|")[2:-1]]
        found = [result.average_s, result.median_s, result.p95_s, result.p99_s, *(k.average_s for k in result.kinds)]
        assert found == pytest.approx(told, rel=0.006), name


def test_shipped_trace_experiments_can_be_read_where_their_trace_is(monkeypatch):
    monkeypatch.chdir(ROOT)
    for path in SHIPPED.parent.glob("*.yaml"):
        data = YAML(typ="safe", pure=True).load(path.read_text())
        if "${" in data["jobs"][0]["trace"]["file"]:
            data["jobs"][0]["trace"]["file"] = "shuffles.txt"
            data["jobs"][0]["trace"].pop("coflows", None)
        assert schema.check(data, path).trace is not None


def test_records_that_were_damaged_are_refused(trace, tmp_path):
    out = tmp_path / "out"
    runner.run(checked(trace), out, "fluid", lambda _: None, pictures="none")
    body = json.loads((out / "coflow-runs.json").read_text())
    body["runs"][0]["finish_s"].pop()
    (out / "coflow-runs.json").write_text(json.dumps(body))
    with pytest.raises(InputError, match=r"coflow-runs\.json: (needs a run|missing field)"):
        load_trace_runs(out / "coflow-runs.json")
    (out / "coflow-runs.json").write_text("{}")
    with pytest.raises(InputError, match=r"coflow-runs\.json: missing field"):
        coflow_results(load_trace_runs(out / "coflow-runs.json"))
