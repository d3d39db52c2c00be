"""Planned faults and the length of runs: what would come too late, and how long outages of the controller were.

A controller is started again when that was planned, and then has to come up.
"""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec

from echelon.experiment.schema import Experiment
from echelonflow.errors import InputError
from echelonflow.model.faults import ControllerStop, Fault, outages
from echelonflow.model.units import format_duration
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import read_outcome
from echelonflow.records.run_record import RunRecord


def too_late(faults: Sequence[Fault], predictions: Mapping[str, RunRecord]) -> list[str]:
    """In words, the planned faults that begin after the predicted end of a run: they will not be seen in it."""
    ends_s = {policy: run.end_s for policy, run in predictions.items()}
    found = []
    for fault in faults:
        over = [policy for policy, end_s in ends_s.items() if fault.at_s >= end_s]
        if over:
            found.append(
                f"planned at {format_duration(fault.at_s)}: {fault.what}; by then {', '.join(over)} will have ended"
            )
    return found


def with_real_outages(experiment: Experiment, folder: RunFolder) -> Experiment:
    """The experiment with outages as long as they were in the runs in `folder`, in the median: what is to be predicted.

    The same experiment where none was planned or none is recorded.
    """
    if not outages(experiment.faults):
        return experiment
    lasted_s = _lasted_s(folder)
    faults = tuple(_as_it_was(fault, lasted_s.get(fault, [])) for fault in experiment.faults)
    return experiment if faults == experiment.faults else dataclasses.replace(experiment, faults=faults)


def _as_it_was(fault: Fault, lasted_s: list[float]) -> Fault:
    if not isinstance(fault, ControllerStop) or not lasted_s:
        return fault
    return msgspec.structs.replace(fault, for_s=statistics.median(lasted_s))


def _lasted_s(folder: RunFolder) -> dict[Fault, list[float]]:
    """How long each fault lasted in every run that it ended in."""
    found: dict[Fault, list[float]] = defaultdict(list)
    for files in folder.runs():
        try:
            done = read_outcome(files.outcome).faults
        except InputError:  # analysis says so
            continue
        for fault in done:
            if fault.end_s is not None:
                found[fault.fault].append(fault.end_s - fault.fault.at_s)
    return found
