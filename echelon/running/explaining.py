"""Simulates each emulated run again with what it measured, cause by cause, so that its time can be explained (budget.json)."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool

from controller import enforcers
from echelon.running.simulated import explained, rates_to_note
from echelonflow.child_process import pool
from echelonflow.errors import EchelonError, InputError
from echelonflow.model.counting import ALL, Counted, Counting
from echelonflow.model.dag import Job
from echelonflow.model.faults import Fault
from echelonflow.model.measured import Measured
from echelonflow.model.network import Network
from echelonflow.records.budget import Budgets, ExplainedRun, read_budgets, write_budgets
from echelonflow.records.folder import RunFiles, RunFolder
from echelonflow.records.rates import RateLog
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import policies
from echelonflow.scheduling.policies.lookahead import Adopted
from results.analysis.blame import ends_by_job_s
from results.analysis.causes import causes_of, unhindered
from results.analysis.context import Context, open_folder
from results.analysis.counted import only
from results.analysis.evidence import RawRun
from results.analysis.figures import job_figures
from results.analysis.planned import beyond_simulation
from results.analysis.rows import run_rows
from simulator.fluid import simulate
from simulator.realism import EXACT, Enforcer, Realism

Times = dict[str, float]
"""Mean iteration time of each job, in seconds."""


@dataclasses.dataclass(frozen=True)
class Asked:
    """What was asked for, as the prediction takes it."""

    jobs: Sequence[Job]
    network: Network
    realism: Realism = EXACT
    faults: Sequence[Fault] = ()
    counting: Counting = ALL


def explain(folder: RunFolder, asked: Asked, processes: int | None = None) -> None:
    """Explain every run in `folder` that is not yet, and keep that in budget.json.

    So many `processes` work at a time, by default one for each processor. Runs that did not end, and those of which the simulation knows less than the whole, are left out. Raises InputError
    where the folder cannot be read, StorageError where nothing can be written.
    """
    context = open_folder(folder.root)
    known = _known(folder)
    found: dict[str, ExplainedRun] = {}
    todo: list[RunFiles] = []
    for files in folder.runs():
        run = RawRun.of(context, files)
        earlier = known.get(files.root.name)
        if not _can_be_explained(run):
            continue
        if earlier is not None and _same(earlier, run):
            found[files.root.name] = earlier
        else:
            todo.append(files)
    found.update(zip((files.root.name for files in todo), _explained(context, asked, todo, processes), strict=True))
    write_budgets(folder.budget, Budgets(dict(sorted(found.items()))))


def _known(folder: RunFolder) -> Mapping[str, ExplainedRun]:
    try:
        budgets = read_budgets(folder.budget)
    except InputError:  # it is made anew
        return {}
    return {} if budgets is None else budgets.runs


def _can_be_explained(run: RawRun) -> bool:
    return run.outcome.completed and not beyond_simulation(run.outcome.faults) and run.files.plan.exists()


def _same(explained: ExplainedRun, run: RawRun) -> bool:
    outcome = run.outcome
    return (explained.run_index, explained.zero_monotonic_s) == (outcome.run_index, outcome.zero_monotonic_s)


def _explained(context: Context, asked: Asked, todo: Sequence[RunFiles], processes: int | None) -> list[ExplainedRun]:
    processes = min(processes or len(os.sched_getaffinity(0)), len(todo))
    if processes > 1:
        # What a child inherits need not be loaded again; and it says nothing, so that nothing is said twice.
        with contextlib.suppress(BrokenProcessPool), pool(processes, "fork") as several:
            number = len(todo)
            return list(several.map(explained_run, [context] * number, [asked] * number, todo))
    return [explained_run(context, asked, files) for files in todo]


def explained_run(context: Context, asked: Asked, files: RunFiles) -> ExplainedRun:
    """One run, simulated once for each stage; why that could not be done is in it."""
    run = RawRun.of(context, files)
    outcome = run.outcome
    found = ExplainedRun(run_index=outcome.run_index, zero_monotonic_s=outcome.zero_monotonic_s)
    try:
        evidence = run.evidence(run.plan())
        starts_s = {job.name: job.start_s for job in asked.jobs}
        counted = asked.counting.counted(starts_s, ends_by_job_s(evidence.read.record, asked.jobs))
        causes = causes_of(run, evidence)
        eased = unhindered(causes, evidence.read.record, outcome)
        stages = _Stages.of(context, asked, run, counted, evidence.planned)
        late = causes.without(settings=True, acknowledgements=True, links=True)
        decisions_s = stages.times(stages.enforced, causes.without(acknowledgements=True, links=True))
        unhindered_s = decisions_s
        if eased is not causes:
            unhindered_s = stages.times(stages.enforced, eased.without(acknowledgements=True, links=True))
        rates = rates_to_note(asked.jobs)
        last = stages.simulated(stages.enforced, causes, rates)
        blamed, links = ((), ()) if rates is None else explained(last, asked.jobs, asked.network, rates, counted)
        return ExplainedRun(
            run_index=found.run_index,
            zero_monotonic_s=found.zero_monotonic_s,
            ideal_s=stages.times(stages.ideal, causes.ideal),
            computation_s=stages.times(stages.ideal, late),
            unhindered_s=unhindered_s,
            decisions_s=decisions_s,
            acknowledgements_s=stages.times(stages.enforced, causes.without(links=True)),
            links_s=stages.mean_s(last),
            blame=blamed,
            links=links,
        )
    except EchelonError as error:
        return ExplainedRun(run_index=found.run_index, zero_monotonic_s=found.zero_monotonic_s, failure=str(error))


def _enforcer(text: str) -> Enforcer:
    """What a simulation calls the enforcer of a run; one that is not known, from a damaged record, counts as `priority`."""
    found: dict[str, Enforcer] = {"rate": "rate", enforcers.WEIGHTED: "weighted"}
    return found.get(enforcers.name_of(text), "priority")


@dataclasses.dataclass(frozen=True)
class _Stages:
    """How one run is simulated: as its prediction is, or with the classes and the pacing that the testbed has."""

    asked: Asked
    policy: str
    repeat: int
    """Of the run: what computations draw depends on it."""
    ideal: Realism
    enforced: Realism
    counted: Counted
    """The iterations of the run that count: the same count in every simulation of it."""
    plans: Sequence[Adopted] = ()
    """What was in force in the run, and from when, where somebody looked ahead for the policy: that is repeated, not planned anew."""

    @staticmethod
    def of(context: Context, asked: Asked, run: RawRun, counted: Counted, plans: Sequence[Adopted] = ()) -> _Stages:
        realism, calibration = asked.realism, context.calibration
        attempt = None if calibration is None else calibration.of_run(run.outcome.run_index)
        if attempt is not None and realism.burst_s == 0:
            realism = dataclasses.replace(realism, burst_s=attempt.burst_s)
        classes, folding = enforcers.folded_by(run.outcome.enforcer)
        enforced = dataclasses.replace(
            realism,
            classes=min(realism.classes or classes, classes),
            folding=folding,
            enforcer=_enforcer(run.outcome.enforcer),
            decision_latency_s=0.0,
            undecided="wait",
            late_s=0.0,
        )
        return _Stages(asked, run.outcome.policy, run.outcome.repeat, realism, enforced, counted, plans)

    def times(self, realism: Realism, measured: Measured) -> Times:
        """Mean iteration time of every job, with some causes."""
        return self.mean_s(self.simulated(realism, measured))

    def simulated(self, realism: Realism, measured: Measured, rates: RateLog | None = None) -> RunRecord:
        """The run again, with some causes."""
        with contextlib.closing(policies.load(self.policy)) as policy:
            if policy.promises.plans:
                policy.memory.follow(self.plans)
            return simulate(
                self.asked.jobs, self.asked.network, policy, self.repeat,
                realism=realism, faults=self.asked.faults, measured=measured, rates=rates,
            )  # fmt: skip

    def mean_s(self, record: RunRecord) -> Times:
        """Mean iteration time of every job in a simulation, over the iterations that count in the run."""
        jobs = self.asked.jobs
        figures = job_figures(only(run_rows(record, jobs), self.counted), jobs)
        return {job: each.iteration_s for job, each in figures.items()}
