"""The benchmark of the live view counts what it says; the runs are played."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import SimpleNamespace

import pytest

from echelon.benchmarks import live_view
from echelon.live.view import LiveView
from echelonflow.child_process import module_argv
from echelonflow.errors import RunError
from echelonflow.records.progress import IterationBegun, Predicting
from tests.waiting import started, wait_until


def kinds(server, reading, controller):
    return {"server": server, "reading links": reading, "controller": controller}


def test_what_is_added_is_what_runs_with_it_take_more():
    shares = {
        True: [kinds(0.012, 0.03, 0.11), kinds(0.012, 0.03, 0.12), kinds(0.012, 0.03, 0.1)],
        False: [kinds(0.0, 0.028, 0.11), kinds(0.0, 0.028, 0.11), kinds(0.0, 0.028, 0.11)],
    }
    cost, decisions = live_view.figures(shares, {True: [2.0, 3.0, 4.0], False: [3.0]})
    assert cost.measured.startswith(
        "median 1.40% of a CPU (0.40% to 2.40%, n = 3; server 1.20%, reading links 0.20%, controller 0.00%)"
    )
    assert (cost.must, cost.ok) == ("< 2%", True)
    assert decisions.measured == "3.00 ms with and 3.00 ms without"
    shares[True] = [kinds(0.03, 0.03, 0.11)] * 3
    assert live_view.figures(shares, {True: [1.0], False: [1.0]})[0].ok is False


def test_time_is_counted_from_the_first_iteration_to_the_last(monkeypatch):
    moments, spent = iter([10.0, 12.0, 14.0]), iter([kinds(1.0, 2.0, 3.0), kinds(1.5, 2.0, 3.0), kinds(1.5, 2.2, 3.4)])
    monkeypatch.setattr(live_view, "time", SimpleNamespace(monotonic=lambda: next(moments)))
    monkeypatch.setattr(live_view, "cpu_s", lambda _: next(spent))
    clocks = live_view.Spent()
    for progress in (Predicting(), IterationBegun(0), IterationBegun(1), IterationBegun(2)):
        clocks.hear(progress)
    assert clocks.shares() == pytest.approx(kinds(0.125, 0.05, 0.1))
    with pytest.raises(RunError, match="fewer than two iterations"):
        live_view.Spent().shares()


def test_processes_are_told_apart_by_their_command_lines():
    busy = "import time\nwhile time.process_time() < 0.05: pass\nprint(1, flush=True)\ninput()"
    argv = [sys.executable, "-c", busy, "-m", "controller.main"]
    with started(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdout.readline()
        known = live_view.processes()
        found = live_view.cpu_s(known)
        assert known == {"server": [os.getpid()], "reading links": [], "controller": [process.pid]}
    assert found["controller"] >= 0.05
    assert found["reading links"] == 0
    assert found["server"] == pytest.approx(time.process_time(), abs=0.1)
    with pytest.raises(RunError, match="has died"):
        live_view.cpu_s(known)


def test_the_browser_asks_as_the_page_does_and_ends_with_the_view():
    with LiveView(tell_s=0.0) as view:
        looked = []
        view._server.answers._seen = lambda: looked.append(1)
        with started(module_argv("echelon.benchmarks._live_view_browser", view.url)) as browser:
            wait_until(lambda: looked, what="a request for the state", process=browser)
            view._server.shutdown()


def test_its_experiment_is_one(tmp_path):
    experiment = live_view._experiment(tmp_path / "run")
    assert [job.iterations for job in experiment.jobs] == [12, 12]
    assert len(experiment.network.links) == 48
    assert list(tmp_path.iterdir()) == []
