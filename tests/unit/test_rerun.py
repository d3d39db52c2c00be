"""experiment.yaml in a run folder is an experiment that runs as it is, and is the same as the one that was run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from echelon.cli.main import app
from echelon.experiment import schema
from echelon.experiment.rerun import rerun_data
from echelonflow.records.experiment_file import write_experiment_file
from echelonflow.records.folder import RunFolder
from echelonflow.scheduling import user_file
from results.folder import analyse

EXPERIMENTS = Path(schema.__file__).parents[2] / "experiments"
FILES = sorted(path.relative_to(EXPERIMENTS).as_posix() for path in EXPERIMENTS.rglob("*.yaml"))
SMALL = [name for name in FILES if "facebook" not in name and "muri" not in name and not name.startswith("live/")]
"""Without those whose jobs are programs, which `echelon live` runs."""


@pytest.mark.parametrize("name", SMALL)
def test_every_committed_experiment_comes_back_as_it_was(name, tmp_path):
    first = schema.load(EXPERIMENTS / name)
    path = tmp_path / "elsewhere" / "experiment.yaml"
    path.parent.mkdir()
    write_experiment_file(path, rerun_data(first), "fluid")
    again = schema.load(path)
    same = {"path": first.path, "source": first.source, "trace": None, "policies": (), "enforcers": {}}
    assert replace(again, **same) == replace(first, **same)
    assert again.policies == tuple(map(user_file.absolute, first.policies))
    assert (again.trace is None) == (first.trace is None)


AWKWARD = {
    "title": "yes: {a}, [b] # 1e3 'q' \"d\" \u00e9 \u6f22 </script> " + "long " * 60,
    "time_unit": "1 s",
    "stretch": 1.5,
    "emulation": {"limits": {"max_moved_iteration": 1e-05}},
}


def test_awkward_values_come_back_as_they_were(tmp_path):
    first = schema.load(EXPERIMENTS / "pipeline.yaml", AWKWARD)
    write_experiment_file(tmp_path / "experiment.yaml", rerun_data(first), "emulation")
    again = schema.load(tmp_path / "experiment.yaml")
    assert again.source == first.source
    assert again.limits == first.limits


def test_files_that_an_experiment_names_are_found_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    mine = tmp_path / "mine.py"
    mine.write_text((Path(schema.policies.__file__).with_name("fair.py")).read_text())
    (tmp_path / "here").mkdir()
    source = (EXPERIMENTS / "traces" / "shuffles.yaml").read_text()
    (tmp_path / "here" / "mine.yaml").write_text(source)
    (tmp_path / "here" / "shuffles.txt").write_text((EXPERIMENTS / "traces" / "shuffles.txt").read_text())
    data = rerun_data(schema.load(tmp_path / "here" / "mine.yaml"))
    assert data["jobs"][0]["trace"]["file"] == str(tmp_path / "here" / "shuffles.txt")
    data = rerun_data(schema.load(EXPERIMENTS / "pipeline.yaml", {"policies": ["fair", "./mine.py"]}))
    assert data["policies"] == ["fair", str(mine)]


def test_a_word_that_is_also_a_file_is_not_moved(tmp_path):
    (tmp_path / "pipeline").write_text("")
    (tmp_path / "e.yaml").write_text((EXPERIMENTS / "pipeline.yaml").read_text())
    data = rerun_data(schema.load(tmp_path / "e.yaml"))
    assert (data["name"], data["jobs"][0]["paradigm"]) == ("pipeline", "pipeline")


def test_the_file_in_a_run_folder_runs_and_gives_the_same(tmp_path):
    def run(*words):
        done = CliRunner().invoke(app, ["run", *words, "--backend", "fluid", "--pictures", "none"])
        assert done.exit_code == 0, done.output

    first, second = tmp_path / "first", tmp_path / "second"
    run(str(EXPERIMENTS / "pipeline.yaml"), "--policy", "srpt", "--policy", "fair", "--seed", "3", "--out", str(first))
    run(str(RunFolder(first).experiment), "--out", str(second))
    found = [json.loads((folder / "summary.json").read_text()) for folder in (first, second)]
    assert found[0] == found[1]
    assert [result["policy"] for result in found[1]["results"]] == ["srpt", "fair"]
    assert RunFolder(first).experiment.read_bytes() == RunFolder(second).experiment.read_bytes()
    assert analyse(first, pictures="none").valid
