"""`echelon bound`: distances, the sentence at the end, JSON; and the figures of the gap benchmark."""

from __future__ import annotations

import dataclasses
import json

import pytest
from typer.testing import CliRunner

from echelon.benchmarks import gap
from echelon.cli.main import app
from echelon.experiment import schema
from echelon.study import bounding
from echelonflow.errors import InputError

PIPELINE = {
    "name": "fig-2",
    "network": {"topology": "single-switch", "hosts": 2, "rate": "100 Mbit/s"},
    "jobs": [
        {
            "name": "p", "paradigm": "pipeline", "stages": 2, "micro_batches": 3, "forward": "1 s",
            "activation": "2 s of link",
        }
    ],
    "policies": ["coflow(grouping=group)", "echelonflow"],
}  # fmt: skip


def write(path, data):
    from ruamel.yaml import YAML

    YAML().dump(data, path)
    return path


def distances(path, data, **options):
    experiment = schema.load(write(path / "e.yaml", data))
    given = {"most_orders": 120, "programs": 20, "say": lambda _: None} | options
    return bounding.distances(experiment.name, experiment.jobs, experiment.network, experiment.policies, **given)


def test_the_papers_example(tmp_path):
    found = distances(tmp_path, PIPELINE)
    assert found.bound_s == pytest.approx(8.0, abs=1e-3)
    assert found.no_network_s == pytest.approx(4.0)
    assert found.tardiness_bound_s == pytest.approx(4.0, abs=1e-3)
    assert found.best_order["orders"] == 6
    assert found.best_order["iteration_s"] == pytest.approx(8.0, abs=1e-3)
    assert {p.policy: round(p.iteration_s, 3) for p in found.policies} == {
        "fair": 8.5, "coflow(grouping=group)": 10.0, "echelonflow": 8.0,
    }  # fmt: skip
    assert found.most_gain == pytest.approx(1 - 8 / 8.5, abs=1e-4)
    assert "No scheduler can save more than 5.9% of fair sharing's 8.5 s an iteration" in bounding.verdict(found)
    assert "5.9% is saved by echelonflow." in bounding.verdict(found)


def test_more_flows_than_orders_can_be_tried_are_left(tmp_path):
    assert distances(tmp_path, PIPELINE, most_orders=5).best_order is None


def test_where_nothing_can_be_gained_it_says_so(tmp_path):
    idle = json.loads(json.dumps(PIPELINE))
    idle["jobs"][0]["activation"] = "1 ms of link"
    text = bounding.table(distances(tmp_path, idle))
    assert "Would it help? No. Fair sharing takes 4.001 s an iteration" in text


def test_where_no_policy_gains_it_says_so(tmp_path):
    found = distances(tmp_path, PIPELINE)
    few = dataclasses.replace(found, policies=found.policies[:2])
    assert "of the policies here, none saves 1%" in bounding.verdict(few)


def test_several_iterations_of_a_pipeline_have_no_bound_on_tardiness_if_flows_wait_for_flows(tmp_path):
    both = json.loads(json.dumps(PIPELINE))
    both["jobs"][0] |= {"paradigm": "gpipe", "backward": "1 s"}
    text = bounding.table(distances(tmp_path, both))
    assert "no bound on tardiness: job p: flow" in text


def test_the_command_prints_a_table_or_json(tmp_path):
    path = write(tmp_path / "e.yaml", PIPELINE)
    shown = CliRunner().invoke(app, ["bound", str(path)])
    assert shown.exit_code == 0, shown.output
    assert "lower bound" in shown.output
    assert "best of 6 orders" in shown.output
    found = CliRunner().invoke(app, ["bound", str(path), "--json", "--policy", "echelonflow", "--orders", "0"])
    data = json.loads(found.stdout)
    assert [p["policy"] for p in data["policies"]] == ["fair", "echelonflow"]
    assert data["best_order"] is None


def test_a_trace_is_refused(tmp_path):
    (tmp_path / "t.txt").write_text("2 1\n1 0 1 0 1 1:10\n")
    data = {
        "name": "t", "network": {"topology": "big-switch", "ports": 2, "rate": "1 Gbit/s"}, "policies": ["fair"],
        "jobs": [{"name": "t", "trace": {"format": "coflow-benchmark", "file": "t.txt"}}],
    }  # fmt: skip
    found = CliRunner().invoke(app, ["bound", str(write(tmp_path / "e.yaml", data))])
    assert isinstance(found.exception, InputError)
    assert "is a trace of Coflows" in str(found.exception)


def test_the_gap_is_above_the_bound_and_names_the_goal():
    found = [
        {"fair": [1.5], "echelonflow": [1.05], "bound": [1.0]},
        {"fair": [2.5], "echelonflow": [1.09], "bound": [1.0]},
    ]
    fair, echelon = gap.figures(found)
    assert fair.measured.startswith("mean 100.0%")
    assert echelon.measured.startswith("mean 7.0%")
    assert echelon.measured.endswith("median 7.0%, within 10%: 100%")
    assert echelon.must == "reported; goal: mean under 10%"
