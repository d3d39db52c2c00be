"""The benchmark of losses: both ways are trained, and losses that are missing or far off are found out."""

from __future__ import annotations

import pytest

from echelon.benchmarks import live_losses
from echelonflow.errors import RunError


def test_a_program_is_trained_both_ways(monkeypatch):
    monkeypatch.setattr(live_losses, "PROGRAMS", ("train_ddp.py",))
    monkeypatch.setattr(live_losses, "STEPS", 3)
    said = []
    (figure,) = live_losses.run(1, said.append)
    assert figure.ok
    assert figure.measured.endswith(")")
    assert len(said) == 1


def test_what_is_far_off_or_missing_is_found_out(monkeypatch):
    monkeypatch.setattr(live_losses, "STEPS", 2)
    assert live_losses.farthest({0: 2.0, 1: 1.01}, {0: 2.0, 1: 1.0}) == pytest.approx(0.01)
    with pytest.raises(RunError, match="through echelon, losses of 1 steps were printed, and 2 were asked for"):
        live_losses.farthest({0: 2.0}, {0: 2.0, 1: 1.0})
    monkeypatch.setattr(live_losses, "PROGRAMS", ("train_ddp.py",))
    monkeypatch.setattr(live_losses, "losses_of_ours", lambda _: {0: 2.0, 1: 1.01})
    monkeypatch.setattr(live_losses, "losses_of_gloo", lambda _: {0: 2.0, 1: 1.0})
    (figure,) = live_losses.run(1, lambda _: None)
    assert not figure.ok


def test_a_rank_that_fails_is_named(tmp_path):
    script = tmp_path / "fails.py"
    script.write_text("raise SystemExit('nothing to learn')")
    with pytest.raises(RunError, match=r"rank 0 of fails.py by echelon failed: nothing to learn"):
        live_losses.losses_of_ours([str(script)])
    with pytest.raises(RunError, match=r"fails.py with gloo ended with 1"):
        live_losses.losses_of_gloo([str(script)])
