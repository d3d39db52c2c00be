"""Pictures: names are shown as they are, whatever is in them; labels of logarithmic axes need no mathematics."""

from __future__ import annotations

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from results.folder import analyse
from results.pictures import style
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_run, write_experiment

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


def test_pictures_for_a_paper_are_as_wide_as_a_column_and_can_be_read(tmp_path, monkeypatch):
    """Every letter has six points at least, and none lies outside of the picture."""
    network = paper_network()
    jobs = [paper_job(network, 2)]
    names = ["fair", "coflow(grouping=group)", "echelonflow"]
    runs = [synthetic_run(jobs, network, name, 0, index) for index, name in enumerate(names)]
    root = write_experiment(tmp_path / "run", network, jobs, names, runs)
    drawn, figure_of = [], style.Figure

    def kept(*arguments, **options):
        drawn.append(figure_of(*arguments, **options))
        return drawn[-1]

    monkeypatch.setattr(style, "Figure", kept)
    analyse(root, figures="paper")
    columns = [figure for figure in drawn if figure.get_figwidth() == style.PAPER.width_in]
    assert len(columns) == len(drawn) / 2 >= 4
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


def test_of_a_long_name_the_end_labels_a_tick():
    assert style.beside_axis("fair") == "fair"
    label = style.beside_axis("/home/someone/research/policies/" + "mine.py")
    assert label.startswith("…")
    assert label.endswith("policies/mine.py")
    assert len(label) == len(style.beside_axis("x" * 500))
