"""What the controller tells of a run to who watches it, against what happened."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from controller.job_books import JobBooks
from echelonflow.model import topologies
from echelonflow.wire.live import MOST_JOBS, MOST_ORDERED, MOST_RECENT, Live
from echelonflow.wire.messages import Declare
from tests.unit.coordinator_driver import decide, swap
from tests.unit.test_controller_coordinator import (
    NOW,
    ZERO,
    A,
    B,
    finish,
    flow,
    load_policy,
    make,
    release,
    say,
    started,
)


@pytest.fixture
def network():
    return topologies.build("dumbbell", {"hosts": 4, "rate_bps": 8e6})


def at(seconds):
    return ZERO + seconds


def test_between_runs_there_is_nothing_to_watch(network):
    assert make(network).live(NOW) == Live()


def test_a_job_has_its_iteration_and_what_is_in_flight_and_late(network):
    coordinator = started(network)
    assert coordinator.live(NOW).jobs == ()
    # x0 is due at its release, 1 s; x1 a second later.
    say(coordinator, (A, release("x0", at(1.0))), (A, release("x1", at(1.5))), now_s=at(1.5))
    live = coordinator.live(at(2.25))
    (job,) = live.jobs
    assert (job.job, job.iteration, job.began_s, job.lasted_s) == ("job", 0, pytest.approx(1.0), None)
    assert (job.groups, job.groups_in_flight, job.flows_in_flight) == (("g",), 1, 2)
    assert job.late_s == pytest.approx(1.25)
    assert (live.run.name, live.run.flows_in_flight, live.jobs_in_all) == ("run0", 2, 1)


def test_tardiness_of_a_group_is_that_of_its_worst_flow_and_counts_when_all_have_ended(network):
    coordinator = started(network)
    say(
        coordinator,
        (A, release("x0", at(1.0))),
        (A, release("x1", at(1.0))),
        (B, finish("x0", at(1.75))),
        now_s=at(2.0),
    )
    (job,) = coordinator.live(at(2.0)).jobs
    assert (job.ended_groups, job.tardiness_s) == (0, 0.0)
    say(coordinator, (B, finish("x1", at(2.5))), now_s=at(2.5))
    (job,) = coordinator.live(at(2.5)).jobs
    # x0 was due at 1 and ended at 1.75; x1 at 2 and 2.5.
    assert (job.ended_groups, job.tardiness_s, job.worst_tardiness_s) == (1, pytest.approx(0.75), pytest.approx(0.75))
    assert (job.late_s, job.flows_in_flight, job.groups) == (None, 0, ())
    again = [(A, release("x0", at(4.0), 1)), (A, release("x1", at(4.0), 1)), (B, finish("x0", at(4.25), 1))]
    say(coordinator, *again, (B, finish("x1", at(5.125), 1)), now_s=at(5.125))
    (job,) = coordinator.live(at(5.125)).jobs
    assert (job.iteration, job.lasted_s, job.ended_groups) == (1, pytest.approx(3.0), 2)
    assert (job.tardiness_s, job.worst_tardiness_s) == (pytest.approx(1.0), pytest.approx(0.75))


def test_the_last_decision_says_why_in_which_order_and_what_changed(network):
    coordinator = started(network)
    say(coordinator, (A, release("x1", at(1.0))), (A, release("x0", at(1.0))), now_s=at(1.0))
    decide(coordinator, at(1.0))
    made = coordinator.live(at(1.0)).decision
    assert made.policy == "by-id"
    assert made.trigger == "release job/x1#0, release job/x0#0"
    assert (made.flows, made.groups, made.changes) == (2, 1, 2)
    # New flows leave classes above them.
    assert [(one.flow, one.rank, one.traffic_class) for one in made.order] == [("x0", 0, 3), ("x1", 1, 4)]
    assert [one.due_s for one in made.order] == pytest.approx([1.0, 2.0])
    assert {one.flow: one.traffic_class for one in made.changed} == {"x0": 3, "x1": 4}
    assert coordinator.live(at(1.0)).recent == ()
    say(coordinator, (B, finish("x0", at(2.0))), now_s=at(2.0))
    decide(coordinator, at(2.0))
    live = coordinator.live(at(2.0))
    assert (live.decision.trigger, live.decision.flows) == ("finish job/x0#0", 1)
    (before,) = live.recent
    assert (before.number, before.changes, before.trigger) == (made.number, 2, made.trigger)


def test_a_swap_is_seen_at_once_and_decides_anew(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0", at(1.0))), now_s=at(1.0))
    decide(coordinator, at(1.0))
    swap(coordinator, dataclasses.replace(load_policy("expiring")), "priority", at(1.5))
    decide(coordinator, at(1.5))
    live = coordinator.live(at(1.5))
    assert (live.run.policy, live.swaps) == ("expiring", 1)
    assert (live.decision.policy, live.decision.trigger) == ("expiring", "policy")


def test_lists_are_cut_and_what_is_left_out_is_counted(network):
    many = Declare("job", "g", "pp", 1.0, tuple(flow(f"x{i}", i) for i in range(MOST_ORDERED + 6)))
    coordinator = started(network, groups=(many,))
    for number in range(MOST_ORDERED + 6):
        say(coordinator, (A, release(f"x{number}", at(1.0))), now_s=at(1.0))
        decide(coordinator, at(1.0))
    live = coordinator.live(at(1.0))
    assert (len(live.decision.order), live.decision.flows) == (MOST_ORDERED, MOST_ORDERED + 6)
    assert len(live.recent) == MOST_RECENT
    books = JobBooks()
    for number in range(MOST_JOBS + 3):
        books.release(f"j{number:03}", 0, 1.0)
    assert (len(books.describe(())), len(books)) == (MOST_JOBS, MOST_JOBS + 3)


def test_a_job_that_has_gone_is_forgotten_and_left_out_iterations_have_no_length():
    books = JobBooks()
    books.release("a", 0, 1.0)
    books.release("b", 4, 1.0)
    books.release("b", 7, 9.0)
    books.forget({"a"})
    books.end_group("a", 1.0)
    (b,) = books.describe(())
    assert (b.job, b.iteration, b.lasted_s) == ("b", 7, None)


def test_what_is_told_crosses_the_wire_as_it_is(network):
    coordinator = started(network)
    say(coordinator, (A, release("x0", at(1.0))), now_s=at(1.0))
    decide(coordinator, at(1.0))
    live = coordinator.live(at(1.0))
    assert msgspec.json.decode(msgspec.json.encode(live), type=Live) == live


def test_decisions_do_not_depend_on_being_watched(network):
    def settings(watched):
        coordinator = started(network)
        found = []
        for number, name in enumerate(("x1", "x0")):
            say(coordinator, (A, release(name, at(number))), now_s=at(number))
            if watched:
                coordinator.live(at(number))
            found.append([type(i).__name__ for i in decide(coordinator, at(number))])
            found.append(coordinator.live(at(number)).decision.changed if watched else None)
        say(coordinator, (B, finish("x1", at(2.0))), now_s=at(2.0))
        return found[::2], decide(coordinator, at(2.0))[:-1]

    assert settings(watched=True) == settings(watched=False)
