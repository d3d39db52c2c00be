"""A sweep as its folder has it: what was asked for is taken from there."""

from __future__ import annotations

from pathlib import Path

from echelon.experiment import schema
from echelon.experiment.swept import Swept
from echelon.sweeps.plan import Sweep, planned
from echelonflow.errors import InputError
from echelonflow.files import exists
from echelonflow.records.sweeps import SWEEP, read_sweep


def resumed(root: Path) -> Sweep:
    """The sweep that was begun in the folder `root`; InputError where none was, or it cannot be gone on with."""
    if not exists(root / SWEEP):
        raise InputError(f"--resume {root}: no sweep was begun there; begin one without --resume")
    record = read_sweep(root)
    whole = {**record.experiment, "policies": record.policies, "against": record.against}
    experiment = schema.check(whole, Path(record.experiment_folder) / record.experiment_file)
    return planned(experiment, {**record.over, "seed": record.seeds}, record.backend, Swept({}, record.listed))
