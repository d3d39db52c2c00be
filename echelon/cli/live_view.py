"""`--live`: the option of `echelon run`, and what becomes of it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from echelon.cli.saying import say
from echelonflow.errors import InputError

if TYPE_CHECKING:
    from echelon.experiment.schema import Experiment
    from echelon.live.view import LiveView
    from echelonflow.records.progress import Report
    from results.folder import Summary

LIVE = "--live"
NOTHING_TO_WATCH = (
    f"{LIVE}: a simulation has no packets and no controller, so there is nothing to watch; it is run without"
)

LivePort = Annotated[
    int | None,
    typer.Option(
        LIVE,
        min=0,
        max=65535,
        metavar="[PORT]",
        show_default=False,
        help="Show the runs while they go on, on a page at 127.0.0.1, where their policy can be swapped; its address is "
        "printed. Without PORT: any that is free.",
    ),
]
LiveToken = Annotated[
    Path | None,
    typer.Option(
        "--live-token",
        metavar="FILE",
        show_default=False,
        help="File of mode 600 with the token of that page's address, such as for Prometheus (default: a new one each time).",
    ),
]


class WithPort(TyperCommand):
    """A command whose option --live may stand without its value, which the parser does not know of."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Give --live a value where what follows it is none."""
        return super().parse_args(ctx, _completed(args))


def _completed(args: list[str]) -> list[str]:
    """`args` with "0", any port, behind a --live that no number follows."""
    found: list[str] = []
    for place, word in enumerate(args):
        if word == "--":
            return [*found, *args[place:]]
        found.append(word)
        following = args[place + 1] if place + 1 < len(args) else ""
        if word == LIVE and not following.isdecimal():
            found.append("0")
    return found


@contextlib.contextmanager
def serving(port: int | None, token_file: Path | None, *, simulated: bool) -> Iterator[LiveView | None]:
    """The live view, at `port`, until the block ends; its address is printed. None where there is to be none.

    Raises InputError for a token that is no token, RunError where the port cannot be had.
    """
    if port is None:
        if token_file is not None:
            raise InputError(f"--live-token is for {LIVE}: without that, nothing is shown")
        yield None
        return
    if simulated:
        say(NOTHING_TO_WATCH, err=True)
        yield None
        return
    from echelon.live.view import LiveView
    from echelonflow.records.tokens_file import read_token

    with LiveView(port, None if token_file is None else read_token(token_file)) as view:
        say(f"live view: {view.url}", err=True)
        yield view


_Done = TypeVar("_Done", bound="tuple[int, Summary]")


def carried_out(
    view: LiveView | None, experiment: Experiment, root: Path, report: Report, run: Callable[[Report], _Done]
) -> _Done:
    """What `run` returns, which is told where progress goes: to `report`, and to `view` where there is one."""
    if view is None:
        return run(report)
    with view.watching(experiment, root, report) as watching:
        done = run(watching)
        watching.end(done[0])
        return done
