"""Simulated cells: what their figures are the means of."""

from __future__ import annotations

import pytest

from echelon.places import EXPERIMENTS
from echelon.running import runner
from echelon.running.simulated import predict
from echelon.sweeps import fluid
from echelon.sweeps.building import built
from echelon.sweeps.fluid import Computer, Wanted
from results.analysis.across_measures import MEASURES
from results.analysis.cells import COLUMNS
from results.analysis.columns import keys_of
from results.analysis.gathered import gather
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


def test_a_cell_says_what_the_run_folder_of_the_same_experiment_says(tmp_path):
    """Slowdown, percentiles, GPUs, fairness, bound, links: the same names and numbers, whichever way it was simulated."""
    data = {**DATA, "window": "steady"}
    runner.run(built(data, PATH, {}, 0, ["fair"]), tmp_path / "run", "fluid", lambda _: None, pictures="none")
    of_cell = cell(window="steady")
    for seen in gather([tmp_path / "run"]).observations:
        ours = {**of_cell.jobs[seen.job], **of_cell.together}
        assert ours.pop("iterations") == (12 if seen.job == "long" else 6), "all that ended"
        assert ours.keys() == seen.figures.keys()
        known = {name: value for name, value in seen.figures.items() if value is not None}
        assert {name: value for name, value in ours.items() if value is not None} == pytest.approx(known, rel=1e-4)
        assert ours["counted"] == 4
        assert ours["slowdown"] > 1.05
        assert 0 < ours["link_mean_share"] <= ours["link_max_share"] < 1
    told = {*of_cell.jobs["long"], *of_cell.together}
    control = {"messages", "decisions", "decision_p50_ms", "decision_p95_ms"}
    assert told | control >= {name for kind in COLUMNS for name in keys_of(kind)} >= set(MEASURES)


def test_jobs_are_simulated_alone_once_for_all_policies_of_a_point(monkeypatch):
    asked = []
    whole = fluid.yardsticks_of
    monkeypatch.setattr(fluid, "yardsticks_of", lambda *a, **k: asked.append(1) or whole(*a, **k))

    def times(**changes):
        """How often that was found out for two points with two seeds and policies each."""
        asked.clear()
        computer = Computer({**DATA, **changes}, PATH, ["fair", "fifo"])
        wanted = [
            Wanted("c", {"network.rate": rate}, policy, seed)
            for rate in ("1 Gbit/s", "2 Gbit/s") for seed in (0, 1) for policy in ("fair", "fifo")
        ]  # fmt: skip
        cells = [computer.compute(each) for each in wanted]
        assert [one.reasons for one in cells] == [()] * 8
        slow_s, fast_s = (cells[place].jobs["long"]["alone_s"] for place in (0, 4))
        assert slow_s > fast_s
        return len(asked)

    assert times() == 2
    assert times(jobs=[LONG | {"jitter": "10 %"}, SHORT]) == 4, "another seed is another job where its times are drawn"


def test_jobs_that_wait_for_gpus_are_told_from_where_they_were_placed():
    job = {key: value for key, value in SHORT.items() if key != "placement"} | {"count": 2}
    found = cell(jobs=[job], arrivals={"process": "even", "every": "10 ms"}, queue="fifo")
    assert found.valid, found.reasons
    first, second = found.jobs.values()
    assert first["completion_s"] == pytest.approx(second["completion_s"]), "one after the other, as there are two hosts"
    assert found.together["jain"] == pytest.approx(1)


def test_traffic_in_the_background_is_no_job_of_a_cell():
    found = cell(background=[{"load": "10 %", "size": "1 MB", "for": "1 s"}])
    assert found.valid, found.reasons
    assert list(found.jobs) == ["long", "short"]
    assert found.together["completion_mean_s"] > 0
