"""What few classes cost, and enforcers side by side: one shared network in fluid simulation, and with `--emulated` on packets.

Runs experiments/few-queues.yaml under every way to carry decisions out: `priority` with one to seven classes and every
folding, `rate`, `weighted`. `--only 'top-*'` takes those whose names fit. Each is simulated ten times with other draws of
what computations take, as it is carried out and without any limit of classes. Then `repeat` runs of each policy are
made on packets, and half as many again where runs do not count. Of each two ways that are over 5 % apart in fluid under a policy, the
same one has to be faster on packets. Beside `--out` it leaves fluid.jsonl and packets.jsonl. Interrupted, the same
command goes on. `python -m echelon.documents.few_queues_page` makes its part of docs/few-queues.md of them.
"""

from __future__ import annotations

import fnmatch
import functools
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import carry_out
from echelon.benchmarks._few_queue_cells import (
    PACKET_LOG,
    Cell,
    FluidRun,
    PacketRun,
    cells,
    fluid_s,
    mean_over_jobs_s,
    simulated,
    unlimited,
)
from echelon.benchmarks._kept_runs import Execute, measured
from echelon.benchmarks._same_order import Times, same_order
from echelon.benchmarks.paradigms import expected_s
from echelon.experiment.schema import Experiment
from echelon.running.attempts import extra
from echelonflow.errors import InputError, RunError
from echelonflow.files import write_whole
from results.analysis.summary import read_summary
from results.analysis.valid_rows import all_rows

FLUID_FILE, PACKETS_FILE = "fluid.jsonl", "packets.jsonl"


def run(
    repeat: int,
    say: Say,
    folder: Path,
    only: Sequence[str] = (),
    *,
    emulated: bool = False,
    execute: Execute | None = None,
) -> list[Figure]:
    """Every cell in fluid, and with `emulated` `repeat` runs of each policy on packets; `execute` carries out one cell.

    InputError if `only` fits no cell, RunError if nothing came out or it was interrupted.
    """
    chosen = [cell for cell in cells() if not only or any(fnmatch.fnmatchcase(cell.name, each) for each in only)]
    if not chosen:
        raise InputError(f"--only {' '.join(only)}: fits none of {', '.join(cell.name for cell in cells())}")
    folder.mkdir(parents=True, exist_ok=True)
    in_fluid = simulated(chosen, folder / FLUID_FILE, say)
    if not emulated:
        return figures(in_fluid, ())
    execute = execute or functools.partial(carry_out, again=extra(None, repeat), pictures="none")
    return figures(in_fluid, on_packets(chosen, repeat, folder, say, execute))


def on_packets(chosen: Sequence[Cell], repeat: int, folder: Path, say: Say, execute: Execute) -> list[PacketRun]:
    """The runs of these cells; what an earlier try measured in `folder` is kept. RunError where nothing came out.

    It is said beforehand how long all of it takes, by fluid simulation.
    """
    experiments = [cell.experiment(repeat) for cell in chosen]
    wanted_s = sum(map(expected_s, experiments))
    say(f"{len(chosen)} cells on packets take about {wanted_s / 60:.0f} min, less what is there")
    found: list[PacketRun] = []
    for cell, experiment in zip(chosen, experiments, strict=True):
        root = measured(experiment, folder / "few-queues-runs", say, execute, lambda summary: bool(summary.runs))
        if root is not None:
            found += runs_in(root, experiment, cell)
            write_whole(folder / PACKETS_FILE, PACKET_LOG.header + b"".join(map(PACKET_LOG.line, found)))
    if not found:
        raise RunError("no run came out; see above")
    return found


