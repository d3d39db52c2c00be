"""The benchmark of collectives: both backends are timed, and a rank that fails is named."""

from __future__ import annotations

import pytest

from echelon.benchmarks import live_collectives
from echelonflow.errors import RunError


def test_both_backends_are_timed(monkeypatch):
    monkeypatch.setattr(live_collectives, "SIZES_MB", (1,))
    said = []
    bandwidth, share = live_collectives.run(1, said.append)
    assert "gloo" in bandwidth.measured
    assert "echelon" in bandwidth.measured
    assert 0.01 < float(share.measured.partition("%")[0]) / 100 < 100
    assert len(said) == 1


def test_a_rank_that_fails_is_named():
    with pytest.raises(RunError, match="rank 0 of the all_reduce by nonesuch failed"):
        live_collectives.all_reduce_s("nonesuch", 4)
