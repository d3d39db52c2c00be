"""The command that reads experiments and starts nothing: check."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from echelon.cli.options import Policies, Schedulers, Settings
from echelon.cli.saying import say
from echelonflow.errors import EXIT_BAD_INPUT, EXIT_VALID, InputError
from echelonflow.model.units import format_rate, format_size

if TYPE_CHECKING:
    from echelon.experiment.schema import Experiment

MOST_HOSTS_SHOWN = 16


MOST_LISTED = 50
"""Jobs that are told of one by one."""


def check(
    files: Annotated[list[Path], typer.Argument(help="Experiment files (YAML), as for `echelon run`.")],
    policy: Policies = None,
    scheduler: Schedulers = None,
    settings: Settings = None,
) -> None:
    """Read experiments, build what they describe, and say what would be run; nothing is started.

    Every fault is listed with its line. Exit code 0: all can be run (the last line of each says whether it can be
    emulated too), 2: one cannot.
    """
    from echelon.experiment import schema
    from echelon.experiment.settings import parse

    placed = parse(settings or ())
    worst = EXIT_VALID
    for path in files:
        try:
            experiment = schema.load(path, {"policies": policy} if policy else None, scheduler or (), placed)
        except InputError as error:
            say(f"echelon: {error}", err=True)
            worst = EXIT_BAD_INPUT
            continue
        say(f"{path}: can be run")
        for line in _described(experiment):
            say(f"  {line}")
    raise typer.Exit(worst)


def _described(experiment: Experiment) -> Iterator[str]:
    from echelon.experiment.extent import check_emulation

    network = experiment.network
    rates = sorted({link.rate_bps for link in network.links})
    speed = " to ".join(dict.fromkeys((format_rate(rates[0]), format_rate(rates[-1]))))
    gpus = f" with {network.gpus_per_host} GPUs each" if network.gpus_per_host > 1 else ""
    yield f"network    {network.name}: {len(network.hosts)} hosts{gpus}, {len(network.cables)} cables of {speed}"
    if network.spreads_connections:
        yield "           connections are spread over equally short paths"
    imported = {note.job: note.imported for note in experiment.notes}
    names = {job.name for job in experiment.jobs}
    for name, lines in imported.items():
        if lines and name not in names:
            yield f"jobs       {name}: several, out of a file"
            yield from (f"           {line}" for line in lines)
    for job in experiment.jobs[:MOST_LISTED]:
        flows = job.dag.transfers
        size = format_size(sum(flow.size_bytes for flow in flows))
        work = f"{len(job.dag.computes)} computations, {len(flows)} flows of {size} together"
        yield f"job        {job.name}: {job.dag.ranks} ranks, {_number(job.iterations, 'iteration')} of {work}"
        arrives = f", from {job.start_s:g} s on" if job.start_s > 0 else ""
        arrives = arrives if job.after is None else f", after {job.after}"
        yield f"           {'on ' + _hosts(job.placement) if job.is_placed else 'waits for GPUs'}{arrives}"
        yield from (f"           {line}" for line in imported.get(job.name, ()))
        if job.discipline is not None:
            tasks = _number(len(job.discipline.tasks), "task")
            yield f"           {job.discipline.scheduler} puts what it sends in order: {tasks} of all ranks together"
    if len(experiment.jobs) > MOST_LISTED:
        yield f"           and {_number(len(experiment.jobs) - MOST_LISTED, 'more job')}"
    if experiment.trace is not None:
        yield f"trace      {experiment.trace.name}: {experiment.trace.coflows} Coflows with {experiment.trace.flows} flows"
    for fault in experiment.faults:
        yield f"fault      {fault.what}, from {fault.at_s:g} s on"
    runs = len(experiment.policies) * experiment.repeats
    yield f"policies   {', '.join(experiment.policies)}"
    yield f"runs       {len(experiment.policies)} x {experiment.repeats} = {runs}"
    swept = experiment.sweep
    if swept is not None:
        points, policies = swept.number_of_points(), len(swept.policies or experiment.policies)
        seeds = len(swept.seeds or range(experiment.repeats))
        cells = points * policies * seeds
        yield f"sweep      {points} points x {policies} policies x {seeds} seeds = {cells} cells (`echelon sweep`)"
    if experiment.trace is not None:
        yield "emulation  no: a trace of Coflows is simulated (--backend fluid)"
        return
    try:
        check_emulation(network, experiment.jobs, experiment.repeats, len(experiment.policies))
        yield "emulation  within its bounds (`echelon doctor` says what this machine can do)"
    except InputError as error:
        yield f"emulation  no: {error}"


def _hosts(placement: Sequence[str]) -> str:
    """The hosts of ranks in order, one that has several in a row once, with how many."""
    runs = [(host, len(list(ranks))) for host, ranks in itertools.groupby(placement)]
    shown = [host if count == 1 else f"{host} ({count})" for host, count in runs[:MOST_HOSTS_SHOWN]]
    more = len(placement) - sum(count for _, count in runs[:MOST_HOSTS_SHOWN])
    return " ".join(shown) + (f" and {more} more" if more else "")


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(check)
