"""Values that a command line sets by their paths: what is set, what is refused, and what the run folder says was run."""

from __future__ import annotations

import copy

import pytest

from echelon.experiment import schema
from echelon.experiment.settings import covers, parse, with_settings
from echelonflow.errors import InputError
from echelonflow.records.manifest import read_manifest
from tests.unit.test_experiments import GOOD, YAML

DATA = {
    "name": "x",
    "network": {"rate": "10 Mbit/s"},
    "emulation": None,
    "jobs": [{"name": "a", "iterations": 1}, {"name": "gpt2.small", "weight": 1}],
    "policies": ["fair", "coflow"],
}


def after(*texts):
    return with_settings(DATA, parse(texts))[0]


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "e.yaml"
    YAML().dump(GOOD, path)
    return path


@pytest.mark.parametrize(
    ("text", "look", "value"),
    [
        ("network.rate=40 Mbit/s", lambda d: d["network"]["rate"], "40 Mbit/s"),
        ("jobs.0.iterations=5", lambda d: d["jobs"][0]["iterations"], 5),
        ("jobs.a.iterations=5", lambda d: d["jobs"][0]["iterations"], 5),
        ("jobs.gpt2.small.weight=2.5", lambda d: d["jobs"][1]["weight"], 2.5),
        ("jobs.1.placement=[h1, h2]", lambda d: d["jobs"][1]["placement"], ["h1", "h2"]),
        ("jobs.1.scheduler=p3(partition=4 MB)", lambda d: d["jobs"][1]["scheduler"], "p3(partition=4 MB)"),
        ("emulation.tso=false", lambda d: d["emulation"]["tso"], False),
        ("emulation.limits.max_link_error=1", lambda d: d["emulation"]["limits"]["max_link_error"], 1),
        ("policies.1=echelonflow", lambda d: d["policies"], ["fair", "echelonflow"]),
        ("title=1=2", lambda d: d["title"], "1=2"),
    ],
)
def test_a_value_is_set_by_its_path(text, look, value):
    before = copy.deepcopy(DATA)
    found = look(after(text))
    assert found == value
    assert type(found) is type(value)
    assert before == DATA


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("network.rate", "must be written PATH=VALUE"),
        ("=5", "must be written PATH=VALUE"),
        ("name=", "--set name: has no value"),
        ("name=[1", "is not YAML: a list that began with [ is not closed"),
        ("name.first=x", "--set name.first: name is 'x', which has no parts"),
        ("jobs.b.weight=2", "jobs has no entry 'b'"),
        ("jobs.gpt2.smal.weight=2", "jobs has no entry 'gpt2'; there is: a, gpt2.small"),
        ("jobs.2.weight=2", "jobs has 2 entries, counted from 0; there is no 2"),
        ("policies.first=fair", "policies is a list; its entries are named by their numbers"),
        ("network..rate=2", "a part of the path is empty"),
        ("network.rate=2014-01-01", "--set network.rate: a date is no value"),
    ],
)
def test_what_cannot_be_set_is_refused_in_one_line(text, words):
    with pytest.raises(InputError) as refused:
        after(text)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_path_is_set_once():
    with pytest.raises(InputError, match="name is set twice"):
        parse(["name=a", "name=b"])


def test_a_line_is_not_blamed_for_what_was_set():
    _, placed = with_settings(DATA, parse(["jobs.a.iterations=5", "network.rate=1"]))
    assert covers(placed, "jobs.0.iterations")
    assert covers(placed, "network.rate.unit")
    assert not covers(placed, "jobs.0")
    assert not covers(placed, "network.rates")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("network.rat=5", "network.rat: unknown key; did you mean 'rate'?"),
        ("netwrk.rate=5", "netwrk: unknown key; did you mean 'network'?"),
        ("jobs.0.iteration=5", "jobs.0.iteration: unknown key; did you mean 'iterations'?"),
        ("network.rate=fast", "network.rate: 'fast' is not a rate"),
    ],
)
def test_an_unknown_path_is_one_message_with_what_was_meant(echelon, experiment, text, words):
    done = echelon("check", experiment, "--set", text)
    assert done.returncode == 2
    assert f"{experiment}: {words}" in done.stderr  # and no line of the file, where it does not stand
    assert len(done.stderr.splitlines()) == 1


def test_the_run_folder_says_what_was_run(echelon, experiment, tmp_path):
    out = tmp_path / "out"
    options = ("--set", "jobs.0.iterations=2", "--set", "policies=[fifo]", "--policy", "fair")
    done = echelon("run", experiment, "--backend=fluid", "--pictures=none", "--out", out, *options)
    assert done.returncode == 0, done.stderr
    manifest = read_manifest(out / "manifest.json")
    assert manifest.experiment["jobs"][0]["iterations"] == 2
    assert manifest.jobs[0].iterations == 2
    assert manifest.policies == ("fair",), "named options come after what is set"


def test_going_on_takes_everything_from_its_folder(echelon, tmp_path):
    done = echelon("run", "--resume", tmp_path, "--set", "seed=3")
    assert done.returncode == 2
    assert "leave the other options away" in done.stderr


def test_settings_come_before_other_overrides(experiment):
    found = schema.load(experiment, {"seed": 7}, (), {"seed": 3, "repeats": 2})
    assert (found.seed, found.repeats) == (7, 2)
