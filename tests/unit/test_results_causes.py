"""What a run measured of each cause: how long its flows waited for their settings, and not for their turn."""

from __future__ import annotations

import dataclasses

import pytest

from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec, Window
from echelonflow.records.agent_log import Mark
from echelonflow.records.run_record import ComputeRecord, DecisionRecord, FlowRecord, RunRecord
from results.analysis.causes import measured
from results.analysis.read_run import ReadRun
from tests.unit.gated_jobs import gradients_job

FIRST, SECOND = ("job", 0, "first"), ("job", 0, "second")


def flow(name, release_s, start_s, finish_s):
    return FlowRecord(
        "job", 0, name, "group", "group", name, "h1", "h2", 10000, 5001, 1000, 0.0, release_s, start_s, finish_s, 1000, 1000
    )  # fmt: skip


def decision(time_s, *changed):
    return DecisionRecord(time_s, "trigger", 2, 1, "", 0.1, 0.1, tuple(changed))


def settings(second_marks, *decisions, second_held=False):
    """Of a run in which `second` is released at 1 s, while `first` is sent until 5 s."""
    record = RunRecord(
        "echelonflow",
        0,
        flows=[
            flow("first", 0.0, 0.0, 5.0),
            dataclasses.replace(flow("second", 1.0, 5.01, 9.0), ahead=True, held=second_held),
        ],
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


@pytest.mark.parametrize(("rate_Bps", "expected_s"), [(None, 0.004), (0.0, 0.0)])
def test_what_its_agent_took_to_begin_a_flow_that_was_told_ahead_to_go_delayed_it(rate_Bps, expected_s):
    second = dataclasses.replace(flow("second", 1.0, 1.004, 2.0), ahead=True)
    record = RunRecord("echelonflow", 0, flows=[second])
    found = measured(ReadRun(record, marks={SECOND: (Mark(1.0, 48, rate_Bps),)}), {}, [], None).settings
    assert found is not None
    assert found.first_s[SECOND] == pytest.approx(expected_s)


def test_one_that_was_told_ahead_to_wait_and_until_when_took_no_time():
    found = settings(
        (Mark(4.999, 40, None), Mark(6.02, 48, None)), decision(6.01, (*SECOND, 48, None)), second_held=True
    )
    assert found.first_s[SECOND] == 0
    assert found.change_s[SECOND] == pytest.approx((0.0 + 0.010) / 2)


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


class TestHeldBack:
    """What its own job held back was not late."""

    def late_s(self, *flows):
        job = gradients_job(Window(slots=1))
        computes = [
            ComputeRecord("gated", 0, f"backward {n}", "backward", 0, "h1", 5.0 - n, 6.0 - n, 0.0) for n in range(4)
        ]
        read = ReadRun(RunRecord("fair", 0, computes, list(flows)), acked_s={("gated", 0, "push 3"): 5.5})
        return measured(read, {}, [job], None).release_s

    def test_it_is_late_by_what_passed_until_it_was_ready(self):
        found = self.late_s(held("push 3", 3.001, None), held("push 2", 7.0, 4.002), held("push 1", 5.5, 5.0))
        assert found == {
            ("gated", 0, "push 3"): pytest.approx(0.001),
            ("gated", 0, "push 2"): pytest.approx(0.002),
        }

    @pytest.mark.parametrize("holds", [True, False])
    def test_what_follows_a_transfer_that_was_held_back_within_its_host_is_not_late(self, holds):
        steps = (Compute("c", 0, 1.0), Transfer("x", 0, 1, 1000, "x", ("c",)), Transfer("y", 1, 2, 1000, "y", ("x",)))
        dag = JobDag(3, steps, (Group("gradients", "ring", ("x", "y"), (0.0, 0.0)),))
        one = Discipline("by hand", Window(slots=1), (TaskSpec("t", 0, 1000, 0, ("x",)),))
        job = Job("gated", dag, ("h1", "h1", "h2"), discipline=one if holds else None)
        computes = [ComputeRecord("gated", 0, "c", "compute", 0, "h1", 0.0, 1.0)]
        record = RunRecord("fair", 0, computes, [held("y", 3.0, None)])
        found = measured(ReadRun(record), {}, [job], None).release_s
        assert found == ({} if holds else {("gated", 0, "y"): pytest.approx(2.0)})


def held(name, release_s, ready_s):
    return FlowRecord(
        "gated", 0, name, "gradients", "dp-gradients", name, "h1", "h2", 10000, 5001, 1000, 0.0, release_s, release_s,
        release_s + 1, 1000, 1000, ready_s=ready_s,
    )  # fmt: skip
