"""The command that compares policies over runs and sweeps: compare."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from echelon.cli.saying import say
from echelonflow.errors import EXIT_INVALID, EXIT_VALID


def compare(
    folders: Annotated[list[Path], typer.Argument(help="Folders of runs and of sweeps.")],
    against: Annotated[
        str | None,
        typer.Option(help="Policy that the others are compared with (default: the folder's own, else the first)."),
    ] = None,
    measure: Annotated[
        str,
        typer.Option(
            help="What ratios are taken of, such as iteration_s (default), completion_s, slowdown, gpu_share or jain; an "
            "unknown one is told which there are. docs/columns.md says what each is (compare --json: rows)."
        ),
    ] = "iteration_s",
    every: Annotated[bool, typer.Option("--all", help="Print all rows, however many.")] = False,
    csv: Annotated[Path | None, typer.Option(help="Also write the table to this CSV file.")] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write a page with maps, curves and the table to this HTML file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of the table.")] = False,
) -> None:
    """Compare policies over the runs of one or more folders, of `echelon run` and of `echelon sweep`.

    A line is one policy on one job under one set of conditions. What differs between the experiments, such as the rate of
    links, stands in columns before it. Folders whose jobs are not the same are refused.

    Intervals are Student's t, 95 %, over runs: iterations of one run are not independent. Ratios are taken pair by pair,
    of runs that differ in the policy alone, and p is corrected by Holm for all ratios of the table. Runs that failed, or
    broke their limits, are in no average; they are counted, and their reasons listed.

    Exit code 3 where runs do not count, else 0.
    """
    from echelonflow.files import write_whole
    from results.analysis.across import compare_across
    from results.analysis.columns import to_json
    from results.analysis.gathered import gather
    from results.report.across import MOST_ROWS, across_csv, across_lines

    found = compare_across(gather(folders), against, measure)
    if csv is not None:
        write_whole(csv, across_csv(found))
    if report is not None:
        from echelon.sweeps.reporting import report_comparison

        report_comparison(report, folders, against, measure)
    if as_json:
        typer.echo(json.dumps(to_json(found)))
    else:
        for line in across_lines(found, most=None if every else MOST_ROWS):
            say(line)
        if report is not None:
            say(f"report: {report}")
    raise typer.Exit(EXIT_INVALID if found.left_out else EXIT_VALID)


def register(app: typer.Typer) -> None:
    """Add this command to the command line."""
    app.command()(compare)
