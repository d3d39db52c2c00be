"""What was decided for which flows in flight, as a log of decisions tells it."""

from __future__ import annotations

import contextlib
import dataclasses
import math

from echelonflow.model.discipline import Window
from echelonflow.records.decisions import DecisionLog
from echelonflow.records.run_record import DecisionRecord, FlowRecord, RunRecord
from results.analysis.asked import Asked
from results.analysis.decided import decided
from results.analysis.read_run import _decisions
from tests.unit.gated_jobs import gradients_job

FIRST, SECOND, THIRD = ("job", 0, "first"), ("job", 0, "second"), ("job", 0, "third")
RELEASE = {name: f"release job/{name}#0" for name in ("first", "second", "third")}


def flow(name, release_s, finish_s, src_host="h1"):
    return FlowRecord(
        "job", 0, name, "group", "group", name, src_host, "h2", 10000, 5001, 1000, 0.0, release_s, release_s, finish_s, 1000, 1000
    )  # fmt: skip


FLOWS = [flow("first", 0.0, 5.0), flow("second", 1.0, 9.0), flow("third", 2.0, 8.0, src_host="h3")]


def log(*decisions):
    """Each is (trigger, flows in flight, changed); ahead of time also from whose end on each change holds. One a second."""
    return RunRecord(
        "echelonflow", 0, flows=FLOWS,
        decisions=[
            DecisionRecord(
                float(n), trigger, flows, 1, "", 0.1, 0.1, tuple(changed), n, bool(ahead), *(map(tuple, ahead)))
            for n, (trigger, flows, changed, *ahead) in enumerate(decisions)
        ],
    )  # fmt: skip


def told(record, *keys):
    """Classes and rates when just these were in flight, decision by decision."""
    return [one.flows for one in decided(record)[frozenset(keys)]]


def test_what_is_not_changed_goes_on():
    record = log(
        (RELEASE["first"], 1, [(*FIRST, 48, None)]),
        (RELEASE["second"], 2, [(*FIRST, 40, None), (*SECOND, 48, 1e6)]),
        ("expiry", 2, [(*SECOND, 48, 2e6)]),
    )
    assert told(record, FIRST) == [{FIRST: (0, math.inf)}]
    assert told(record, FIRST, SECOND) == [
        {FIRST: (1, math.inf), SECOND: (0, 1e6)},
        {FIRST: (1, math.inf), SECOND: (0, 2e6)},
    ]


def test_what_was_said_ahead_of_a_release_holds_from_then_on():
    record = log(
        ("ahead job/second#0", 2, [(*SECOND, 40, 0.0)], [None]),
        (f"{RELEASE['first']}, {RELEASE['second']}", 2, [(*FIRST, 48, None)]),
    )
    assert told(record, FIRST, SECOND) == [{FIRST: (0, math.inf), SECOND: (None, 0.0)}]


def test_what_was_said_for_an_end_holds_from_that_end_on_and_the_rest_at_once():
    record = log(
        (f"{RELEASE['first']}, {RELEASE['second']}, {RELEASE['third']}", 3,
         [(*FIRST, 48, None), (*SECOND, 40, 0.0), (*THIRD, 40, 0.0)]),
        ("end of job/first#0", 2, [(*SECOND, 48, None), (*THIRD, 40, 1e6)], [FIRST, None]),
        ("expiry", 3, []),
        ("finish job/first#0", 2, []),
    )  # fmt: skip
    assert told(record, FIRST, SECOND, THIRD)[-1][SECOND] == (None, 0.0)
    assert told(record, FIRST, SECOND, THIRD)[-1][THIRD] == (1, 1e6)
    assert told(record, SECOND, THIRD) == [{SECOND: (0, math.inf), THIRD: (1, 1e6)}]


