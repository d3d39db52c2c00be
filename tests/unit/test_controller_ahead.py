"""Decisions ahead of time: what the coordinator tells before a release, and what it makes of the release."""

from __future__ import annotations

import msgspec
import pytest

from controller import ahead_books
from controller.asking import ask
from controller.instructions import AskPolicy, InstallRules, LogDecision, SendTo
from echelonflow.errors import InputError
from echelonflow.records.events import PolicyFailed, SpareTime
from echelonflow.scheduling import ahead
from echelonflow.scheduling.ahead import Candidates
from echelonflow.wire.messages import Before, Begin, Decide, Declare, Fault, Progress, Release, ReleaseAgain, Setting
from tests.unit.coordinator_driver import decide, swap
from tests.unit.test_controller_coordinator import (
    BEGIN,
    LATER,
    NEW,
    NEXT,
    NOW,
    A,
    B,
    finish,
    flow,
    installs,
    network,
    record,
    say,
    started,
    without_log,
)
from tests.unit.test_controller_resuming import follower
from tests.unit.test_controller_swap import BACKWARDS, ISOLATED

__all__ = ["network"]


def after(name, index, **before):
    return msgspec.structs.replace(flow(name, index), before=Before(**before))


def in_coflow(coflow, declared):
    return msgspec.structs.replace(declared, coflow=coflow)


CHAIN = Declare("job", "g", "pp", 1.0, (after("x0", 0, ended_previous=(1,)), after("x1", 1, released=(0,))))
"""x1 is released after x0, and x0 of the next iteration after x1's end."""


def release(name, iteration=0, by=0):
    return Release("job", name, iteration, NOW, by)


def in_spare_time(coordinator, now_s=NOW):
    """All that comes of spare time until there is nothing left to do in it."""
    out = []
    while coordinator.has_spare_work and not coordinator.due(now_s):
        for each in coordinator.handle(SpareTime(), now_s):
            out += coordinator.handle(ask(each.question), now_s) if isinstance(each, AskPolicy) else [each]
    return out


def settings(instructions):
    return [s for i in instructions if isinstance(i, SendTo) for s in getattr(i.message, "settings", ())]


def running(network, begin=BEGIN):
    return started(network, begin, groups=(CHAIN,))


