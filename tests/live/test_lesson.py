"""Which exchange of the lesson one of a run is, and where a program first does otherwise."""

from __future__ import annotations

import contextlib
import threading
from datetime import timedelta

import pytest

from echelonflow.records.observed import Called, Exchanged, Observed, ObservedIteration
from echelonflow.records.phases import InPhase, Phase, counted_before, in_phase
from traffic.live.exchange import Key, lane_of
from traffic.live.lesson import Lesson, Place
from traffic.live.observed import exchange_name
from traffic.live.observing import Observer, Operation, Part
from traffic.live.work import LiveWork

GROUP = 7 << 32
KEY = Key(GROUP, 0, 1)
BYTES = {1: 8}


def operation(kind="all-reduce"):
    return Operation(kind, (0, 1), ())


def part(number, size_bytes=8, lane=0):
    sizes = {1: size_bytes} if size_bytes else {}
    return Part(Key(GROUP, lane, number), sizes, sizes, {})


def iteration(*names, from_any=()):
    return ObservedIteration(
        tuple(
            Called(name.split()[0], (0, 1), (Exchanged(name, BYTES, BYTES),), from_any=name in from_any)
            for name in names
        ),
        (),
        0.0,
    )


def name(number, kind="all-reduce"):
    return exchange_name(operation(kind), KEY, number)


@pytest.fixture
def lesson():
    """One broadcast and one all-reduce before; then two all-reduces in each iteration."""
    before = iteration(name(1, "broadcast"), name(2))
    again = iteration(name(1), name(2))
    return Lesson(Observed(0, 2, (before, again, again)), [Phase("gpt", 1, 2)])


def test_a_place_follows_from_the_number_alone(lesson):
    assert lesson.place_of(operation(), part(2)) is None  # while it warms up
    assert lesson.place_of(operation(), part(3)) == Place(0, 0, name(1))
    assert lesson.place_of(operation(), part(6)) == Place(0, 1, name(2))
    assert lesson.place_of(operation(), part(7)) is None  # beyond the last iteration
    assert lesson.place_of(operation("all-gather"), part(3, 99)) == Place(0, 0, name(1))  # whatever it is
    assert lesson.place_of(operation(), part(1, lane=lane_of(0, 1, 2, 0))) is None


def test_what_is_as_before_is_no_departure(lesson):
    departures = [lesson.departure(operation(), part(n), InPhase(0, (n - 3) // 2)) for n in (3, 4, 5, 6)]
    assert departures == [None] * 4


@pytest.mark.parametrize(
    ("called", "when", "words"),
    [
        ((operation("all-gather"), part(3)), 0, "all-gather among ranks 0, 1 came in the place of all-reduce"),
        ((operation(), part(3, 12)), 0, "sends 12 bytes and receives 12; in the lesson it sends 8 and receives 8"),
        ((operation(), part(3, 0)), 0, "sends 0 bytes"),
        ((operation(), part(5)), 0, "was not in the lesson there"),
        ((operation("send"), part(1, lane=lane_of(0, 1, 2, 0))), 0, "was not in the lesson there"),
    ],
)
def test_a_departure_says_of_what(lesson, called, when, words):
    assert words in lesson.departure(*called, InPhase(0, when)).replace(" bytes and receives 8", " and receives 8")


def test_what_was_not_called_is_found_at_the_end_of_an_iteration(lesson):
    for number in range(1, 6):
        lesson.note(operation(), part(number))
    assert lesson.otherwise_before() is not None  # by now it is not the beginning any more
    assert lesson.not_called(InPhase(0, 0)) is None
    assert lesson.not_called(InPhase(0, 1)) == f"{name(2)} was not called"


def test_another_beginning_is_named():
    again = iteration(name(1))
    lesson = Lesson(Observed(3, 4, (again, again)), [Phase("gpt", 1, 1)])
    assert "it called 0 operations among" in lesson.otherwise_before()
    lesson.note(operation(), part(1))
    assert lesson.otherwise_before() is None


def test_what_came_from_whoever_sent_first_is_not_looked_for():
    again = iteration(name(1), from_any=(name(1),))
    lesson = Lesson(Observed(0, 2, (again, again)), [Phase("gpt", 1, 1)])
    assert lesson.not_called(InPhase(0, 0)) is None
    assert lesson.place_of(operation(), part(2)) is None


PHASES = [Phase("gpt", 1, 2), Phase("gpt.2", 4, 2)]


@pytest.fixture
def changing():
    """An all-reduce in each iteration; then three in one that is like no other; then two in each."""
    once, between, twice = iteration(name(1)), iteration(name(1), name(2), name(3)), iteration(name(1), name(2))
    return Lesson(Observed(0, 2, (once, once, once, between, twice, twice)), PHASES)


def test_places_of_a_program_that_changes_are_of_its_phases_and_between_them_of_none(changing):
    found = [changing.place_of(operation(), part(number)) for number in range(1, 12)]
    assert found == [
        None, Place(0, 0, name(1)), Place(0, 1, name(1)), None, None, None,
        Place(1, 0, name(1)), Place(1, 0, name(2)), Place(1, 1, name(1)), Place(1, 1, name(2)), None,
    ]  # fmt: skip


def test_what_is_between_phases_is_held_against_nothing_but_phases_are(changing):
    assert changing.departure(operation("all-gather"), part(5), None) is None
    assert "was not in the lesson there" in changing.departure(operation(), part(7), None)  # which is the next phase's
    assert "was not in the lesson there" in changing.departure(operation(), part(4), InPhase(0, 1))
    assert changing.departure(operation(), part(7), InPhase(1, 0)) is None
    assert "sends 12 bytes" in changing.departure(operation(), part(7, 12), InPhase(1, 0))


def test_what_was_otherwise_between_phases_is_found_where_the_next_one_begins(changing):
    for number in range(1, 6):
        changing.note(operation(), part(number))
    assert changing.not_called(InPhase(0, 1)) is None
    assert "it called 5 operations among 0,1/" in changing.otherwise_before(1)
    changing.note(operation(), part(6))
    assert changing.otherwise_before(1) is None
    changing.note(operation(), part(7))
    assert changing.not_called(InPhase(1, 0)) == f"{name(2)} was not called"


def test_iterations_are_counted_over_all_phases():
    assert [in_phase(PHASES, number) for number in (0, 2, 3, 4, 6)] == [
        None, InPhase(0, 1), None, InPhase(1, 0), None,
    ]  # fmt: skip
    assert [counted_before(PHASES, number) for number in range(7)] == [0, 0, 1, 2, 2, 3, 4]


class Meeting(int):
    """A number from which two threads take one each at the same time, if nothing keeps them apart."""

    both = threading.Barrier(2)

    def __sub__(self, other):
        with contextlib.suppress(threading.BrokenBarrierError):
            self.both.wait(0.2)
        return Meeting(int(self) - other)


def test_parts_of_an_operation_may_end_in_several_threads_at_once():
    work = LiveWork(operation(), Observer(), 2, [], lambda: None, timedelta(seconds=20))
    work._parts = Meeting(2)
    threads = [threading.Thread(target=work.part_done, args=(None,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert work.is_completed()
