"""Where other people's traces are, which are not ours to ship."""

from __future__ import annotations

import os
from pathlib import Path

from echelon.benchmarks import Say
from echelon.places import SHARED_DATA

VARIABLE = "ECHELON_TRACES"
"""Names a folder with the traces that benchmarks read, each in a folder called after its repository."""
PLACE = SHARED_DATA
FACEBOOK = "coflow-benchmark/FB2010-1Hr-150-0.txt"


def find(name: str, say: Say) -> Path | None:
    """The file of trace `name`, such as FACEBOOK; None, and what to do said, where there is none."""
    place = Path(os.environ.get(VARIABLE, PLACE))
    if (place / name).is_file():
        return place / name
    say(f"{name} left out: it is not in {place}; set {VARIABLE} to a folder that has it")
    return None