class TestWhatIsTold:
    def test_a_flow_that_can_be_released_first_is_decided_on_before(self, network):
        out = in_spare_time(running(network))
        setting = Setting("job", "x0", 0, NEW, None, 1)
        assert without_log(out) == [installs(network, [("x0", NEW)], CHAIN), SendTo(A, Decide((setting,)))]
        logged = record(out)
        assert (logged.ahead, logged.number, logged.changed) == (True, 1, (("job", 0, "x0", NEW, None),))
        assert logged.trigger == "ahead job/x0#0"

    def test_the_next_one_follows_each_decision(self, network):
        coordinator = running(network)
        in_spare_time(coordinator)
        say(coordinator, (A, release("x0", by=1)))
        assert without_log(decide(coordinator, NOW)) == []  # it is in force already
        assert settings(in_spare_time(coordinator)) == [Setting("job", "x1", 0, LATER, None, 3)]

    def test_what_has_to_end_before_is_supposed_to_have_ended(self, network):
        coordinator = running(network)
        for name in ("x0", "x1"):
            say(coordinator, (A, release(name)))
            decide(coordinator, NOW)
        # x1 is in flight, behind x0; by the time of x0's next release it is over, and x0 where it was.
        assert settings(in_spare_time(coordinator)) == [Setting("job", "x0", 1, LATER, None, 3)]
        say(coordinator, (B, finish("x0")))
        decide(coordinator, NOW)
        assert settings(in_spare_time(coordinator)) == [Setting("job", "x0", 1, NEW, None, 5)]

    def test_only_what_is_new_is_said(self, network):
        coordinator = running(network)
        assert settings(in_spare_time(coordinator))
        say(coordinator, (A, release("x0", by=1)))
        decide(coordinator, NOW)
        first = settings(in_spare_time(coordinator))
        say(coordinator, (A, Progress("job", "x0", 0, 1000)))
        coordinator.handle(SpareTime(), NOW)
        coordinator._run.books.ahead.note_decision()
        assert first
        assert in_spare_time(coordinator) == []

    def test_no_rule_is_changed_under_an_iteration_that_is_in_flight(self, network):
        coordinator = started(network, groups=(Declare("job", "g", "pp", 1.0, (after("x0", 0), flow("x1", 1))),))
        in_spare_time(coordinator)
        say(coordinator, (A, release("x0", by=1)))
        decide(coordinator, NOW)
        out = in_spare_time(coordinator)
        assert [(s.iteration, s.dscp) for s in settings(out)] == [(1, LATER)]
        assert not [i for i in out if isinstance(i, InstallRules)]

    def test_who_does_not_say_what_comes_before_waits_as_ever(self, network):
        coordinator = started(network)
        assert in_spare_time(coordinator) == []
        say(coordinator, (A, release("x0")))
        decide(coordinator, NOW)
        assert in_spare_time(coordinator) == []

    def test_nothing_is_decided_ahead_in_a_run_that_waits(self, network):
        coordinator = running(network, msgspec.structs.replace(BEGIN, decisions="wait"))
        assert not coordinator.has_spare_work
        assert coordinator.handle(SpareTime(), NOW) == []

    def test_a_decision_that_is_due_goes_first(self, network):
        coordinator = running(network)
        say(coordinator, (A, release("x0")))
        assert coordinator.handle(SpareTime(), NOW) == []
        assert settings(decide(coordinator, NOW))

    def test_the_second_iteration_asks_the_policy_no_more(self, network):
        coordinator, asked = running(network), []
        for iteration in range(3):
            for name in ("x0", "x1"):
                while coordinator.has_spare_work:
                    for each in coordinator.handle(SpareTime(), NOW):
                        if isinstance(each, AskPolicy):
                            asked.append(iteration)
                            coordinator.handle(ask(each.question), NOW)
                say(coordinator, (A, release(name, iteration)))
                decide(coordinator, NOW)
            say(coordinator, (B, finish("x0", iteration=iteration)), (B, finish("x1", iteration=iteration)))
            decide(coordinator, NOW)
        assert asked.count(2) == 0
        assert asked.count(0) > 0


class TestAtTheRelease:
    def test_what_was_decided_otherwise_is_corrected_and_asked_again(self, network):
        coordinator = running(network)
        in_spare_time(coordinator)
        say(coordinator, (A, release("x0", by=1)))
        decide(coordinator, NOW)
        in_spare_time(coordinator)  # x1 in a class below x0's
        say(coordinator, (B, finish("x0")), (A, release("x1", by=3)))
        out = decide(coordinator, NOW)
        assert record(out).corrected == ()  # nobody is moved up
        say(coordinator, (B, finish("x1")))
        decide(coordinator, NOW)

    def test_one_that_started_in_too_high_a_class_is_moved_down(self, network):
        both = Declare("job", "g", "pp", 1.0, (after("x0", 0), after("x1", 1, ended_previous=(0,))))
        coordinator = started(network, groups=(both,))
        told = settings(in_spare_time(coordinator))
        assert [(s.flow, s.dscp) for s in told] == [("x0", NEW), ("x1", NEW)]  # each as if it were alone
        say(coordinator, *((A, release(s.flow, by=s.number)) for s in told))
        out = decide(coordinator, NOW)
        assert [(s.flow, s.dscp) for s in settings(out)] == [("x1", NEXT)]
        assert record(out).corrected == (("job", 0, "x1"),)

    def test_a_release_that_has_crossed_what_was_told_is_told_again(self, network):
        coordinator = running(network)
        in_spare_time(coordinator)
        say(coordinator, (A, release("x0", by=0)))
        out = decide(coordinator, NOW)
        assert settings(out) == [Setting("job", "x0", 0, NEW, None, 2)]
        assert record(out).corrected == ()

    def test_an_end_may_be_heard_before_the_release(self, network):
        coordinator = running(network)
        in_spare_time(coordinator)
        assert say(coordinator, (A, Progress("job", "x0", 0, 1000)), (B, finish("x0"))) == []
        assert say(coordinator, (A, release("x0", by=1))) == []
        assert decide(coordinator, NOW) == []
        assert coordinator.status(NOW).run.flows_in_flight == 0
        assert settings(in_spare_time(coordinator)) == [Setting("job", "x1", 0, NEW, None, 2)]

    def test_an_end_of_what_nobody_was_told_of_is_still_refused(self, network):
        coordinator = running(network)
        out = say(coordinator, (B, finish("x1")))
        assert any(isinstance(i.message, Fault) for i in out if isinstance(i, SendTo))


