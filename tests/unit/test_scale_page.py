"""docs/scale.md: made of cells that are kept, and of nothing else."""

from __future__ import annotations

import re

import numpy as np
import pytest
from typer.testing import CliRunner

from echelon.cli.main import app
from echelon.documents import scale_bounds, scale_cells, scale_ends, scale_files, scale_kept, scale_page, scale_why
from echelon.documents.scale_bounds import PointBound
from echelon.documents.scale_cells import ScaleCell
from echelon.documents.scale_ends import EndedCell
from echelon.documents.scale_figures import ROUNDED, Bounds, fed, ratio_over_basis
from echelon.documents.scale_files import LOADS, Size
from echelon.documents.scale_points import cluster_of
from echelon.places import DOCS
from echelon.study import at_scale
from echelonflow.errors import InputError
from echelonflow.records.sweeps import read_sweep

TINY = Size(32, leaves=2, spines=2, jobs=4, largest=8, seeds=2)


def cell(policy, iteration_s, gpus=64, load=0.9, placement="fragmented(seed=0)"):
    return ScaleCell(gpus, load, placement, policy, 1.5, ["gpipe", "zero"], [4, 64], iteration_s)


def cells(placement, slower=1.0):
    return [
        each
        for load in LOADS
        for each in (
            cell("fair", [2.0 * slower, 4.0], load=load, placement=placement),
            cell("fifo", [1.0, 4.0], load=load, placement=placement),
            cell("clock", [1.0, None], load=load, placement=placement),
        )
    ]


def ended(placement):
    took_s = {"fair": [10.0, 30.0], "fifo": [10.0, 20.0], "clock": [10.0, 90.0]}
    return [EndedCell(64, load, placement, policy, each_s) for load in LOADS for policy, each_s in took_s.items()]


def bounds(*placements, mean_s=2.0, slowdown=1.25):
    return [PointBound(64, load, each, [1.0, 2.0], mean_s, slowdown, 1e-5) for load in LOADS for each in placements]


def plain(page):
    """Without the spaces that line up a table's columns."""
    return re.sub(" +", " ", page)


def section(page, name):
    return page.partition(f"## {name}\n")[2].partition("\n## ")[0]


def test_the_committed_page_is_made_of_what_is_kept():
    page = (DOCS / f"{scale_kept.NAME}.md").read_text(encoding="utf-8")
    found = scale_page.page(*(each.KEPT.rows_in() for each in (scale_cells, scale_bounds, scale_ends, scale_why)))
    assert found == page, "make it again: python -m echelon.documents.scale_page"


def test_a_ratio_is_over_placements_and_leaves_out_what_starves():
    found = [*cells("a"), *cells("b", slower=2.0)]
    # means over jobs: fair 3 and 4, fifo 2.5 and 2.5
    mean, low, high = ratio_over_basis(fed(found), "fifo", load=0.9)
    assert mean == pytest.approx(((2.5 / 3) * (2.5 / 4)) ** 0.5)
    assert low < mean < high
    assert ratio_over_basis(fed(found), "clock") is None
    page = plain(scale_page.page(found, bounds("a", "b")))
    assert "| `clock` | - | 2 of 2 |" in page
    assert "`clock` starves a job in 6 of 6 points, `fair` in 0, `fifo` in 0." in page
    assert "At load 0.9 they are over these placements alone: `clock` 0 of 2." in page


def test_completion_times_are_those_of_starved_jobs_too():
    assert ratio_over_basis(ended("a"), "clock", load=0.9) == (2.5, None, None)
    page = plain(scale_page.page(cells("a"), bounds("a"), ended("a")))
    assert section(page, "Completion time").count("| `clock` | 2.500 |") == len(LOADS)
    assert "on 64 GPUs it is compared with that under fair sharing. `fifo` has 0.750. `clock` has 2.500." in page
    page = scale_page.page(cells("a"), bounds("a"))
    assert "## Completion time" not in page
    assert "Mean completion" not in page


def test_slowdowns_and_their_bound_are_over_the_least_time_alone():
    slowdown = section(plain(scale_page.page(cells("a"), bounds("a"))), "Slowdown")
    assert slowdown.count("| `fair` | 2.00, 2.00 |") == len(LOADS)
    assert slowdown.count("| `fifo` | 1.50, 2.00 |") == len(LOADS)
    assert slowdown.count("| `clock` | - |") == len(LOADS)
    assert slowdown.count("| *bound* | 1.25 |") == len(LOADS)


def test_the_bound_of_the_mean_iteration_time_is_over_that_of_fair_sharing():
    found = plain(scale_page.page(cells("a"), bounds("a")))
    assert section(found, "Iteration time").count("| *bound* | 0.667 | |") == len(LOADS)
    assert "above what no scheduler can beat in steady state: `fair` 50%." in found


