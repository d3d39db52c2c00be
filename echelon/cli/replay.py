"""The command that replays what happened to a coordinator: replay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from echelonflow.errors import EXIT_FAILED, InputError


def replay(
    folder: Annotated[Path, typer.Argument(help="Folder of an emulated experiment, or of one run in it.")],
) -> None:
    """Replay every recorded run through a fresh coordinator, and say whether it decides the same again.

    Nothing is emulated. Each run of an emulation keeps every event that reached its coordinator. From those, all
    decisions follow: snapshots, settings and marks are compared bit by bit, measured durations are not. The answers of
    your own policy files are taken from the record. Exit code 0: all equal, 1: a run differs.
    """
    from controller.replay_log import difference
    from controller.replay_log import replay as decisions_of
    from echelonflow.records.decisions import read_decisions
    from echelonflow.records.events import EVENTS_FILE
    from echelonflow.records.folder import RunFiles

    same = True
    for raw in _recorded(folder):
        replayed = decisions_of(raw / EVENTS_FILE)
        found = difference(read_decisions(RunFiles(raw).decisions), replayed)
        same = same and found is None
        typer.echo(
            f"{raw.name}: " + (f"{len(replayed)} decisions, all equal" if found is None else f"differs: {found}")
        )
    if not same:
        raise typer.Exit(EXIT_FAILED)


def _recorded(folder: Path) -> list[Path]:
    """Folders of runs whose events were recorded (InputError where there is none)."""
    from echelonflow.records.events import EVENTS_FILE

    if (folder / EVENTS_FILE).exists():
        return [folder]
    found = sorted(path.parent for path in (folder / "raw").glob(f"*/{EVENTS_FILE}"))
    if not found:
        raise InputError(
            f"{folder}: holds no {EVENTS_FILE}; emulated runs have one each, older ones and simulations none"
        )
    return found


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(replay)
