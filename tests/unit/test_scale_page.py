"""docs/scale.md: made of cells that are kept, and of nothing else."""

from __future__ import annotations

import re

import pytest
from typer.testing import CliRunner

from echelon.cli.main import app
from echelon.documents import scale_files, scale_page, scale_why
from echelon.documents.scale_files import LOADS, Size
from echelon.documents.scale_page import LOG, ScaleCell
from echelon.places import DOCS
from echelon.study import at_scale
from echelonflow.errors import InputError
from echelonflow.records.sweeps import read_sweep

TINY = Size(32, leaves=2, spines=2, jobs=4, largest=8, seeds=2)


def cell(policy, iteration_s, gpus=64, load=0.9, placement="fragmented(seed=0)"):
    return ScaleCell(
        gpus, load, placement, policy, 1.5, ["gpipe", "zero"], [4, 64], [1.0, 2.0], [1.0, 3.0], iteration_s
    )


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


def plain(page):
    """Without the spaces that line up a table's columns."""
    return re.sub(" +", " ", page)


def test_the_committed_page_is_made_of_the_cells_that_are_kept():
    kept = DOCS / scale_page.NAME / scale_page.KEPT
    page = (DOCS / f"{scale_page.NAME}.md").read_text(encoding="utf-8")
    found = scale_page.page(list(LOG.read(kept)), scale_why.kept())
    assert found == page, "make it again: python -m echelon.documents.scale_page"


def test_a_ratio_is_over_placements_and_leaves_out_what_starves():
    found = [*cells("a"), *cells("b", slower=2.0)]
    # means over jobs: fair 3 and 4, fifo 2.5 and 2.5
    mean, low, high = scale_page.ratio_over_basis(found, "fifo", load=0.9)
    assert mean == pytest.approx(((2.5 / 3) * (2.5 / 4)) ** 0.5)
    assert low < mean < high
    assert scale_page.ratio_over_basis(found, "clock") is None
    page = plain(scale_page.page(found))
    assert "| `clock` | - | 2 of 2 |" in page
    assert "`clock` starves a job in 6 of 6 points, `fair` in 0, `fifo` in 0." in page


def test_slowdowns_and_their_bound_are_over_the_least_time_alone():
    page = plain(scale_page.page(cells("a")))
    slowdown = page.partition("## Slowdown")[2].partition("## Who wins")[0]
    assert "| `fair` | 2.00, 2.00 |" in slowdown
    assert "| `fifo` | 1.50, 2.00 |" in slowdown
    assert "| *bound* | 1.25 |" in slowdown


def test_kinds_of_jobs_are_told_apart():
    page = plain(scale_page.page(cells("a")))
    assert "| gpipe | 1 | 0.500 | 0.500 |" in page
    assert "| zero | 1 | 1.000 | - |" in page
    assert "| 64 to 128 | 1 | 1.000 | - |" in page


def test_a_cell_that_is_computed_anew_replaces_what_was_kept_of_it():
    old, other, beside = cell("fair", [1.0, 1.0]), cell("fair", [1.0, 1.0], gpus=256), cell("fifo", [1.0, 1.0])
    new = cell("fair", [2.0, 1.0])
    assert scale_page.merged([other, old, beside], [new]) == [new, beside, other]


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
    kept = list(LOG.read(docs / scale_page.NAME / scale_page.KEPT))
    assert len(kept) == len(LOADS) * TINY.seeds * 2
    for each in kept:
        assert len(each.iteration_s) == TINY.jobs
        assert min(each.slowdowns) > 0.999
    assert (docs / "scale.png").stat().st_size > 1000
    part = tmp_path / "part"
    at = read_sweep(swept).over["network.rate"][1:]
    of_some = ["--over", f"network.rate={at[0]}", "--over", "placement=fragmented(seed=0)", "--over", "policies=fair"]
    result = CliRunner().invoke(
        app, ["sweep", str(tmp_path / "files" / "gpus-32.yaml"), *of_some, "--workers", "1", "--out", str(part)],
        catch_exceptions=False,
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    assert {each.load for each in scale_page.cells_in(part)} == {LOADS[1]}
    before = (docs / "scale.md").read_text(encoding="utf-8")
    scale_page.main(docs)
    assert (docs / "scale.md").read_text(encoding="utf-8") == before


def test_a_sweep_of_another_file_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"sweep\.json"):
        scale_page.cells_in(tmp_path)