class TestPolicies:
    def test_a_swap_takes_back_what_the_old_policy_said(self, network):
        coordinator = running(network)
        in_spare_time(coordinator)
        (void,) = settings(swap(coordinator, BACKWARDS, None, NOW))
        assert (void.flow, void.rate_Bps) == ("x0", 0.0)
        assert void.number > 1
        assert settings(in_spare_time(coordinator)) == []  # a decision is due
        decide(coordinator, NOW)
        (again,) = settings(in_spare_time(coordinator))
        assert (again.flow, again.rate_Bps) == ("x0", None)

    def test_a_release_by_what_was_taken_back_gets_a_setting(self, network):
        coordinator = running(network)
        in_spare_time(coordinator)
        swap(coordinator, BACKWARDS, None, NOW)
        say(coordinator, (A, release("x0", by=1)))  # it has crossed
        assert [s.flow for s in settings(decide(coordinator, NOW))] == ["x0"]

    def test_a_policy_of_a_users_is_not_asked_ahead(self, network):
        coordinator = running(network)
        swap(coordinator, ISOLATED, None, NOW)
        assert not coordinator.has_spare_work

    def test_one_that_fails_ahead_fails_the_run_as_ever(self, network):
        coordinator = running(network, Begin("r", "broken", "priority", 2, "/d"))
        (asked,) = coordinator.handle(SpareTime(), NOW)
        answer = ask(asked.question)
        assert isinstance(answer, PolicyFailed)
        coordinator.handle(answer, NOW)
        assert coordinator.status(NOW).run.failed


class TestCandidates:
    def test_those_of_a_job_that_is_withdrawn_are_none(self):
        candidates = Candidates()
        candidates.declare(CHAIN)
        assert [s.flows for s in candidates.sets()] == [(("job", 0, "x0"),)]
        candidates.withdraw({"job"})
        assert candidates.sets() == []

    def test_the_nearest_sets_of_a_job_are_taken(self):
        many = 3 * ahead.MOST_SETS
        flows = tuple(after(f"f{i}", i, ended_previous=(many - 1 - i,)) for i in range(many))
        candidates = Candidates()
        candidates.declare(Declare("job", "g", "pp", 1.0, flows[::-1]))
        assert [s.flows[0][2] for s in candidates.sets()] == [f"f{i}" for i in range(ahead.MOST_SETS)]

    def test_what_waits_for_the_same_is_released_together_whatever_its_coflow(self):
        """A gather and a scatter that each rank starts at the end of one computation; ranks differ in what they wait for."""
        gather = [in_coflow("gather", after(f"gather {rank}", rank, ended=(10 + rank,))) for rank in range(3)]
        scatter = [in_coflow("scatter", after(f"scatter {rank}", 3 + rank, ended=(10 + rank,))) for rank in range(3)]
        alone = in_coflow("alone", after("alone", 6, ended=(20,)))
        candidates = Candidates()
        candidates.declare(Declare("job", "g", "pp", 1.0, (*scatter, alone, *gather)))
        for index in (10, 11, 12, 20):
            candidates.release(("job", 0, f"x{index}"), index)
        together = [[name for _, _, name in one.flows] for one in candidates.sets()]
        assert together == [[f.flow for f in (*gather, *scatter)], ["alone"]]
        assert sorted(key[2] for one in candidates.sets() for key in one.ended) == []  # nobody has declared those

    def test_what_a_job_holds_back_can_come_next_and_what_follows_it_does_not_wait(self):
        """Gradients g2, g1, g0 are ready in this order; the job sends the foremost layer first."""
        chain = (after("g2", 2, ended_previous=(0, 1, 2)), after("g1", 1, released=(2,)), after("g0", 0, released=(1,)))
        candidates = Candidates()
        candidates.declare(Declare("job", "g", "dp", 1.0, (*chain, after("h", 3, released=(1,)))))
        candidates.release(("job", 0, "g2"), 2)
        assert _next(candidates) == {("g1", 0)}
        candidates.release(("job", 0, "g0"), 0)  # so g1 is ready as well, and what waits for that is next
        assert _next(candidates) == {("g1", 0), ("h", 0)}
        candidates.release(("job", 0, "h"), 3)
        candidates.release(("job", 0, "g1"), 1)
        assert _next(candidates) == {("g2", 1)}
        candidates.release(("job", 1, "g0"), 0)  # none of the others was heard of
        assert _next(candidates) == {("g2", 1), ("g1", 1), ("h", 1)}
        candidates.release(("job", 1, "g2"), 2)
        candidates.release(("job", 1, "g1"), 1)
        assert _next(candidates) == {("h", 1), ("g2", 2)}

    def test_declarations_that_name_too_much_are_refused(self, monkeypatch):
        monkeypatch.setattr(ahead, "MOST_NAMED", 3)
        candidates = Candidates()
        candidates.check(CHAIN)
        candidates.declare(CHAIN)
        more = Declare("other", "g", "pp", 1.0, (after("x0", 0, ended=(1, 2)),))
        with pytest.raises(InputError, match="more than 3 flows are named before others"):
            candidates.check(more)


