"""What is left out of pictures and timelines that would show too much, and that they say so."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from matplotlib.axes import Axes

from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.scheduling import policies
from results.analysis import sample
from results.analysis.sample import Bounds, sampled
from results.analysis.shown import ShownRun
from results.pictures import gantt, style
from results.report import timeline
from simulator.fluid import simulate
from traffic.workloads import paradigms

HOSTS = 8
NETWORK = topologies.build("single-switch", {"hosts": HOSTS, "rate_bps": 1e9})


@pytest.fixture(scope="module", params=["columns", "objects"])
def runs(request):
    """All-reduces by the steps of a ring among eight hosts, under two policies: of a simulation, and as emulations leave them."""
    options = {"ranks": HOSTS, "layers": 4, "forward_s": 0.01, "backward_s": 0.02, "parameter_bytes": 1_000_000}
    dag = paradigms.build("data-parallel", {**options, "bucket_bytes": 1_000_000, "algorithm": "ring-steps"})
    job = Job("j", dag, NETWORK.hosts, 2)
    found = []
    for name in ("fair", "srpt"):
        record = simulate([job], NETWORK, policies.load(name))
        if request.param == "objects":
            record = replace(record, computes=list(record.computes), flows=list(record.flows))
        found.append(ShownRun.of(name, record, [job]))
    return found


def test_all_is_shown_where_it_can_be_read(runs):
    for bounds in (None, Bounds(HOSTS, 10_000)):
        shown = sampled(runs, bounds)
        assert (shown.hosts, shown.until_s, shown.words) == (tuple(NETWORK.hosts), math.inf, "")
        for run in runs:
            assert shown.computes(run) == [c for c in run.record.computes if c.iteration == 1]
            assert shown.flows(run) == [f for f in run.record.flows if f.iteration == 1]


def test_hosts_are_spread_and_rows_are_cut_where_they_get_too_full(runs):
    part = sampled(runs, Bounds(4, 6))
    assert part.hosts == ("h1", "h3", "h5", "h7")
    assert part.words == f"4 of 8 hosts and the first {part.until_s:.3g} s of {part.longest_s:.3g} s"
    for run in runs:
        flows, computes = part.flows(run), part.computes(run)
        assert flows, computes
        assert {f.src_host for f in flows} | {c.host for c in computes} <= set(part.hosts)
        most = max(sum(f.src_host == host for f in flows) for host in part.hosts)
        assert most <= 6
        latest_s = run.window.start_s + part.until_s
        left_out = [f for f in run.record.flows if f.iteration == 1 and f.src_host in part.hosts and f not in flows]
        assert all(f.release_s >= latest_s for f in left_out)
    most = max(sum(f.src_host == host for f in part.flows(run)) for run in runs for host in part.hosts)
    assert most >= 1


def test_a_picture_of_a_part_says_so_and_one_of_the_whole_does_not(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(gantt, "MOST_IN_A_ROW", 6)
    words, set_xlabel = [], Axes.set_xlabel
    monkeypatch.setattr(Axes, "set_xlabel", lambda axes, text: (words.append(text), set_xlabel(axes, text)))
    for whole, said in ((False, True), (True, False)):
        path = tmp_path / f"{whole}.png"
        gantt.draw_gantt(path, runs, whole=whole)
        assert ("--pictures all draws all" in words.pop()) == said
        assert path.stat().st_size > 1000
        assert path.with_suffix(".svg").exists() == whole  # nobody enlarges a sample


def test_a_timeline_of_a_part_says_so_and_one_of_the_whole_does_not(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(timeline, "MOST_STEPS", 256)
    monkeypatch.setattr(sample, "MOST_STEPS", 256)
    path = tmp_path / "timeline.json"
    steps = sum(len(run.record.computes) + len(run.record.flows) for run in runs)
    for whole, most in ((False, 256), (True, steps)):
        timeline.write_timeline(path, runs, whole=whole)
        events = json.loads(path.read_text())["traceEvents"]
        spans = [event for event in events if event["ph"] == "X"]
        assert 0 < len(spans) <= most
        processes = [event["args"]["name"] for event in events if event["name"] == "process_name"]
        assert all(("(sample: iteration 1, " in name) != whole for name in processes)
        named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
        assert {(event["pid"], event["tid"]) for event in spans} <= named


@pytest.mark.parametrize(
    ("value_s", "text"), [(8.5, "8.500"), (0.0, "0.000"), (0.1, "0.100"), (1.304e-4, "0.00013"), (-2.5e-7, "-2.5e-07")]
)
def test_labels_of_short_times_are_not_nought(value_s, text):
    assert style.seconds(value_s) == text


def test_a_curve_of_many_values_keeps_its_ends():
    values = list(range(10 * style.MOST_POINTS))
    whole, part = style.distribution(values), style.distribution(values, whole=False)
    assert (whole[0].size, part[0].size) == (len(values), style.MOST_POINTS)
    for found in (whole, part):
        assert (found[0][0], found[0][-1], found[1][-1]) == (0, len(values) - 1, 1.0)
    kept = part[0].astype(int)
    assert (part[1] == whole[1][kept]).all()
