"""Simulates each emulated run again with what it measured, cause by cause, so that its time can be explained (budget.json)."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool

import msgspec

from echelon.running.ensembles import ensemble
from echelon.running.simulated import explained, rates_to_note
from echelon.running.stages import Asked, Stages
from echelonflow.child_process import pool
from echelonflow.errors import EchelonError, InputError
from echelonflow.model.measured import Measured
from echelonflow.records.budget import Budgets, ExplainedRun, read_budgets, write_budgets
from echelonflow.records.folder import RunFiles, RunFolder
from echelonflow.records.run_record import as_begun
from results.analysis.blame import ends_by_job_s
from results.analysis.budget import budgets
from results.analysis.causes import causes_of, unhindered
from results.analysis.context import Context, open_folder
from results.analysis.counted import only
from results.analysis.effects import effects, keeps_limits
from results.analysis.evidence import Evidence, RawRun
from results.analysis.figures import job_figures
from results.analysis.planned import beyond_simulation
from results.analysis.rows import run_rows


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
    """One run, simulated once for each stage, and many times where these break limits; why that could not be done is in it."""
    run = RawRun.of(context, files)
    outcome = run.outcome
    found = ExplainedRun(run_index=outcome.run_index, zero_monotonic_s=outcome.zero_monotonic_s)
    try:
        evidence = run.evidence(run.plan())
        jobs = as_begun(asked.jobs, evidence.read.record)
        starts_s = {job.name: job.start_s for job in jobs}
        counted = asked.counting.counted(starts_s, ends_by_job_s(evidence.read.record, jobs))
        causes = causes_of(run, evidence)
        eased = unhindered(causes, evidence.read.record, outcome)
        stages = Stages.of(context, asked, run, counted, evidence.planned)
        alone = once(stages, causes, eased, found)
        if evidence.swapped or _keeps_limits(alone, evidence, stages, context):
            return alone
        return msgspec.structs.replace(alone, ensemble=ensemble(stages, causes, eased, alone))
    except EchelonError as error:
        return msgspec.structs.replace(found, failure=str(error))


def once(stages: Stages, causes: Measured, eased: Measured, found: ExplainedRun) -> ExplainedRun:
    """The run simulated once for each stage; `eased` are the causes without what hindered it."""
    asked = stages.asked
    late = causes.without(settings=True, acknowledgements=True, links=True)
    decisions_s = stages.times(stages.enforced, causes.without(acknowledgements=True, links=True))
    unhindered_s = decisions_s
    if eased is not causes:
        unhindered_s = stages.times(stages.enforced, eased.without(acknowledgements=True, links=True))
    rates = rates_to_note(asked.jobs)
    last = stages.simulated(stages.enforced, causes, rates)
    jobs = as_begun(asked.jobs, last)
    blamed, links = ((), ()) if rates is None else explained(last, jobs, asked.network, rates, stages.counted)
    return msgspec.structs.replace(
        found,
        ideal_s=stages.times(stages.ideal, causes.ideal),
        computation_s=stages.times(stages.ideal, late),
        unhindered_s=unhindered_s,
        decisions_s=decisions_s,
        acknowledgements_s=stages.times(stages.enforced, causes.without(links=True)),
        links_s=stages.mean_s(last),
        blame=blamed,
        links=links,
    )


def _keeps_limits(alone: ExplainedRun, evidence: Evidence, stages: Stages, context: Context) -> bool:
    """Whether a run keeps all limits of effect by what one simulation of each stage says."""
    rows = run_rows(evidence.read.record, evidence.jobs, took_s=evidence.took_s)
    measured = job_figures(only(rows, stages.counted), evidence.jobs)
    return keeps_limits(effects(budgets(alone, measured)), context.limits)
