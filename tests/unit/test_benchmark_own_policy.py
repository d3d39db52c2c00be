"""The benchmark of users' policy files, at its smallest: one first run on a busy machine, one cost."""

from __future__ import annotations

import pytest

from echelon.benchmarks import own_policy


@pytest.mark.slow
def test_a_first_run_on_a_busy_machine_ends_with_results(monkeypatch):
    """Where numba is installed and has compiled nothing, it was refused: "had not decided after 1 s"."""
    monkeypatch.setattr(own_policy, "_backends", lambda _: ["fluid"])
    monkeypatch.setattr(own_policy, "SIZES", (100,))
    said = []
    first, cost = own_policy.run(1, said.append)
    assert first.ok, said
    assert first.measured.startswith("1 of 1 ended with results (1 valid)")
    assert cost.measured.count(" ms") == 2


def test_what_fails_is_counted_and_said(monkeypatch, tmp_path):
    monkeypatch.setattr(own_policy, "_first_run", lambda *given: (given[-1] % 2 * 2, "; why"))
    said = []
    figure = own_policy._first_runs("fluid", 4, tmp_path, said.append)
    assert (figure.ok, figure.measured.partition(" (")[0]) == (False, "2 of 4 ended with results")
    assert sum("exit code 2" in words and words.endswith("why") for words in said) == 2
