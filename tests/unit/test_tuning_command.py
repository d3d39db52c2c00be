"""`echelon tune` as a shell sees it: what it finds, how it goes on, and what it refuses."""

from __future__ import annotations

import copy
import json

import pytest
from ruamel.yaml import YAML

from echelon.tuning.history import History

EXPERIMENT = {
    "name": "tuned",
    "network": {"topology": "single-switch", "hosts": 2, "rate": "100 Mbit/s"},
    "jobs": [
        {
            "name": "net", "paradigm": "data-parallel", "ranks": 2, "layers": 4, "forward": "50 ms", "backward": "100 ms",
            "parameter": "2 MB", "iterations": 3, "scheduler": "bytescheduler(partition=2 MB, credit=8 MB)",
        }
    ],
    "policies": ["fair", "echelonflow"],
    "fluid": {"decision_latency": "2 ms"},
}  # fmt: skip


@pytest.fixture
def written(tmp_path):
    """Writes the experiment with changes to its job, and returns the file."""

    def write(name="e.yaml", **changes):
        data = copy.deepcopy(EXPERIMENT)
        data["jobs"][0] = {key: value for key, value in {**data["jobs"][0], **changes}.items() if value is not None}
        YAML().dump(data, tmp_path / name)
        return tmp_path / name

    return write


def test_it_finds_options_that_are_better_than_the_file_s(echelon, written, tmp_path):
    out = tmp_path / "out"
    done = echelon("tune", written(), "--method", "grid", "--samples", 9, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "tuned under fair: 9 samples by grid, seed 0, simulated (fluid)" in done.stdout
    assert "in the file, for net:  scheduler: bytescheduler(partition=" in done.stdout
    assert done.stderr.count("sample ") == 9
    assert (out / "history.png").stat().st_size > 10_000
    samples = History(out).samples
    assert [sample.role for sample in samples] == ["default", "off"] + ["sample"] * 9
    assert min(sample.value_s for sample in samples[2:]) < samples[0].value_s


def test_the_scheduler_that_it_proposes_takes_as_long_as_it_says(echelon, written, tmp_path):
    said = echelon("tune", written(), "--method=random", "--samples=4", "--out", tmp_path / "a", "--json").stdout
    found = json.loads(said)
    best = written("best.yaml", scheduler=found["schedulers"]["net"])
    again = json.loads(
        echelon("tune", best, "--method=random", "--samples=1", "--out", tmp_path / "b", "--json").stdout
    )
    assert again["targets"][0]["default_s"] == pytest.approx(found["targets"][0]["best_s"])


def test_the_same_command_goes_on_and_more_samples_are_added(echelon, written, tmp_path):
    file, out = written(), tmp_path / "out"
    first = echelon("tune", file, "--method", "random", "--samples", 3, "--out", out)
    same = echelon("tune", file, "--method", "random", "--samples", 3, "--out", out)
    assert same.returncode == 0, same.stderr
    assert same.stdout == first.stdout
    assert "sample " not in same.stderr
    more = echelon("tune", "--resume", out, "--samples", 5)
    assert more.returncode == 0, more.stderr
    assert more.stderr.count("sample ") == 2
    assert [sample.number for sample in History(out).samples] == [0, 0, 0, 1, 2, 3, 4]


def test_ctrl_c_keeps_what_there_is_and_says_how_to_go_on(echelon, written, tmp_path, monkeypatch):
    from echelon.tuning import trials

    simulated, count = trials.simulated, iter(range(100))

    def interrupted(experiment):
        if next(count) == 3:
            raise KeyboardInterrupt
        return simulated(experiment)

    monkeypatch.setattr(trials, "simulated", interrupted)
    out = tmp_path / "out"
    done = echelon("tune", written(), "--method", "random", "--samples", 4, "--out", out)
    assert done.returncode == 130
    assert f"1 samples are kept. Go on with: echelon tune --resume {out}" in done.stderr
    assert echelon("tune", "--resume", out).returncode == 0
    assert len(History(out).samples) == 6


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"scheduler": None}, (), "no job has a scheduler with partition and credit to tune (net has none); there is: byte"),
        ({"scheduler": "fifo"}, (), "(net has fifo); there is: bytescheduler"),
        ({"scheduler": None, "paradigm": "data-parallel"}, ("--scheduler", "bitescheduler"), "did you mean 'bytescheduler'?"),
        ({"iterations": None}, (), "job net has one iteration"),
        ({}, ("--method", "bayes"), "unknown method 'bayes'; there is: gp, grid, random, tpe"),
        ({}, ("--job", "nett"), "--job: 'nett' is no job that can be tuned; did you mean 'net'?"),
        ({}, ("--space", "partition=2 MB..1 MB"), "--space: partition: begins at 2 MB and ends at 1 MB"),
        ({}, ("--space", "partition=2 MB..2 MB,credit=1 MB..1 MB"), "--space: has no point"),
        ({}, ("--space", "partition=1 MB..9 MB"), "does not fit"),
        ({}, ("--space", "credit=1 MB..90 MB"), "does not fit"),
        ({}, ("--policy", "fare"), "did you mean 'fair'?"),
        ({}, ("--samples", "0"), "--samples"),
        ({}, ("--samples", "2000"), "--samples"),
        ({}, ("--repeats", "0"), "--repeats"),
    ],
)  # fmt: skip
def test_what_cannot_be_tuned_is_refused_in_one_message(echelon, written, tmp_path, changes, options, words):
    method = () if "--method" in options else ("--method", "random")
    done = echelon("tune", written(**changes), *method, *options, "--out", tmp_path / "out")
    assert done.returncode == 2, done.stdout
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out" / "history.jsonl").exists()


def test_folders_that_hold_something_else_are_refused(echelon, written, tmp_path):
    file = written()
    assert "no experiment file is given" in echelon("tune").stderr
    assert "there is no such folder" in echelon("tune", "--resume", tmp_path / "nowhere").stderr
    assert "no tuning was begun there" in echelon("tune", "--resume", tmp_path).stderr
    assert "leave FILE away" in echelon("tune", file, "--resume", tmp_path).stderr
    assert "holds something else than a tuning" in echelon("tune", file, "--method=random", "--out", tmp_path).stderr
    out = tmp_path / "out"
    assert echelon("tune", file, "--method=random", "--samples=1", "--out", out).returncode == 0
    other = echelon("tune", file, "--method=grid", "--samples=1", "--out", out)
    assert other.returncode == 2
    assert "holds a tuning of something else (method differ)" in other.stderr


def test_two_tuners_do_not_share_a_folder(echelon, written, tmp_path):
    from echelon.running import place

    with place.opened(tmp_path / "out"):
        done = echelon("tune", written(), "--method=random", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "another process is at work there" in done.stderr
