"""One colour for each policy everywhere: stable, distinct, and of the palette that colour-blind readers can tell apart."""

from __future__ import annotations

import itertools
import subprocess
import sys

import numpy as np
import pytest

from echelonflow.scheduling import policies
from results import colours


def rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


SEEN: dict[str, list[list[float]]] = {
    "all colours": [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    "no red (protanopia)": [
        [0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998],
    ],
    "no green (deuteranopia)": [
        [0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881],
    ],
}  # fmt: skip
"""What is seen of linear red, green and blue: the matrices of Machado, Oliveira and Fernandes (IEEE TVCG 2009), severity 1."""
XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
"""From linear sRGB, white D65."""


def cielab(colour, seen):
    """L*, a* and b* of a colour, as it is seen."""
    coded = np.array(rgb(colour)) / 255
    linear = np.where(coded <= 0.04045, coded / 12.92, ((coded + 0.055) / 1.055) ** 2.4)
    light = XYZ @ np.clip(np.array(seen) @ linear, 0, 1) / XYZ.sum(axis=1)
    x, y, z = np.where(light > (6 / 29) ** 3, np.cbrt(light), light / (3 * (6 / 29) ** 2) + 4 / 29)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def too_near(found, least):
    """Pairs of names whose colours are nearer than `least` to each other, and for whom."""
    return [
        (one, other, who, round(float(apart), 1))
        for who, seen in SEEN.items()
        for (one, its), (other, theirs) in itertools.combinations(found.items(), 2)
        if (apart := np.linalg.norm(cielab(its, seen) - cielab(theirs, seen))) < least
    ]


def test_colours_are_seen_as_they_should_be():
    """White, a published value of CIELAB, and a red and a green that are one colour to who sees no green."""
    assert cielab("#FFFFFF", SEEN["no red (protanopia)"]) == pytest.approx([100, 0, 0], abs=0.01)
    assert cielab("#FF0000", SEEN["all colours"]) == pytest.approx([53.24, 80.09, 67.20], abs=0.02)
    confused = {"red": "#A85032", "green": "#657632"}
    assert [who for _, _, who, _ in too_near(confused, 8)] == ["no green (deuteranopia)"]


def test_policies_that_ship_are_told_apart_by_all_eyes():
    """Those that somebody adds have colours by their names, which may lie near: adding a policy is adding one file."""
    assert set(colours.OF_POLICIES) <= set(policies.names())
    assert len(colours.OF_POLICIES) >= 17
    assert not too_near({name: colours.policy_colour(name) for name in colours.OF_POLICIES}, 10)


def test_jobs_are_told_apart_by_all_eyes_and_from_what_is_late():
    found = colours.job_colours([f"job{i}" for i in range(7)]) | {"late": colours.LATE}
    assert not too_near(found, 15)
    flows = {name: colours.flow_colour(colour) for name, colour in found.items() if name != "late"}
    assert not too_near(flows | {"late": colours.LATE}, 8)


def test_a_colour_depends_on_nothing_but_the_name():
    names = ["fair", "./mine.py(x=1)", "coflow(grouping=group)", "漢"]
    alone = [colours.policy_colour(name) for name in names]
    together = colours.looks(["echelonflow", *reversed(names)])
    assert [together[name].colour for name in names] == alone
    text = f"from results.colours import policy_colour\nprint([policy_colour(n) for n in {names!r}])"
    other = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == str(alone)


def test_options_change_how_dark_a_colour_is():
    plain, *others = (
        colours.policy_colour(f"coflow{options}") for options in ("", "(grouping=group)", "( grouping=group)")
    )
    assert plain == colours.ORANGE
    assert len(set(others)) == 1
    assert others[0] != plain


def test_those_of_one_colour_have_other_lines():
    same = [f"fair(x={i})" for i in range(6)]
    looks = colours.looks(same)
    by_colour = {}
    for look in looks.values():
        by_colour.setdefault(look.colour, []).append(look.line)
    assert all(len(set(lines[:4])) == min(len(lines), 4) for lines in by_colour.values())
    assert max(map(len, by_colour.values())) > 1


def test_no_job_has_the_colour_of_what_is_late():
    found = colours.job_colours([f"job{i}" for i in range(21)])
    assert len(set(found.values())) == 21
    assert colours.LATE not in found.values()


@pytest.mark.parametrize("lightness", [0.0, 0.6, 1.0, 1.35, 9.0])
def test_shades_are_colours(lightness):
    assert len(colours.shaded(colours.ORANGE, lightness)) == 7
    assert all(0 <= part <= 255 for part in rgb(colours.shaded(colours.ORANGE, lightness)))
