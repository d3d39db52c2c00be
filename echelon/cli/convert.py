"""The command that turns other people's workloads into job files, and jobs into theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from echelon.cli.saying import say
from echelonflow.errors import InputError
from echelonflow.options import pairs


def convert(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files to read; of formats with one file per rank, all.")
    ] = None,
    source: Annotated[str | None, typer.Option("--from", help="Format of the files; see --formats.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="Job file to write; with --to chakra what the files' names begin with.")
    ] = None,
    to: Annotated[Literal["job", "chakra"], typer.Option(help="job: one JSON file. chakra: OUT.<rank>.et.")] = "job",
    setting: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Option of the format (repeatable).")
    ] = None,
    list_formats: Annotated[bool, typer.Option("--formats", help="List the formats and their options.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of job files.")] = False,
) -> None:
    """Turn a workload of another project into a job that can be run, and say what became of it.

    Everything that was read, left out or assumed is printed, and that the bytes that come out are those that went in. Where
    anything is wrong, nothing is written. An experiment file can also name such files directly (jobs: import).
    """
    from echelon.experiment.import_jobs import import_with_text
    from traffic.workloads import formats

    if list_formats:
        say(describe_formats())
        return
    if schema:
        typer.echo(json.dumps(formats.job_schema(), indent=1))
        return
    if not files or source is None or out is None:
        raise InputError(
            "name files to read, their format with --from, and with --out what to write; --formats lists formats"
        )
    imported = import_with_text(source, files, pairs(setting or [], "--set"))
    write = formats.write_job if to == "job" else formats.write_chakra
    written = write(imported.dag, out)
    for line in imported.report.lines():
        say(line)
    more = f" and {len(written) - 1} more" if len(written) > 1 else ""
    say(f"written  {written[0]}{more}")


def describe_formats() -> str:
    """Every format with its options, their defaults and what they may be, as text."""
    from echelon.experiment.import_jobs import options_of
    from traffic.workloads import formats

    lines = []
    for name in formats.names():
        lines.append(f"{name:17} {formats.load(name).SUMMARY}")
        for option in options_of(name):
            default = " (needed)" if option.required else f" [{option.default}]"
            lines.append(f"{'':17}   {option.key}: {option.in_words()}{default}")
    return "\n".join(lines)


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(convert)
