"""What a sender is told of the time after a flow's end, and what the real decision makes of it."""

from __future__ import annotations

import msgspec
import pytest

from controller.enforcers import Treatment
from controller.hand_overs import Ends
from echelonflow.scheduling import policies
from echelonflow.wire.messages import Begin, Declare, Finish, Hello, Release
from tests.unit.coordinator_driver import decide
from tests.unit.test_controller_ahead import after, in_spare_time, settings
from tests.unit.test_controller_coordinator import BEGIN, NOW, A, B, flow, network, record, say, started

__all__ = ["network"]

ON_H2 = 9
"""A third client."""
BY_RATES = msgspec.structs.replace(BEGIN, policy="coflow", enforcer="rate")
assert isinstance(BY_RATES, Begin)


def declared(make):
    """Two Coflows of a flow each on one link; the first is smaller and goes first."""
    first, second = make("x0", 0), make("x1", 1)
    second = msgspec.structs.replace(second, size_bytes=2 * first.size_bytes)
    return Declare("job", "g", "k", 1.0, (first, second))


@pytest.fixture
def coordinator(network):
    """Both flows are in flight: x0 has the link, and x1 waits for its end."""
    coordinator = started(network, BY_RATES, groups=(declared(after),), load=policies.load)
    say(coordinator, (A, Release("job", "x0", 0, NOW)), (A, Release("job", "x1", 0, NOW)))
    assert {s.flow: s.rate_Bps == 0 for s in settings(decide(coordinator, NOW))} == {"x0": False, "x1": True}
    return coordinator


def finish(name, at_s=NOW):
    return Finish("job", name, 0, at_s)


def of_x1(instructions):
    return [s for s in settings(instructions) if (s.flow, s.iteration) == ("x1", 0)]


def test_a_sender_is_told_once_what_follows_the_end_of_its_flow(coordinator):
    out = in_spare_time(coordinator)
    (told,) = of_x1(out)
    assert told.after == ("job", 0, "x0")
    assert told.rate_Bps > 0
    coordinator._run.books.ahead.note_decision()
    assert of_x1(in_spare_time(coordinator)) == []


def test_what_would_no_longer_follow_is_taken_back(coordinator):
    (told,) = of_x1(in_spare_time(coordinator))
    say(coordinator, (A, Release("job", "x0", 1, NOW)))
    decide(coordinator, NOW)
    (back,) = of_x1(in_spare_time(coordinator))  # x0 goes first again
    assert (back.rate_Bps, back.after) == (0, None)
    assert back.number > told.number


@pytest.mark.parametrize(
    ("own", "following", "may"), [(48, 48, True), (48, 40, True), (40, 48, False), (None, 48, False)]
)
def test_nothing_takes_a_class_before_that_of_what_it_follows(coordinator, own, following, may):
    """x0 has left its host, and its last segments wait in a queue: in a later class they would wait on for all of x1."""
    books = coordinator._run.books
    books.flows["job", 0, "x0"].treatment = None if own is None else Treatment(own, 1e6)
    ends = Ends(books.state, books.flows, frozenset({("job", 0, "x0")}), 0.0)
    told = ends.then(("job", 0, "x1"), A, Treatment(following, 1e6))
    assert (told is not None) == may


def test_the_log_says_what_was_supposed(coordinator):
    logged = [i.record for i in in_spare_time(coordinator) if hasattr(i, "record")]
    (ends,) = [each for each in logged if each.trigger.startswith("end of")]
    assert (ends.ahead, ends.trigger) == (True, "end of job/x0#0")
    assert [(job, iteration, name) for job, iteration, name, _, _ in ends.changed] == [("job", 0, "x1")]
    assert ends.after == (("job", 0, "x0"),)


def test_the_real_decision_follows_with_a_higher_number(coordinator):
    (told,) = of_x1(in_spare_time(coordinator))
    say(coordinator, (B, finish("x0")))
    out = decide(coordinator, NOW)
    (real,) = of_x1(out)
    assert real.after is None
    assert real.number > told.number
    assert real.rate_Bps == pytest.approx(told.rate_Bps)
    assert record(out).trigger == "finish job/x0#0"


def test_who_does_not_say_what_comes_before_its_flows_is_told_nothing(network):
    coordinator = started(network, BY_RATES, groups=(declared(flow),), load=policies.load)
    say(coordinator, (A, Release("job", "x0", 0, NOW)), (A, Release("job", "x1", 0, NOW)))
    decide(coordinator, NOW)
    assert of_x1(in_spare_time(coordinator)) == []