def test_a_decision_that_names_a_flow_twice_tells_of_it_what_it_says_last():
    record = log(
        ("ahead job/first#0", 1, [(*FIRST, 40, None), (*FIRST, 48, None)], [None, None]),
        (RELEASE["first"], 1, []),
    )
    assert told(record, FIRST) == [{FIRST: (0, math.inf)}]


def test_an_end_after_which_nothing_was_in_flight_counts_though_nothing_was_decided_then():
    flows = [flow("first", 0.0, 1.5), flow("second", 3.0, 9.0)]
    record = log(
        ("ahead job/second#0", 2, [(*SECOND, 40, 0.0)], [None]),
        (RELEASE["first"], 1, [(*FIRST, 48, None)]),
        ("end of job/first#0", 1, [(*SECOND, 48, None)], [FIRST]),
        (RELEASE["second"], 1, []),
    )
    assert told(dataclasses.replace(record, flows=flows), SECOND) == [{SECOND: (0, math.inf)}]


def test_a_newer_decision_counts_for_more_than_what_was_said_for_an_end():
    record = log(
        ("end of job/first#0", 1, [(*SECOND, 48, None)], [FIRST]),
        (f"{RELEASE['first']}, {RELEASE['second']}", 2, [(*FIRST, 48, None), (*SECOND, 32, None)]),
        ("finish job/first#0", 1, []),
    )
    assert told(record, SECOND) == [{SECOND: (2, math.inf)}]


def test_where_the_log_names_too_few_events_the_flows_follow_from_their_times():
    record = log(
        ("job/other#0", 0, []),
        (f"{RELEASE['first']}, and 1 more", 2, [(*FIRST, 48, None), (*SECOND, 40, None)]),
    )
    assert told(record, FIRST, SECOND) == [{FIRST: (0, math.inf), SECOND: (1, math.inf)}]


def test_no_more_is_kept_than_there_is_room_for(monkeypatch):
    monkeypatch.setattr("results.analysis.decided.MOST_TOLD", 2)
    record = log((RELEASE["first"], 1, [(*FIRST, 48, None)]), ("expiry", 1, []), ("expiry", 1, []))
    assert len(told(record, FIRST)) == 2


def test_a_decision_is_left_out_where_it_is_not_known_for_what_or_what():
    assert decided(log((f"{RELEASE['first']}, and 4 more", 5, [(*FIRST, 48, None)]))) == {}
    assert decided(log((RELEASE["first"], 1, []))) == {}


class TestWhatIsReadOfALog:
    """One iteration of a job; the coordinator decides ahead for a second one, which never comes."""

    JOB = gradients_job(Window(credit_bytes=100), size_bytes=100, backward_s=1.0, iterations=1, layers=2)
    NAME = JOB.name

    def read(self, tmp_path, changed, after):
        path = tmp_path / "decisions.jsonl"
        decision = DecisionRecord(1.0, "end of x", 2, 1, "", 0.1, 0.1, changed, 1, True, after)
        with contextlib.closing(DecisionLog(path)) as file:
            file.write(decision)
        faults = []
        return _decisions(path, Asked((self.JOB,)), faults), faults

    def test_what_is_for_an_iteration_that_never_comes_goes_with_the_end_it_waits_for(self, tmp_path):
        job, end = self.NAME, (self.NAME, 0, "push 1")
        (found,), faults = self.read(tmp_path, ((job, 1, "push 1", 48, 1e6), (job, 0, "push 0", 48, 1e6)), (None, end))
        assert not faults
        assert (found.changed, found.after) == (((job, 0, "push 0", 48, 1e6),), (end,))

    def test_a_log_that_names_too_few_ends_is_at_fault(self, tmp_path):
        job = self.NAME
        changed = ((job, 0, "push 1", 48, 1e6), (job, 0, "push 0", 48, 1e6))
        found, (fault,) = self.read(tmp_path, changed, ((job, 0, "push 1"),))
        assert not found
        assert "names 1 ends at 1.0 s for 2 changes" in fault
