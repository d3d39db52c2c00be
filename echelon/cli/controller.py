"""Commands that talk to a controller, or are one: status, policy, controller."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from echelon.cli.saying import say
from echelonflow.errors import InputError, RunError
from echelonflow.records.folder import RunFolder

RUNS = Path("results/runs")
Where = Annotated[
    Path | None,
    typer.Option(
        "--at", help="Run folder, or rest.sock of a controller (default: the run in progress in results/runs)."
    ),
]


def status(at: Where = None, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """Say what the controller of the run in progress is doing: policy, flows in flight, switches, decisions."""
    from controller import client
    from echelonflow.codec import builtins
    from echelonflow.wire.rest import encoded

    found = client.status(find_socket(at))
    if as_json:
        typer.echo(encoded(found).decode().rstrip())
        return
    for name, value in builtins(found).items():
        say(f"{name:20} {json.dumps(value) if isinstance(value, (dict, list)) else value}")


def policy(
    name: Annotated[str, typer.Argument(help="Policy with options, or a policy file of your own such as ./mine.py.")],
    at: Where = None,
    enforcer: Annotated[
        str | None, typer.Option(help="priority, rate or weighted (default: the policy's own).")
    ] = None,
) -> None:
    """Swap the policy of the run in progress; it applies at once, to flows in flight too.

    A policy that cannot be loaded, is too slow or allocates what no network carries is refused by name, and the
    one in force stays. A policy file is code: the controller runs it in a process of its own, as nobody, within limits
    (SECURITY.md). A run whose policy was swapped counts as a run of the policy it began with.
    """
    from controller import client

    found = client.set_policy(find_socket(at), name, enforcer)
    say(f"in force: {found.policy} (enforced by {found.enforcer})")


def controller(context: typer.Context) -> None:
    """Serve any OpenFlow 1.3 network: forwarding, REST and policies, without an experiment.

    Arguments are those of `python -m controller.main`, which `echelon controller --help` shows. For a network that
    is not described: echelon controller --learn --socket control.sock (see examples/plain_mininet.py).
    """
    from controller.main import main

    raise typer.Exit(main(context.args))


def find_socket(at: Path | None) -> Path:
    """The REST socket meant by `--at`, or that of the newest run in progress (RunError if there is none)."""
    if at is not None:
        socket = RunFolder(at).rest_socket if at.is_dir() else at
        if not socket.exists():
            raise InputError(f"--at {at}: there is no {socket}; no run is in progress there")
        return socket
    sockets = sorted(RUNS.glob("*/rest.sock"), key=lambda path: path.stat().st_mtime)
    if not sockets:
        raise RunError(f"no run is in progress in {RUNS}; name a run's folder with --at")
    return sockets[-1]


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    app.command()(status)
    app.command()(policy)
    passed_on = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
    app.command(context_settings=passed_on)(controller)
