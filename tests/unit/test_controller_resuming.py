"""A coordinator that follows another in mid-run: it rebuilds its state from what agents tell again."""

from __future__ import annotations

import pytest

from controller.coordinator import Coordinator
from controller.fabric import KnownFabric
from controller.instructions import InstallRules, OpenLog, ResetSwitch, SendTo
from echelonflow.model.addressing import dpid
from echelonflow.records.events import SwitchConnected
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
    FinishAgain,
    Hello,
    HostDown,
    Progress,
    Release,
    ReleaseAgain,
    Setting,
    Start,
)
from tests.unit.coordinator_driver import decide, leave
from tests.unit.test_controller_coordinator import (
    GROUP,
    NEW,
    NOW,
    RUNNER,
    A,
    B,
    connect_switches,
    flow,
    load_policy,
    network,
    release,
    say,
    started,
)

__all__ = ["network"]

ZERO = 100.0
RESUMED = Begin("run0", "by-id", "priority", 2, "/decisions", ZERO)
LOWEST = dscp_of_class(7)


def follower(network, *, begun: bool = True, declared: bool = True) -> Coordinator:
    """A coordinator that was started in mid-run, with its runner, its agents and what they declare."""
    ticks = iter(range(10**6))
    coordinator = Coordinator(KnownFabric(network), load_policy, clock=lambda: next(ticks) * 1e-3, keep_rules=True)
    connect_switches(coordinator, network)
    if begun:
        say(coordinator, (RUNNER, Hello("runner", "")), (RUNNER, RESUMED))
        say(coordinator, (A, Hello("a", "h1")), (B, Hello("b", "h3")))
        say(coordinator, *([(A, GROUP)] if declared else []))
    return coordinator


def again(name, time_s=NOW, iteration=0, sent_bytes=0, dscp=None):
    return ReleaseAgain("job", name, iteration, time_s, sent_bytes, dscp)


def settings(instructions):
    return [
        s for i in instructions if isinstance(i, SendTo) and isinstance(i.message, Decide) for s in i.message.settings
    ]


def faults(instructions):
    return [i.message.reason for i in instructions if isinstance(i, SendTo) and isinstance(i.message, Fault)]


class TestGoingOn:
    def test_agents_are_told_the_zero_whoever_came_first(self, network):
        coordinator = follower(network, begun=False)
        assert say(coordinator, (A, Hello("a", "h1"))) == []
        out = say(coordinator, (RUNNER, Hello("runner", "")), (RUNNER, RESUMED))
        assert SendTo(A, Start(ZERO)) in out
        assert any(isinstance(i, OpenLog) for i in out)
        assert say(coordinator, (B, Hello("b", "h3"))) == [SendTo(B, Start(ZERO))]

    def test_a_zero_that_has_not_been_is_refused(self, network):
        coordinator = follower(network, begun=False)
        say(coordinator, (RUNNER, Hello("runner", "")))
        for zero_s in (NOW + 100, float("nan"), -1.0):
            (reason,) = faults(say(coordinator, (RUNNER, with_zero(RESUMED, zero_s))))
            assert "no moment of the past" in reason

    def test_a_run_that_begins_anew_tells_nobody_to_start_at_hello(self, network):
        coordinator = started(network)
        assert not [i for i in say(coordinator, (9, Hello("late", "h2"))) if isinstance(i, SendTo)]


class TestSwitches:
    def test_they_keep_what_they_have_until_the_run_has_ended(self, network):
        coordinator = follower(network)
        for switch in network.switches:
            (reset,) = coordinator.handle(SwitchConnected(dpid(network, switch)), NOW)
            assert (reset.switch, reset.keep) == (switch, True)
        ended = say(coordinator, (RUNNER, End()))
        cleared = [i for i in ended if isinstance(i, ResetSwitch)]
        assert [i.switch for i in cleared] == sorted(network.switches)
        assert not any(i.keep for i in cleared)
        (reset,) = coordinator.handle(SwitchConnected(dpid(network, "s1")), NOW)
        assert not reset.keep

    def test_a_mark_that_is_in_force_is_not_set_again(self, network):
        coordinator = follower(network)
        say(coordinator, (A, again("x0", dscp=NEW)), (A, again("x1", dscp=LOWEST)))
        out = decide(coordinator, NOW)
        # x0 has what it should; x1 is in the lowest class, from which nobody is moved up while classes suffice
        assert not [i for i in out if isinstance(i, InstallRules)]
        assert [s.flow for s in settings(out)] == []


