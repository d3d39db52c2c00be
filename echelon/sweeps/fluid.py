"""One simulated cell: from the values of a point, a policy and a seed to the figures of every job."""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from echelon.experiment.schema import Experiment
from echelon.running.simulated import predict
from echelon.sweeps.building import built
from echelonflow.errors import EchelonError
from echelonflow.records.cells import Cell, Number
from echelonflow.records.run_record import RunRecord
from results.analysis.columns import keys_of
from results.analysis.counted import counted_of, only, why_none_counts
from results.analysis.figures import JobFigures, job_figures
from results.analysis.rows import run_rows


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A cell that is to be computed."""

    name: str
    settings: Mapping[str, Any]
    policy: str
    seed: int


class Computer:
    """Computes simulated cells of one sweep; it keeps the experiment that it built last, as policies share it."""

    def __init__(self, data: Mapping[str, Any], path: Path, policies: Sequence[str]) -> None:
        self._data = data
        self._path = path
        self._policies = tuple(policies)
        self._last: tuple[object, Experiment] | None = None
        """What was built last, and of what: replaced as a whole, as threads may share a computer."""

    def compute(self, wanted: Wanted) -> Cell:
        """The cell; what goes wrong is its reason. Nothing that a simulation does ends a sweep."""
        started_s = time.perf_counter()
        try:
            jobs, reasons = self._simulated(wanted)
            failed = False
        except EchelonError as error:
            jobs, reasons, failed = {}, [str(error)], True
        except MemoryError:
            jobs, reasons, failed = {}, ["there was not enough memory for it"], True
        except Exception as error:  # noqa: BLE001  (a fault of ours is this cell's, and the others go on)
            jobs, reasons, failed = {}, [f"{type(error).__name__}: {error}"], True
        return Cell(
            name=wanted.name,
            backend="fluid",
            policy=wanted.policy,
            seed=wanted.seed,
            settings=dict(wanted.settings),
            jobs=jobs,
            reasons=tuple(" ".join(reason.split()) for reason in reasons),
            failed=failed,
            took_s=time.perf_counter() - started_s,
            ended=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )

    def _simulated(self, wanted: Wanted) -> tuple[dict[str, dict[str, Number]], list[str]]:
        experiment = self._built(wanted)
        record = predict(experiment, wanted.policy)
        return figures_of(record, experiment)

    def _built(self, wanted: Wanted) -> Experiment:
        key, last = (dict(wanted.settings), wanted.seed), self._last
        if last is None or last[0] != key:
            last = (key, built(self._data, self._path, wanted.settings, wanted.seed, self._policies))
            self._last = last
        return last[1]


def figures_of(record: RunRecord, experiment: Experiment) -> tuple[dict[str, dict[str, Number]], list[str]]:
    """Figures by job and name, over the iterations that count, and why the run does not count, if it does not."""
    rows = run_rows(record, experiment.jobs, is_prediction=True)
    counted = counted_of(rows.iterations, experiment.jobs, experiment.counting)
    found = job_figures(only(rows, counted), experiment.jobs)
    reasons = why_none_counts(rows.iterations, counted, experiment.counting)
    last_s: dict[str, float] = {}
    ended: dict[str, int] = {}
    for row in rows.iterations:
        last_s[row.job] = max(last_s.get(row.job, -math.inf), row.finish_s)
        ended[row.job] = ended.get(row.job, 0) + 1
    jobs: dict[str, dict[str, Number]] = {}
    for job in experiment.jobs:
        done = ended.get(job.name, 0)
        if done < job.iterations:
            reasons.append(f"job {job.name} ended {done} of its {job.iterations} iterations")
        jobs[job.name] = as_numbers(found.get(job.name), done)
        jobs[job.name]["completion_s"] = last_s[job.name] - job.start_s if done == job.iterations else None
    return jobs, reasons


def as_numbers(figures: JobFigures | None, iterations: int) -> dict[str, Number]:
    """The figures of a job, by name, as a cell keeps them."""
    keys = () if figures is None else keys_of(JobFigures)
    values = {key: getattr(figures, key) for key in keys}
    numbers = {key: value for key, value in values.items() if isinstance(value, int | float | None)}
    return {"iterations": iterations, **numbers}
