"""Experiments that are simulated: policy by policy, each kept as soon as it is done."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

import numpy as np

from echelon.experiment.schema import Experiment
from echelonflow.errors import EchelonError, InputError, StorageError
from echelonflow.model.coflow_trace import CoflowTrace, TraceRecord
from echelonflow.model.counting import Counted
from echelonflow.model.dag import Job
from echelonflow.model.network import Network
from echelonflow.records.blame import Blame
from echelonflow.records.coflow_runs import CoflowRun, read_coflow_runs, write_coflow_runs
from echelonflow.records.folder import RunFolder
from echelonflow.records.link_load import LinkLoad
from echelonflow.records.outcome import INTERRUPTED
from echelonflow.records.progress import Predicting, Report, Simulating, Warned
from echelonflow.records.rates import RateLog
from echelonflow.records.run_record import RunRecord, as_run
from echelonflow.records.runs import load_runs, save_runs
from echelonflow.scheduling import policies
from results.analysis.blame import blame, ends_by_job_s
from results.analysis.link_load import loads_by_rates
from simulator.fluid import simulate
from simulator.trace import simulate_trace

MOST_BLAMED_STEPS = 4_000_000
"""Steps of all iterations of a simulation of which it is found out what they waited for: of more it would take minutes."""
_SAY_EVERY_S = 1.0
_MOST_SAVING_SHARE = 0.05
"""Of the time that what is to be saved took."""


class _OfPolicy(Protocol):
    @property
    def policy(self) -> str: ...


Record = TypeVar("Record", bound=_OfPolicy)
_Run = tuple[str, int]
"""(policy, repeat)."""
ALL_THE_SAME = (
    "{} repeats of an exact simulation would all be the same, as nothing in it is drawn: each policy is simulated once; "
    "jitter or stragglers in a job make repeats differ"
)


def predict(experiment: Experiment, policy: str, repeat: int = 0, rates: RateLog | None = None) -> RunRecord:
    """The fluid simulation of the experiment under one policy; what computations draw depends on the `repeat`.

    In `rates` is noted how fast every flow goes.

    PolicyError if it fails, or if a user's policy file thinks for longer than the controller would let it.
    """
    with contextlib.closing(policies.load(policy)) as loaded:
        return simulate(
            experiment.jobs, experiment.network, loaded, repeat,
            realism=experiment.realism, faults=experiment.faults, queue=experiment.queue, rates=rates,
        )  # fmt: skip


def blamed(experiment: Experiment, policy: str, repeat: int = 0) -> RunRecord:
    """The same, with what each job's iterations were spent on, as far as that can be afforded."""
    rates = rates_to_note(experiment.jobs)
    record = predict(experiment, policy, repeat, rates)
    if rates is not None:
        jobs = as_run(experiment.jobs, record)
        starts_s = {job.name: job.start_s for job in jobs}
        counted = experiment.counting.counted(starts_s, ends_by_job_s(record, jobs))
        record.blame, record.links = explained(record, jobs, experiment.network, rates, counted)
    return record


def explained(
    record: RunRecord, jobs: Sequence[Job], network: Network, rates: RateLog, counted: Counted
) -> tuple[tuple[Blame, ...], tuple[LinkLoad, ...]]:
    """What the iterations that count were spent on in a simulation whose rates were noted, and how busy links were."""
    ends = ends_by_job_s(record, jobs)
    starts_s = {job.name: job.start_s for job in jobs}
    spans_s = [
        (ends[name][mine[0] - 1] if mine[0] else starts_s[name], ends[name][mine[-1]])
        for name, mine in counted.items()
        if mine[-1] < len(ends[name])
    ]
    begin_s, end_s = min((each for each, _ in spans_s), default=0.0), max((each for _, each in spans_s), default=0.0)
    return (
        blame(record, jobs, network, rates, counted),
        tuple(loads_by_rates(record, network, rates, begin_s, end_s)),
    )


def rates_to_note(jobs: Sequence[Job]) -> RateLog | None:
    """Where to note rates of a simulation of these jobs; None where they have too many steps for that."""
    return RateLog() if sum(job.iterations * len(job.dag.steps) for job in jobs) <= MOST_BLAMED_STEPS else None


