"""Simulated cells: what their figures are the means of."""

from __future__ import annotations

import pytest

from echelon.places import EXPERIMENTS
from echelon.running.simulated import predict
from echelon.sweeps.building import built
from echelon.sweeps.fluid import Computer, Wanted
from results.analysis.rows import run_rows

PATH = EXPERIMENTS / "window.yaml"
LONG = {"name": "long", "paradigm": "data-parallel", "placement": ["h1", "h2"], "ranks": 2, "layers": 1, "forward": "10 ms",
        "backward": "20 ms", "parameter": "1 MB", "bucket": "1 MB", "iterations": 12}  # fmt: skip
SHORT = LONG | {"name": "short", "iterations": 6}
DATA = {
    "name": "window",
    "network": {"topology": "big-switch", "ports": 2, "rate": "1 Gbit/s"},
    "jobs": [LONG, SHORT],
    "policies": ["fair"],
}


def cell(**settings):
    return Computer({**DATA, **settings}, PATH, ["fair"]).compute(Wanted("cell", {}, "fair", 0))


def durations_s(job):
    experiment = built(DATA, PATH, {}, 0, ["fair"])
    rows = run_rows(predict(experiment, "fair"), experiment.jobs, is_prediction=True).iterations
    return [row.duration_s for row in rows if row.job == job]


def test_figures_of_a_cell_are_means_over_the_iterations_that_count():
    long_s = durations_s("long")
    steady = cell(window="steady")
    assert steady.valid, steady.reasons
    # both have the link to share until the short job ends its sixth; the first two are a warm-up
    assert steady.jobs["long"]["iteration_s"] == pytest.approx(sum(long_s[2:6]) / 4)
    assert cell().jobs["long"]["iteration_s"] == pytest.approx(sum(long_s) / 12)
    assert min(long_s[2:6]) > 1.05 * max(long_s[7:])


def test_a_cell_of_which_no_iteration_counts_is_invalid():
    none = cell(window="1000 s to 2000 s")
    assert not none.valid
    assert "no iteration counts" in none.reasons[0]
