"""Steps from a release to a first packet, hand-overs on a link, and changes of marks, from records made by hand."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from echelonflow.model import topologies
from echelonflow.records.agent_log import AgentLog, Mark, Sent
from echelonflow.records.events import ClientSaid, EventLog, Opening
from echelonflow.records.folder import RunFiles
from echelonflow.records.rules import RulesGiven, RulesLog
from echelonflow.records.run_record import DecisionRecord, FlowRecord
from echelonflow.wire.messages import Release
from results.analysis.hand_overs import LinkLoad, hand_overs
from results.analysis.latency import STEPS, beginnings
from results.analysis.mark_changes import longest_gap_s, mark_changes
from results.analysis.packets import FlowPackets, RunClock
from results.analysis.pcap import Capture, TcpStream

ZERO_S = 1000.0
CLOCK = RunClock(realtime_ns=0, run_s=0.0, rate=1.0)
ADDRESSES = {"h1": "10.0.0.1", "h2": "10.0.0.2"}
RATE_BPS = 1e6
"""Of the link: 1460 bytes take 1.46 ms."""


def decision(time_s, *changed, policy_ms=1.0):
    return DecisionRecord(time_s, "release", 1, 1, "", policy_ms, policy_ms, tuple(changed))


def seen(start_s, finish_s=9.0):
    return FlowPackets(start_s, finish_s, 1, 0, 0, {}, {}, None)


def flow(name, release_s, finish_s, port):
    return FlowRecord(
        "job", 0, name, "g", "k", name, "h1", "h2", port, 5001, 1000, 0.0, release_s, release_s, finish_s, 1000, 1000
    )


def stream(times_s, dscp=0, payload=1460):
    count = len(times_s)
    marks = np.full(count, dscp, np.uint8) if np.isscalar(dscp) else np.array(dscp, np.uint8)
    time_ns = np.round(np.array(times_s) * 1e9).astype(np.int64)
    return TcpStream(time_ns, np.arange(count) * payload, np.full(count, payload), marks, anchored=True)


def run_files(tmp_path, *, release_s=1.0, set_s=1.006, by=0, held=False):
    files = RunFiles(tmp_path)
    log = AgentLog(files.agent("h1"))
    log.write(Sent("job", 0, "f", release_s, set_s, 9.0, 1, 0, (Mark(set_s, 48, None),), by, held))
    log.close()
    events = EventLog(files.events, Opening(topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e8})))
    events.append(ZERO_S + release_s + 0.001, ClientSaid(1, Release("job", "f", 0, ZERO_S + release_s)))
    events.close()
    return files


def test_every_step_of_a_flow_that_waited_is_told(tmp_path):
    files = run_files(tmp_path)
    rules = RulesLog(files.rules)
    rules.write(RulesGiven("s1", 1, 1, ZERO_S + 1.004, ZERO_S + 1.0075))
    rules.write(RulesGiven("s2", 1, 1, ZERO_S + 1.0045, ZERO_S + 1.009))
    rules.close()
    decisions = [decision(0.5), decision(1.002, ("job", 0, "f", 48, None))]
    (begun,) = beginnings(
        files, ZERO_S, decisions, {("job", 0, "f"): seen(1.010)}, {"h1": np.array([0.9, 1.010, 1.02])}
    )
    assert {name: begun.step_s(name) for name in STEPS} == {
        "release to heard": pytest.approx(0.001),
        "heard to decided": pytest.approx(0.002),
        "decided to rules sent": pytest.approx(0.001),
        "rules sent to confirmed": pytest.approx(0.005),
        "decided to setting at the agent": pytest.approx(0.003),
        "setting to first packet": pytest.approx(0.004),
        "release to first packet": pytest.approx(0.010),
    }
    assert (begun.ahead, begun.corrected, begun.free) == (False, False, True)


def test_a_flow_whose_host_sent_something_else_meanwhile_is_not_free(tmp_path):
    decisions = [decision(1.002, ("job", 0, "f", 48, None))]
    packets = {("job", 0, "f"): seen(1.010)}
    (begun,) = beginnings(run_files(tmp_path), ZERO_S, decisions, packets, {"h1": np.array([1.003, 1.010])})
    assert not begun.free
    assert begun.step_s("rules sent to confirmed") is None


@pytest.mark.parametrize("corrected", [False, True])
def test_a_flow_that_started_by_a_decision_made_ahead_may_be_corrected(tmp_path, corrected):
    change = ("job", 0, "f", 40, None)
    wrong = (("job", 0, "f"),) if corrected else ()
    decisions = [
        dataclasses.replace(decision(0.8, ("job", 0, "f", 48, None)), ahead=True),
        dataclasses.replace(decision(1.003, change), corrected=wrong),
    ]
    files = run_files(tmp_path, set_s=1.0001, by=7)
    packets = {("job", 0, "f"): seen(1.0004)}
    (begun,) = beginnings(files, ZERO_S, decisions, packets, {"h1": np.array([1.0004])})
    assert (begun.ahead, begun.held, begun.corrected) == (True, False, corrected)
    assert begun.step_s("release to first packet") == pytest.approx(0.0004)
    assert begun.step_s("heard to decided") is None


def test_a_flow_that_was_to_wait_by_a_decision_made_ahead_waited_for_the_real_one(tmp_path):
    decisions = [
        dataclasses.replace(decision(0.8, ("job", 0, "f", 0, 0.0)), ahead=True),
        decision(1.002, ("job", 0, "f", 48, None)),
    ]
    files = run_files(tmp_path, by=7, held=True)
    (begun,) = beginnings(files, ZERO_S, decisions, {("job", 0, "f"): seen(1.010)}, {"h1": np.array([1.010])})
    assert (begun.ahead, begun.held) == (True, True)
    assert begun.step_s("heard to decided") == pytest.approx(0.002)


def test_a_link_is_full_from_the_first_packet_of_a_full_window_on():
    first = np.arange(1, 21) * 1.46e-3
    second = 0.040 + np.arange(1, 21) * 1.46e-3
    load = LinkLoad(np.concatenate([first, second]), np.full(40, 1460.0), RATE_BPS)
    assert load.full_from_s(first[-1]) == pytest.approx(0.040)
    assert load.full_from_s(0.005) == 0.005  # it is full already
    assert load.full_from_s(second[-1]) is None


def test_single_packets_before_the_rest_are_no_full_rate():
    times = np.concatenate([[0.005, 0.015], 0.030 + np.arange(1, 21) * 1.46e-3])
    assert LinkLoad(times, np.full(22, 1460.0), RATE_BPS).full_from_s(0.0) == pytest.approx(0.030, abs=2e-3)


def test_a_hand_over_counts_from_the_end_or_from_the_release_of_the_next_flow():
    one, two = 0.1 + np.arange(1, 21) * 1.46e-3, 0.2 + np.arange(1, 21) * 1.46e-3
    ends = ("10.0.0.1", 10_000, "10.0.0.2", 5001), ("10.0.0.1", 10_001, "10.0.0.2", 5001)
    captures = {"h2": Capture({ends[0]: stream(one), ends[1]: stream(two)}, 40, 0)}
    packets = {("job", 0, "a"): seen(one[0], one[-1]), ("job", 0, "b"): seen(two[0], two[-1])}
    for release_s, ready_s in ((0.05, one[-1]), (one[-1] + 0.004, one[-1] + 0.004)):
        flows = [flow("a", 0.05, one[-1], 10_000), flow("b", release_s, two[-1], 10_001)]
        (found,) = hand_overs(flows, packets, captures, ADDRESSES, CLOCK, {"h2": RATE_BPS})
        assert (found.ended, found.waited) == (("job", 0, "a"), release_s < one[-1])
        assert found.took_s == pytest.approx(0.2 - ready_s, abs=1e-6)
    late = [flow("a", 0.05, one[-1], 10_000), flow("b", one[-1] + 0.006, two[-1], 10_001)]
    assert hand_overs(late, packets, captures, ADDRESSES, CLOCK, {"h2": RATE_BPS}) == []


def test_a_change_of_marks_is_timed_to_its_first_packet_and_its_gap_found():
    times = np.concatenate([np.arange(0.0, 0.5, 0.001), np.arange(0.507, 1.0, 0.001)])
    marks = np.where(times < 0.51, 48, 40)
    captures = {"h2": Capture({("10.0.0.1", 10_000, "10.0.0.2", 5001): stream(times, marks)}, times.size, 0)}
    decisions = [decision(0.0, ("job", 0, "f", 48, None)), decision(0.5, ("job", 0, "f", 40, None), policy_ms=0.0)]
    (change,) = mark_changes(decisions, [flow("f", 0.0, 1.0, 10_000)], captures, ADDRESSES, CLOCK)
    assert (change.marks, change.first_s) == (1, (pytest.approx(0.010),))
    assert (change.gap_s, change.gap_before_s) == (pytest.approx(0.007, abs=1e-6), pytest.approx(0.001, abs=1e-6))


def test_a_gap_that_reaches_beyond_what_is_looked_at_counts_in_part():
    assert longest_gap_s(np.array([0.0, 1.0]), 0.2, 0.6) == pytest.approx(0.4)