def _next(candidates):
    return {(name, iteration) for found in candidates.sets() for _, iteration, name in found.flows}


class TestAfterARestart:
    def test_a_flow_is_decided_ahead_once_its_iteration_is_known(self, network):
        coordinator = follower(network, declared=False)
        say(coordinator, (A, CHAIN))
        assert in_spare_time(coordinator) == []  # not x0 of the first iteration, which is over
        say(coordinator, (A, ReleaseAgain("job", "x0", 4, NOW, 0, NEW)))
        decide(coordinator, NOW)
        assert settings(in_spare_time(coordinator)) == []
        say(coordinator, (A, release("x1", 4)))
        decide(coordinator, NOW)
        assert [(s.flow, s.iteration) for s in settings(in_spare_time(coordinator))] == [("x0", 5)]

    def test_what_may_have_crossed_is_told_again(self, network):
        coordinator = running(network)
        in_spare_time(coordinator)
        # The agent had released it, unheard, and sends it by another mark than it was told meanwhile.
        say(coordinator, (A, ReleaseAgain("job", "x0", 0, NOW, 0, LATER)))
        assert [(s.flow, s.dscp) for s in settings(decide(coordinator, NOW))] == [("x0", LATER)]


def test_what_could_be_decided_ahead_is_bounded(monkeypatch, network):
    monkeypatch.setattr(ahead, "MOST_TOGETHER", 5)
    flows = tuple(msgspec.structs.replace(after(f"f{i}", i), coflow="one") for i in range(12))
    group = Declare("job", "g", "pp", 1.0, flows)
    candidates = Candidates()
    candidates.declare(group)
    assert [len(s.flows) for s in candidates.sets()] == [5, 5, 2]
    monkeypatch.setattr(ahead, "MOST_CONSIDERED", 6)
    assert [len(s.flows) for s in candidates.sets()] == [5, 1]
    monkeypatch.setattr(ahead_books, "MOST_BESIDE", 1)
    coordinator = started(network, groups=(group,))
    say(coordinator, (A, release("f0")), (A, release("f1")))
    decide(coordinator, NOW)
    assert in_spare_time(coordinator) == []
    say(coordinator, (B, finish("f0")))
    decide(coordinator, NOW)
    assert settings(in_spare_time(coordinator))


def test_every_piece_of_spare_time_is_bounded(network):
    flows = tuple(after(f"f{i}", i) for i in range(12))
    coordinator = started(network, groups=(Declare("job", "g", "pp", 1.0, flows),))
    asked = coordinator.handle(SpareTime(), NOW)
    assert sum(isinstance(i, AskPolicy) for i in asked) == 1
    assert not any(isinstance(i, LogDecision) for i in asked)
