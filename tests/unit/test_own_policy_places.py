"""Every command that takes a policy file runs it apart: its mistakes and its malice end its own process, and are told."""

from __future__ import annotations

import os

import pytest

from echelonflow.scheduling.own_policy import child, process

EXPERIMENT = """
name: places
network: {topology: single-switch, hosts: 2, rate: 100 Mbit/s}
jobs: [{name: p, paradigm: pipeline, stages: 2, micro_batches: 2, forward: 50 ms, activation: 100 ms of link}]
policies: [./mine.py]
"""
SAYS_WHERE = """
import os
print("in process", os.getpid(), "of user", os.getuid())
import numpy as np
from echelonflow.scheduling.allocation import Allocation

def allocate(snapshot):
    return Allocation(np.full(snapshot.flows, 1e6), np.zeros(snapshot.flows, np.int64))
"""
COMMANDS = [
    ("check", "e.yaml"),
    ("run", "e.yaml", "--backend", "fluid", "--out", "out"),
    ("bound", "e.yaml", "--orders", "0", "--programs", "1"),
]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "e.yaml").write_text(EXPERIMENT)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_policy_file_is_never_run_in_the_process_of_the_command(folder, echelon, command):
    (folder / "mine.py").write_text(SAYS_WHERE)
    done = echelon(*command)
    assert done.returncode == 0, done.stderr
    said = [line.split() for line in done.stderr.splitlines() if line.startswith("in process")]
    assert said
    assert all(int(words[2]) != os.getpid() for words in said)
    assert os.geteuid() != 0 or all(int(words[-1]) != 0 for words in said)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("import os\nos._exit(0)\n", "its process ended before it had loaded (exit code 0)"),
        ("while True:\n    pass\n", "had not loaded after 0.2 s of computing"),
        ("x = 1\ny = 1 / 0\n", "mine.py, line 2: ZeroDivisionError: division by zero"),
    ],
    ids=["ends", "hangs", "raises"],
)
def test_a_file_that_does_not_load_is_bad_input_in_one_line(folder, echelon, monkeypatch, command, body, words):
    """It hung the command for ever, or ended it with exit code 0 and without a result."""
    monkeypatch.setattr(process, "LOADING", child.TimeLimit(0.2, 10.0))
    (folder / "mine.py").write_text(body)
    done = echelon(*command)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "out").exists()
