"""Pictures: names are shown as they are, whatever is in them; labels of logarithmic axes need no mathematics."""

from __future__ import annotations

import pytest

from results.pictures import style

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
