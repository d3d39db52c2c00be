"""The command that trains on the emulated network: live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from echelon.cli import interrupts
from echelon.cli.options import Policies
from echelon.cli.saying import say
from echelon.cli.standard_error import StandardError
from echelon.running import ownership, place
from echelonflow.errors import EXIT_VALID


def live(
    file: Annotated[
        Path, typer.Argument(help="Experiment file (YAML) with jobs that are programs.", show_default=False)
    ],
    policy: Policies = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Runs of each policy; replaces the file's.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="New folder for the results (default results/runs/<time>-<name>).")
    ] = None,
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            help="Also replay what was learned, and set live, replayed and simulated side by side; compare losses with Gloo's.",
        ),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Say every step.")] = False,
) -> None:
    """Train real PyTorch programs on the emulated network, under every policy.

    A job of FILE names a `program`, the `ranks` it has (or the hosts of its `placement`) and its `arguments`. Each rank is a process on
    a host of its own. The program is an ordinary script, which is not changed: its collectives travel over TCP connections that
    the controller schedules. First every program runs once, unscheduled, and what it does is learned: that is the lesson. Then it runs under each
    policy, and counts from the iteration on from which it repeats itself.

    With `compute: {profiled: 400 ms}` computation is real, and lasts as long as on a GPU that takes so long for an
    iteration. With `compute: measured` (the default) it lasts as long as it does on this machine. Each run is explained
    by what its computations took, and predicted by what they took in the lesson.

    The folder holds the lesson, replay.yaml (what was learned, for `echelon run`) and live/, an ordinary run folder. What each rank
    printed is in its raw/<run>/live/. With --check there are replayed/ and gloo/, too. Needs PyTorch: scripts/setup.sh --live.
    """
    from echelon.cli.display import Display
    from echelon.running import living, runner, triple
    from echelonflow.records.folder import RunFolder
    from results.analysis.training import trained, training_lines
    from results.report.table import summary_table

    override: dict[str, Any] = {k: v for k, v in (("policies", policy), ("repeats", repeat)) if v is not None}
    with (
        interrupts.in_order(),
        ownership.to_caller(out or place.RUNS),
        place.reserved(out, file.stem) as root,
        ownership.to_caller(root),
    ):
        console = StandardError()
        lesson = living.learn(file, override, root, lambda report: _told(console, report))
        for line in lesson.words:
            say(line)
        if check:
            living.train_with_gloo(lesson, root, lambda words: _print(console, words))
        codes = []
        with Display(lesson.experiment, console, verbose=verbose) as display:
            code, summary = runner.run(
                lesson.performed, root / living.LIVE, "emulation", display, programs=lesson.programs
            )
        codes.append(code)
        say(summary_table(summary, blame=verbose))
        for line in training_lines(trained(RunFolder(root / living.LIVE))):
            say(line)
        say(f"\nreport: {root / living.LIVE / 'report.html'}")
        if check:
            with Display(lesson.experiment, console, verbose=verbose) as display:
                code, _ = runner.run(lesson.experiment, root / living.REPLAYED, "emulation", display)
            codes.append(code)
            say("\n" + triple.table(root))
    raise typer.Exit(next((code for code in codes if code != EXIT_VALID), EXIT_VALID))


def _told(console: Console, report: Any) -> None:
    from echelon.running.progress_words import in_words

    _print(console, in_words(report, None))


def _print(console: Console, words: str) -> None:
    console.print(f"echelon: {words}", highlight=False, markup=False)


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(live)