def runs_in(root: Path, experiment: Experiment, cell: Cell) -> list[PacketRun]:
    """What the runs in a folder show, those included that do not count or did not end."""
    took: dict[tuple[str, int], list[tuple[str, float]]] = defaultdict(list)
    for row in all_rows(root, "iterations"):
        took[row["policy"], int(row["repeat"])].append((row["job"], float(row["duration_s"])))
    wanted = sum(job.iterations for job in experiment.jobs)
    found = []
    for each in read_summary(root / "summary.json").runs:
        mine = took[each.policy, each.repeat]
        iteration_s = mean_over_jobs_s(mine) if len(mine) == wanted else None
        in_fluid_s, at_best_s = (fluid_s(one, each.policy, each.repeat) for one in (experiment, unlimited(experiment)))
        found.append(PacketRun(cell.enforcer, each.policy, each.repeat, iteration_s, in_fluid_s, at_best_s, each.valid))
    return found


def fluid_ratios(runs: Sequence[FluidRun]) -> dict[str, dict[str, list[float]]]:
    """By policy and enforcer: iteration time in fluid over that without a limit, draw by draw."""
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for each in runs:
        found[each.policy][each.enforcer].append(each.iteration_s / each.unlimited_s)
    return found


def packet_ratios(runs: Sequence[PacketRun], *, valid: bool) -> dict[str, Times]:
    """By policy and enforcer: iteration time on packets, and in fluid of the same draws, over that without a limit in fluid.

    Means over runs that ended; over valid ones alone where those are asked for.
    """
    ended: dict[str, dict[str, list[tuple[float, float]]]] = defaultdict(lambda: defaultdict(list))
    for each in runs:
        if each.iteration_s is not None and (each.valid or not valid):
            both = each.iteration_s / each.unlimited_s, each.fluid_s / each.unlimited_s
            ended[each.policy][each.enforcer].append(both)
    return {
        policy: {
            enforcer: (statistics.fmean(a for a, _ in pairs), statistics.fmean(b for _, b in pairs))
            for enforcer, pairs in by_enforcer.items()
        }
        for policy, by_enforcer in ended.items()
    }


def figures(in_fluid: Sequence[FluidRun], packets: Sequence[PacketRun]) -> list[Figure]:
    """By cell and policy what it costs, and over all how many pairs of cells come in another order than in fluid."""
    counting = packet_ratios(packets, valid=True)
    made = []
    for policy, by_enforcer in fluid_ratios(in_fluid).items():
        for enforcer, ratios in by_enforcer.items():
            shown = f"{statistics.fmean(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}] in fluid"
            if packets:
                shown += f", {_on_packets_in_words(counting.get(policy, {}).get(enforcer))}, {valid_of(packets, policy, enforcer)} runs count"
            made.append(Figure(f"{policy}, {Cell(enforcer).name}: iteration over no limit", shown, "reported", None))
    return [*made, *over_all(packets)]


def over_all(packets: Sequence[PacketRun]) -> list[Figure]:
    """How many pairs of cells come in another order than in fluid, and how far packets are off it; nothing of no runs."""
    counting = packet_ratios(packets, valid=True)
    off = [on_packets / fluid - 1 for each in counting.values() for on_packets, fluid in each.values()]
    if not packets:
        return []
    made = [
        same_order("cells", "valid runs", counting, "all"),
        same_order("cells", "all runs that ended", packet_ratios(packets, valid=False), "reported"),
    ]
    if off:
        shown = f"{statistics.median(map(abs, off)):.1%} (up to {max(map(abs, off)):.1%})"
        made.append(Figure("iteration on packets off fluid, median over cells and policies", shown, "reported", None))
    return made


def _on_packets_in_words(both: tuple[float, float] | None) -> str:
    if both is None:
        return "not on packets"
    return f"{both[0]:.3f} on packets ({both[0] / both[1] - 1:+.1%})"


def valid_of(packets: Sequence[PacketRun], policy: str, enforcer: str) -> str:
    """How many of the runs that were made of a policy in a cell count: "2 of 3"."""
    mine = [each.valid for each in packets if (each.policy, each.enforcer) == (policy, enforcer)]
    return f"{sum(mine)} of {len(mine)}"
