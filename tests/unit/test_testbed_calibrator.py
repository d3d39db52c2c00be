"""When links are measured again, with what bursts, and what is said: against links that behave as told."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from testbed import calibrate, calibrator
from testbed.calibrator import RETRY_AFTER_S, Calibrator
from testbed.timers import Lateness
from tests.unit.test_records_calibration import link

LONG_S = 1000.0
LIMIT = 0.03


class World:
    """Links whose errors, and timers whose latenesses, are told beforehand, attempt by attempt."""

    def __init__(self, monkeypatch, errors, late_ms=(0.1,), runs_s=LONG_S, earlier=()):
        self.errors, self.late_ms = list(errors), list(late_ms)
        self.bursts_ms, self.slept_s, self.told, self.saved = [], [], [], []
        self.burst_s = 0.002
        self.ovs = SimpleNamespace(datapath="userspace", tso=True, version="3.1.0")
        monkeypatch.setattr(calibrate, "calibrate", self._measure)
        monkeypatch.setattr(calibrate, "watch_timers", self._watch)
        monkeypatch.setattr(calibrator, "stolen_share", lambda *_: 0.02)
        self.calibrator = Calibrator(
            self,
            LIMIT,
            runs_s,
            tell=self.told.append,
            save=self.saved.append,
            sleep=self.slept_s.append,
            earlier=earlier,
        )

    def _watch(self, net):
        late_ms = self.late_ms.pop(0) if len(self.late_ms) > 1 else self.late_ms[0]
        return Lateness((late_ms / 1e3,), 1.0)

    def _measure(self, net, max_error):
        self.bursts_ms.append(round(self.burst_s * 1e3))
        return [link(self.errors.pop(0))]

    def set_burst(self, burst_s):
        self.burst_s = burst_s

    def off(self, run):
        return bool(self.calibrator.calibration.of_run(run).off(LIMIT))


def test_links_that_are_well_are_measured_once_with_the_burst_that_timers_ask_for(monkeypatch):
    world = World(monkeypatch, [0.01], late_ms=[6.0])
    world.calibrator.begin()
    for run in range(3):
        world.calibrator.before_run(run)
        world.calibrator.after_run(run, cpu_stolen=0.06)
    assert (world.bursts_ms, world.slept_s, world.told) == ([8], [], [])
    (attempt,) = world.saved[-1].attempts
    assert (attempt.burst_s, attempt.timers.max_s, attempt.timers.lost_share["4 ms"]) == (
        0.008,
        0.006,
        pytest.approx(0.002),
    )


def test_links_that_carry_too_little_are_tried_again_later_with_longer_bursts(monkeypatch):
    world = World(monkeypatch, [-0.2, -0.05, 0.0])
    world.calibrator.begin()
    assert world.bursts_ms == [2, 4, 8]
    assert world.slept_s == list(RETRY_AFTER_S[:2])
    assert world.told == [
        "edge links carry -20.0% of what they declare; trying again in 5 s",
        "edge links carry -5.0% of what they declare; trying again in 15 s",
    ]
    assert not world.off(0)
    assert len(world.saved[-1].attempts) == 3


def test_links_that_carry_too_much_get_no_longer_bursts_than_timers_ask_for(monkeypatch):
    world = World(monkeypatch, [-0.05, 0.04, 0.0], late_ms=[16.5, 16.5, 0.1])
    world.calibrator.begin()
    assert world.bursts_ms == [16, 20, 2]


def test_runs_on_links_that_stay_off_are_told_apart_from_later_ones(monkeypatch):
    world = World(monkeypatch, [-0.1] * 5 + [0.0])
    world.calibrator.begin()
    assert len(world.slept_s) == len(RETRY_AFTER_S)
    assert "runs count where that moves their times by little" in world.told[-1]
    for run in range(4):
        world.calibrator.before_run(run)
        world.calibrator.after_run(run, cpu_stolen=0.5 if run == 0 else 0.0)
    assert [world.off(run) for run in range(4)] == [True, True, False, False]
    assert world.told[-1] == "links carry what they declare again"


def test_what_is_never_begun_never_measures(monkeypatch):
    world = World(monkeypatch, [])
    world.calibrator.before_run(1)
    world.calibrator.after_run(1, cpu_stolen=0.5)
    assert (world.saved, world.told) == ([], [])


def test_no_longer_is_waited_than_runs_take(monkeypatch):
    world = World(monkeypatch, [-0.1] * 2, runs_s=6.0)
    world.calibrator.begin()
    assert world.slept_s == [5.0]
    assert world.off(0)


def test_a_run_in_which_much_was_stolen_counts_if_links_hold(monkeypatch):
    world = World(monkeypatch, [0.0, 0.01])
    world.calibrator.begin()
    world.calibrator.after_run(0, cpu_stolen=0.08)
    assert not world.off(0)
    assert [attempt.first_run for attempt in world.saved[-1].attempts] == [0, 0]
    assert world.saved[-1].last.timers is None  # bursts stay: it is the run's links that are measured


def test_a_run_in_which_much_was_stolen_does_not_count_if_links_were_off(monkeypatch):
    world = World(monkeypatch, [0.0, -0.2, 0.0])
    world.calibrator.begin()
    world.calibrator.after_run(0, cpu_stolen=0.0)
    world.calibrator.after_run(1, cpu_stolen=0.3)
    world.calibrator.before_run(2)
    assert [world.off(run) for run in range(4)] == [False, True, False, False]
    assert "30% of the processors were taken away" in world.told[0]


def test_attempts_of_an_earlier_world_speak_for_the_runs_made_there(monkeypatch):
    first = World(monkeypatch, [-0.2, 0.01])
    first.calibrator.begin()
    second = World(monkeypatch, [0.02], earlier=first.saved[-1].attempts)
    second.calibrator.begin(first_run=7)
    second.calibrator.before_run(7)
    found = second.saved[-1]
    assert [attempt.first_run for attempt in found.attempts] == [0, 0, 7]
    assert [found.of_run(run).links[0].error for run in (6, 7, 8)] == [0.01, 0.02, 0.02]