def test_a_flow_that_waits_for_another_sender_s_end_as_well_is_told_nothing(network):
    """x1 goes where y0 goes: that h1 is through with x0 says nothing of what h2 still sends there.

    Told to go on at x0's end, it took 15 ms of the link from a flow of the Coflow before, at each of 48 ends.
    """
    first = msgspec.structs.replace(after("x0", 0), coflow="first")
    beside = msgspec.structs.replace(after("y0", 1), coflow="first", src_host="h2")
    second = msgspec.structs.replace(after("x1", 2), coflow="second", size_bytes=4 * first.size_bytes)
    group = Declare("job", "g", "k", 1.0, (first, beside, second))
    coordinator = started(network, BY_RATES, groups=(group,), load=policies.load)
    say(coordinator, (A, Release("job", "x0", 0, NOW)), (A, Release("job", "x1", 0, NOW)))
    decide(coordinator, NOW)
    assert len(of_x1(in_spare_time(coordinator))) == 1
    say(coordinator, (ON_H2, Hello("c", "h2")), (ON_H2, Release("job", "y0", 0, NOW)))
    decide(coordinator, NOW)
    (back,) = of_x1(in_spare_time(coordinator))
    assert (back.rate_Bps, back.after) == (0, None)


class TestFlowsThatAreStillToBeReleased:
    """x0 is in flight and x1 can be released: it would have to wait, so its sender is told what comes at x0's end."""

    CHAIN = Declare("job", "g", "k", 1.0, (after("x0", 0), after("x1", 1, released=(0,))))

    @pytest.fixture
    def told(self, network):
        """The coordinator, and what h1 was told of x1: to wait, and until when."""
        chain = msgspec.structs.replace(self.CHAIN, flows=declared(after).flows[:1] + self.CHAIN.flows[1:])
        coordinator = started(network, BY_RATES, groups=(chain,), load=policies.load)
        say(coordinator, (A, Release("job", "x0", 0, NOW)))
        decide(coordinator, NOW)
        return coordinator, of_x1(in_spare_time(coordinator))

    def test_its_sender_is_told_what_follows_the_end_it_will_wait_for(self, told):
        _, (waits, then) = told
        assert (waits.rate_Bps, waits.after) == (0, None)
        assert then.after == ("job", 0, "x0")
        assert then.rate_Bps > 0
        assert then.number > waits.number

    def test_what_it_was_told_is_not_taken_back_by_its_release(self, told):
        coordinator, (waits, _) = told
        say(coordinator, (A, Release("job", "x1", 0, NOW, waits.number)))
        out = decide(coordinator, NOW)  # it waits, as it was told
        assert of_x1(out) == []
        assert record(out).corrected == ()
        assert of_x1(in_spare_time(coordinator)) == []

    def test_one_that_was_released_after_the_end_was_not_told_wrong(self, told):
        coordinator, (_, then) = told
        say(coordinator, (A, Release("job", "x1", 0, NOW, then.number)))
        out = decide(coordinator, NOW)  # of x0's end nobody has reported yet
        assert of_x1(out) == []
        assert record(out).corrected == ()
        say(coordinator, (B, finish("x0")))
        (real,) = of_x1(decide(coordinator, NOW))
        assert real.rate_Bps == pytest.approx(then.rate_Bps)

    def test_once_the_end_is_known_it_need_not_be_told_again(self, told):
        coordinator, (_, then) = told
        say(coordinator, (B, finish("x0")))
        assert of_x1(decide(coordinator, NOW)) == []
        assert of_x1(in_spare_time(coordinator)) == []
        say(coordinator, (A, Release("job", "x1", 0, NOW, then.number)))
        assert of_x1(decide(coordinator, NOW)) == []

    def test_what_was_told_counts_no_more_under_another_policy(self, told):
        coordinator, (_, then) = told
        (back,) = of_x1(coordinator._run.decisions.ask_again("swapped"))
        assert (back.rate_Bps, back.after) == (0, None)
        assert back.number > then.number

    def test_what_would_no_longer_follow_is_taken_back(self, told):
        coordinator, (_, then) = told
        other = msgspec.structs.replace(after("z0", 7), size_bytes=1000)
        say(coordinator, (A, Declare("job", "h", "k", 1.0, (other,))), (A, Release("job", "z0", 0, NOW)))
        decide(coordinator, NOW)
        # z0 is short: it goes first, and x0 after it.
        back = of_x1(in_spare_time(coordinator))
        assert [(each.rate_Bps, each.after) for each in back] == [(0, None)]
        assert back[0].number > then.number
