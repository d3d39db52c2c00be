"""The table of the control plane: medians over the runs that count, the longest of all, and what is not known."""

from __future__ import annotations

from results.analysis.control_plane import ControlPlane
from results.analysis.summary import RunResult, Summary
from results.report.control import ControlLine, control_table


def run(policy, repeat, control, *reasons):
    return RunResult(
        label=f"{policy}-r{repeat}",
        policy=policy,
        repeat=repeat,
        reasons=reasons,
        jobs={},
        fidelity=None,
        control=control,
    )


def lines(*runs):
    return control_table(Summary("x", "emulation", None, (), (), runs))


def test_of_several_runs_there_are_medians_and_the_longest_decision():
    found = lines(
        run("fair", 0, ControlPlane(10, 4, 6, None, 1.0, 2.0, 3.0)),
        run("fair", 1, ControlPlane(12, 6, 8, None, 2.0, 4.0, 9.0)),
        run("fair", 2, ControlPlane(99, 99, 99, None, 99.0, 99.0, 99.0), "invalid"),
        run("clock", 0, ControlPlane(1, 0, 0, 7, None, None, None)),
    )
    assert found == [
        ControlLine("fair", 2, 5, 11, 7, None, 1.5, 3.0, 9.0),
        ControlLine("clock", 1, 0, 1, 0, 7, None, None, None),
    ]


def test_where_no_run_is_valid_all_count():
    (line,) = lines(run("fair", 0, ControlPlane(10, 4, 6, None, 1.0, 2.0, 3.0), "no"))
    assert (line.runs, line.decisions) == (1, 4)


def test_simulations_have_none():
    assert lines(run("fair", 0, None)) == []
