"""The benchmark of what holding back costs: that it sends all it says, in order of priority, and judges by its bound."""

from __future__ import annotations

import pytest

from echelon.benchmarks import core_cost
from echelonflow.model.discipline import Window
from traffic.agent.replay import Released, Replay


@pytest.mark.parametrize("window", [None, *(window for _, window in core_cost.WINDOWS)])
def test_every_partition_is_sent_once(window, monkeypatch):
    monkeypatch.setattr(core_cost, "TRANSFERS", 60)
    job = core_cost.worker(20, window)
    assert job.iterations == 3
    replay = Replay([job], "h1")
    replay.begin(0.0)
    assert core_cost._drive(replay) == 60
    assert replay.done
    assert core_cost.cost_s(job) > 0


def test_with_a_window_all_others_wait():
    replay = Replay([core_cost.worker(20, Window(slots=3))], "h1")
    replay.begin(0.0)
    assert sum(isinstance(action, Released) for action in replay.advance(1.0)) == 3


@pytest.mark.parametrize(("more_us", "kept"), [(99.0, True), (101.0, False)])
def test_the_share_of_a_core_is_that_of_what_holding_back_adds(more_us, kept):
    found = core_cost.figure("it", [(20 + more_us) * 1e-6] * 3, [20e-6] * 3)
    assert found.ok is kept
    assert f"{more_us:.1f} [{more_us:.1f}, {more_us:.1f}] µs" in found.measured
