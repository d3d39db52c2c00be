"""Every limit makes a run invalid for its own reason, and only for that one."""

from __future__ import annotations

import math
from dataclasses import replace

import msgspec
import pytest

from echelonflow.errors import InputError
from echelonflow.records.outcome import CaptureCounts, ClassCounters, Load
from results.analysis.fidelity import measure
from results.analysis.limits import Limits
from results.analysis.packets import RunClock, flow_packets
from results.analysis.verdict import judge, judge_calibration, judge_completeness
from tests.unit.synthetic_run import calibration, paper_job, paper_network, synthetic_run
from tests.unit.test_results_packets import NAME, capture


@pytest.fixture
def good():
    """A run that keeps every limit, and what packets say of it."""
    network = paper_network()
    job = paper_job(network)
    synthetic = synthetic_run([job], network, "fair", 0)
    clock = RunClock(1_000_000_000_000, -1.0, 1.0)
    packets = {}
    for f in synthetic.record.flows:
        both = capture((f.start_s, 0, f.size_bytes - 10, f.dscp), (f.finish_s, f.size_bytes - 10, 10, f.dscp))
        seen = flow_packets(both, both, NAME, f.size_bytes, iterations=1, clock=clock)
        packets[f.job, f.iteration, f.flow] = seen[0]
    return synthetic.outcome, synthetic.record, packets, [job]


def reasons(good, limits=None, **changes):
    run, record, packets, jobs = good
    return judge(measure(msgspec.structs.replace(run, **changes), record, packets, jobs), limits or Limits())


def test_a_good_run_is_valid(good):
    assert reasons(good) == []


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"load": Load(cpu_busy=0.97, switch_thread_busy=0.3)}, "processors were busy 97%"),
        ({"load": Load(cpu_busy=0.5, switch_thread_busy=0.99)}, "thread was busy 99%"),
        ({"load": None}, "load was not measured"),
        ({"captures": {"h1": CaptureCounts("x", 10, 3)}}, "captures missed 3 packets"),
        ({"completed": False, "failure": "the agent on h2 died"}, "the agent on h2 died"),
    ],
)
def test_what_run_json_tells(good, changes, what):
    (reason,) = reasons(good, **changes)
    assert what in reason


def test_queue_drops_are_normal_up_to_a_share(good):
    def with_drops(drops):
        classes = {"s1-eth2": {1: ClassCounters(1, 1000 - drops, drops)}}
        return [reason for reason in reasons(good, classes=classes) if "dropped" in reason]

    assert with_drops(19) == []
    assert "queues dropped 2.10%" in with_drops(21)[0]


def test_bytes_in_a_class_that_nobody_decided(good):
    run = good[0]
    classes = {"s1-eth2": {**run.classes["s1-eth2"], 6: ClassCounters(20_000, 2, 0)}}
    (reason,) = reasons(good, classes=classes)
    assert "in a class that was never decided" in reason
    control = {"s1-eth2": {**run.classes["s1-eth2"], 0: ClassCounters(20_000, 2, 0)}}
    assert reasons(good, classes=control) == []


def test_what_programs_send_between_their_phases_is_in_the_last_class(good):
    run, *others = good
    classes = {"s1-eth2": {**run.classes["s1-eth2"], 7: ClassCounters(20_000, 2, 0)}}
    changed = msgspec.structs.replace(run, classes=classes)
    (reason,) = judge(measure(changed, *others), Limits())
    assert "in a class that was never decided" in reason
    assert judge(measure(changed, *others, unscheduled=True), Limits()) == []


def test_acknowledgements_below_all_data(good):
    """Few bytes, many packets: they starve where they are, so the run is not what was asked for."""
    run = good[0]
    acknowledgements = {7: ClassCounters(66 * 60, 60, 0)}
    (stray, counted) = reasons(good, classes={**run.classes, "h2-eth0": acknowledgements})
    assert "acknowledgements in such a class starve" in stray
    assert "the queue of h2 counted 0 packets in the control class, though 723249 bytes came" in counted
    in_control = {0: acknowledgements[7]}
    assert reasons(good, classes={**run.classes, "h2-eth0": in_control}) == []


def test_acknowledgements_in_a_class_that_is_decided_for_data(good):
    run = good[0]
    decided = {**run.classes["s1-eth2"], 0: ClassCounters(66 * 4, 4, 0)}
    (reason,) = reasons(good, classes={**run.classes, "h2-eth0": decided})
    assert "so that its acknowledgements were in another class" in reason
    assert reasons(good, classes={**run.classes, "h2-eth0": {**decided, 0: ClassCounters(66 * 6, 6, 0)}}) == []


