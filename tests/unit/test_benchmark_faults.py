"""`echelon bench faults` without packets: what it runs, what it makes of the runs; and what a reader is shown of faults."""

from __future__ import annotations

import dataclasses
import json

import pytest

from echelon.benchmarks import faults as benchmark
from echelon.running import runner
from echelonflow.errors import InputError
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.run_record import RunRecord
from results.analysis.fidelity import measure
from results.analysis.planned import FaultShown
from results.analysis.summary import JobFigures, RunResult, Summary


def silent(_: str) -> None:
    """Nobody listens."""


def summary(*iteration_s: float, reasons: tuple[str, ...] = (), completed: bool = True) -> Summary:
    """Runs of so many seconds per iteration; `reasons` make the last one invalid."""
    outcome = RunOutcome(policy="echelonflow", repeat=0, run_index=0, label="r", enforcer="priority")
    outcome.completed = completed
    fidelity = measure(outcome, RunRecord("echelonflow", 0), {}, [])
    away = FaultShown("no controller", 3.0, 3.0, 5.5)
    runs = [
        RunResult(
            f"r{i}", "echelonflow", i, reasons if i == len(iteration_s) - 1 else (), {"job": JobFigures(time_s, 0.0, 0.0)},
            fidelity, faults=(away,),
        )
        for i, time_s in enumerate(iteration_s)
    ]  # fmt: skip
    return Summary("faults", "emulation", None, (), (), tuple(runs))


def restarts(monkeypatch, tmp_path, calm: Summary, restarted: Summary):
    asked = []

    def carry_out(experiment, root, _say):
        asked.append((root.name, len(experiment.faults), experiment.repeats))
        return 0, calm if root.name == "calm" else restarted

    monkeypatch.setattr(benchmark, "carry_out", carry_out)
    found = benchmark._restarts(2, tmp_path, silent)
    assert asked == [("calm", 0, 2), ("restarted", 1, 2)]
    return {figure.what.partition(": ")[2] or figure.what: figure for figure in found}


class TestRestarts:
    def test_runs_that_are_as_fast_and_valid_pass(self, monkeypatch, tmp_path):
        found = restarts(monkeypatch, tmp_path, summary(1.0, 1.02), summary(1.05, 1.1))
        assert all(figure.ok for figure in found.values() if figure.ok is not None)
        assert found["iteration time over undisturbed, worst run"].measured == "+8.9% (median +6.4%)"
        assert found["time without a controller that knows the run"].measured == "2.50 s"

    def test_a_slow_an_invalid_and_a_broken_run_are_missed(self, monkeypatch, tmp_path):
        found = restarts(monkeypatch, tmp_path, summary(1.0, 1.0), summary(1.2, 1.0))
        assert found["iteration time over undisturbed, worst run"].ok is False
        found = restarts(monkeypatch, tmp_path, summary(1.0, 1.0), summary(1.0, 1.0, reasons=("late",)))
        assert (found["valid"].ok, found["valid"].measured) == (False, "1 of 2")
        found = restarts(monkeypatch, tmp_path, summary(1.0, 1.0), summary(1.0, 1.0, completed=False))
        assert found["completed"].ok is False

    def test_where_no_run_is_valid_nothing_is_claimed(self, monkeypatch, tmp_path):
        none = dataclasses.replace(summary(), runs=())
        found = restarts(monkeypatch, tmp_path, none, none)
        assert found["iteration time over undisturbed, worst run"].ok is False


@pytest.mark.parametrize("kind", benchmark.KINDS)
def test_every_kind_can_be_planned_and_simulated(kind):
    struck = benchmark.experiment([{"fault": kind, **benchmark.KINDS[kind]}], ["fair", "echelonflow"])
    calm = benchmark._simulated_s(benchmark.experiment([], ["fair", "echelonflow"]))
    found = benchmark._simulated_s(struck)
    assert set(found) == {"fair", "echelonflow"}
    if kind in {"link-down", "link-rate", "slowdown"}:
        assert found["echelonflow"] > 1.02 * calm["echelonflow"]
    if kind == "lost-messages":
        assert found == calm


def test_a_part_that_there_is_not_is_refused():
    with pytest.raises(InputError, match=r"--only flood: there is: restart, link-down"):
        benchmark.run(1, silent, only=["flood"])


@pytest.mark.slow
def test_a_reader_is_shown_what_went_wrong_and_when(tmp_path):
    faults = [
        {"fault": "slowdown", "host": "h1", "factor": 1.5, "at": "1 s", "for": "2 s"},
        {"fault": "link-rate", "link": ["h2", "s1"], "rate": "40 %", "at": "2 s"},
        {"fault": "crash", "host": "h4", "at": "500 s"},
    ]
    struck = benchmark.experiment(faults, ["echelonflow"])
    _, found = runner.run(struck, tmp_path / "run", "fluid", lambda _: None)
    (run,) = found.runs
    assert [(f.what, f.begin_s, f.end_s) for f in run.faults] == [
        ("h1 computes 1.5 times as long", 1.0, 3.0),
        ("link h2-s1 at 0.4 of its rate", 2.0, None),
    ]
    report = (tmp_path / "run" / "report.html").read_text()
    assert "Planned faults" in report
    assert "end of run" in report
    events = json.loads((tmp_path / "run" / "timeline.json").read_text())["traceEvents"]
    shown = [event for event in events if event.get("cat") == "fault"]
    assert [(event["name"], event["ts"] / 1e6) for event in shown] == [(f.what, f.begin_s) for f in run.faults]
    assert (tmp_path / "run" / "figures" / "gantt.png").stat().st_size > 0
