"""What an agent makes of the computations of a program: as long as their profile, or as long as they take."""

from __future__ import annotations

import pytest

from echelonflow.model.dag import Compute, Job, JobDag
from echelonflow.records.observed import step_of
from traffic.live import rehearsal

FIRST, LAST = Compute(step_of(0, 0), 0, 0.1), Compute(step_of(0, None), 0, 0.2)
JOB = Job("gpt", JobDag(1, (FIRST, LAST)), ("h1",), 2)


class Clock:
    """A clock that moves by what is computed and slept."""

    def __init__(self) -> None:
        self.now_s = 50.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, time_s: float) -> None:
        self.now_s += time_s


@pytest.fixture
def clock(monkeypatch):
    made = Clock()
    monkeypatch.setattr(rehearsal, "time", made)
    return made


def rehearsed(clock, profiled, *took_s):
    """An iteration whose computations take so long; what is told of each: start, due and end."""
    told = []
    found = rehearsal.Rehearsal(
        JOB, 0, profiled, lambda _, step, *times_s: told.append((step, *(t - 50.0 for t in times_s)))
    )
    found.begin_iteration(0, clock.now_s)
    for event, time_s in zip((0, None), took_s, strict=True):
        clock.sleep(time_s)
        found.pace(event)
    return found, told


def test_a_computation_with_a_profile_lasts_as_long_as_that_or_is_late(clock):
    found, told = rehearsed(clock, True, 0.04, 0.25)
    assert told == [
        (FIRST, pytest.approx(0.0), pytest.approx(0.1), pytest.approx(0.1)),
        (LAST, pytest.approx(0.1), pytest.approx(0.3), pytest.approx(0.35)),
    ]
    assert (found.computed, found.overran) == (2, 1)
    assert found.since_s == pytest.approx(50.3)  # the next one began when this one was due


def test_a_computation_that_is_measured_is_due_when_it_ends(clock):
    found, told = rehearsed(clock, False, 0.04, 0.25)
    assert told == [
        (FIRST, pytest.approx(0.0), pytest.approx(0.04), pytest.approx(0.04)),
        (LAST, pytest.approx(0.04), pytest.approx(0.29), pytest.approx(0.29)),
    ]
    assert (found.computed, found.overran) == (2, None)


def test_what_is_no_computation_of_the_job_and_what_was_seen_already_is_passed_over(clock):
    found, told = rehearsed(clock, True, 0.1, 0.2)
    found.pace(None)
    found.pace(7)
    assert (len(told), found.computed) == (2, 2)


def test_a_virtual_gpu_goes_on_when_what_it_waits_for_has_ended_whenever_the_thread_does(clock):
    found, _ = rehearsed(clock, True, 0.1, 0.2)
    found.resumed(50.4, 50.43)
    assert found.since_s == 50.4
    found.resumed(50.2, 50.5)  # it had ended before, while the GPU still computed
    assert found.since_s == 50.4


def test_computation_that_is_measured_goes_on_when_the_thread_does(clock):
    found, _ = rehearsed(clock, False, 0.1, 0.2)
    found.resumed(50.4, 50.43)
    assert found.since_s == 50.43
