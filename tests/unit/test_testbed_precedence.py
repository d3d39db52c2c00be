"""Who goes first: what is asked for is what a process gets, and where the system refuses there is niceness."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from testbed import precedence


@pytest.fixture(autouse=True)
def asked_anew():
    precedence.real_time.cache_clear()
    yield
    precedence.real_time.cache_clear()


def scheduling_of(command):
    """Policy, real-time priority and niceness that a process started by `command` finds itself with."""
    code = "import os; print(os.sched_getscheduler(0), os.sched_getparam(0).sched_priority, os.nice(0))"
    done = subprocess.run([*command, sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return tuple(int(value) for value in done.stdout.split())


def test_asking_leaves_this_process_as_it_was():
    before = os.sched_getscheduler(0), os.sched_getparam(0).sched_priority
    precedence.real_time()
    assert (os.sched_getscheduler(0), os.sched_getparam(0).sched_priority) == before


def test_a_process_starts_with_the_priority_that_was_asked_for():
    if not precedence.real_time():
        pytest.skip("this system refuses real-time priority")
    assert scheduling_of(precedence.starting())[:2] == (os.SCHED_RR, precedence.PRIORITY)


def test_a_running_process_is_given_it():
    if not precedence.real_time():
        pytest.skip("this system refuses real-time priority")
    with subprocess.Popen(["sleep", "60"]) as process:
        precedence.give(process.pid)
        found = os.sched_getscheduler(process.pid), os.sched_getparam(process.pid).sched_priority
        process.kill()
    assert found == (os.SCHED_RR, precedence.PRIORITY)


def test_where_the_system_refuses_there_is_niceness(monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    assert not precedence.real_time()
    assert precedence.starting() == ("nice", "-n", str(precedence.NICENESS))
    given = []
    monkeypatch.setattr(os, "setpriority", lambda *arguments: given.append(arguments))
    precedence.give(17)
    assert given == [(os.PRIO_PROCESS, 17, precedence.NICENESS)]
