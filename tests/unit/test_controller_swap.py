"""Policies that are swapped in mid-run, that answer from elsewhere, and that fail: as lists of instructions."""

from __future__ import annotations

import dataclasses
import pickle

import msgspec
import pytest

from controller import asking, declarations, flow_books
from controller.instructions import AskPolicy, ClosePolicy, InstallRules, LogDecision, ResetSwitch, SendTo
from controller.rules import flow_rule
from echelonflow.errors import InputError, PolicyError, RunError
from echelonflow.model.addressing import dpid
from echelonflow.records.events import (
    ControllerFailed,
    PolicyFailed,
    StandingOrdered,
    SwitchConnected,
    SwitchLost,
)
from echelonflow.scheduling.policies import Policy
from echelonflow.wire.classes import dscp_of_class
from echelonflow.wire.messages import Decide, Declare, Event, Finish, Hello, Progress, Ready, Release, Setting, Start
from tests.unit.coordinator_driver import decide, leave, swap
from tests.unit.test_controller_coordinator import (
    BEGIN,
    BEGUN_AT,
    GROUP,
    NEW,
    NEXT,
    NOW,
    RUNNER,
    A,
    by_id,
    connect_switches,
    finish,
    load_policy,
    make,
    network,
    record,
    release,
    say,
    started,
    without_log,
)

__all__ = ["network"]


def by_id_backwards(snapshot):
    answer = by_id(snapshot)
    return dataclasses.replace(answer, rank=answer.rank.max() - answer.rank)


def failing(snapshot):
    raise PolicyError("policy failing: will not")


NOT_BOOKS = ("_fabric", "_clock", "_number", "_connected", "_senders", "ahead")
MOVED_DOWN = dscp_of_class(5)
"""Of x0 once it goes behind x1, which keeps the mark that it has as the second of two new flows."""
BACKWARDS = Policy("backwards", "priority", "", by_id_backwards)
FAILING = Policy("failing", "priority", "", failing)
ISOLATED = Policy("isolated", "priority", "", by_id_backwards, isolated=True)
FIRST = load_policy("by-id")


