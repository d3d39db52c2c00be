"""What a program loads before it does its work: start-up time, without a clock."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.unit.test_experiments import GOOD, YAML

HEAVY = {
    "numpy",
    "scipy",
    "matplotlib",
    "pydantic",
    "numba",
    "jinja2",
    "ruamel",
    "sklearn",
    "optuna",
    "distributed",
    "pyarrow",
}

TELL = """
import atexit, json, sys
atexit.register(lambda: print(json.dumps(sorted({name.partition('.')[0] for name in sys.modules}))))
"""
"""Has a program print the packages that it loaded as its last line."""


def loaded_by(program, *arguments):
    """The top-level packages that a Python program loads; it has to end with 0."""
    command = [sys.executable, "-c", TELL + program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


COMMAND_LINE = "from echelon.cli.main import main; main()"


def test_help_loads_nothing_that_computes_or_draws():
    assert not loaded_by(COMMAND_LINE, "--help") & HEAVY


@pytest.mark.parametrize(
    ("arguments", "needed"),
    [
        (["run", "--help"], set()),
        (["tune", "--help"], set()),
        (["sweep", "--help"], set()),
        (["compare", "--help"], set()),
        (["status", "--help"], set()),
        (["policies"], {"numpy"}),
    ],
)
def test_a_light_command_loads_what_it_needs(arguments, needed):
    by_typer = {"pydantic"}  # checks the command's arguments
    assert loaded_by(COMMAND_LINE, *arguments) & HEAVY <= needed | by_typer


def test_an_agent_starts_without_what_computes_or_draws():
    assert not loaded_by("import traffic.agent.agent") & HEAVY


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "e.yaml"
    YAML().dump(GOOD, path)
    return path


def test_a_simulation_without_pictures_loads_neither_plotting_nor_the_compiler(experiment, tmp_path):
    program = """if True:
        from pathlib import Path
        from echelon.experiment import schema
        from echelon.running import runner
        code, _ = runner.run(
            schema.load(Path(sys.argv[1])), Path(sys.argv[2]), "fluid", lambda _: None, pictures="none"
        )
        assert code == 0
    """
    # A bound on what any scheduler could do is solved by scipy.
    assert not loaded_by(program, experiment, tmp_path / "out") & {"matplotlib", "numba"}
