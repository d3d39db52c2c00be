"""Waits of tests end with the process they wait for, and say what it said; nothing that a test started outlives it."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from testbed.processes import alive
from tests.waiting import end_of, ending, line_of, started, wait_until

PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
QUICKLY_S = 10.0
"""Far below the limits that the waits are given, far above what a busy machine needs to start a shell."""


@pytest.fixture
def soon():
    begin_s = time.monotonic()
    yield
    assert time.monotonic() - begin_s < QUICKLY_S


def test_a_wait_ends_with_its_process_and_says_what_that_said(soon, tmp_path):
    (tmp_path / "its.log").write_text("and wrote this")
    argv = ["sh", "-c", "echo out; echo reason >&2; exit 7"]
    with started(argv, **PIPES) as process, pytest.raises(AssertionError) as failure:
        wait_until(lambda: False, 200, "what never comes", process, [tmp_path, tmp_path / "none"])
    for words in ("waiting for what never comes", "exit 7", "out", "reason", "its.log", "and wrote this"):
        assert words in str(failure.value)


def test_what_a_process_did_last_counts():
    with started(["true"]) as process:
        process.wait()
        assert wait_until(lambda: "done", process=process) == "done"


def test_a_wait_for_a_process_that_lives_ends_at_its_limit(tmp_path):
    with started(["sleep", "60"]) as process, pytest.raises(AssertionError, match=r"waited 0\.1 s in vain for rain"):
        wait_until(lambda: False, 0.1, "rain", process)


def test_a_wait_is_not_held_up_by_a_child_that_keeps_the_output_open(soon):
    with started(["sh", "-c", "sleep 60 & echo $!; exit 3"], **PIPES) as process:
        child = int(line_of(process))
        try:
            with pytest.raises(AssertionError, match=r"exit 3(.|\n)*held open by a child"):
                wait_until(lambda: False, 200, "the end", process)
        finally:
            subprocess.run(["kill", "-9", str(child)], check=True)


def test_a_line_is_returned_and_its_absence_explained(soon):
    with started(["sh", "-c", "echo first; echo second; echo why >&2; exit 4"], **PIPES) as process:
        assert [line_of(process), line_of(process)] == ["first\n", "second\n"]
        with pytest.raises(AssertionError, match=r"closed its output before the third line \(exit (4|-9)\)\s+why"):
            line_of(process, 200, "the third line")


def test_a_line_that_does_not_come_is_not_waited_for_for_ever(soon):
    with started(["sleep", "60"], **PIPES) as process, pytest.raises(AssertionError, match="in vain for a line"):
        line_of(process, 0.1)


def test_one_that_does_not_end_fails_with_what_it_said(soon):
    with started([sys.executable, "-c", "print('busy', flush=True)\nwhile True: pass"], **PIPES) as process:
        assert line_of(process) == "busy\n"
        with pytest.raises(AssertionError, match="still running after"):
            end_of(process, 0.1)


def test_a_failed_test_leaves_no_process(soon):
    with pytest.raises(AssertionError, match="a test fails"), started(["sleep", "60"]) as process:
        raise AssertionError("a test fails")
    assert not alive(process.pid)


def test_a_stopped_process_is_ended_too(soon):
    with started(["sh", "-c", "kill -STOP $$"], **PIPES) as process:
        pass
    assert process.returncode == -9
    with ending(process):  # ending what has ended does nothing
        pass
