"""The command line's exit codes and messages, as a shell sees them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from echelon.cli.main import main
from echelonflow.errors import EXIT_FAILED
from tests.unit.test_experiments import GOOD, YAML

PIPELINE = str(Path(__file__).parents[2] / "experiments" / "pipeline.yaml")


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "e.yaml"
    YAML().dump(GOOD, path)
    return path


def test_a_simulated_run_prints_its_table_and_ends_with_0(echelon, experiment, tmp_path):
    done = echelon("run", experiment, "--backend", "fluid", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "fair" in done.stdout
    again = echelon("report", tmp_path / "out")
    assert again.returncode == 0
    assert again.stdout.splitlines()[:4] == done.stdout.splitlines()[:4]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nowhere.yaml"], "nowhere.yaml: cannot be read"),
        (["report", "nowhere"], "nowhere"),
        (["profile", "--show", "nothing"], "no committed profile of that name"),
        (["bench", "nothing"], "unknown benchmark 'nothing'"),
        (["run"], "no experiment file is given"),
        (["fly"], "No such command"),
        (["run", PIPELINE, "--attempts", "4"], "--attempts is 4, and 5 runs of each policy are asked for"),
        (["run", PIPELINE, "--attempts", "0"], "--attempts"),
        (["run", PIPELINE, "--patience", "10"], "--patience: "),
        (["run", PIPELINE, "--patience", "soon"], "--patience: "),
        (["run", PIPELINE, "--backend", "fluid", "--patience", "10m"], "--attempts and --patience are for emulations"),
        (["run", PIPELINE, "--stretch", "0.5"], "--stretch"),
        (["run", PIPELINE, "--against", "fare"], "against: 'fare' is none of the policies; did you mean 'fair'?"),
    ],
)
def test_bad_input_ends_with_2_and_one_message(echelon, arguments, words):
    done = echelon(*arguments)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_an_unknown_policy_ends_with_2_and_makes_no_folder(echelon, experiment, tmp_path):
    done = echelon("run", experiment, "--policy", "best", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "unknown policy 'best'; there is: aalo, cassini, clock, coflow, crux," in done.stderr
    assert not (tmp_path / "out").exists()


def test_policies_lists_every_policy_with_its_options(echelon):
    done = echelon("policies")
    assert done.returncode == 0
    for words in ("fair", "grouping=collective|group", "order=tardiness|remaining|extra"):
        assert words in done.stdout


@pytest.mark.parametrize("command", ["run", "report", "policies", "profile", "bench"])
def test_every_command_explains_itself(echelon, command):
    done = echelon(command, "--help")
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) > 5


def test_the_version_names_what_results_depend_on():
    """As a process of its own, because its exit code and streams are what a shell sees."""
    command = [sys.executable, "-m", "echelon.cli", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("echelon ")
    assert "numpy" in done.stdout


def test_a_program_of_the_testbed_that_is_killed_is_named_in_one_line(monkeypatch, capsys):
    def killed(**_):
        raise subprocess.CalledProcessError(-9, ["ovsdb-tool", "create"], stderr=b"first\nlast words\n")

    monkeypatch.setattr("echelon.cli.main.app", killed)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == EXIT_FAILED
    assert capsys.readouterr().err.startswith("echelon: the program ovsdb-tool was killed (signal 9): last words; ")