class TestTellingAgain:
    def test_state_is_rebuilt_in_whatever_order_agents_come(self, network):
        orders = (
            [(A, again("x0")), (A, again("x1", sent_bytes=1000)), (B, FinishAgain("job", "x0", 0, NOW))],
            [(B, FinishAgain("job", "x0", 0, NOW)), (A, again("x0")), (A, again("x1", sent_bytes=1000))],
            [(A, again("x1", sent_bytes=1000)), (B, Finish("job", "x0", 0, NOW)), (A, again("x0"))],
        )
        for order in orders:
            coordinator = follower(network)
            assert not faults(say(coordinator, *order))
            (group,) = coordinator.groups()
            assert [(f.flow, f.sent_bytes) for f in group.in_flight] == [("x1", 1000)]

    def test_the_rebuilt_snapshot_is_that_of_a_coordinator_that_was_there_all_the_time(self, network):
        before = started(network)
        say(before, (A, release("x0", NOW)), now_s=NOW)
        say(before, (B, Finish("job", "x0", 0, NOW + 1)), (A, release("x1", NOW + 1)), now_s=NOW + 1)
        after = follower(network)
        say(
            after,
            (A, again("x1", NOW + 1)),
            (A, again("x0", NOW)),
            (B, FinishAgain("job", "x0", 0, NOW + 1)),
            now_s=NOW + 1,
        )
        zero_s = before.trial(NOW + 2).now_s - (NOW + 2)
        was, now = before.trial(NOW + 2), after.trial(NOW + 2)
        for name in ("flow_id", "remaining_bytes"):
            assert getattr(was, name).tolist() == getattr(now, name).tolist()
        for table, name in (("groups", "incurred_tardiness_s"), ("groups", "pending_bytes"), ("coflows", "sent_bytes")):
            assert getattr(getattr(was, table), name).tolist() == pytest.approx(
                getattr(getattr(now, table), name).tolist()
            )
        assert (was.release_s + (-zero_s)).tolist() == pytest.approx((now.release_s + ZERO).tolist())

    def test_a_receiver_may_be_back_before_the_sender_has_declared(self, network):
        coordinator = follower(network, declared=False)
        told = [(B, FinishAgain("job", "x0", 0, NOW)), (B, FinishAgain("job", "x1", 0, NOW))]
        assert not faults(say(coordinator, *told, (A, FinishAgain("job", "x1", 0, NOW))))  # the last one is a lie
        say(coordinator, (A, GROUP), (A, again("x0", sent_bytes=10**6)), (A, again("x1")))
        (group,) = coordinator.groups()
        assert [f.flow for f in group.in_flight] == ["x1"]

    def test_a_flow_that_is_sent_is_not_decided_on_while_its_end_is_yet_to_be_told(self, network):
        coordinator = follower(network)
        say(coordinator, (A, again("x0", sent_bytes=10**6)), (A, again("x1", NOW)))
        assert [s.flow for s in settings(decide(coordinator, NOW))] == ["x1"]
        say(coordinator, (B, FinishAgain("job", "x0", 0, NOW)))
        (group,) = coordinator.groups()
        assert [f.flow for f in group.in_flight] == ["x1"]
        assert coordinator.trial(NOW).groups.incurred_tardiness_s.tolist() == [0.0]

    def test_what_is_over_stays_over(self, network):
        coordinator = started(network)
        say(coordinator, (A, release("x0")), (B, Finish("job", "x0", 0, NOW)))
        assert say(coordinator, (A, again("x0")), (B, FinishAgain("job", "x0", 0, NOW))) == []
        assert coordinator.trial(NOW) is None

    def test_a_release_that_was_heard_is_answered_by_its_setting(self, network):
        coordinator = started(network)
        say(coordinator, (A, release("x0")))
        assert say(coordinator, (A, again("x0"))) == []  # nothing was decided yet
        decide(coordinator, NOW)
        assert settings(say(coordinator, (A, again("x0")))) == [Setting("job", "x0", 0, NEW, None, 1)]

    def test_a_release_that_was_lost_counts_when_it_is_told_again(self, network):
        coordinator = started(network)
        say(coordinator, (A, again("x0", NOW - 1)))
        assert [s.flow for s in settings(decide(coordinator, NOW))] == ["x0"]
        say(coordinator, (B, FinishAgain("job", "x0", 0, NOW)))
        assert coordinator.trial(NOW) is None

    def test_lies_are_refused(self, network):
        coordinator = follower(network)
        assert "only h1 can know" in faults(say(coordinator, (B, again("x0"))))[0]
        assert "only h3 can know" in faults(say(coordinator, (A, FinishAgain("job", "x0", 0, NOW))))[0]
        assert "the mark of no class of data" in faults(say(coordinator, (A, again("x0", dscp=56))))[0]
        assert "was not declared" in faults(say(coordinator, (A, again("x9"))))[0]
        assert "time_s" in faults(say(coordinator, (A, again("x0", float("nan")))))[0]

    def test_ends_that_are_told_early_do_not_pile_up(self, network):
        coordinator = follower(network)
        for iteration in range(1000):
            say(coordinator, (B, FinishAgain("job", "x0", iteration, NOW)))
        say(coordinator, (A, again("x0", iteration=999)), (A, again("x0", iteration=3)))
        (group,) = coordinator.groups()
        assert not group.in_flight  # the last is over, and so is what came before it on the same connection


class TestDyingHosts:
    def test_a_planned_death_is_no_loss_and_its_jobs_are_forgotten(self, network):
        other = Declare("other", "g", "pp", 1.0, (flow("y0", 5, "h2", "h4"),))
        coordinator = started(network, groups=(GROUP,))
        say(coordinator, (9, Hello("c", "h2")), (9, other), (9, Release("other", "y0", 0, NOW)))
        say(coordinator, (A, release("x0")))
        decide(coordinator, NOW)
        out = say(coordinator, (RUNNER, HostDown("h3", ("job",))))
        assert any(isinstance(i, InstallRules) and i.remove for i in out)
        assert leave(coordinator, B, NOW) == []
        # Its agents have not heard of it yet.
        assert not faults(say(coordinator, (A, Progress("job", "x0", 0, 5)), (A, release("x1"))))
        assert [g.job for g in coordinator.groups()] == ["other"]
        assert say(coordinator, (A, Done()), (9, Done())) == [SendTo(RUNNER, Event("done"))]

    def test_only_the_runner_can_say_so(self, network):
        coordinator = started(network)
        assert "for the runner to say" in faults(say(coordinator, (A, HostDown("h3", ("job",)))))[0]


def with_zero(begin: Begin, zero_s: float) -> Begin:
    return Begin(begin.run, begin.policy, begin.enforcer, begin.agents, begin.decisions_path, zero_s)
