"""Losses of training programs, step by step: one curve for each policy, one for the lesson, and one for a run with Gloo."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from results.analysis.training import Losses, Trained
from results.colours import GREY, looks
from results.report.charts import Chart, short, spread
from results.report.charts.curves import MOST_POINTS

LESSON, GLOO = "lesson", "Gloo"


def loss_curves(programs: Sequence[Trained], policies: Sequence[str]) -> list[Chart]:
    """A chart for each program that printed losses, with the first run of each policy; nothing where there are none."""
    return [_curves(one, policies) for one in programs if any(one.runs.values())]


def _curves(program: Trained, policies: Sequence[str]) -> Chart:
    look_of = looks(policies)
    others = ((LESSON, "dotted", program.lesson), (GLOO, "dashed", program.gloo))
    series = [_line(name, GREY, line, losses) for name, line, losses in others if losses]
    for policy in policies:
        repeats = sorted(repeat for each, repeat in program.runs if each == policy and program.runs[each, repeat])
        if repeats:
            look = look_of[policy]
            series.append(_line(policy, look.colour, look.line, program.runs[policy, repeats[0]]))
    return {"kind": "curve", "of": program.job, "x": "step", "y": "loss", "series": series}


def _line(name: str, colour: str, line: str, losses: Losses) -> Mapping[str, Any]:
    steps = list(losses)
    steps = [steps[place] for place in spread(len(steps), MOST_POINTS)]
    return {
        "name": name, "colour": colour, "line": line, "x": steps, "y": [short(float(losses[step])) for step in steps],
    }  # fmt: skip
