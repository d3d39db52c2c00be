"""How commands print: what they repeat of files and folders may be anybody's text."""

from __future__ import annotations

import typer

from echelonflow.printable import printable_lines


def say(text: str, *, err: bool = False) -> None:
    """Print lines on standard output (or errors) without what a terminal would take for commands."""
    typer.echo(printable_lines(text), err=err)
