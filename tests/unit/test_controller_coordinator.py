"""The coordinator's answers to messages and switch events, as lists of instructions."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from controller.coordinator import START_DELAY_S, Coordinator
from controller.fabric import KnownFabric
from controller.instructions import CloseLog, InstallRules, LogDecision, OpenLog, ResetSwitch, SendTo
from controller.rules import flow_rule
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.records.events import ClientSaid, Handled, LineRefused, SwitchConnected, SwitchLost, SwitchReady
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import max_min
from echelonflow.scheduling.policies import Policy
from echelonflow.wire.classes import dscp_of_class
from echelonflow.wire.messages import (
    Begin,
    Decide,
    Declare,
    Done,
    End,
    Event,
    Fault,
    Finish,
    FlowDeclaration,
    Hello,
    Progress,
    Ready,
    Release,
    Setting,
    Start,
)
from tests.unit import coordinator_driver
from tests.unit.coordinator_driver import decide, leave, swap
from tests.unit.fake_switch import FakeFabric

RUNNER, A, B = 1, 2, 3
BEGIN = Begin("run0", "by-id", "priority", 2, "/decisions")
BEGUN_AT, NOW = 100.0, 110.0
ZERO = BEGUN_AT + START_DELAY_S
TOP = dscp_of_class(1)
"""Of every flow that is paced, and of a new one where classes are too few to spare any."""
NEW, NEXT, LATER = (dscp_of_class(number) for number in (3, 4, 5))
"""Of a new flow; of one behind it that is as new; and of one that comes behind it when it is in flight. All leave classes above them."""


def by_id(snapshot):
    """Strict order by stable id, max-min rates."""
    rank = np.argsort(np.argsort(snapshot.flow_id))
    rows = np.arange(snapshot.flows)
    return Allocation(max_min(snapshot, rows, np.ones(snapshot.flows), snapshot.capacity_Bps.copy()), rank)


def greedy(snapshot):
    return Allocation(np.full(snapshot.flows, 1e12), np.zeros(snapshot.flows, np.int64))


def broken(snapshot):
    raise ZeroDivisionError("oops")


def expiring(snapshot):
    answer = by_id(snapshot)
    return Allocation(answer.rates_Bps, answer.rank, snapshot.now_s + 0.5)


POLICIES = {f.__name__.replace("_", "-"): f for f in (by_id, greedy, broken, expiring)}


def load_policy(text):
    if text not in POLICIES:
        raise InputError(f"unknown policy {text!r}")
    return Policy(text, "priority", "", POLICIES[text])


@pytest.fixture
def network():
    return topologies.build("dumbbell", {"hosts": 4, "rate_bps": 8e6})


def flow(name, index, src="h1", dst="h3", size_bytes=10**6):
    return FlowDeclaration(name, index, name, src, dst, size_bytes, float(index), 10_000 + index, 5001)


GROUP = Declare("job", "g", "pp", 1.0, (flow("x0", 0), flow("x1", 1)))


def make(network, load=load_policy):
    ticks = iter(range(10**6))
    return Coordinator(KnownFabric(network), load, clock=lambda: next(ticks) * 1e-3)


def connect_switches(coordinator, network, now_s=BEGUN_AT):
    return coordinator_driver.connect_switches(coordinator, network, now_s)


def say(coordinator, *messages, now_s=NOW):
    return coordinator_driver.say(coordinator, *messages, now_s=now_s)


def started(network, begin=BEGIN, groups=(GROUP,), load=load_policy):
    """A coordinator in mid-run with agents A on h1 and B on h3."""
    coordinator = make(network, load)
    connect_switches(coordinator, network)
    say(coordinator, (RUNNER, Hello("runner", "")), (RUNNER, begin), now_s=BEGUN_AT)
    say(coordinator, (A, Hello("a", "h1")), (B, Hello("b", "h3")), now_s=BEGUN_AT)
    say(coordinator, *((A, group) for group in groups), (A, Ready()), (B, Ready()), now_s=BEGUN_AT)
    return coordinator


def without_log(instructions):
    return [i for i in instructions if not isinstance(i, LogDecision)]


def record(instructions):
    (found,) = [i.record for i in instructions if isinstance(i, LogDecision)]
    return found


def release(name, time_s=NOW, iteration=0):
    return Release("job", name, iteration, time_s)


def finish(name, time_s=NOW, iteration=0):
    return Finish("job", name, iteration, time_s)


def installs(network, name_and_dscp, group=GROUP):
    declared = {f.flow: f for f in group.flows}
    found = [flow_rule(network, declared[name], dscp) for name, dscp in name_and_dscp]
    return InstallRules(found[0][0], add=tuple(rule for _, rule in found))


# From Hello to Start


def test_a_run_starts_when_agents_and_switches_are_ready(network):
    coordinator = make(network)
    assert say(coordinator, (RUNNER, Hello("runner", ""))) == []
    preamble = tuple(Handled(NOW, ClientSaid(RUNNER, message)) for message in (Hello("runner", ""), BEGIN))
    assert say(coordinator, (RUNNER, BEGIN)) == [
        OpenLog("/decisions", preamble),
        SendTo(RUNNER, Event("begun", "run0")),
    ]
    assert say(coordinator, (A, Hello("a", "h1")), (B, Hello("b", "h3")), (A, GROUP), (A, Ready()), (B, Ready())) == []
    (reset,) = coordinator.handle(SwitchConnected(1), NOW)
    assert (type(reset), reset.switch) == (ResetSwitch, "s1")
    assert coordinator.handle(SwitchReady("s1"), 1.0) == []
    coordinator.handle(SwitchConnected(2), NOW)
    zero_s = 5.0 + START_DELAY_S
    assert coordinator.handle(SwitchReady("s2"), 5.0) == [
        SendTo(RUNNER, Event("switches", "2")),
        SendTo(A, Start(zero_s)),
        SendTo(B, Start(zero_s)),
        SendTo(RUNNER, Event("ready", repr(zero_s))),
    ]


def test_a_log_of_events_begins_with_switches_and_clients_as_they_are(network):
    coordinator = make(network)
    connect_switches(coordinator, network)
    say(coordinator, (RUNNER, Hello("runner", "")), (RUNNER, BEGIN), (A, Hello("a", "h1")), (A, GROUP))
    coordinator.handle(SwitchLost(2), NOW)
    coordinator.handle(SwitchConnected(2), NOW)
    again = Begin("run1", "by-id", "rate", 1, "/d1")
    (opened,) = [i for i in say(coordinator, (RUNNER, again)) if isinstance(i, OpenLog)]
    assert [logged.event for logged in opened.preamble] == [
        SwitchConnected(1),
        SwitchConnected(2),
        SwitchReady("s1"),
        ClientSaid(RUNNER, Hello("runner", "")),
        ClientSaid(A, Hello("a", "h1")),
        ClientSaid(RUNNER, again),
    ]
    assert {logged.now_s for logged in opened.preamble} == {NOW}


def test_a_runner_that_comes_after_the_switches_hears_of_them(network):
    coordinator = make(network)
    connect_switches(coordinator, network)
    assert say(coordinator, (RUNNER, Hello("runner", ""))) == [SendTo(RUNNER, Event("switches", "2"))]


def test_a_client_that_is_ready_late_is_told_the_zero(network):
    coordinator = started(network)
    assert say(coordinator, (9, Hello("trainer", "h2")), (9, Ready())) == [SendTo(9, Start(ZERO))]


def test_done_is_told_once_when_all_are(network):
    coordinator = started(network)
    assert say(coordinator, (A, Done())) == []
    assert say(coordinator, (B, Done())) == [SendTo(RUNNER, Event("done"))]
    assert say(coordinator, (B, Done())) == []


# Decisions


def test_a_release_leads_to_a_rule_then_a_setting_then_a_log_entry(network):
    coordinator = started(network)
    assert say(coordinator, (A, release("x0"))) == []
    out = decide(coordinator, NOW)
    assert without_log(out) == [
        installs(network, [("x0", NEW)]),
        SendTo(A, Decide((Setting("job", "x0", 0, NEW, None, 1),))),
    ]
    logged = record(out)
    assert logged.time_s == pytest.approx(NOW - ZERO)
    assert (logged.trigger, logged.flows, logged.groups) == ("release job/x0#0", 1, 1)
    assert logged.changed == (("job", 0, "x0", NEW, None),)
    assert 0 < logged.policy_ms < logged.total_ms
    assert decide(coordinator, NOW) == []


def test_events_of_one_wake_up_are_decided_together(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")), (A, release("x1")))
    out = decide(coordinator, NOW)
    assert record(out).trigger == "release job/x0#0, release job/x1#0"
    assert without_log(out) == [
        installs(network, [("x0", NEW), ("x1", NEXT)]),
        SendTo(A, Decide((Setting("job", "x0", 0, NEW, None, 1), Setting("job", "x1", 0, NEXT, None, 1)))),
    ]


def test_only_what_changes_is_said(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    say(coordinator, (A, release("x1")))
    assert without_log(decide(coordinator, NOW)) == [
        installs(network, [("x1", LATER)]),
        SendTo(A, Decide((Setting("job", "x1", 0, LATER, None, 2),))),
    ]
    say(coordinator, (B, finish("x0")))
    out = decide(coordinator, NOW + 1)
    assert without_log(out) == []  # x1 stays in its class: nobody is above it
    assert record(out).trigger == "finish job/x0#0"


@pytest.mark.parametrize(
    ("enforcer", "marks"),
    [("priority", {"x0": dscp_of_class(2)}), ("priority(classes=2)", {"x0": TOP, "x1": dscp_of_class(2)})],
)
def test_a_flow_in_flight_is_moved_down_only_where_no_class_above_it_is_free(network, enforcer, marks):
    coordinator = started(network, Begin("r", "by-id", enforcer, 2, "/d"))
    say(coordinator, (A, release("x1")))
    decide(coordinator, NOW)
    say(coordinator, (A, release("x0")))
    assert {flow: dscp for _, _, flow, dscp, _ in record(decide(coordinator, NOW)).changed} == marks


def test_a_flow_released_anew_always_gets_a_setting(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    say(coordinator, (B, finish("x0", NOW + 1)), (A, release("x0", NOW + 1, iteration=1)), now_s=NOW + 1)
    # The rule of the connection is in place already.
    assert without_log(decide(coordinator, NOW + 1)) == [SendTo(A, Decide((Setting("job", "x0", 1, NEW, None, 2),)))]


def test_a_connection_has_the_mark_of_its_first_unfinished_iteration(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0", iteration=1)), (A, release("x0", iteration=0)))
    out = decide(coordinator, NOW)
    assert out[0] == installs(network, [("x0", NEW)])
    assert SendTo(A, Decide((Setting("job", "x0", 0, NEW, None, 1), Setting("job", "x0", 1, NEXT, None, 1)))) in out
    say(coordinator, (B, finish("x0")))
    # The next iteration is at the connection's head now: its rule follows, its setting is known.
    assert without_log(decide(coordinator, NOW)) == [installs(network, [("x0", NEXT)])]


def test_progress_alone_decides_nothing(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    assert say(coordinator, (A, Progress("job", "x0", 0, 5000))) == []
    assert not coordinator.due(NOW)
    assert decide(coordinator, NOW) == []


def test_progress_after_the_end_is_no_fault(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")), (B, finish("x0")))
    assert say(coordinator, (A, Progress("job", "x0", 0, 10**6))) == []


def test_an_allocation_that_expires_is_made_again(network):
    coordinator = started(network, Begin("r", "expiring", "priority", 2, "/d"))
    assert coordinator.wake_s == math.inf
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    assert coordinator.wake_s == pytest.approx(NOW + 0.5)
    assert not coordinator.due(NOW + 0.49)
    assert decide(coordinator, NOW + 0.49) == []
    assert record(decide(coordinator, NOW + 0.51)).trigger == "expiry"
    say(coordinator, (B, finish("x0", NOW + 0.6)), now_s=NOW + 0.6)
    assert decide(coordinator, NOW + 0.6) == []
    assert coordinator.wake_s == math.inf


def test_rates_are_settings_and_pauses(network):
    coordinator = started(network, Begin("r", "by-id", "rate", 2, "/d"))
    say(coordinator, (A, release("x0")))
    capacity = network.capacity_Bps[0]
    assert decide(coordinator, NOW)[1] == SendTo(A, Decide((Setting("job", "x0", 0, TOP, capacity, 1),)))
    say(coordinator, (A, release("x1")))
    settings = decide(coordinator, NOW)[1].message.settings
    assert {s.flow: s.rate_Bps for s in settings} == {"x0": capacity / 2, "x1": capacity / 2}


def seen_remaining(coordinator, monkeypatch, now_s, trigger):
    """What the policy is shown of x0 when `trigger` is said at `now_s`."""
    found = []

    def spy(snapshot):
        found.append(dict(zip(snapshot.flow_id.tolist(), snapshot.remaining_bytes.tolist(), strict=True)))
        assert np.all(snapshot.sent_bytes >= 0)
        return by_id(snapshot)

    swap(coordinator, Policy("spy", "priority", "", spy), None, now_s)
    say(coordinator, trigger, now_s=now_s)
    decide(coordinator, now_s)
    return found[0][0]


def test_bytes_sent_are_extrapolated_at_the_allocated_rate(network, monkeypatch):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    say(coordinator, (A, Progress("job", "x0", 0, 100_000)), now_s=NOW + 0.2)
    left = seen_remaining(coordinator, monkeypatch, NOW + 0.25, (A, release("x1", NOW + 0.25)))
    assert left == pytest.approx(10**6 - 100_000 - 0.05 * network.capacity_Bps[0])


def test_a_report_below_the_estimate_replaces_it(network, monkeypatch):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    say(coordinator, (A, release("x1", NOW + 0.5)), now_s=NOW + 0.5)
    decide(coordinator, NOW + 0.5)
    say(coordinator, (A, Progress("job", "x0", 0, 1000)), now_s=NOW + 0.6)
    left = seen_remaining(coordinator, monkeypatch, NOW + 0.6, (B, finish("x1", NOW + 0.6)))
    assert left == pytest.approx(10**6 - 1000)


def test_the_estimate_ends_before_the_flow_does(network, monkeypatch):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    assert seen_remaining(coordinator, monkeypatch, NOW + 60, (A, release("x1", NOW + 60))) == 1.0


def test_what_a_coflow_sent_is_estimated_as_its_flows_are(network, monkeypatch):
    """Finished bytes and estimates: `aalo` decides by this sum, so it may not lag behind the flows'."""
    both = Declare("job", "g", "pp", 1.0, tuple(msgspec.structs.replace(f, coflow="c") for f in GROUP.flows))
    coordinator = started(network, groups=(both,))
    say(coordinator, (A, release("x0")), (A, release("x1")))
    decide(coordinator, NOW)
    say(coordinator, (B, finish("x0", NOW + 0.1)), now_s=NOW + 0.1)
    snapshot = coordinator.trial(NOW + 0.6)
    assert snapshot.sent_bytes[0] > 100_000
    assert snapshot.coflows.sent_bytes.tolist() == [10**6 + snapshot.sent_bytes[0]]