def test_late_computations(good):
    _, record, _, _ = good
    record.computes = [replace(record.computes[0], late_s=0.006), *record.computes[1:]]
    assert any("6.0 ms" in reason or "ms late" in reason for reason in reasons(good))
    record.computes = [replace(record.computes[0], late_s=0.07), *record.computes[1:]]
    assert any("2.3% of its rank's work" in reason for reason in reasons(good))


@pytest.mark.parametrize(("field", "what"), [("sent_bytes", "sent"), ("received_bytes", "received")])
def test_one_byte_off_in_the_log(good, field, what):
    _, record, _, _ = good
    size = record.flows[1].size_bytes
    record.flows[1] = replace(record.flows[1], **{field: size - 1})
    (reason,) = reasons(good)
    assert f"{size} bytes asked for" in reason
    assert f"{size - 1} {what}" in reason


def test_one_byte_off_in_the_packets(good):
    packets = good[2]
    key = ("pipeline", 0, "x1")
    packets[key] = replace(packets[key], unique_bytes=packets[key].unique_bytes - 1)
    (reason,) = reasons(good)
    assert "in packets" in reason
    assert "pipeline/x1" in reason


def test_a_mark_that_was_never_decided_for_this_flow(good):
    """x0's own mark is 48; 40 was decided, but for another flow."""
    _, _, packets, _ = good
    key = ("pipeline", 0, "x0")
    size = packets[key].unique_bytes
    packets[key] = replace(packets[key], dscp={48: size - 60_000, 40: 60_000})
    (reason,) = reasons(good)
    assert "never decided for their flow" in reason
    packets[key] = replace(packets[key], dscp={48: size - 3_000, 40: 3_000})
    assert reasons(good) == []


def test_log_and_packets_apart(good):
    _, record, _, _ = good
    record.flows = [replace(f, finish_s=f.finish_s + 0.003) for f in record.flows]
    (reason,) = reasons(good)
    assert "3.00 ms apart by log and by packets in the median" in reason


def test_one_end_that_was_noticed_late_matters_only_where_iterations_are_short(good):
    run, record, packets, jobs = good
    record.flows[-1] = replace(record.flows[-1], finish_s=record.flows[-1].finish_s + 0.03)
    found = measure(run, record, packets, jobs)
    (reason,) = judge(found, Limits(), no_matter_s=0.011)
    assert "one flow in a hundred ended" in reason
    assert "limit 11.00 ms" in reason
    assert judge(found, Limits(), no_matter_s=0.04) == []


def test_an_unfinished_flow(good):
    _, record, _, _ = good
    record.flows[2] = replace(record.flows[2], finish_s=math.nan)
    assert any("2 of 3 flows finished" in reason for reason in reasons(good))


def test_limits_can_be_changed_and_are_checked(good):
    limits = Limits.with_changes({"max_cpu_busy": 0.1})
    (reason,) = reasons(good, limits)
    assert "limit 10%" in reason
    assert Limits.with_changes(limits.to_dict()) == limits
    with pytest.raises(InputError, match="max_cpu_bussy"):
        Limits.with_changes({"max_cpu_bussy": 0.1})
    for wrong in (-1.0, math.nan, "high", True):
        with pytest.raises(InputError, match="max_cpu_busy"):
            Limits.with_changes({"max_cpu_busy": wrong})


def test_calibration():
    found = calibration(-0.031, 0.029, math.nan)
    assert "-3.1%" in judge_calibration(found, 0, Limits())[0]
    assert judge_calibration(found, 1, Limits()) == []
    assert judge_calibration(found, 2, Limits()) != []
    assert judge_calibration(None, 0, Limits()) != []


def test_missing_runs_are_named():
    assert judge_completeness([("fair", 0), ("fair", 1)], {"fair": 2}) == []
    (reason,) = judge_completeness([("fair", 0)], {"fair": 1, "echelonflow": 1})
    assert "echelonflow repeat 0" in reason


def test_runs_beyond_those_asked_for_must_be_told_of_and_there():
    found = [("fair", 0), ("fair", 1), ("echelonflow", 0)]
    assert judge_completeness(found, {"fair": 2, "echelonflow": 1}) == []
    assert judge_completeness(found, {"fair": 1, "echelonflow": 1}) == ["nobody asked for fair repeat 1"]
    assert judge_completeness(found, {"fair": 3, "echelonflow": 1}) == ["1 of 4 runs are missing: fair repeat 2"]
