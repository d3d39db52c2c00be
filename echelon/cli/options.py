"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Schedulers = Annotated[
    list[str] | None,
    typer.Option(
        "--scheduler",
        help="Job scheduler with options, e.g. 'bytescheduler(partition=4 MB)', for every job that takes one; or "
        "JOB=SCHEDULER for one of them. Repeatable; replaces the file's.",
    ),
]
DrawnPictures = Annotated[
    Literal["none", "few", "all"],
    typer.Option(
        "--pictures",
        help="few: as much as can be read, and pictures of more say what they leave out. all: everything, however long that "
        "takes. none: tables and report alone.",
    ),
]
Policies = Annotated[
    list[str] | None,
    typer.Option(
        help="Policy with options, e.g. 'coflow(grouping=group)', or a policy file, e.g. ./mine.py, which is code: see "
        "SECURITY.md. Repeatable; replaces the file's."
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Any value of the file by its path, e.g. network.rate='40 Mbit/s' or jobs.0.iterations=5; jobs by number or by "
        "name. Values are YAML. Repeatable; named options such as --policy come after it.",
    ),
]
