"""One colour for each policy and each job, wherever results are shown; colour-blind readers can tell them apart.

Nothing is decided by the place in a list: a policy has the same colour in every picture and report, beside whichever others.
"""

from __future__ import annotations

import colorsys
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

# The palette of Okabe and Ito ("Color Universal Design", 2008).
BLACK, ORANGE, SKY, GREEN, YELLOW, BLUE, VERMILION, PURPLE = (
    "#000000", "#E69F00", "#56B4E9", "#009E73", "#F0E442", "#0072B2", "#D55E00", "#CC79A7",
)  # fmt: skip
GREY = "#999999"
LATE = VERMILION
"""What is late, and nothing else beside it."""
KINDS = (BLUE, ORANGE, GREEN, PURPLE, SKY, GREY, YELLOW)
"""Of marks of several kinds in one picture, in this order."""

_HUES = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, YELLOW, GREY)
_LIGHTNESS = (1.0, 0.5, 1.35)
"""Of a hue, for those that have to share it: as it is, darker, lighter."""
_OF_OPTIONS = (0.8, 1.2)
"""Of the colour of a policy without options."""
OF_POLICIES: Mapping[str, str] = MappingProxyType(
    {
        "echelonflow": BLUE, "coflow": ORANGE, "lookahead": GREEN, "clock": "#993A6F", "sincronia": SKY, "crux": VERMILION,
        "cassini": YELLOW, "fair": GREY, "srpt": "#003959", "aalo": "#735000", "mltcp": "#007656", "edf": BLACK,
        "weighted": "#12618D", "job-priority": "#6A2F00", "layer-priority": "#003F2E", "fifo": "#4C4C4C",
        "random-order": "#009AF0",
    }
)  # fmt: skip
"""Policies that ship have a colour of their own; all others have one by a hash of their name.

These are the palette and shades of it that lie ten apart in CIELAB at least, also for who sees no red or no green.
"""
_JOBS = (BLUE, ORANGE, GREEN, PURPLE, SKY, YELLOW, "#4C4C4C")
"""Colours of jobs, by their places: all but that of what is late."""
COMPUTATIONS = ("forward", "backward", "update")
"""Kinds of computations that have a shade of their own of their job's colour; others have the colour itself."""
_DARKENED: Mapping[str, float] = MappingProxyType({"backward": 0.35, "update": 0.62})
_PALE = (0.45, 0.7)
"""Shares of white in flows of a job: those of neighbouring groups alternate where there is room to see it."""
LINES = ("solid", "dashed", "dotted", "dashdot")
"""Styles of lines, for those of one colour in one picture."""

RATIO_RAMP = ("#08519C", "#4292C6", "#9ECAE1", "#F2F2F2", "#FDBE85", "#F08A3C", "#A63603")
"""Of maps of ratios: less than 1, 1, more. Blue and orange are told apart by everybody."""
VALUE_RAMP = ("#FDE725", "#7AD151", "#22A884", "#2A788E", "#414487", "#440154")
"""Of maps of values, from the least: viridis the other way round, so that more is darker in print too."""


@dataclass(frozen=True, slots=True)
class Look:
    """How one of several policies is drawn: `colour` as #rrggbb, `line` of `LINES`."""

    colour: str
    line: str


def policy_colour(policy: str) -> str:
    """The colour of a policy with its options, as #rrggbb: its name decides on the hue, its options on how dark it is."""
    name, bracket, options = policy.partition("(")
    name = name.strip().lower().replace("_", "-")
    place = _hash(name) % (len(_HUES) * len(_LIGHTNESS))
    hue = OF_POLICIES.get(name) or _HUES[place % len(_HUES)]
    lightness = 1.0 if name in OF_POLICIES else _LIGHTNESS[place // len(_HUES)]
    if bracket:
        lightness *= _OF_OPTIONS[_hash(options.replace(" ", "")) % len(_OF_OPTIONS)]
    return shaded(hue, lightness)


def looks(policies: Sequence[str]) -> dict[str, Look]:
    """How each of `policies` is drawn in one picture: in its colour, and by another line where two have the same."""
    taken: Counter[str] = Counter()
    found = {}
    for policy in dict.fromkeys(policies):
        colour = policy_colour(policy)
        found[policy] = Look(colour, LINES[taken[colour] % len(LINES)])
        taken[colour] += 1
    return found


def job_colours(jobs: Sequence[str]) -> dict[str, str]:
    """The colour of each job, as #rrggbb, by its place in the experiment; darker and lighter ones where there are many."""
    return {
        job: shaded(_JOBS[i % len(_JOBS)], _LIGHTNESS[i // len(_JOBS) % len(_LIGHTNESS)])
        for i, job in enumerate(dict.fromkeys(jobs))
    }


def step_colour(job_colour: str, kind: str) -> str:
    """The colour of a computation of a kind, of a job that has `job_colour`: backward passes are darker, updates darkest."""
    return _mixed(job_colour, "#000000", _DARKENED.get(kind, 0.0))


def flow_colour(job_colour: str, turn: int = 0) -> str:
    """The colour of flows of a job that has `job_colour`: paler; those of an odd `turn` are palest."""
    return _mixed(job_colour, "#FFFFFF", _PALE[turn % len(_PALE)])


def _mixed(colour: str, other: str, share: float) -> str:
    """A colour (#rrggbb) with such a share of another in it."""
    pairs = [(int(colour[i : i + 2], 16), int(other[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(part + (more - part) * share):02X}" for part, more in pairs)


def shaded(colour: str, lightness: float) -> str:
    """A colour (#rrggbb) with so many times its lightness, and no lighter than can be seen on white."""
    if lightness == 1:
        return colour
    hue, light, saturation = colorsys.rgb_to_hls(*(int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)))
    parts = colorsys.hls_to_rgb(hue, min(light * lightness, 0.85), saturation)
    return "#" + "".join(f"{round(part * 255):02X}" for part in parts)


def is_dark(colour: str) -> bool:
    """Whether white letters are read better on it than black ones, by the weights of luma (ITU-R BT.601)."""
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return 0.299 * red + 0.587 * green + 0.114 * blue < 110


def _hash(text: str) -> int:
    """The same number in every process, unlike that of `hash`."""
    return int.from_bytes(hashlib.sha256(text.encode(errors="surrogatepass")).digest()[:4], "big")
