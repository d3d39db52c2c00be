"""The command that carries experiments out: run."""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from echelon.cli import interrupts, live_view
from echelon.cli.options import DrawnPictures, Policies, Schedulers, Settings
from echelon.cli.saying import say
from echelon.cli.standard_error import StandardError
from echelon.running import ownership, place
from echelonflow.errors import (
    EXIT_BAD_INPUT,
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_VALID,
    EchelonError,
    InputError,
    about,
)

if TYPE_CHECKING:
    from echelon.experiment.schema import Experiment
    from echelon.live.view import LiveView
    from results.analysis.shown import Pictures
    from results.folder import Summary


def run(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Experiment files (YAML), run one after the other.", show_default=False)
    ] = None,
    policy: Policies = None,
    scheduler: Schedulers = None,
    settings: Settings = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Runs of each policy; replaces the file's.")] = None,
    attempts: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Most runs of each policy, those that do not count included; with --resume, as many more as this is "
            "above the repeats. Default: half as many again as the repeats.",
        ),
    ] = None,
    patience: Annotated[
        str | None,
        typer.Option(
            help="Wait as long as this, such as 10m, for a spell in which the machine is accurate enough; then go on all "
            "the same.",
        ),
    ] = None,
    stretch: Annotated[
        float | None,
        typer.Option(
            min=1,
            help="Make everything so many times as long: times and sizes of all jobs, rates as they are. A pause of the "
            "machine weighs so many times less. Results say so.",
        ),
    ] = None,
    against: Annotated[
        str | None, typer.Option(help="Policy that the others are compared with, pair by pair (default: the first).")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of all random choices.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="New folder for the results (default results/runs/<time>-<name>).")
    ] = None,
    backend: Annotated[
        Literal["emulation", "fluid"] | None,
        typer.Option(
            help="emulation (default): real packets, needs root and Open vSwitch. fluid: simulation, needs nothing."
        ),
    ] = None,
    datapath: Annotated[
        Literal["auto", "kernel", "userspace"] | None,
        typer.Option(help="Open vSwitch's datapath (auto: the kernel's where there is one); replaces the file's."),
    ] = None,
    framework: Annotated[
        Literal["ryu", "os-ken"] | None, typer.Option(help="The controller's framework; replaces the file's (ryu).")
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(
            help="Folder of an experiment that stopped: keep what is finished, do the rest. FILES may be left out."
        ),
    ] = None,
    pictures: DrawnPictures = "few",
    live: live_view.LivePort = None,
    live_token: live_view.LiveToken = None,
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose", "-v", help="Say every step, how jobs were scaled, and what iterations were spent on."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print summary.json instead of the table.")] = False,
) -> None:
    """Run experiments and print what came out.

    Each FILE names a network, training jobs and policies. Every policy replays the same jobs; packets
    are captured, and iteration time, exposed communication and tardiness are measured, beside the fluid
    simulation's prediction. The folder printed at the end holds report.html, CSV tables and captures.

    A run that fails is recorded with its reason, and the next one is tried. Runs that failed or are invalid are kept and
    left out of every average. Others are made in their place, until each policy has the valid ones that were asked for,
    or --attempts are made. Before the first run the machine is looked at for a second. If it is less accurate now than is
    asked for, that is said, with what helps.

    Ctrl-C (SIGTERM, SIGHUP) ends the run under way: what was finished is kept and analysed, and --resume goes on.
    """
    from echelon.experiment import schema
    from echelon.experiment.settings import parse

    emulation = {k: v for k, v in (("datapath", datapath), ("framework", framework)) if v is not None} or None
    override = {
        "policies": policy,
        "against": against,
        "stretch": stretch,
        "repeats": repeat,
        "seed": seed,
        "emulation": emulation,
    }
    changes = {k: v for k, v in override.items() if v is not None}
    files = files or []
    others = {"scheduler": scheduler, "set": settings}
    _check_arguments(files, out, resume, backend, {**changes, **{k: v for k, v in others.items() if v}})
    placed = parse(settings or ())
    effort = _Effort(attempts, _patience_s(patience), pictures)
    if backend == "fluid" and (attempts, patience) != (None, None):
        raise InputError("--attempts and --patience are for emulations: simulated runs are exact; leave them away")
    if backend == "fluid":
        ownership.stop_being_root(out or place.RUNS)
    with interrupts.in_order():
        experiments = [schema.load(path, changes, scheduler or (), placed) for path in files]
        simulated = live is not None and (backend or _backend_of(resume)) == "fluid"
        with live_view.serving(live, live_token, simulated=simulated) as view:
            if resume is not None:
                raise typer.Exit(_resume(resume, experiments, effort, view, verbose=verbose, as_json=as_json))
            codes = _run_all(experiments, out, backend or "emulation", effort, view, verbose=verbose, as_json=as_json)
    raise typer.Exit(worst(codes))


