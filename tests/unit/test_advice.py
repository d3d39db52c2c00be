"""The last line: which command helps where an experiment did not get what it asked for."""

from __future__ import annotations

from pathlib import Path

from echelon.running.advice import next_step
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_INVALID, EXIT_VALID
from results.analysis.summary import PolicyResult, Summary

ROOT = Path("results/runs/a b")
RESUME = "echelon run --resume 'results/runs/a b'"


def found(valid_runs, backend="emulation"):
    results = tuple(
        PolicyResult(policy, "j", 5, valid, None, None, None, None, None, asked=3)
        for policy, valid in valid_runs.items()
    )
    return Summary("e", backend, None, ("some reason",), results, ())


def test_who_has_what_was_asked_for_needs_no_advice():
    assert next_step(ROOT, EXIT_VALID, found({"fair": 3})) is None


def test_what_stopped_goes_on():
    for code in (EXIT_FAILED, EXIT_INTERRUPTED):
        assert next_step(ROOT, code, found({"fair": 1})) == f"to go on: {RESUME}"


def test_valid_runs_that_are_lacking_are_counted_over_policies():
    assert next_step(ROOT, EXIT_INVALID, found({"fair": 1, "fifo": 2, "srpt": 4})) == (
        f"3 valid runs are lacking; to make them in a quieter spell: {RESUME} --patience 10m"
    )
    assert next_step(ROOT, EXIT_INVALID, found({"fair": 2})).startswith("1 valid run is lacking; ")


def test_where_the_folder_is_at_fault_no_run_would_help():
    assert next_step(ROOT, EXIT_INVALID, found({"fair": 3})) is None
    assert next_step(ROOT, EXIT_INVALID, found({"fair": 0}, backend="fluid")) is None
