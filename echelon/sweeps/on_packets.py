"""One emulated cell: a run folder of its own, and the figures of the run in it that counts."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path

from echelon.experiment.schema import Experiment
from echelon.running import runner
from echelon.running.attempts import half_as_many_again
from echelon.sweeps.building import built
from echelon.sweeps.fluid import Found, Wanted
from echelon.sweeps.plan import Sweep
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, EchelonError, StorageError
from echelonflow.files import PART
from echelonflow.records.cells import RUN, Cell, keep_cell
from echelonflow.records.progress import Report
from results.analysis.run_figures import job_numbers, link_shares_of, run_numbers
from results.analysis.summary import RunResult
from results.folder import Summary


def one_after_the_other(sweep: Sweep, wanted: Sequence[Wanted], cells: Path, report: Report) -> Iterator[list[Cell]]:
    """Emulate every cell of `wanted`, and keep it with its run folder.

    Raises KeyboardInterrupt where a run was interrupted, InputError where this machine cannot emulate, and StorageError.
    """
    from testbed import preflight

    if wanted:
        preflight.require()
    for one in wanted:
        place = cells / f".{one.name}.{RUN}{PART}"
        try:
            shutil.rmtree(place, ignore_errors=True)
            cell = emulated(sweep, one, place, report)
            keep_cell(cells, cell, lambda part, place=place: _move(place, part / RUN))  # type: ignore[misc]
        finally:
            shutil.rmtree(place, ignore_errors=True)
        yield [cell]


def emulated(sweep: Sweep, wanted: Wanted, root: Path, report: Report) -> Cell:
    """The cell, whose run folder is `root`; raises KeyboardInterrupt and StorageError alone."""
    started_s = time.monotonic()
    found = Found()
    reasons: tuple[str, ...] = ()
    failed, set_aside = True, 0
    try:
        experiment: Experiment = built(sweep.data, sweep.path, wanted.settings, wanted.seed, (wanted.policy,))
        again = half_as_many_again(experiment.repeats) - experiment.repeats
        code, summary = runner.run(experiment, root, "emulation", report, again=again)
        if code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt
        failed = code == EXIT_FAILED
        counting = [run for run in summary.runs if run.valid]
        set_aside = len(summary.runs) - len(counting)
        reasons = _reasons(summary)
        found = _no_figures(experiment) if reasons else _figures(counting[0], experiment, root)
    except StorageError:
        raise
    except EchelonError as error:
        reasons = (" ".join(str(error).split()),)
    return Cell(
        name=wanted.name,
        backend="emulation",
        policy=wanted.policy,
        seed=wanted.seed,
        settings=dict(wanted.settings),
        jobs=dict(found.jobs),
        together=dict(found.together),
        reasons=reasons,
        failed=failed,
        set_aside=set_aside,
        took_s=time.monotonic() - started_s,
        ended=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def _reasons(summary: Summary) -> tuple[str, ...]:
    """Why nothing in the folder counts; empty where a run does."""
    return () if summary.valid else tuple(summary.reasons) or ("no run of it counts",)


def _no_figures(experiment: Experiment) -> Found:
    """The jobs alone, of which nothing can be said."""
    return Found({job.name: {} for job in experiment.jobs if not job.is_background})


def _figures(run: RunResult, experiment: Experiment, root: Path) -> Found:
    """What the run says of each job and of all together."""
    jobs = {
        job.name: {
            "iterations": job.iterations, **job_numbers(run.jobs.get(job.name), run.measures.get(job.name)),
        }
        for job in experiment.jobs
        if not job.is_background
    }  # fmt: skip
    shares = link_shares_of(root / "links.csv").get((run.policy, run.repeat), ())
    return Found(jobs, run_numbers(run.together, shares, run.control))


def _move(run: Path, place: Path) -> None:
    if run.is_dir():  # there is none where the experiment was refused
        run.rename(place)
