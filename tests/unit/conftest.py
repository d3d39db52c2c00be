"""What tests of several rooms need: the command line, called in this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from echelon.cli.main import main
from simulator import fluid


@dataclass(frozen=True)
class Done:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def echelon(capsys, monkeypatch):
    """The command, called in this process: a start of its own would cost more than what it does."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["echelon", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return Done(ended.value.code or 0, said.out, said.err)

    return call


@pytest.fixture(autouse=True)
def _as_in_a_process_of_its_own(monkeypatch):
    """Which event loop simulates must not depend on what other tests simulated before."""
    monkeypatch.setattr(fluid._Patience, "steps", 0)
