"""The command that carries sweeps out: sweep."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from echelon.cli import interrupts
from echelon.cli.options import Policies, Schedulers, Settings
from echelon.cli.saying import say
from echelon.cli.standard_error import StandardError
from echelon.running import ownership, place
from echelonflow.errors import EXIT_INTERRUPTED, InputError

if TYPE_CHECKING:
    from echelon.sweeps.carrying import State, Written
    from echelon.sweeps.plan import Sweep


def sweep(
    file: Annotated[
        Path | None, typer.Argument(help="Experiment file (YAML), as for `echelon run`.", show_default=False)
    ] = None,
    over: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PATH=VALUE,VALUE",
            help="Values to sweep, e.g. network.rate='10 Mbit/s,20 Mbit/s', jobs.gpt2.micro_batches=2,4,8, policies=fair,clock "
            "or seed=0..9. Repeatable: all combinations are made. Adds to the file's `sweep`.",
        ),
    ] = None,
    policy: Policies = None,
    scheduler: Schedulers = None,
    settings: Settings = None,
    repeat: Annotated[
        int | None,
        typer.Option(min=1, help="Seeds of each point, from the experiment's on; replaces the file's repeats."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The first of them; replaces the file's.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Policy that the others are compared with, pair by pair (default: the first).")
    ] = None,
    backend: Annotated[
        Literal["fluid", "emulation"],
        typer.Option(
            help="fluid (default): simulation, on all processors. emulation: real packets, one after the other."
        ),
    ] = "fluid",
    workers: Annotated[
        int | None, typer.Option(min=1, max=1024, help="Processes that simulate (default: one for each processor).")
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Make the cells on a cluster: the address of a dask.distributed scheduler, e.g. tcp://10.0.0.1:8786.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the sweep (default results/runs/<time>-sweep-<name>). Cells that it holds are not made again."
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(help="Go on in this folder; all is taken from there, and FILE is left out.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was found as JSON instead of the table.")] = False,
) -> None:
    """Run an experiment with other values, policies and seeds: a grid, or a list of points, one table of all.

    A cell is one point, one policy and one seed. Each is made once: its folder is named by a digest of the experiment and
    of the code, and appears when the cell has ended. So the same command goes on after Ctrl-C, a kill, a full disk or a
    crash, with what is missing. A sweep over more values makes only the new cells. Cells that failed are tried again.

    The runs of a point are its seeds: those of --over seed=..., else as many as the file's repeats, from its seed on.
    Policies are compared on the same seeds, pair by pair (`echelon compare`).

    cells.csv (and cells.parquet, where pyarrow is installed) has one row for each cell and job, with what was swept as
    columns. Cells that failed or are invalid are rows with valid=false and the reason; no average has them in it.

    With --cluster, simulated cells go to all workers of a dask.distributed cluster, emulated ones to those that declare
    the resource `emulation`. docs/sweeps.md says how to start one.

    Exit codes: 0 all cells count, 1 one failed, 3 one is invalid, 130 interrupted.
    """
    options: dict[str, Any] = {
        "--over": over,
        "--policy": policy,
        "--scheduler": scheduler,
        "--set": settings,
        "--repeat": repeat,
    }
    options |= {"--seed": seed, "--against": against, "--out": out, "FILE": file}
    _check_arguments(file, resume, options, backend, workers, cluster)
    folder = resume or out
    if backend == "fluid" and resume is None:
        ownership.stop_being_root(folder or place.RUNS)
    with interrupts.in_order():
        if resume is not None:
            from echelon.sweeps.resuming import resumed

            found = resumed(resume)
        else:
            assert file is not None
            changes = {"policies": policy, "against": against, "repeats": repeat, "seed": seed}
            found = _planned(
                file, {k: v for k, v in changes.items() if v is not None}, scheduler, settings, over, backend
            )
        with (
            ownership.to_caller(folder or place.RUNS),
            place.reserved(folder, f"sweep-{found.name}") as root,
            ownership.to_caller(root),
        ):
            code = _carry_out(found, root, workers, cluster, as_json=as_json)
    raise typer.Exit(code)


def _check_arguments(
    file: Path | None,
    resume: Path | None,
    options: dict[str, Any],
    backend: str,
    workers: int | None,
    cluster: str | None,
) -> None:
    if workers is not None and (cluster is not None or backend == "emulation"):
        why = "a cluster has its own" if cluster is not None else "emulated cells are made one after the other"
        raise InputError(f"--workers does not go with this: {why}; leave it away")
    if resume is None:
        if file is None:
            raise InputError("no experiment file is given; name one, or a folder to go on in by --resume")
        return
    given = [name for name, value in options.items() if value is not None]
    if given:
        raise InputError(f"--resume takes everything from its folder; leave {', '.join(given)} away")


def _planned(
    file: Path,
    changes: dict[str, Any],
    scheduler: list[str] | None,
    settings: list[str] | None,
    over: list[str] | None,
    backend: Literal["fluid", "emulation"],
) -> Sweep:
    from echelon.experiment import schema
    from echelon.experiment.settings import parse
    from echelon.experiment.swept import parse as parse_axes
    from echelon.sweeps.plan import planned

    axes = parse_axes(over or ())
    if "policies" in axes:
        if "policies" in changes:
            raise InputError("--policy and --over policies both name the policies; leave one away")
        changes["policies"] = axes["policies"]
    experiment = schema.load(file, changes, scheduler or (), parse(settings or ()))
    if "policies" in changes:
        axes["policies"] = list(changes["policies"])
    return planned(experiment, axes, backend)


def _carry_out(found: Sweep, root: Path, workers: int | None, cluster: str | None, *, as_json: bool) -> int:
    from echelon.cli.sweep_display import SweepDisplay
    from echelon.sweeps.whole import carried_out

    display = SweepDisplay(found.name, StandardError())
    state, written, interrupted = carried_out(found, root, display, workers=workers, cluster=cluster)
    if interrupted:
        words = f"interrupted; {state.done} of {state.total} cells are kept. Go on with: echelon sweep --resume {root}"
        say(f"echelon: {words}", err=True)
        return EXIT_INTERRUPTED
    _show(state, root, written, as_json=as_json)
    return state.exit_code()


def _show(state: State, root: Path, written: Written, *, as_json: bool) -> None:
    from echelon.sweeps.reporting import report_sweep
    from results.analysis.across import compare_across
    from results.analysis.columns import to_json
    from results.analysis.gathered import gather
    from results.report.across import across_lines

    compared = compare_across(gather([root]), state.record.against) if state.found else None
    page = report_sweep(root) if state.found else None
    if as_json:
        counts = {"cells": state.total, "kept": state.kept, "failed": state.failed, "invalid": state.invalid}
        found = None if compared is None else to_json(compared)
        typer.echo(json.dumps({"folder": str(root), **counts, "comparisons": found}))
        return
    for line in across_lines(compared) if compared is not None else ():
        say(line)
    made = state.done - state.kept
    say(
        f"\n{state.total} cells: {made} made now, {state.kept} kept from before, {state.failed} failed, {state.invalid} invalid"
    )
    if page is not None:
        say(f"report: {page}")
    say(f"table: {written.table}" if written.parquet is None else f"tables: {written.table}, {written.parquet.name}")
    if written.parquet is None:
        say("cells.parquet takes pyarrow, which is not installed: scripts/setup.sh --sweep, or pip install pyarrow")
    if state.failed:
        say(f"cells that failed are tried again by: echelon sweep --resume {root}")


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(sweep)
