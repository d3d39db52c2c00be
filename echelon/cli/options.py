"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Policies = Annotated[
    list[str] | None,
    typer.Option(
        help="Policy with options, e.g. 'coflow(grouping=group)', or a policy file, e.g. ./mine.py, which is code: see "
        "SECURITY.md. Repeatable; replaces the file's."
    ),
]