def _backend_of(root: Path | None) -> str | None:
    """The backend of an experiment that is gone on with, if one is."""
    from echelonflow.records.folder import RunFolder
    from echelonflow.records.manifest import read_manifest

    return None if root is None else read_manifest(RunFolder(root).manifest).backend


def _run_all(
    experiments: list[Experiment],
    out: Path | None,
    backend: Any,
    effort: _Effort,
    view: LiveView | None,
    *,
    verbose: bool,
    as_json: bool,
) -> list[int]:
    """Run experiments, one after the other; returns their exit codes."""
    codes = []
    for experiment in experiments:
        code = _run(experiment, out, backend, effort, view, last=experiments[-1], verbose=verbose, as_json=as_json)
        codes.append(code)
        if code == EXIT_INTERRUPTED:
            break
    return codes


def _check_arguments(
    files: list[Path], out: Path | None, resume: Path | None, backend: str | None, changes: dict[str, Any]
) -> None:
    if resume is None:
        if not files:
            raise InputError("no experiment file is given; name one, or a folder to go on in by --resume")
        if out is not None and len(files) > 1:
            raise InputError("--out names one folder; give one experiment file with it")
        return
    if len(files) > 1:
        raise InputError("--resume names the folder of one experiment; give its file, or none")
    if out is not None or backend is not None:
        raise InputError("--resume goes on in its folder as it was begun; leave --out and --backend away")
    if changes and not files:
        raise InputError("--resume takes everything from its folder; leave the other options away")


@dataclass(frozen=True)
class _Effort:
    """What may be spent on getting the valid runs that are asked for, and on pictures of them."""

    attempts: int | None
    patience_s: float
    pictures: Pictures

    def of(self, experiment: Experiment, backend: str) -> dict[str, Any]:
        """The same, as the runner takes it."""
        from echelon.running.attempts import extra

        drawn = {"pictures": self.pictures}
        if backend == "fluid":  # whose runs are exact
            return drawn
        return {**drawn, "again": extra(self.attempts, experiment.repeats), "patience_s": self.patience_s}


def _patience_s(text: str | None) -> float:
    """Seconds of `--patience`; as people write it, "10m" are minutes."""
    from echelonflow.model.units import parse_duration_s

    return 0.0 if text is None else about("--patience", lambda: parse_duration_s(re.sub(r"m$", "min", text)))


def _run(
    experiment: Experiment,
    out: Path | None,
    backend: Any,
    effort: _Effort,
    view: LiveView | None,
    *,
    last: Experiment,
    verbose: bool,
    as_json: bool,
) -> int:
    """Run one experiment; returns its exit code. What goes wrong with one of several is said, and the next is run."""
    from echelon.cli.display import Display
    from echelon.running import runner

    try:
        effort_of_it = effort.of(experiment, backend)
        with (
            ownership.to_caller(out or place.RUNS),
            place.reserved(out, experiment.name) as root,
            ownership.to_caller(root),
        ):
            with Display(experiment, StandardError(), verbose=verbose) as display:
                run = functools.partial(runner.run, experiment, root, backend, watched=view is not None, **effort_of_it)
                code, summary = live_view.carried_out(view, experiment, root, display, run)
            _show(root, code, summary, verbose=verbose, as_json=as_json)
    except EchelonError as error:
        if experiment is last:
            raise
        say(f"echelon: {error}", err=True)
        return error.exit_code
    return code


def _resume(
    root: Path, given: list[Experiment], effort: _Effort, view: LiveView | None, *, verbose: bool, as_json: bool
) -> int:
    from echelon.cli.display import Display
    from echelon.running import resuming, runner

    begun = resuming.begun(root, given[0] if given else None)
    effort_of_it = effort.of(begun.experiment, begun.manifest.backend)
    with ownership.to_caller(root), Display(begun.experiment, StandardError(), verbose=verbose) as display:
        run = functools.partial(runner.resume, begun, watched=view is not None, **effort_of_it)
        code, summary = live_view.carried_out(view, begun.experiment, root, display, run)
    _show(root, code, summary, verbose=verbose, as_json=as_json)
    return code


def _show(root: Path, code: int, summary: Summary, *, verbose: bool, as_json: bool) -> None:
    from echelon.running.advice import next_step
    from results.analysis.columns import to_json
    from results.report.table import summary_table

    if as_json:
        typer.echo(json.dumps({"folder": str(root), **to_json(summary)}))
        return
    say(summary_table(summary, blame=verbose))
    say(f"\nreport: {root / 'report.html'}")
    words = next_step(root, code, summary)
    if words is not None:
        say(words)


def worst(codes: list[int]) -> int:
    """The exit code that matters most: interrupted, failed, bad input, invalid, valid."""
    order = [EXIT_INTERRUPTED, EXIT_FAILED, EXIT_BAD_INPUT, EXIT_INVALID, EXIT_VALID]
    return min(codes, key=order.index)


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command(cls=live_view.WithPort)(run)
