"""The benchmark of roll-outs measures what it says."""

from __future__ import annotations

import pytest

from echelon.benchmarks import _busy_planner, look_ahead
from echelonflow.scheduling import kernels


@pytest.mark.skipif(not kernels.can_compile(), reason="looking ahead needs compiled loops (numba)")
def test_roll_outs_are_timed(monkeypatch):
    monkeypatch.setattr(look_ahead, "JOBS", 2)
    monkeypatch.setattr(look_ahead, "HOSTS", 16)
    monkeypatch.setattr(look_ahead, "ROUNDS", 2)
    monkeypatch.setattr(look_ahead, "TRIES", 1)
    monkeypatch.setattr(_busy_planner, "RANKS", 6)
    monkeypatch.setattr(_busy_planner, "DECISIONS", 20)
    monkeypatch.setattr(_busy_planner, "LEAST_FLOWS", 90)
    whole, each, decision, roll_out = look_ahead.run(1, lambda _: None)
    assert decision.what.endswith("90 flows and more: 95th percentile")
    assert float(decision.measured.split(" ms")[0]) > 0
    assert float(roll_out.measured.split(" ms")[0]) >= 0
    assert whole.what == "a roll-out, 2 jobs on 16 hosts, 2 iterations of the slowest"
    assert float(whole.measured.split(" ms")[0]) > 0
    assert float(each.measured.split(" ms")[0]) == pytest.approx(float(whole.measured.split(" ms")[0]) / 2, abs=0.1)
