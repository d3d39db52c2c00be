"""The command that replays what happened to a coordinator: replay."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from echelon.cli.saying import say
from echelonflow.errors import EXIT_FAILED, InputError
from echelonflow.records.folder import RunFiles
from echelonflow.records.plain_files import check_plain


def replay(
    folder: Annotated[Path, typer.Argument(help="Folder of an emulated experiment, or of one run in it.")],
) -> None:
    """Replay every recorded run through a fresh coordinator, and say whether it decides the same again.

    Nothing is emulated. Each run of an emulation keeps every event that reached its coordinator. From those, all
    decisions follow: snapshots, settings and marks are compared bit by bit, measured durations are not. The answers of
    your own policy files are taken from the record. Of a controller that was killed, as planned, decisions are compared
    as far as its events were written. Exit code 0: all equal, 1: a run differs.
    """
    from controller.replay_log import difference, replay_all
    from echelonflow.records.decisions import read_decisions

    same = True
    for files in _recorded(folder):
        replayed, recorded = replay_all(files.events), read_decisions(files.decisions)
        found = difference(replayed.of_these(recorded), replayed.decisions)
        same = same and found is None
        words = f"{len(replayed.decisions)} decisions, all equal" if found is None else f"differs: {found}"
        cut = "" if replayed.complete else f" (of {len(recorded)}: its controller was killed)"
        say(f"{_name(files)}: {words}{cut}")
    if not same:
        raise typer.Exit(EXIT_FAILED)


def _recorded(folder: Path) -> list[RunFiles]:
    """The runs whose events were recorded (InputError where there is none)."""
    check_plain(folder)
    runs = [RunFiles(folder), *(RunFiles(raw) for raw in sorted((folder / "raw").glob("*")))]
    parts = [part for run in runs for part in (run, *run.restarts())]
    found = [files for files in parts if files.events.exists()]
    if not found:
        raise InputError(
            f"{folder}: holds no events.jsonl; emulated runs have one each, older ones and simulations none"
        )
    return found


def _name(files: RunFiles) -> str:
    root = files.root
    return f"{root.parent.name}/{root.name}" if root.name.startswith("restart-") else root.name


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(replay)
