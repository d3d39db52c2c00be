"""The last line of `echelon run`: the one command that helps most, where an experiment did not get what it asked for."""

from __future__ import annotations

import shlex
from pathlib import Path

from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_INVALID
from results.analysis.summary import Summary

PATIENCE = "10m"
"""What is proposed: spells of stolen time on shared machines were minutes long."""


def next_step(root: Path, code: int, summary: Summary) -> str | None:
    """What to do next, as a line of text with a command; None where nothing is to be done."""
    resume = f"echelon run --resume {shlex.quote(str(root))}"
    if code in (EXIT_FAILED, EXIT_INTERRUPTED):
        return f"to go on: {resume}"
    if code != EXIT_INVALID or summary.backend != "emulation":
        return None
    missing = {result.policy: result.asked - result.valid_runs for result in summary.results}
    missing = {policy: number for policy, number in missing.items() if number > 0}
    if not missing:
        return None  # the folder itself is at fault, as its reasons say
    number = sum(missing.values())
    runs = f"{number} valid run{'s are' if number > 1 else ' is'} lacking"
    return f"{runs}; to make them in a quieter spell: {resume} --patience {PATIENCE}"