def test_a_report_of_all_bytes_leaves_the_flow_its_declared_size(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")), (A, Progress("job", "x0", 0, 10**6)))
    snapshot = coordinator.trial(NOW + 1)
    assert (snapshot.sent_bytes.tolist(), snapshot.remaining_bytes.tolist()) == ([1e6], [1.0])


def test_equal_inputs_have_equal_digests(network):
    def first_digest(at_s):
        coordinator = started(network)
        say(coordinator, (A, release("x0", at_s)), now_s=at_s)
        return record(decide(coordinator, at_s)).digest

    assert first_digest(NOW) == first_digest(NOW)
    assert first_digest(NOW) != first_digest(NOW + 1)


def test_what_is_decided_is_what_packets_carry(network):
    fabric, coordinator = FakeFabric(network), make(network)
    fabric.enact(connect_switches(coordinator, network))
    say(coordinator, (RUNNER, Hello("runner", "")), (RUNNER, BEGIN), (A, Hello("a", "h1")), (B, Hello("b", "h3")))
    say(coordinator, (A, GROUP), (A, Ready()), (B, Ready()), now_s=BEGUN_AT)
    say(coordinator, (A, release("x0")), (A, release("x1")))
    fabric.enact(decide(coordinator, NOW))
    assert fabric.tcp("h1", "h3", 10_000, 5001)[2].dscp == NEW
    assert fabric.tcp("h1", "h3", 10_001, 5001)[2].dscp == NEXT
    before = fabric.tcp("h1", "h3", 10_002, 5001)[2].dscp
    fabric.enact(say(coordinator, (RUNNER, End())))
    assert fabric.tcp("h1", "h3", 10_000, 5001)[2].dscp == before == 0


# Declarations


def test_the_same_declaration_again_changes_nothing(network):
    coordinator = started(network)
    assert say(coordinator, (B, GROUP)) == []


STRANGER = 7
"""It has not said who it is, or not so that it counts: the runner hears nothing of it, and its run goes on."""


def refused(coordinator, client, message, words, now_s=NOW):
    out = say(coordinator, (client, message), now_s=now_s)
    assert isinstance(out[0].message, Fault), out
    assert words in out[0].message.reason
    assert out[0].client == client
    told_runner = client not in (RUNNER, STRANGER)
    if told_runner:
        assert (out[1].client, out[1].message.what) == (RUNNER, "fault")
        assert words in out[1].message.detail
    assert len(out) == (2 if told_runner else 1)


@pytest.mark.parametrize(
    ("group", "words"),
    [
        (Declare("job", "g", "pp", 2.0, GROUP.flows), "declared already"),
        (Declare("job", "other", "pp", 1.0, (flow("y", 0),)), "hosts and ports of flow 'x0'"),
        (Declare("job", "other", "pp", 1.0, (flow("y", 5), flow("z", 5))), "share hosts and ports"),
        (
            Declare("job", "o", "pp", 1.0, (FlowDeclaration("y", 5, "y", "h1", "h3", 1, 0.0, 10_005, 80),)),
            "5001 to 9999",
        ),
        (
            Declare("job", "o", "pp", 1.0, (FlowDeclaration("y", 5, "y", "h1", "h3", 1, 0.0, 5001, 5001),)),
            "comes from port 5001",
        ),
        (Declare("job", "other", "pp", 1.0, (flow("y", 5, dst="h9"),)), "'h9'"),
    ],
)
def test_a_declaration_that_does_not_fit_is_refused_and_forgotten(network, group, words):
    coordinator = started(network)
    refused(coordinator, A, group, words)
    refused(coordinator, A, release("y"), "not declared")


# What is refused


def test_messages_that_do_not_fit_are_refused_with_a_reason(network):
    coordinator = started(network)
    refused(coordinator, STRANGER, Ready(), "say Hello")
    refused(coordinator, STRANGER, Hello("x", "h9"), "'h9'")
    refused(coordinator, STRANGER, Hello("x", "h1", version=99), "version 99")
    refused(coordinator, STRANGER, Hello("second", ""), "another runner")
    refused(coordinator, A, Hello("a", "h1"), "said already")
    refused(coordinator, A, End(), "for the runner")
    refused(coordinator, A, Start(1.0), "for the coordinator to say")
    refused(coordinator, RUNNER, Ready(), "without a host")
    refused(coordinator, A, release("nonsense"), "not declared")
    refused(coordinator, B, release("x0"), "only h1 can know")
    refused(coordinator, A, finish("x0"), "only h3 can know")
    refused(coordinator, A, release("x0", math.nan), "monotonic")
    refused(coordinator, A, release("x0", NOW - 3600), "monotonic")
    refused(coordinator, A, release("x0", iteration=-1), "iteration")
    refused(coordinator, A, Progress("job", "x0", 0, 1), "not in flight")
    assert not coordinator.due(NOW)


def test_a_second_release_is_refused_and_the_first_stands(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    refused(coordinator, A, release("x0"), "released already")
    assert record(decide(coordinator, NOW)).flows == 1


def test_nothing_is_released_before_the_start(network):
    coordinator = make(network)
    say(coordinator, (RUNNER, Hello("runner", "")), (RUNNER, BEGIN), (A, Hello("a", "h1")), (A, GROUP))
    refused(coordinator, A, release("x0"), "not started")
    coordinator = make(network)
    say(coordinator, (RUNNER, Hello("runner", "")), (A, Hello("a", "h1")))
    refused(coordinator, A, GROUP, "outside a run")


def test_a_bad_begin_is_refused_and_the_run_goes_on(network):
    coordinator = started(network)
    refused(coordinator, RUNNER, Begin("r", "nonsense", "priority", 2, "/d"), "unknown policy")
    refused(coordinator, RUNNER, Begin("r", "by-id", "magic", 2, "/d"), "unknown enforcer")
    say(coordinator, (A, release("x0")))
    assert coordinator.due(NOW)


def test_a_second_finish_is_refused_and_late_reports_are_of_no_account(network):
    coordinator = started(network)
    for iteration in range(3):
        say(coordinator, (A, release("x0", iteration=iteration)), (B, finish("x0", iteration=iteration)))
    refused(coordinator, B, finish("x0", iteration=2), "not in flight")
    for iteration in range(3):
        assert say(coordinator, (A, Progress("job", "x0", iteration, 10**6))) == []
    refused(coordinator, A, Progress("job", "x0", 3, 1), "not in flight")
    refused(coordinator, A, Progress("job", "x1", 0, 1), "not in flight")


def test_a_line_that_is_no_message_is_refused(network):
    coordinator = started(network)
    assert coordinator.handle(LineRefused(A, "not JSON"), NOW) == [
        SendTo(A, Fault("not JSON")),
        SendTo(RUNNER, Event("fault", "a on h1: not JSON")),
    ]


@pytest.mark.parametrize(
    ("policy", "words"), [("broken", "ZeroDivisionError: oops"), ("greedy", "allocates 1e+12 B/s on h1->s1")]
)
def test_a_policy_that_fails_is_reported_once_and_not_asked_again(network, policy, words):
    coordinator = started(network, Begin("r", policy, "priority", 2, "/d"))
    say(coordinator, (A, release("x0")))
    (told,) = decide(coordinator, NOW)
    assert told.client == RUNNER
    assert told.message.what == "fault"
    assert policy in told.message.detail
    assert words in told.message.detail
    say(coordinator, (A, release("x1")))
    assert not coordinator.due(NOW)
    assert decide(coordinator, NOW) == []


# Losses and ends


def test_an_agent_that_leaves_before_it_is_done_is_lost(network):
    coordinator = started(network)
    assert leave(coordinator, B, NOW) == [SendTo(RUNNER, Event("lost", "h3"))]


def test_an_agent_that_leaves_when_done_is_not_lost(network):
    coordinator = started(network)
    say(coordinator, (B, Done()))
    assert leave(coordinator, B, NOW) == []
    assert leave(coordinator, 99, NOW) == []


def test_an_agent_of_the_last_run_may_leave_in_the_next(network):
    coordinator = started(network)
    say(coordinator, (A, Done()), (B, Done()), (RUNNER, End()), (RUNNER, BEGIN))
    assert leave(coordinator, A, NOW) == []


def test_a_switch_that_leaves_in_mid_run_is_lost(network):
    coordinator = started(network)
    assert coordinator.handle(SwitchLost(2), NOW) == [SendTo(RUNNER, Event("lost", "switch s2"))]
    coordinator = make(network)
    say(coordinator, (RUNNER, Hello("runner", "")))
    assert coordinator.handle(SwitchLost(2), NOW) == []


def test_a_switch_that_is_not_of_the_network_is_reported(network):
    coordinator = started(network)
    (told,) = coordinator.handle(SwitchConnected(77), NOW)
    assert told.message.what == "fault"
    assert "77" in told.message.detail
    assert coordinator.handle(SwitchLost(77), NOW) == []


def test_the_end_takes_back_rules_and_state(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    switch, rule = flow_rule(network, GROUP.flows[0], NEW)
    taken_back = [InstallRules(switch, remove=(rule,)), CloseLog()]
    assert say(coordinator, (RUNNER, End())) == [*taken_back, SendTo(RUNNER, Event("ended", "run0"))]
    refused(coordinator, A, release("x1"), "outside a run")
    assert coordinator.wake_s == math.inf


def test_with_the_runner_goes_the_run(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    assert [type(i) for i in leave(coordinator, RUNNER, NOW)] == [InstallRules, CloseLog]
    assert say(coordinator, (8, Hello("runner", "")))[0] == SendTo(8, Event("switches", "2"))


def test_a_second_begin_forgets_the_first(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")))
    out = say(coordinator, (RUNNER, Begin("run1", "by-id", "rate", 2, "/d1")))
    assert [type(i) for i in out] == [CloseLog, OpenLog, SendTo]
    assert (out[1].path, out[2]) == ("/d1", SendTo(RUNNER, Event("begun", "run1")))
    assert not coordinator.due(NOW)
    refused(coordinator, A, release("x0"), "not started")
