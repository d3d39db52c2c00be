"""One simulated cell: from the values of a point, a policy and a seed to the figures of every job."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from echelon.experiment.schema import Experiment
from echelon.running.simulated import predict, rates_to_note
from echelon.running.yardsticks import yardsticks_of
from echelon.sweeps.building import built
from echelonflow.errors import EchelonError
from echelonflow.records.cells import Cell, Number
from echelonflow.records.rates import RateLog
from echelonflow.records.run_record import RunRecord, as_far_as_run
from echelonflow.records.yardsticks import Yardsticks
from results.analysis.counted import counted_of, only, why_none_counts
from results.analysis.counted import span_s as counted_span_s
from results.analysis.figures import job_figures
from results.analysis.link_load import loads_by_rates, loads_by_records
from results.analysis.measures import job_measures, run_measures
from results.analysis.rows import run_rows
from results.analysis.run_figures import job_numbers, run_numbers


@dataclasses.dataclass(frozen=True)
class Wanted:
    """A cell that is to be computed."""

    name: str
    settings: Mapping[str, Any]
    policy: str
    seed: int


@dataclasses.dataclass(frozen=True)
class Found:
    """What came of a cell: figures of each job and of all together, by name, and why they do not count."""

    jobs: Mapping[str, dict[str, Number]] = dataclasses.field(default_factory=dict)
    together: Mapping[str, Number] = dataclasses.field(default_factory=dict)
    reasons: Sequence[str] = ()


class _HeldAgainst:
    """What all policies of an experiment are held against, found out when the first one is."""

    def __init__(self, experiment: Experiment) -> None:
        self._experiment = experiment

    @functools.cached_property
    def yardsticks(self) -> Yardsticks:
        return yardsticks_of(self._experiment, cheap=True)


@dataclasses.dataclass(frozen=True)
class _Point:
    """The experiment of a point with one seed."""

    settings: Mapping[str, Any]
    seed: int
    experiment: Experiment
    held_against: _HeldAgainst

    def with_seed(self, seed: int, experiment: Experiment) -> _Point:
        """The same point with another seed; where that changes no job, and no network, they are held against the same."""
        same = (experiment.jobs, experiment.network) == (self.experiment.jobs, self.experiment.network)
        return _Point(self.settings, seed, experiment, self.held_against if same else _HeldAgainst(experiment))


class Computer:
    """Computes simulated cells of one sweep; it keeps the point that it built last, as policies share it."""

    def __init__(self, data: Mapping[str, Any], path: Path, policies: Sequence[str]) -> None:
        self._data = data
        self._path = path
        self._policies = tuple(policies)
        self._last: _Point | None = None
        """What was built last: replaced as a whole, as threads may share a computer."""

    def compute(self, wanted: Wanted) -> Cell:
        """The cell; what goes wrong is its reason. Nothing that a simulation does ends a sweep."""
        started_s = time.perf_counter()
        failed = True
        try:
            found, failed = self._simulated(wanted), False
        except EchelonError as error:
            found = Found(reasons=(str(error),))
        except MemoryError:
            found = Found(reasons=("there was not enough memory for it",))
        except Exception as error:  # noqa: BLE001  (a fault of ours is this cell's, and the others go on)
            found = Found(reasons=(f"{type(error).__name__}: {error}",))
        return Cell(
            name=wanted.name,
            backend="fluid",
            policy=wanted.policy,
            seed=wanted.seed,
            settings=dict(wanted.settings),
            jobs=dict(found.jobs),
            together=dict(found.together),
            reasons=tuple(" ".join(reason.split()) for reason in found.reasons),
            failed=failed,
            took_s=time.perf_counter() - started_s,
            ended=datetime.now(timezone.utc).isoformat(timespec="seconds"),
        )

    def _simulated(self, wanted: Wanted) -> Found:
        point = self._built(wanted)
        rates = rates_to_note(point.experiment.jobs)
        record = predict(point.experiment, wanted.policy, rates=rates)
        return found_of(record, point.experiment, point.held_against.yardsticks, rates)

    def _built(self, wanted: Wanted) -> _Point:
        last, settings = self._last, dict(wanted.settings)
        if last is not None and (last.settings, last.seed) == (settings, wanted.seed):
            return last
        experiment = built(self._data, self._path, settings, wanted.seed, self._policies)
        if last is not None and last.settings == settings:
            last = last.with_seed(wanted.seed, experiment)
        else:
            last = _Point(settings, wanted.seed, experiment, _HeldAgainst(experiment))
        self._last = last
        return last


def found_of(record: RunRecord, experiment: Experiment, yardsticks: Yardsticks, rates: RateLog | None) -> Found:
    """What a simulation says of each job and of all together, over the iterations that count; `rates` are those of its flows."""
    jobs = as_far_as_run(experiment.jobs, record)
    rows = run_rows(record, jobs, is_prediction=True)
    counted = counted_of(rows.iterations, jobs, experiment.counting)
    figures = job_figures(only(rows, counted), jobs)
    measures = job_measures(record, rows, jobs, counted, yardsticks)
    reasons = why_none_counts(rows.iterations, counted, experiment.counting)
    ended = Counter(row.job for row in rows.iterations)
    numbers: dict[str, dict[str, Number]] = {}
    for job in experiment.jobs:
        if job.is_background:
            continue
        if ended[job.name] < job.iterations:
            reasons.append(f"job {job.name} ended {ended[job.name]} of its {job.iterations} iterations")
        of_job = job_numbers(figures.get(job.name), measures.get(job.name))
        numbers[job.name] = {"iterations": ended[job.name], **of_job}
    together = run_measures(measures, rows, jobs, counted, yardsticks)
    span_s = counted_span_s(rows.iterations, counted)
    network = experiment.network
    loads = [] if rates is None else loads_by_rates(record, network, rates, *span_s, parts=1)
    loads = loads or loads_by_records(record.flows, network, *span_s)
    return Found(numbers, run_numbers(together, [load.mean_share for load in loads]), reasons)
