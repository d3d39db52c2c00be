"""`echelon report` of a sweep: its page, its pictures for screens and papers, its exit code, and folders that are damaged."""

from __future__ import annotations

import shutil

import matplotlib.image
import msgspec
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from typer.testing import CliRunner

from echelon.cli.main import app
from echelonflow.records.cells import keep_cell, read_cell
from results.analysis.across import Across, Comparisons, compare_across
from results.analysis.explored import Drawable, axes_of
from results.analysis.gathered import gather
from results.analysis.statistics import Estimate, Ratio
from results.pictures import style, sweep_plots
from tests.unit.sweep_cases import table, written

GRID = (
    "--over", "network.rate=50 Mbit/s,100 Mbit/s", "--over", "jobs.p.micro_batches=2,3", "--over", "policies=fair,echelonflow,coflow",
)  # fmt: skip
DRAWN = ("maps", "curves", "ratios")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A sweep of twelve cells that has ended."""
    folder = tmp_path_factory.mktemp("made")
    words = ["sweep", str(written(folder)), *GRID, "--repeat", "1", "--workers", "1", "--out", str(folder / "out")]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return folder / "out"


@pytest.fixture
def root(made, tmp_path):
    """A copy of it that may be damaged."""
    return shutil.copytree(made, tmp_path / "out")


def cells_of(root):
    return sorted((root / "cells").iterdir())


def replaced(place, **changes):
    """Keep another cell in the place of one."""
    cell = msgspec.structs.replace(read_cell(place), **changes)
    shutil.rmtree(place)
    keep_cell(place.parent, cell)


def pictures_in(root):
    return {path.relative_to(root / "figures").as_posix() for path in (root / "figures").rglob("*.*")}


def test_maps_and_curves_are_drawn_and_say_what_the_table_says(echelon, root):
    done = echelon("report", root)
    assert done.returncode == 0
    assert "12 cells: 0 not made yet, 0 failed, 0 invalid" in done.stdout
    assert pictures_in(root) == {f"{name}{suffix}" for name in DRAWN for suffix in (".png", ".svg")}
    time_s = {(r["policy"], r["network.rate"], r["jobs.p.micro_batches"]): float(r["iteration_s"]) for r in table(root)}
    drawn = (root / "figures" / "maps.svg").read_text()
    assert all(f">{word}<" in drawn for word in ("50 Mbit/s", "100 Mbit/s", "network.rate", "echelonflow", "coflow"))
    for (policy, rate, micro_batches), value_s in time_s.items():
        if policy != "fair":
            assert f">{value_s / time_s['fair', rate, micro_batches]:.3g}<" in drawn
    assert "iteration time over that of fair" in (root / "figures" / "curves.svg").read_text()


def out_of_view(figure):
    """Labels of ticks beyond the ends of their axes, which are not drawn."""
    found = []
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        found += [tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high]
    return found


def test_pictures_for_a_paper_are_as_wide_as_a_column_and_can_be_read(echelon, root, monkeypatch):
    drawn, figure_of = [], style.Figure

    def kept(*arguments, **options):
        drawn.append(figure_of(*arguments, **options))
        return drawn[-1]

    monkeypatch.setattr(style, "Figure", kept)
    assert echelon("report", root, "--figures", "paper", "--pictures", "all").returncode == 0
    names = (*DRAWN, "curves-2")
    assert pictures_in(root) == {
        f"{folder}{name}{suffix}" for folder in ("", "paper/") for name in names for suffix in (".png", ".svg")
    }
    columns = [figure for figure in drawn if figure.get_figwidth() == style.PAPER.width_in]
    assert len(columns) == len(names)
    for figure in columns:
        renderer = FigureCanvasAgg(figure).get_renderer()
        unseen = out_of_view(figure)
        texts = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
        shown = [text for text in texts if text not in unseen]
        assert len(shown) > 5
        for text in shown:
            assert text.get_fontsize() >= 6, text
            box = text.get_window_extent(renderer)
            assert box.x0 >= -2, text
            assert box.x1 <= figure.bbox.width + 2, text
            assert box.y0 >= -2, text
            assert box.y1 <= figure.bbox.height + 2, text
    image = matplotlib.image.imread(root / "figures" / "paper" / "maps.png")
    assert image.shape[1] == round(style.PAPER.width_in * style.PAPER.dpi)
    assert "<text" not in (root / "figures" / "paper" / "maps.svg").read_text()


def test_without_pictures_those_of_before_are_gone_and_the_page_has_its_table(echelon, root):
    assert echelon("report", root, "--figures", "paper").returncode == 0
    assert echelon("report", root, "--pictures", "none").returncode == 0
    assert not [name for name in pictures_in(root) if name.endswith((".png", ".svg"))]
    text = (root / "report.html").read_text()
    assert "<script" not in text
    assert 'type="search"' not in text, "nobody would listen to it"
    assert text.count("<td") > 12


def test_pictures_for_a_paper_and_none_are_refused(echelon, root):
    done = echelon("report", root, "--figures", "paper", "--pictures", "none")
    assert done.returncode == 2
    assert "leave one of them away" in done.stderr


def test_of_an_unfinished_sweep_what_there_is_is_reported(echelon, root):
    for place in cells_of(root)[:5]:
        shutil.rmtree(place)
    (root / "cells.csv").unlink()
    done = echelon("report", root)
    assert done.returncode == 1, "as `echelon sweep` ends that did not make every cell"
    assert "12 cells: 5 not made yet, 0 failed, 0 invalid" in done.stdout
    assert f"echelon sweep --resume {root}" in done.stdout
    assert "5 have not been made yet" in (root / "report.html").read_text()
    assert len(table(root)) == 7


@pytest.mark.parametrize(
    ("failed", "code", "words"), [(True, 1, "1 failed, 0 invalid"), (False, 3, "0 failed, 1 invalid")]
)
def test_the_exit_code_is_that_of_the_sweep(echelon, root, failed, code, words):
    replaced(cells_of(root)[0], reasons=("the test says so",), failed=failed)
    done = echelon("report", root)
    assert done.returncode == code
    assert words in done.stdout
    assert "the test says so" in (root / "report.html").read_text()


@pytest.mark.parametrize("text", ["", "{", '{"kind": "echelon-sweep", "version": 1}', "null"])
def test_a_damaged_record_is_one_message_and_what_was_made_stays(echelon, root, text):
    (root / "sweep.json").write_text(text)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    done = echelon("report", root)
    assert done.returncode == 2
    assert str(root / "sweep.json") in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_a_sweep_of_which_nothing_has_ended_has_no_report_yet(echelon, root):
    shutil.rmtree(root / "cells")
    done = echelon("report", root)
    assert done.returncode == 2
    assert "nothing to compare yet" in done.stderr


def test_a_damaged_cell_is_told_apart_from_one_that_is_not_made_yet(echelon, root):
    (cells_of(root)[3] / "cell.json").write_text("{")
    shutil.rmtree(cells_of(root)[4])
    done = echelon("report", root)
    assert done.returncode == 1
    assert "1 not made yet, 1 damaged" in done.stdout
    page = (root / "report.html").read_text()
    assert "1 have not been made yet." in page
    assert "1 are damaged and cannot be read; the same command makes them anew." in page
    said = echelon("compare", root).stdout
    assert "1 cells are not made yet; the same `echelon sweep` goes on with them" in said
    assert "1 cells are damaged and cannot be read; the same `echelon sweep` makes them anew" in said


def row(policy, job, ratio, **settings):
    known = None if ratio is None else Ratio(ratio, None, None, ratio, None, None)
    return Across(
        settings=settings, backend="fluid", policy=policy, job=job, runs=1, valid_runs=1, pairs=1, ratio=known, p_holm=None,
        iteration_s=Estimate(2.0, None, None, 1),
    )  # fmt: skip


def found_of(rows):
    return Comparisons("fair", "iteration_s", rows, [], len(rows), 0, {}, 0, 0, by_chance=True)


def names_drawn(folder, rows, **options):
    folder.mkdir()
    return [path.name for path in sweep_plots.draw_sweep(folder, found_of(rows), **options)]


def test_where_only_policies_differ_jobs_stand_along_the_axis(tmp_path):
    rows = [row("srpt", "a", 0.5), row("srpt", "b", 0.7)]
    assert names_drawn(tmp_path / "out", rows) == ["curves.png", "ratios.png"]
    drawn = (tmp_path / "out" / "curves.svg").read_text()
    assert all(f">{word}<" in drawn for word in ("a", "b", "job", "srpt"))


def test_of_one_policy_the_values_are_drawn(tmp_path):
    rows = [row("fair", "a", None, x=str(x), y=str(y)) for x in (1, 2) for y in (3, 4)]
    assert names_drawn(tmp_path / "out", rows) == ["maps.png", "curves.png"]
    assert ">iteration time (s)<" in (tmp_path / "out" / "maps.svg").read_text()


def test_a_picture_of_some_policies_says_so_and_all_has_every_two_values(tmp_path):
    rows = [
        row(f"p{p}", "a", 0.9, x=str(x), y=str(y), z=str(z)) for p in range(8) for x in (1, 2) for y in (3, 4) for z in (5, 6)
    ]  # fmt: skip
    assert names_drawn(tmp_path / "few", rows) == ["maps.png", "curves.png", "ratios.png"]
    few = (tmp_path / "few" / "maps.svg").read_text()
    assert "2 more policies are left out; --pictures all draws all" in few
    assert ">p7<" not in few
    everything = names_drawn(tmp_path / "all", rows, whole=True)
    assert everything == [
        "maps.png", "maps-2.png", "maps-3.png", "curves.png", "curves-2.png", "curves-3.png", "ratios.png",
    ]  # fmt: skip
    assert ">p7<" in (tmp_path / "all" / "maps.svg").read_text()


def test_a_field_is_the_geometric_mean_over_all_else(made):
    found = compare_across(gather([made]))
    rate = axes_of(found.rows)[0]
    means = Drawable.of(found).means(rate)
    for policy in ("echelonflow", "coflow"):
        for value in rate.values:
            mine = [r.ratio.mean for r in found.rows if r.policy == policy and r.settings["network.rate"] == value]
            assert len(mine) == 2
            assert means[policy, value] == pytest.approx((mine[0] * mine[1]) ** 0.5)
