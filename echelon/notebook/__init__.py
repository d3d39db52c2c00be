"""What notebooks and scripts use: load an experiment, simulate or emulate it, look at what came out.

The names here are those of the package `echelon` itself. Mistakes in what is given raise `InputError`, whose text is what
the command line would say.
"""

from __future__ import annotations

from echelon.experiment.schema import Experiment
from echelon.notebook.experiments import build, emulate, load, simulate, with_changes
from echelon.notebook.results import Results, read
from echelon.notebook.table import Table

__all__ = ["Experiment", "Results", "Table", "build", "emulate", "load", "read", "simulate", "with_changes"]
