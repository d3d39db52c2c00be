"""What notebooks and scripts use: load an experiment, simulate, emulate or sweep it, look at what came out.

The names here are those of the package `echelon` itself. Mistakes in what is given raise `InputError`, whose text is what
the command line would say.
"""

from __future__ import annotations

from echelon.experiment.schema import Experiment
from echelon.notebook.comparing import Comparison, compare
from echelon.notebook.experiments import build, emulate, load, read, simulate, with_changes
from echelon.notebook.results import Results
from echelon.notebook.sweeping import SweepResults, sweep
from echelon.notebook.table import Table

__all__ = [
    "Comparison",
    "Experiment",
    "Results",
    "SweepResults",
    "Table",
    "build",
    "compare",
    "emulate",
    "load",
    "read",
    "simulate",
    "sweep",
    "with_changes",
]
