from __future__ import annotations

import math

import pytest

from echelonflow.errors import InputError, RunError
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Window
from tests.unit.gated_jobs import gradients_job
from traffic.agent.plan import check_observable
from traffic.agent.receiver import StreamCounter, wake_bytes
from traffic.agent.replay import Computed, Released, Replay
from traffic.workloads.paradigms import gpipe, pipeline

ZERO_S = 100.0


def two_stage_job(iterations: int = 1) -> Job:
    dag = pipeline.build(stages=2, micro_batches=2, forward_s=1.0, activation_bytes=1000)
    return Job("j", dag, ("h1", "h2"), iterations)


def begun(job: Job, host: str) -> Replay:
    replay = Replay([job], host)
    replay.begin(ZERO_S)
    return replay


def test_a_chain_of_computations_does_not_drift_however_late_it_is_noticed():
    replay = begun(two_stage_job(), "h1")
    assert replay.advance(ZERO_S) == []
    (first, release) = replay.advance(ZERO_S + 1.25)
    assert isinstance(first, Computed)
    assert (first.start_s, first.due_s, first.finish_s) == (ZERO_S, ZERO_S + 1.0, ZERO_S + 1.25)
    # The data can leave only when the end was noticed ...
    assert release == Released("j", 0, "pp-forward 0->1 m0", ZERO_S + 1.25)
    # ... but the GPU went on when it was due.
    assert replay.next_due_s == ZERO_S + 2.0


def test_one_late_wake_up_makes_up_for_all_that_was_due():
    replay = begun(two_stage_job(), "h1")
    actions = replay.advance(ZERO_S + 5.0)
    assert [type(a) for a in actions] == [Computed, Released, Computed, Released]
    assert replay.next_due_s == math.inf


def test_a_computation_starts_when_its_last_byte_was_read():
    replay = begun(two_stage_job(), "h2")
    replay.advance(ZERO_S)
    assert replay.next_due_s == math.inf
    assert replay.arrived("j", 0, "pp-forward 0->1 m0", ZERO_S + 3.5) == []
    assert replay.next_due_s == ZERO_S + 4.5


def test_an_arrival_does_not_overtake_what_was_due_before_it():
    replay = begun(two_stage_job(), "h2")
    replay.arrived("j", 0, "pp-forward 0->1 m0", ZERO_S + 3.0)
    # f1 m0 was due at 4, nobody had looked: the second micro-batch starts at its own arrival, not at 4.
    (done,) = replay.arrived("j", 0, "pp-forward 0->1 m1", ZERO_S + 4.2)
    assert (done.due_s, done.finish_s) == (ZERO_S + 4.0, ZERO_S + 4.2)
    assert replay.next_due_s == ZERO_S + 5.2


def test_iterations_follow_each_other_and_the_end_is_known():
    job = two_stage_job(iterations=2)
    replay = begun(job, "h1")
    actions = replay.advance(ZERO_S + 100.0)
    released = [(a.iteration, a.flow) for a in actions if isinstance(a, Released)]
    assert released == [(k, f"pp-forward 0->1 m{m}") for k in range(2) for m in range(2)]
    for iteration, flow in released:
        assert not replay.done
        replay.acknowledged("j", iteration, flow, ZERO_S + 101.0)
    assert replay.done


def test_a_host_that_only_receives_is_not_done_before_all_has_arrived():
    dag = JobDag(2, (Transfer("x", 0, 1, 10, "x"),), (Group("g", "k", ("x",), (0.0,)),))
    replay = begun(Job("j", dag, ("h1", "h2")), "h2")
    replay.advance(ZERO_S)
    assert not replay.done
    replay.arrived("j", 0, "x", ZERO_S + 1)
    assert replay.done


def test_transfers_within_a_host_take_no_time():
    dag = gpipe.build(stages=2, micro_batches=2, forward_s=1.0, backward_s=1.0, activation_bytes=10)
    replay = begun(Job("j", dag, ("h1", "h1")), "h1")
    actions = replay.advance(ZERO_S + 6.0)
    assert all(isinstance(a, Computed) for a in actions)
    assert max(a.due_s for a in actions) == ZERO_S + 6.0
    assert replay.done


def test_the_sender_may_wait_for_its_own_transfer():
    steps = (Transfer("x", 0, 1, 10, "x"), Compute("c", 0, 1.0, ("x",)))
    replay = begun(Job("j", JobDag(2, steps, (Group("g", "k", ("x",), (0.0,)),)), ("h1", "h2")), "h1")
    replay.advance(ZERO_S)
    replay.acknowledged("j", 0, "x", ZERO_S + 2.0)
    assert replay.next_due_s == ZERO_S + 3.0