def simulate_jobs(experiment: Experiment, folder: RunFolder, report: Report) -> str | None:
    """Simulate the jobs in every repeat that differs, under every policy, as far as `folder` does not have that yet.

    Returns None, or why not all are there.
    """
    if experiment.repeats > experiment.runs_simulated:
        report(Warned(ALL_THE_SAME.format(experiment.repeats)))
    report(Predicting())
    kept = {(run.policy, run.repeat): run for run in _kept(lambda: load_runs(folder.simulated_runs))}
    runs = [(policy, repeat) for repeat in range(experiment.runs_simulated) for policy in experiment.policies]
    return _each(
        runs,
        kept,
        lambda run: blamed(experiment, *run),
        lambda runs: save_runs(folder.simulated_runs, runs),
    )


def simulate_coflows(experiment: Experiment, trace: CoflowTrace, folder: RunFolder, report: Report) -> str | None:
    """The same for the Coflows of a trace, once: nothing in it is random."""
    kept = _kept(lambda: list(read_coflow_runs(folder.coflow_runs).runs))
    return _each(
        [(policy, 0) for policy in experiment.policies],
        {(run.policy, 0): _record(run, trace) for run in kept},
        lambda run: _simulated(experiment, trace, run[0], report),
        lambda runs: write_coflow_runs(folder.coflow_runs, trace, runs),
    )


def _kept(read: Callable[[], list[Record]]) -> list[Record]:
    """What an earlier try finished; nothing where that cannot be read."""
    with contextlib.suppress(InputError):
        return read()
    return []


def _each(
    asked: Sequence[_Run],
    kept: Mapping[_Run, Record],
    make: Callable[[_Run], Record],
    save: Callable[[list[Record]], None],
) -> str | None:
    """Make a record for every run that has none, and save all there are; returns why any is missing.

    A run that fails does not keep the others from being tried, but for those of its policy. Raises what went wrong where there is no record at all.
    """
    found, errors = _Found(asked, dict(kept), save), {}
    try:
        for run in asked:
            if run in found.records or run[0] in errors:
                continue
            try:
                found.add(run, make)
            except StorageError:
                raise
            except EchelonError as error:
                errors[run[0]] = error
    except KeyboardInterrupt:
        if not found.records:
            raise
        return INTERRUPTED
    finally:
        found.save_what_is_not()
    if errors and not found.records:
        raise next(iter(errors.values()))
    return "; ".join(map(str, errors.values())) or None


class _Found(Generic[Record]):
    """The records there are. All are saved together, each time anew: so that is not done where it would take long.

    What is unsaved when a process is killed took little to simulate beside what saving took.
    """

    def __init__(
        self, asked: Sequence[_Run], records: dict[_Run, Record], save: Callable[[list[Record]], None]
    ) -> None:
        self.records = records
        self._asked = asked
        self._save = save
        self._saving_s = self._unsaved_s = 0.0
        self._saved = len(records)

    def add(self, run: _Run, make: Callable[[_Run], Record]) -> None:
        """Make one more."""
        started_s = time.monotonic()
        self.records[run] = make(run)
        self._unsaved_s += time.monotonic() - started_s
        if self._saving_s < _MOST_SAVING_SHARE * self._unsaved_s:
            self.save_what_is_not()

    def save_what_is_not(self) -> None:
        """Save all, unless they are."""
        if len(self.records) == self._saved:
            return
        started_s = time.monotonic()
        self._save([self.records[run] for run in self._asked if run in self.records])
        self._saving_s, self._unsaved_s, self._saved = time.monotonic() - started_s, 0.0, len(self.records)


def _record(run: CoflowRun, trace: CoflowTrace) -> TraceRecord:
    """The record of a run as far as coflow-runs.json keeps it: by Coflow, not by flow."""
    return TraceRecord(
        policy=run.policy,
        repeat=run.repeat,
        arrival_s=trace.arrival_s,
        finish_s=np.array(run.finish_s),
        flow_finish_s=np.empty(0),
        events=run.events,
    )


def _simulated(experiment: Experiment, trace: CoflowTrace, policy: str, report: Report) -> TraceRecord:
    last_s = float(trace.arrival_s.max())
    said_s = time.monotonic()

    def progress(now_s: float) -> None:
        nonlocal said_s
        if time.monotonic() >= said_s + _SAY_EVERY_S:
            said_s = time.monotonic()
            report(Simulating(policy, now_s, last_s))

    report(Simulating(policy, 0.0, last_s))
    with contextlib.closing(policies.load(policy)) as loaded:
        return simulate_trace(trace, experiment.network, loaded, on_progress=progress, realism=experiment.realism)
