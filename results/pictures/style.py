"""One look for all pictures: fonts, sizes, and colours that colour-blind readers can tell apart."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import matplotlib as mpl
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure
from matplotlib.ticker import LogFormatterSciNotation

from echelonflow.files import writing
from echelonflow.model.arrays import Floats
from results.colours import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, YELLOW

WIDTH_IN = 9.0
DPI = 150
_FONT_PT = 9.0
_LEAST_PT = 6.0
"""Letters that are smaller are not read in print."""


@dataclass(frozen=True, slots=True)
class Page:
    """What a picture is made for: how wide it is, how large its letters are, and how finely PNG is drawn."""

    width_in: float
    font_pt: float
    dpi: int
    least_pt: float = 0.0
    text_as_shapes: bool = False
    """In SVG, so that it looks the same wherever fonts are others."""

    @property
    def narrow(self) -> bool:
        """Whether long words have to go into the next line."""
        return self.width_in < WIDTH_IN / 2

    def points(self, size_pt: float) -> float:
        """The size of letters that are `size_pt` on a screen."""
        return max(size_pt * self.font_pt / _FONT_PT, self.least_pt)

    def inches(self, height_in: float) -> float:
        """A height that is `height_in` on a screen, as letters need it here."""
        return height_in * self.points(_FONT_PT) / _FONT_PT

    def columns(self, wide: int) -> int:
        """Columns of a legend that has so many on a screen."""
        return max(1, round(wide * self.width_in / WIDTH_IN * _FONT_PT / self.font_pt)) if self.narrow else wide


SCREEN = Page(WIDTH_IN, _FONT_PT, DPI)
PAPER = Page(3.33, 7.0, 600, _LEAST_PT, text_as_shapes=True)
"""One of two columns of a page, as of ACM's and IEEE's conferences."""

PALETTE = (BLUE, ORANGE, GREEN, PURPLE, VERMILION, SKY, YELLOW, BLACK)
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")

_SETTINGS: Mapping[str, object] = MappingProxyType(
    {
        "font.family": "DejaVu Sans",
        "font.size": 9,
        "axes.titlesize": 10,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#dddddd",
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "legend.fontsize": 8,
        "figure.constrained_layout.use": True,
        "text.parse_math": False,  # names are the user's: a policy file may be called $x^{.py
        "svg.fonttype": "none",
        "svg.hashsalt": "echelon",  # ids in SVG files do not change from one analysis to the next
    }
)


_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_POWER = re.compile(r"10\^\{([-0-9]+)\}")


class _Powers(LogFormatterSciNotation):
    """Labels of logarithmic axes, such as 10³, in plain letters."""

    def __call__(self, x: float, pos: int | None = None) -> str:
        mathematics: str = super().__call__(x, pos)
        inside = mathematics.removeprefix(r"$\mathdefault{").removesuffix("}$").replace(r"\times", "×")
        return _POWER.sub(lambda power: "10" + power[1].translate(_RAISED), inside)


def seconds(value_s: float) -> str:
    """Seconds for a label: three decimals, and three digits of what is too short for them."""
    return f"{value_s:.3f}" if value_s == 0 or abs(value_s) >= 0.1 else f"{value_s:.3g}"


MOST_POINTS = 2_000
"""Of a curve: a page is about as many dots wide."""


def distribution(values: Sequence[float] | Floats, *, whole: bool = True) -> tuple[Floats, Floats]:
    """(Value, share of values up to it) in order; unless the `whole` is asked for, `MOST_POINTS` of them, the ends included."""
    found = np.sort(np.asarray(values, np.float64))
    share = np.arange(1, found.size + 1) / found.size
    if whole or found.size <= MOST_POINTS:
        return found, share
    kept = np.linspace(0, found.size - 1, MOST_POINTS).astype(np.int64)
    return found[kept], share[kept]


_LONGEST_LABEL = 32
"""Characters."""


def class_colours(classes: int) -> list[tuple[float, float, float, float]]:
    """Colours of `classes` traffic classes from the highest: even in brightness, so the highest is darkest in print too."""
    return [mpl.colormaps["viridis"](0.92 * i / max(classes - 1, 1)) for i in range(classes)]


def beside_axis(name: str) -> str:
    """A name as the label of a tick: of a long one (the path of a policy file) only the end, so that the drawing keeps its room."""
    return name if len(name) <= _LONGEST_LABEL else "…" + name[1 - _LONGEST_LABEL :]


def _of_page(page: Page) -> dict[str, object]:
    """The settings that a page changes."""
    sizes = {"font.size": 9, "axes.titlesize": 10, "legend.fontsize": 8}
    found: dict[str, object] = {name: page.points(size) for name, size in sizes.items()}
    return {**found, "svg.fonttype": "path" if page.text_as_shapes else "none"}


@contextmanager
def picture(
    path: Path, height_in: float, width_in: float | None = None, *, vector: bool = True, page: Page = SCREEN
) -> Iterator[Figure]:
    """A figure to draw on; saved as `path` (PNG), and beside it as SVG if it is a `vector` picture, when the block ends.

    It is as wide as the `page` where no width is given. It is laid out once and then drawn once by each canvas; `savefig` would lay out and draw it all twice for each.
    """
    with mpl.rc_context(dict(_SETTINGS) | _of_page(page)):
        figure = Figure(figsize=(width_in or page.width_in, height_in), dpi=page.dpi)
        yield figure
        for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) if axis.get_scale() == "log"):
            axis.set_major_formatter(_Powers())
            axis.set_minor_formatter(_Powers())
        canvas = FigureCanvasAgg(figure)
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
        with writing(path) as file:
            canvas.print_png(file, metadata={"Software": None})
        if vector:
            with writing(path.with_suffix(".svg")) as file:
                FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None, "Creator": None})
