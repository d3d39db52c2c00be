"""One colour for each policy everywhere: stable, distinct, and of the palette that colour-blind readers can tell apart."""

from __future__ import annotations

import itertools
import subprocess
import sys

import pytest

from echelonflow.scheduling import policies
from results import colours


def rgb(colour):
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]


def test_policies_of_the_roster_have_colours_of_their_own():
    found = {name: colours.policy_colour(name) for name in policies.names()}
    for (one, its), (other, theirs) in itertools.combinations(found.items(), 2):
        assert sum(abs(a - b) for a, b in zip(rgb(its), rgb(theirs), strict=True)) > 40, (one, other)


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