def in_flight(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0")), (A, release("x1")))
    decide(coordinator, NOW)
    return coordinator


def decided_settings(instructions):
    return {s.flow: s.dscp for i in instructions if isinstance(i, SendTo) for s in i.message.settings}


def test_a_swap_applies_to_flows_in_flight_at_once(network):
    coordinator = in_flight(network)
    assert swap(coordinator, BACKWARDS, None, NOW) == [SendTo(RUNNER, Event("policy", "swapped to backwards"))]
    assert coordinator.due(NOW)
    out = decide(coordinator, NOW)
    assert decided_settings(out) == {"x0": MOVED_DOWN}  # now behind x1, with the fewest changes
    assert record(out).trigger == "policy"
    assert coordinator.status(NOW).run.policy == "backwards"


def test_a_swap_brings_the_policys_own_enforcer_unless_one_is_named(network):
    coordinator = in_flight(network)
    swap(coordinator, dataclasses.replace(BACKWARDS, enforcer="rate"), None, NOW)
    (told,) = [i.message for i in decide(coordinator, NOW) if isinstance(i, SendTo)]
    assert all(s.rate_Bps is not None for s in told.settings)
    swap(coordinator, dataclasses.replace(BACKWARDS, enforcer="rate"), "priority", NOW)
    (told,) = [i.message for i in decide(coordinator, NOW) if isinstance(i, SendTo)]
    assert all(s.rate_Bps is None for s in told.settings)
    with pytest.raises(InputError, match="unknown enforcer 'magic'"):
        swap(coordinator, BACKWARDS, "magic", NOW)


def test_without_a_run_nothing_is_swapped(network):
    coordinator = make(network)
    with pytest.raises(RunError, match="no run is in progress"):
        swap(coordinator, BACKWARDS, None, NOW)
    with pytest.raises(RunError, match="no run is in progress"):
        coordinator.trial(NOW)


def test_a_swapped_policy_that_fails_gives_way_to_the_one_before(network):
    coordinator = in_flight(network)
    swap(coordinator, FAILING, None, NOW)
    assert decide(coordinator, NOW) == [SendTo(RUNNER, Event("policy", "fell back to by-id: policy failing: will not"))]
    out = decide(coordinator, NOW)
    assert record(out).trigger == "fallback"
    assert (coordinator.counters.swaps, coordinator.counters.fallbacks) == (1, 1)
    assert not coordinator.status(NOW).run.failed


def test_the_last_resort_is_fair_and_its_failure_the_end(network, monkeypatch):
    coordinator = in_flight(network)
    swap(coordinator, FAILING, None, NOW)
    swap(coordinator, FAILING, None, NOW)
    for policy in ("failing", "fair"):
        decide(coordinator, NOW)
        assert coordinator.status(NOW).run.policy == policy
    assert without_log(decide(coordinator, NOW))  # fair decides
    monkeypatch.setattr(coordinator._run.session, "_policy", dataclasses.replace(FAILING, name="fair"))
    say(coordinator, (3, finish("x0")))
    (told,) = decide(coordinator, NOW)
    assert told.message.what == "fault"


def test_a_policy_elsewhere_is_asked_and_the_world_goes_on(network):
    coordinator = in_flight(network)
    swap(coordinator, ISOLATED, "rate", NOW)
    (ask,) = decide(coordinator, NOW)
    assert isinstance(ask, AskPolicy)
    assert ask.question.snapshot.flows == 2
    # While it thinks, one flow ends; nothing else is asked in the meantime.
    say(coordinator, (3, finish("x0")))
    assert not coordinator.due(NOW)
    out = coordinator.handle(asking.ask(ask.question), NOW)
    assert set(decided_settings(out)) == {"x1"}
    assert record(out).trigger == "policy"
    assert coordinator.due(NOW)  # the end of x0 is yet to be decided on


def test_an_answer_that_was_overtaken_by_a_swap_is_of_no_account(network):
    coordinator = in_flight(network)
    swap(coordinator, ISOLATED, None, NOW)
    (ask,) = decide(coordinator, NOW)
    swap(coordinator, BACKWARDS, None, NOW)
    assert coordinator.handle(asking.ask(ask.question), NOW) == []
    assert coordinator.handle(PolicyFailed(ask.question.number, "too late"), NOW) == []
    assert coordinator.status(NOW).run.policy == "backwards"


def test_processes_of_policies_are_closed_when_of_no_more_use(network):
    coordinator = in_flight(network)
    swap(coordinator, ISOLATED, None, NOW)
    assert ClosePolicy(ISOLATED) not in swap(coordinator, BACKWARDS, None, NOW)  # there is one to go back to
    assert ClosePolicy(ISOLATED) in swap(coordinator, FIRST, None, NOW)
    swap(coordinator, ISOLATED, None, NOW)
    (ask,) = decide(coordinator, NOW)
    assert coordinator.handle(PolicyFailed(ask.question.number, "slow"), NOW)[0] == ClosePolicy(ISOLATED)
    swap(coordinator, ISOLATED, None, NOW)
    assert ClosePolicy(ISOLATED) in leave(coordinator, RUNNER, NOW)


def test_a_begun_policy_elsewhere_that_fails_still_fails_the_run(network):
    coordinator = started(network, load=lambda _text: ISOLATED)
    say(coordinator, (A, release("x0")))
    (ask,) = decide(coordinator, NOW)
    assert coordinator.handle(PolicyFailed(ask.question.number, "slow"), NOW) == [
        SendTo(RUNNER, Event("fault", "slow"))
    ]


# A standing run


def standing(network, policy=FIRST):
    coordinator = make(network)
    connect_switches(coordinator, network)
    coordinator.handle(StandingOrdered(policy.name), BEGUN_AT, policy)
    zero_s = coordinator._run.session.zero_s
    assert say(coordinator, (A, Hello("trainer", "h1")), (A, GROUP), (A, Ready())) == [SendTo(A, Start(zero_s))]
    return coordinator


def test_clients_without_a_runner_are_served(network):
    coordinator = standing(network)
    say(coordinator, (A, release("x0")))
    out = decide(coordinator, NOW)
    assert SendTo(A, Decide((Setting("job", "x0", 0, NEW, None, 1),))) in out


def test_a_client_that_leaves_takes_its_jobs_along(network):
    coordinator = standing(network)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    switch, rule = flow_rule(network, GROUP.flows[0], NEW)
    assert leave(coordinator, A, NOW) == [InstallRules(switch, remove=(rule,))]
    assert coordinator.status(NOW).run.groups == 0
    # And the same again from the beginning.
    assert say(coordinator, (4, Hello("trainer", "h1")), (4, GROUP), (4, Release("job", "x0", 0, NOW))) == []
    assert decided_settings(decide(coordinator, NOW)) == {"x0": NEW}


def test_what_others_report_of_a_job_whose_client_has_gone_is_no_mistake(network):
    """A client that was thrown out costs its peers nothing: they may not know yet that its job is gone."""
    coordinator = standing(network)
    say(coordinator, (3, Hello("peer", "h3")), (A, release("x0")))
    leave(coordinator, A, NOW)
    assert say(coordinator, (3, Finish("job", "x0", 0, NOW)), (3, Progress("job", "x0", 0, 5))) == []
    (told,) = say(coordinator, (3, Finish("other", "x0", 0, NOW)))
    assert "was not declared" in told.message.reason
    # Declared anew, it counts again.
    say(coordinator, (4, Hello("trainer", "h1")), (4, GROUP))
    (told,) = say(coordinator, (3, Finish("job", "x0", 0, NOW)))
    assert "not in flight" in told.message.reason


def test_flows_are_bounded_in_all(network, monkeypatch):
    coordinator = standing(network)
    monkeypatch.setattr(flow_books, "MOST_IN_FLIGHT", 1)
    say(coordinator, (A, release("x0")))
    (told,) = say(coordinator, (A, release("x1")))
    assert "1 flows are in flight, as many as there may be" in told.message.reason
    monkeypatch.setattr(declarations, "MOST_DECLARED", len(GROUP.flows))
    more = Declare("more", "g", "k", 1.0, (msgspec.structs.replace(GROUP.flows[0], src_port=20_000),))
    (told,) = say(coordinator, (A, more))
    assert f"more than {len(GROUP.flows)} flows in all" in told.message.reason


def test_a_runner_interrupts_what_stands_and_it_comes_back(network):
    coordinator = standing(network)
    say(coordinator, (RUNNER, Hello("runner", "")))
    say(coordinator, (RUNNER, BEGIN))
    assert coordinator.status(NOW).run.name == BEGIN.run
    leave(coordinator, RUNNER, NOW)
    assert coordinator.status(NOW).run.name == "standing"


def test_a_standing_run_outlives_its_policy(network):
    coordinator = standing(network, FAILING)
    say(coordinator, (A, release("x0")))
    decide(coordinator, NOW)
    assert coordinator.status(NOW).run.policy == "fair"
    assert isinstance(decide(coordinator, NOW)[-1], LogDecision)


def books_bytes(coordinator):
    """How much the run's books hold, pickled: every table, set and list of them."""
    books = coordinator._run.books
    held = [{k: v for k, v in vars(part).items() if k not in NOT_BOOKS} for part in (books, books.ahead)]
    return len(pickle.dumps(held))


def replay_both(coordinator, iteration):
    for name in ("x0", "x1"):
        assert say(coordinator, (A, release(name, iteration=iteration))) == []
        assert say(coordinator, (3, finish(name, iteration=iteration))) == []


def test_the_books_of_a_long_standing_run_stay_bounded(network):
    coordinator = standing(network)
    say(coordinator, (3, Hello("peer", "h3")))

    def serve(iterations):
        for iteration in iterations:
            replay_both(coordinator, iteration)
            decide(coordinator, NOW)
        return books_bytes(coordinator)

    after_few = serve(range(50))
    assert serve(range(50, 400)) < after_few + 200


def test_events_that_nobody_decides_on_do_not_pile_up(network):
    """A run whose policy has failed hears on until it ends."""
    coordinator = started(network)
    replay_both(coordinator, 0)
    coordinator.handle(ControllerFailed("for the test"), NOW)
    before = books_bytes(coordinator)
    for iteration in range(1, 200):
        replay_both(coordinator, iteration)
    assert books_bytes(coordinator) < before + 1000


# Switches that come back


def test_a_switch_that_comes_back_gets_the_rules_of_flows_in_force(network):
    coordinator = in_flight(network)
    switch, rule = flow_rule(network, GROUP.flows[0], NEW)
    coordinator.handle(SwitchLost(dpid(network, switch)), NOW)
    (reset,) = coordinator.handle(SwitchConnected(dpid(network, switch)), NOW)
    assert isinstance(reset, ResetSwitch)
    assert rule in reset.rules
    assert len([r for r in reset.rules if r.priority == rule.priority]) == 2
    (other,) = coordinator.handle(SwitchConnected(dpid(network, "s2")), NOW)
    assert rule not in other.rules


def test_marks_decided_while_a_switch_was_away_are_there_when_it_is_back(network):
    coordinator = in_flight(network)
    switch, _ = flow_rule(network, GROUP.flows[0], NEW)
    coordinator.handle(SwitchLost(dpid(network, switch)), NOW)
    swap(coordinator, BACKWARDS, None, NOW)
    decide(coordinator, NOW)
    (reset,) = coordinator.handle(SwitchConnected(dpid(network, switch)), NOW)
    assert flow_rule(network, GROUP.flows[0], MOVED_DOWN)[1] in reset.rules


def test_groups_are_described_with_what_is_in_force(network):
    coordinator = in_flight(network)
    (group,) = coordinator.groups()
    assert (group.job, group.group, group.flows, group.size_bytes) == ("job", "g", 2, 2 * 10**6)
    assert [(f.flow, f.dscp) for f in group.in_flight] == [("x0", NEW), ("x1", NEXT)]
    other = Declare(
        "other", "g", "k", 1.0, tuple(msgspec.structs.replace(f, src_port=20_000 + f.index) for f in GROUP.flows)
    )
    say(coordinator, (A, other))
    assert len(coordinator.groups()) == 2
