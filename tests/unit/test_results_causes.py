"""What a run measured of each cause: how long its flows waited for their settings, and not for their turn."""

from __future__ import annotations

import pytest

from echelonflow.records.agent_log import Mark
from echelonflow.records.run_record import DecisionRecord, FlowRecord, RunRecord
from results.analysis.causes import measured
from results.analysis.read_run import ReadRun

FIRST, SECOND = ("job", 0, "first"), ("job", 0, "second")


def flow(name, release_s, start_s, finish_s):
    return FlowRecord(
        "job", 0, name, "group", "group", name, "h1", "h2", 10000, 5001, 1000, 0.0, release_s, start_s, finish_s, 1000, 1000
    )  # fmt: skip


def decision(time_s, *changed):
    return DecisionRecord(time_s, "trigger", 2, 1, "", 0.1, 0.1, tuple(changed))


def settings(second_marks, *decisions):
    """Of a run in which `second` is released at 1 s, while `first` is sent until 5 s."""
    record = RunRecord(
        "echelonflow",
        0,
        flows=[flow("first", 0.0, 0.0, 5.0), flow("second", 1.0, 5.01, 9.0)],
        decisions=list(decisions),
    )
    marks = {FIRST: (Mark(0.002, 48, None),), SECOND: second_marks}
    found = measured(ReadRun(record, marks=marks), {}, [], None).settings
    assert found is not None
    return found


def test_a_flow_that_was_held_back_waited_for_its_turn_and_only_then_for_its_setting():
    found = settings((Mark(5.01, 48, None),), decision(0.001, (*FIRST, 48, None)), decision(5.004, (*SECOND, 48, None)))
    assert found.first_s == {FIRST: pytest.approx(0.002), SECOND: pytest.approx(0.010)}


def test_a_flow_that_nobody_held_back_waited_from_its_release_on():
    found = settings((Mark(1.03, 40, None),), decision(0.001, (*FIRST, 48, None)), decision(1.02, (*SECOND, 40, None)))
    assert found.first_s[SECOND] == pytest.approx(0.030)


def test_what_was_decided_ahead_counts_from_the_release():
    assert settings((Mark(1.0002, 40, None),)).first_s[SECOND] == pytest.approx(0.0002)


def test_what_its_sender_did_before_it_was_decided_took_no_time():
    marks = (Mark(1.03, 40, 0.0), Mark(4.999, 40, None), Mark(6.02, 48, None))
    decisions = (
        decision(1.02, (*SECOND, 40, 0.0)),
        decision(5.004, (*SECOND, 40, None)),
        decision(6.01, (*SECOND, 48, None)),
    )
    found = settings(marks, *decisions)
    assert found.first_s[SECOND] == pytest.approx(0.030)
    assert found.change_s[SECOND] == pytest.approx((0.0 + 0.010) / 2)  # the median of both changes
