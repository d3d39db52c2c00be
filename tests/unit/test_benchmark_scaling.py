"""The scaling benchmark: its states are as large as they say, its exponent is the slope, its picture is drawn."""

from __future__ import annotations

import pytest

from echelon.benchmarks import scaling
from echelonflow.model import topologies
from echelonflow.scheduling import policies
from results.pictures.scaling_plots import Curve, draw_scaling

NETWORK = topologies.build("single-switch", {"hosts": 12, "rate_bps": 1e9})


def test_states_are_as_large_as_they_say_and_stay_so():
    state = scaling.random_state(NETWORK, 300)
    policy = policies.load("echelonflow")
    assert all(scaling._decision_ms(state, policy, 3.0 + i) > 0 for i in range(3))
    snapshot, _ = state.snapshot(9.0)
    assert snapshot.flows == 300
    assert len(set(snapshot.groups.job.tolist())) == 30
    assert snapshot.groups.pending_bytes.sum() > 0
    assert (snapshot.sent_bytes > 0).any()


def test_the_exponent_is_the_slope_of_the_logarithms():
    flows = (10, 100, 1000)
    assert scaling.fitted_exponent(flows, [3 * n**1.5 for n in flows]) == pytest.approx(1.5)


def test_the_picture_is_drawn(tmp_path):
    curves = [Curve(f"fair, {way}", "fair", way == "plain", (10, 100), (1.0, 9.0)) for way in ("numba", "plain")]
    draw_scaling(curves, {100: 20.0}, tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 1000
    assert "at most 20 ms" in (tmp_path / "picture.svg").read_text()
