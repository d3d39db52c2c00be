"""Commands about the machine: doctor, clean, capacity."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from echelon.cli.saying import say
from echelonflow.errors import EXIT_BAD_INPUT, EXIT_VALID, InputError
from echelonflow.model.units import format_rate

RUNS = Path("results/runs")


def doctor(
    checks_only: Annotated[bool, typer.Option("--checks-only", help="Only what is there and what is lacking.")] = False,
) -> None:
    """Say what this machine can and cannot do, with the remedy for each lack, and what it is like at this moment.

    Exit code 0 if it can emulate, 2 if it cannot (simulation works everywhere).
    """
    from testbed import preflight

    found = preflight.checks()
    for check in found:
        say(f"{'ok  ' if check.ok else 'LACK'}  {check.name:20} {check.detail}")
        if not check.ok:
            say(f"      {'':20} remedy: {check.remedy}")
    if not checks_only:
        _describe(root=found[0].ok)
    able = all(check.ok for check in found)
    say("this machine can emulate" if able else "this machine cannot emulate; `--backend fluid` works")
    raise typer.Exit(EXIT_VALID if able else EXIT_BAD_INPUT)


def _describe(*, root: bool) -> None:
    """What results depend on, what the machine is like now, and what it was found to carry."""
    from echelon.running import capacity
    from testbed import moment, preflight

    for name, value in (preflight.machine_facts() if root else {}).items():
        say(f"      {name:28} {', '.join(map(str, value)) if isinstance(value, list) else value}")
    seen = moment.probe()
    say(f"      {'now':28} {seen.words()}")
    say(f"      {'a computation ends late by':28} {seen.late_mean_s * 1e3:.3f} ms on average, now")
    for known in capacity.recall(capacity.store()):
        say(f"      carries ({known.topology}, {known.hosts} hosts): {format_rate(known.rate_bps)} a host")


def clean(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be removed.")] = False,
) -> None:
    """Remove what an older version, or a run without namespaces, may have left.

    Only what bears our own marks is touched: interfaces with our Ethernet addresses, mounts and dead sockets in
    results/runs. Results are never removed. A run of this version leaves nothing.
    """
    from testbed import cleanup

    found = [*cleanup.interfaces(), *cleanup.mounts(RUNS), *cleanup.sockets(RUNS)]
    for leftover in found:
        if not dry_run:
            cleanup.remove(leftover)
        say(f"{'would remove' if dry_run else 'removed'} {leftover.what}")
    if not found:
        say("nothing is left over")


def capacity(
    topology: Annotated[list[str] | None, typer.Option(help="Topology to try (repeatable; default: two).")] = None,
    hosts: Annotated[list[int] | None, typer.Option(min=2, help="Numbers of hosts to try (default: 4 and 16).")] = None,
) -> None:
    """Find how much this machine carries within the verdict's limits, and remember it.

    For each topology and number of hosts all hosts send at once, at higher and higher rates, until a run turns out
    invalid or 5 % off. `echelon run` warns before an experiment that is larger. How long it takes is said beforehand;
    leave the machine alone meanwhile.
    """
    from echelon.running import capacity as capacities
    from echelon.running import capacity_trials, ownership
    from testbed import preflight

    preflight.require()
    found = []
    wanted = [(name, count) for name in topology or ["single-switch", "leaf-spine"] for count in hosts or [4, 16]]
    searches = [capacity_trials.Search(name, count, lambda words: say(f"  {words}")) for name, count in wanted]
    minutes = sum(search.most_s for search in searches) / 60
    say(f"{len(searches)} searches, up to {math.ceil(minutes)} min in all")
    for search in searches:
        found.append(search.find())
        say(f"{search.topology}, {search.hosts} hosts: {format_rate(found[-1].rate_bps)} a host")
    if all(c.rate_bps == 0 for c in found):
        raise InputError("no rate that was tried was carried; see `echelon doctor` for what this machine lacks")
    with ownership.to_caller(capacities.store(), ours=True):
        capacities.remember(found, capacities.store())
    say(f"remembered in {capacities.store()}")


def register(app: typer.Typer) -> None:
    """Add these commands to the command line."""
    for command in (doctor, clean, capacity):
        app.command()(command)
    app.command("calibrate", hidden=True)(capacity)  # its name until links alone were calibrated
