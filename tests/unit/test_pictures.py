"""Pictures: names are shown as they are, whatever is in them; labels of logarithmic axes need no mathematics."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.text import Text

from results import colours
from results.analysis.shown import ShownRun
from results.folder import analyse
from results.pictures import style
from results.pictures.gantt import draw_gantt
from results.report.charts.gantt import gantts
from tests.unit.synthetic_run import fluid_run, paper_job, paper_network, synthetic_run, write_experiment

AWKWARD = ["$x^{$", "$\\frac{$", "a_b$c$", "50 % $", "\\"]


@pytest.mark.parametrize("name", AWKWARD)
def test_a_name_is_no_mathematics(tmp_path, name):
    """A policy file of such a name broke every picture, and with them the report."""
    with style.picture(tmp_path / "a.png", 2) as figure:
        axes = figure.add_subplot()
        axes.plot([1, 2], label=name)
        axes.set(title=name, xlabel=name)
        axes.set_yticks([1, 2], [name, name])
        figure.legend()
    assert (tmp_path / "a.svg").read_text().count(name) == 5


def test_logarithmic_axes_have_plain_labels(tmp_path):
    with style.picture(tmp_path / "a.png", 3) as figure:
        axes = figure.add_subplot()
        axes.set(xscale="log", yscale="log", xlim=(1e-3, 1e5), ylim=(1.5, 8))
    drawn = (tmp_path / "a.svg").read_text()
    assert all(label in drawn for label in (">10⁻³<", ">10⁵<", ">2×10⁰<"))
    assert "mathdefault" not in drawn


@pytest.fixture
def kept(monkeypatch):
    """The figures that are drawn, as they are after it."""
    drawn, figure_of = [], style.Figure

    def keep(*arguments, **options):
        drawn.append(figure_of(*arguments, **options))
        return drawn[-1]

    monkeypatch.setattr(style, "Figure", keep)
    return drawn


def test_pictures_for_a_paper_are_as_wide_as_a_column_and_can_be_read(tmp_path, kept):
    """Every letter has six points at least, and none lies outside of the picture."""
    network = paper_network()
    jobs = [paper_job(network, 2)]
    names = ["fair", "coflow(grouping=group)", "echelonflow"]
    runs = [synthetic_run(jobs, network, name, 0, index) for index, name in enumerate(names)]
    root = write_experiment(tmp_path / "run", network, jobs, names, runs)
    analyse(root, figures="paper")
    columns = [figure for figure in kept if figure.get_figwidth() == style.PAPER.width_in]
    assert len(columns) == len(kept) / 2 >= 4
    for figure in columns:
        renderer = FigureCanvasAgg(figure).get_renderer()
        ticks = [tick for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for tick in axis.get_ticklabels()]
        shown = [text for text in figure.findobj(Text) if text.get_visible() and text.get_text().strip()]
        texts = [text for text in shown if text not in ticks and not (text.get_clip_on() and text.axes is not None)]
        assert len(texts) > 3
        for text in texts:
            assert text.get_fontsize() >= 6, text
            box = text.get_window_extent(renderer)
            assert box.x0 >= -2, text
            assert box.x1 <= figure.bbox.width + 2, text
    for name in ("gantt", "times", "tardiness", "throughput"):
        for suffix in (".png", ".svg"):
            assert (root / "figures" / "paper" / f"{name}{suffix}").stat().st_size > 2000
    assert "<text" not in (root / "figures" / "paper" / "gantt.svg").read_text()
    analyse(root)
    assert not list((root / "figures" / "paper").glob("*.png"))


def shown(policy, job, network):
    return ShownRun.of(policy, fluid_run([job], network, policy), [job])


def coloured(axes, kind, colour):
    """Corners of what a panel has of one colour, piece by piece."""
    found = [one for one in axes.collections if isinstance(one, kind)]
    return [
        path.vertices
        for one in found
        for path, its in zip(
            one.get_paths(), itertools.cycle(one.get_facecolor() if kind is PolyCollection else one.get_colors())
        )
        if to_hex(its).upper() == colour.upper()
    ]


@pytest.mark.parametrize("policy", ["fair", "echelonflow"])
def test_what_is_late_is_red_from_the_ideal_finish_on(policy, tmp_path, kept):
    """Of the paper's example, every flow is late: the ideal is a network that takes no time."""
    network = paper_network()
    run = shown(policy, paper_job(network), network)
    draw_gantt(tmp_path / "gantt.png", [run])
    (panel,) = kept[0].axes
    ticks = sorted(float(corners[0][0]) for corners in coloured(panel, LineCollection, colours.BLACK))
    assert ticks == pytest.approx(sorted(row.ideal_finish_s for row in run.rows.flows))
    red = sorted(
        (corners[:, 0].min(), corners[:, 0].max()) for corners in coloured(panel, PolyCollection, colours.LATE)
    )
    expected = [
        (max(row.start_s, row.ideal_finish_s), row.finish_s) for row in run.rows.flows if row.tardiness_s > 1e-9
    ]
    assert np.array(red) == pytest.approx(np.array(sorted(expected)))
    assert len(red) == 3


def test_what_is_in_time_is_not_red(tmp_path, kept):
    """A flow alone that ends as it should."""
    network = paper_network()
    job = paper_job(network)
    run = shown("fair", job, network)
    rows = [dataclasses.replace(row, ideal_finish_s=row.finish_s) for row in run.rows.flows]
    draw_gantt(tmp_path / "gantt.png", [dataclasses.replace(run, rows=dataclasses.replace(run.rows, flows=rows))])
    (panel,) = kept[0].axes
    assert len(coloured(panel, LineCollection, colours.BLACK)) == 3
    assert not coloured(panel, PolyCollection, colours.LATE)


def test_a_job_alone_has_the_colour_that_it_has_in_the_report(tmp_path, kept):
    network = paper_network()
    run = shown("fair", paper_job(network), network)
    draw_gantt(tmp_path / "gantt.png", [run])
    (chart,) = gantts([run])
    (panel,) = kept[0].axes
    assert len(coloured(panel, PolyCollection, chart["shades"][0][chart["kinds"].index("forward")])) == 6
    assert len(coloured(panel, PolyCollection, chart["shades"][0][chart["kinds"].index("flow")])) == 3
    assert chart["colours"] == [colours.job_colours(["pipeline"])["pipeline"]]
    words = [text.get_text() for legend in kept[0].legends for text in legend.get_texts()]
    assert words == ["forward", "flow", "ideal finish", "late", "end of iteration"]


def test_traffic_in_the_background_has_a_colour_of_its_own(tmp_path, kept):
    """It has no iterations, so that nothing but its flows tells of it."""
    network = paper_network()
    run = shown("fair", paper_job(network), network)
    other = [dataclasses.replace(flow, job="background") for flow in run.record.flows[:1]]
    record = dataclasses.replace(run.record, flows=[*run.record.flows[1:], *other])
    rows = dataclasses.replace(run.rows, flows=[*run.rows.flows[1:], run.rows.flows[0]])
    draw_gantt(tmp_path / "gantt.png", [dataclasses.replace(run, record=record, rows=rows)])
    (panel,) = kept[0].axes
    assert len(coloured(panel, PolyCollection, colours.flow_colour(colours.ORANGE, 1))) == 1


def test_of_a_long_name_the_end_labels_a_tick():
    assert style.beside_axis("fair") == "fair"
    label = style.beside_axis("/home/someone/research/policies/" + "mine.py")
    assert label.startswith("…")
    assert label.endswith("policies/mine.py")
    assert len(label) == len(style.beside_axis("x" * 500))