class TestGated:
    """A worker whose gradients are ready from the last layer to the first, and go the other way round."""

    def test_a_transfer_waits_for_credit_and_the_foremost_goes_first(self):
        replay = begun(gradients_job(Window(slots=1)), "h1")
        assert _released(replay.advance(ZERO_S + 3.0)) == [Released("gated", 0, "push 3", ZERO_S + 3.0)]
        assert _released(replay.advance(ZERO_S + 4.0)) == _released(replay.advance(ZERO_S + 5.0)) == []
        found = _released(replay.acknowledged("gated", 0, "push 3", ZERO_S + 5.5))
        assert found == [Released("gated", 0, "push 1", ZERO_S + 5.5, ZERO_S + 5.0)]
        # The last gradient is ready at this very moment, and takes part in what is chosen.
        found = _released(replay.acknowledged("gated", 0, "push 1", ZERO_S + 6.0))
        assert found == [Released("gated", 0, "push 0", ZERO_S + 6.0)]
        found = _released(replay.acknowledged("gated", 0, "push 0", ZERO_S + 7.0))
        assert found == [Released("gated", 0, "push 2", ZERO_S + 7.0, ZERO_S + 4.0)]

    def test_what_arrives_may_give_credit_back(self):
        replay = begun(gradients_job(Window(slots=1), ends="pull"), "h1")
        replay.advance(ZERO_S + 4.0)
        assert _released(replay.acknowledged("gated", 0, "push 3", ZERO_S + 4.2)) == []
        found = _released(replay.arrived("gated", 0, "pull 3", ZERO_S + 4.5))
        assert found == [Released("gated", 0, "push 2", ZERO_S + 4.5, ZERO_S + 4.0)]

    def test_transfers_within_a_host_give_their_credit_back_at_once(self):
        replay = begun(gradients_job(Window(slots=1), ("h1", "h1"), iterations=2), "h1")
        assert _released(replay.advance(ZERO_S + 12.0)) == []
        assert replay.done

    def test_the_other_end_holds_nothing_back(self):
        replay = begun(gradients_job(Window(slots=1)), "h2")
        for layer in range(4):
            found = _released(replay.arrived("gated", 0, f"push {layer}", ZERO_S + layer))
            assert found == [Released("gated", 0, f"pull {layer}", ZERO_S + layer)]

    def test_a_job_that_has_ended_releases_nothing(self):
        replay = Replay([gradients_job(Window(slots=1)), two_stage_job()], "h1")
        replay.begin(ZERO_S)
        replay.advance(ZERO_S + 4.0)
        replay.end_job("gated")
        assert {a.job for a in replay.advance(ZERO_S + 9.0)} <= {"j"}
        for m in range(2):
            replay.acknowledged("j", 0, f"pp-forward 0->1 m{m}", ZERO_S + 9.0)
        assert replay.done


def _released(actions):
    return [action for action in actions if isinstance(action, Released)]


def test_jobs_start_when_they_should():
    dag = JobDag(1, (Compute("c", 0, 1.0),))
    replay = Replay([Job("early", dag, ("h1",)), Job("late", dag, ("h1",), start_s=5.0)], "h1")
    replay.begin(ZERO_S)
    assert [a.job for a in replay.advance(ZERO_S + 4.0)] == ["early"]
    assert [a.job for a in replay.advance(ZERO_S + 6.0)] == ["late"]
    assert replay.done


def test_a_dependency_that_no_agent_can_notice_is_refused():
    steps = (Compute("a", 0, 1.0), Compute("b", 1, 1.0, ("a",)))
    with pytest.raises(InputError, match="'b' on h2 waits for 'a'"):
        check_observable(Job("j", JobDag(2, steps), ("h1", "h2")))
    check_observable(Job("j", JobDag(2, steps), ("h1", "h1")))


def test_a_dependency_on_another_hosts_last_iteration_is_refused():
    steps = (Compute("a", 0, 1.0), Compute("b", 1, 1.0))
    with pytest.raises(InputError, match="waits for 'a'"):
        check_observable(Job("j", JobDag(2, steps, next_iteration=(("a", "b"),)), ("h1", "h2"), 2))


class TestStreamCounter:
    def test_one_read_may_end_one_iteration_and_begin_the_next(self):
        counter = StreamCounter(100, iterations=3)
        assert counter.add(60, 1.0) == []
        (first,) = counter.add(60, 2.0)
        assert (first.iteration, first.first_s, first.finish_s, first.received_bytes) == (0, 1.0, 2.0, 100)
        second, third = counter.add(180, 3.0)
        assert (second.iteration, second.first_s, second.finish_s) == (1, 2.0, 3.0)
        assert (third.iteration, third.first_s, third.finish_s) == (2, 3.0, 3.0)
        assert counter.done

    def test_is_woken_for_the_first_byte_and_for_the_last(self):
        counter = StreamCounter(100_000, iterations=2)
        assert counter.wanted_bytes == 1
        counter.add(10, 1.0)
        assert counter.wanted_bytes == 65536
        counter.add(60_000, 1.0)
        assert counter.wanted_bytes == 39_990
        counter.add(39_990, 2.0)
        assert counter.wanted_bytes == 1

    def test_on_a_fast_link_more_gathers_but_the_last_byte_wakes_at_once(self):
        assert wake_bytes(32_768) == 65_536
        assert wake_bytes(650_000) == 650_000
        counter = StreamCounter(1_000_000, iterations=1, wake_bytes=wake_bytes(650_000))
        counter.add(10, 1.0)
        assert counter.wanted_bytes == 650_000
        counter.add(650_000, 1.0)
        assert counter.wanted_bytes == 349_990

    def test_more_bytes_than_declared_are_an_error(self):
        with pytest.raises(RunError, match="1 bytes more"):
            StreamCounter(100, iterations=1).add(101, 1.0)
