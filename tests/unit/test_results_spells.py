"""Spells in which a run's machine was others', and what its settings would have been without them."""

from __future__ import annotations

import pytest

from echelonflow.model.measured import Measured, Settings
from echelonflow.records.outcome import Load, LoadWindow, RunOutcome
from echelonflow.records.run_record import FlowRecord, RunRecord
from results.analysis.causes import unhindered
from results.analysis.spells import taken_spells, taken_while_late, within_any

ZERO_S = 100.0


def outcome(*windows):
    """A run with windows of one second each, as (busy, stolen, others)."""
    found = tuple(LoadWindow(ZERO_S + i, ZERO_S + i + 1, *shares) for i, shares in enumerate(windows))
    return RunOutcome(
        policy="fair", repeat=0, run_index=0, label="fair-r0", enforcer="priority", zero_monotonic_s=ZERO_S,
        load=Load(windows=found),
    )  # fmt: skip


QUIET, STOLEN, OTHERS, FULL = (0.5, 0.0, 0.04), (0.6, 0.2, 0.0), (0.7, 0.05, 0.06), (0.99, 0.0, 0.0)


def test_spells_are_those_in_which_others_had_the_machine_or_all_was_busy():
    assert taken_spells(outcome(QUIET, STOLEN, QUIET, OTHERS, FULL)) == [(1, 2), (3, 4), (4, 5)]
    assert taken_spells(outcome(QUIET)) == []
    assert taken_spells(RunOutcome(policy="p", repeat=0, run_index=0, label="p-r0", enforcer="rate")) == []


def test_within_any():
    spells = [(1.0, 2.0), (3.0, 4.0)]
    assert [within_any(spells, at_s) for at_s in (0.5, 1.0, 1.5, 2.5, 4.0, 4.1, float("nan"))] == [
        False, True, True, False, True, False, False,
    ]  # fmt: skip


def test_what_others_had_while_steps_were_late_counts_by_lateness():
    run = outcome(QUIET, STOLEN)
    taken = taken_while_late(run, [(0.5, 0.001), (1.5, 0.003)])
    assert taken.stolen == pytest.approx(0.15)
    assert taken.others == pytest.approx(0.01)
    assert taken_while_late(run, [(0.5, 0.0)]) is None
    assert taken_while_late(run, [(7.0, 0.1)]) is None


def flows(*releases_s):
    record = RunRecord("fair", 0)
    record.flows = [
        FlowRecord(
            "job", 0, f"x{i}", "g", "pp", "x", "h1", "h2", 1, 2, 10, 0.0, release_s, release_s, release_s + 0.5, 10, 10
        )
        for i, release_s in enumerate(releases_s)
    ]
    return record


def first_s(*times_s):
    return {("job", 0, f"x{i}"): time_s for i, time_s in enumerate(times_s)}


def test_settings_that_came_late_while_others_had_the_machine_come_as_usual():
    times_s = [0.002] * 10 + [0.05, 0.001]
    causes = Measured(settings=Settings(first_s=first_s(*times_s)))
    record = flows(*(i / 20 for i in range(10)), 1.2, 1.4)
    eased = unhindered(causes, record, outcome(QUIET, STOLEN))
    assert eased.settings.first_s == first_s(*[0.002] * 11, 0.001)
    assert unhindered(causes, record, outcome(QUIET, QUIET)) is causes


def test_where_others_had_the_machine_all_the_time_usual_is_the_fastest_quarter():
    causes = Measured(settings=Settings(first_s=first_s(0.002, 0.01, 0.02, 0.03, 0.04)))
    eased = unhindered(causes, flows(0.1, 0.2, 0.3, 0.4, 0.5), outcome(STOLEN))
    assert eased.settings.first_s == first_s(0.002, *[0.01] * 4)


def test_shares_that_are_none_say_nothing():
    assert taken_spells(outcome((1e300, 1e300, 1e300), (0.5, -1.0, 3.0))) == []