def test_the_page_says_how_many_cells_are_below_their_bound():
    slowdown = section(scale_page.page(cells("a"), bounds("a")), "Slowdown").replace("\n", " ")
    assert "None of the 6 cells in which no job starves is below" in slowdown
    assert "the nearest is 20.00% above it" in slowdown
    of_times = section(scale_page.page(cells("a"), bounds("a", mean_s=2.6)), "Slowdown").replace("\n", " ")
    assert "Of the 6 cells in which no job starves, 3 are below" in of_times
    assert "down to 0.962 of it" in of_times
    of_slowdowns = section(scale_page.page(cells("a"), bounds("a", slowdown=1.6)), "Slowdown").replace("\n", " ")
    assert "Of the 6 cells in which no job starves, 3 are below" in of_slowdowns


def test_a_point_without_a_bound_is_named():
    with pytest.raises(InputError, match=r"64 GPUs, load 0\.9, b: no bound is kept; .*scale_bounds 64"):
        scale_page.page([*cells("a"), *cells("b")], bounds("a"))


def test_no_kept_cell_is_below_what_bounds_it():
    kept = scale_cells.KEPT.rows_in()
    found = Bounds(scale_bounds.KEPT.rows_in()).below(kept)
    assert found.cells > len(kept) / 2
    assert [(each.point, each.policy) for each in found.below] == []
    assert found.nearest >= 1.0 - ROUNDED


@pytest.mark.parametrize("gpus", [64, 256])
def test_kept_bounds_are_those_of_the_files(gpus):
    cluster = cluster_of(gpus)
    kept = {each.point: each for each in scale_bounds.KEPT.rows_in()}
    assert {each for each in kept if each[0] == gpus} == set(cluster.points())
    point = (gpus, LOADS[-1], cluster.placements[-1])
    found, was = scale_bounds.bound_of(cluster.experiment(point, ["fair"]), point), kept[point]
    assert (found.mean_s, found.slowdown) == pytest.approx((was.mean_s, was.slowdown), rel=1e-5)
    assert found.alone_s == pytest.approx(was.alone_s, rel=1e-5)
    assert max(each.gap for each in kept.values()) < 1e-3


def test_kinds_of_jobs_are_told_apart():
    page = plain(scale_page.page(cells("a"), bounds("a")))
    assert "| gpipe | 1 | 0.500 | 0.500 |" in page
    assert "| zero | 1 | 1.000 | - |" in page
    assert "| 64 to 128 | 1 | 1.000 | - |" in page


def test_a_cell_that_is_computed_anew_replaces_what_was_kept_of_it():
    old, other, beside = cell("fair", [1.0, 1.0]), cell("fair", [1.0, 1.0], gpus=256), cell("fifo", [1.0, 1.0])
    new = cell("fair", [2.0, 1.0])
    assert scale_cells.KEPT.merged([other, old, beside], [new]) == [new, beside, other]


def test_a_sweep_becomes_a_page(tmp_path, monkeypatch):
    monkeypatch.setattr(scale_files, "SIZES", (TINY,))
    scale_files.main(tmp_path / "files", (TINY,))
    swept = tmp_path / "swept"
    of_two = ["--over", "policies=fair,fifo", "--workers", "1"]
    result = CliRunner().invoke(
        app, ["sweep", str(tmp_path / "files" / "gpus-32.yaml"), *of_two, "--out", str(swept)], catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "results.md").write_text(f"# Results\n\n{at_scale.MARKS[0]}\nold\n{at_scale.MARKS[1]}\n\n## In short\n")
    scale_page.main(docs, [swept])
    results = (docs / "results.md").read_text(encoding="utf-8")
    assert "- Load 0.9, all clusters: " in results
    assert "old" not in results
    assert results.endswith("\n\n## In short\n")
    kept, of_points = (
        scale_cells.KEPT.rows_in(docs / scale_kept.NAME),
        Bounds(scale_bounds.KEPT.rows_in(docs / scale_kept.NAME)),
    )
    assert len(kept) == len(LOADS) * TINY.seeds * 2
    for each in kept:
        assert len(each.iteration_s) == TINY.jobs
        assert min(np.array(each.iteration_s) / of_points.of(each).alone_s) > 0.999
    assert (docs / "scale.png").stat().st_size > 1000
    part = tmp_path / "part"
    at = read_sweep(swept).over["network.rate"][1:]
    of_some = ["--over", f"network.rate={at[0]}", "--over", "placement=fragmented(seed=0)", "--over", "policies=fair"]
    result = CliRunner().invoke(
        app, ["sweep", str(tmp_path / "files" / "gpus-32.yaml"), *of_some, "--workers", "1", "--out", str(part)],
        catch_exceptions=False,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert {each.load for each in scale_cells.swept_in(part).cells} == {LOADS[1]}
    before = (docs / "scale.md").read_text(encoding="utf-8")
    scale_page.main(docs)
    assert (docs / "scale.md").read_text(encoding="utf-8") == before


def test_a_sweep_of_another_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"sweep\.json"):
        scale_cells.swept_in(tmp_path)


def test_bounds_of_other_clusters_stay(tmp_path, monkeypatch):
    monkeypatch.setattr(scale_bounds, "found_in", lambda gpus: [PointBound(gpus, 0.9, "p", [1.0], 1.0, 1.0, 0.0)])
    scale_bounds.main([256], tmp_path)
    scale_bounds.main([64], tmp_path)
    assert [each.gpus for each in scale_bounds.KEPT.rows_in(tmp_path)] == [64, 256]
