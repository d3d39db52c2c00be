"""What tests of several rooms need: the command line, called in this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass

import pytest

from echelon.cli.main import main


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
