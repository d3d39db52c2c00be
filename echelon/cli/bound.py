"""Commands about what is possible, and who comes near it: bound, study."""

from __future__ import annotations

import fnmatch
import json
from pathlib import Path
from typing import Annotated

import typer

from echelon.cli.options import Schedulers
from echelon.cli.standard_error import StandardError
from echelonflow.errors import EXIT_VALID, InputError


def bound(
    file: Annotated[Path, typer.Argument(help="Experiment file (YAML), as for `echelon run`.")],
    policy: Annotated[
        list[str] | None,
        typer.Option(
            help="Policy with options, or a policy file (code: see SECURITY.md); repeatable; replaces the file's. Fair is always shown."
        ),
    ] = None,
    scheduler: Schedulers = None,
    orders: Annotated[
        int, typer.Option(min=0, help="Try all orders of flows where there are at most so many (5 flows: 120).")
    ] = 120,
    programs: Annotated[
        int, typer.Option(min=1, help="Linear programs spent on the bound of tardiness: more make it tighter.")
    ] = 100,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print everything found as JSON instead of the table.")
    ] = False,
) -> None:
    """Say how far each policy is from what no scheduler can beat, and whether scheduling would help at all.

    Nothing is emulated and no root is needed. The experiment is simulated under fair sharing and each policy, and set
    beside a lower bound on its mean iteration time. The bound is what computation, the load of every link and the
    competition between jobs make unavoidable, whatever the scheduler. The truth lies between the bound and the best
    policy, so a small gap proves a policy near the optimum, while a large one may also be the bound's. Look at the last
    line first. If even a perfect scheduler could save only little of fair sharing's iteration time, this experiment is
    not one that scheduling decides.

    With few flows all orders are tried as well: what the best one gives can be had. Where all flows are released by
    computation alone (one direction of a pipeline, buckets of gradients in one iteration), the sum of tardiness is
    bounded too. Where a flow's release waits for another flow it is not, and the reason is printed.
    """
    from echelon.experiment import schema
    from echelon.study import bounding
    from echelonflow.model.dag import as_declared

    experiment = schema.load(file, {"policies": policy} if policy else None, scheduler or ())
    if experiment.trace is not None:
        raise InputError(f"{file}: is a trace of Coflows; bounds are for jobs, which have iterations")
    if experiment.queue is not None:
        raise InputError(f"{file}: its jobs wait for GPUs; bounds are for jobs whose hosts and starts are known before")
    if any(job.after is not None for job in experiment.jobs):
        raise InputError(f"{file}: has jobs that come after others; bounds are for jobs whose starts are known before")
    console = StandardError()
    with console.status(experiment.name) as status:

        def say(words: str) -> None:
            status.update(f"{experiment.name}: {words}")

        found = bounding.distances(
            experiment.name,
            as_declared(experiment.jobs),
            experiment.network,
            experiment.policies,
            orders,
            programs,
            say,
        )
    typer.echo(json.dumps(found.to_dict()) if as_json else bounding.table(found))


def study(
    data: Annotated[
        Path, typer.Option(help="File that the measured cases are kept in; a study goes on from it.")
    ] = Path("results/runs/study.jsonl"),
    docs: Annotated[Path, typer.Option(help="Folder to write results.md and results/*.png to.")] = Path("docs"),
    limit: Annotated[
        float | None, typer.Option(min=0, help="Stop after about so many seconds; run again to go on.")
    ] = None,
    scale: Annotated[float, typer.Option(min=0.01, max=100.0, help="Times as many cases in every section.")] = 1.0,
    workers: Annotated[int, typer.Option(min=1, help="Cases measured at a time, each by a process.")] = 1,
    only: Annotated[
        list[str] | None, typer.Option(help="Measure the sections alone whose names fit, e.g. 'steady*'. Repeatable.")
    ] = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Use cases measured by older code instead of measuring anew.")
    ] = False,
) -> None:
    """Answer the scientific questions by simulation, and write docs/results.md with its pictures.

    EchelonFlow in all its orders against Coflow in both groupings, fair sharing and the other policies. The cases are
    random jobs of every traffic pattern, alone, beside their like and mixed. Then gaps to lower bounds, and whether
    less tardiness means shorter iterations. Every number in results.md comes from here. Takes about half an hour for
    all cases; cases are seeded and kept one by one, so that it may be stopped and started again at any time. What is
    measured is written as soon as every section has two cases; the page says how many are in.
    """
    from echelon.study import all_sections, document, store

    console = StandardError()

    def say(words: str) -> None:
        console.print(words, style="dim", highlight=False, markup=False)

    sections = list(all_sections.sections(scale))
    chosen = [section for section in sections if not only or any(fnmatch.fnmatch(section.name, each) for each in only)]
    if not chosen:
        raise InputError(
            f"--only {' '.join(only or ())}: fits none of {', '.join(section.name for section in sections)}"
        )
    left = store.collect(data, chosen, float("inf") if limit is None else limit, say, keep=keep, workers=workers)
    measured = store.load(data)
    if left:
        say(f"{left} cases are left; run again to go on")
    if document.fewest(measured, sections) < document.LEAST_CASES:
        say("not every section has two cases yet, so no page is written")
        raise typer.Exit(EXIT_VALID)
    for path in document.write(docs, measured, sections):
        say(f"written: {path}")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (bound, study):
        app.command()(command)
