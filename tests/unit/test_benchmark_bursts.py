"""The figures of `echelon bench bursts`, from rounds that are made up."""

from __future__ import annotations

from echelon.benchmarks.bursts import BURSTS_S, figures


def one_round(chosen_s, *errors, stolen=0.01):
    bursts_s = [*BURSTS_S, chosen_s]
    return {
        "burst_s": bursts_s, "error": list(errors), "lost_share": [0.01 / (1e3 * b) for b in bursts_s],
        "stolen_share": [stolen],
    }  # fmt: skip


def test_each_burst_has_a_figure_and_only_the_chosen_one_must_hold():
    rounds = [one_round(0.004, -0.2, -0.01, 0.0, 0.01, -0.02), one_round(0.008, -0.1, 0.0, 0.0, 0.02, 0.01, stolen=0.2)]
    found = figures(rounds)
    assert [figure.ok for figure in found] == [None] * 4 + [True, None]
    assert found[0].measured == "-15.00% (-20.00% to -10.00%, n = 2); lateness foretells -0.50%"
    assert "the chosen burst (4, 8 ms)" in found[4].what
    assert found[5].measured == "1.0% to 20.0%"


def test_a_chosen_burst_that_does_not_make_up_is_missed():
    assert figures([one_round(0.02, 0.0, 0.0, 0.0, 0.0, -0.04)])[4].ok is False
