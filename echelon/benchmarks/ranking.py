"""Policies in steady state on packets: whether they come in the order in which fluid simulation has them.

Runs the files in experiments/steady/, which are drawn by chance, under the policies that they name. Iteration times count
while all jobs of a file run, on packets as in the simulation of the same run. For each two policies that are more than 5 %
apart in fluid simulation, the same one has to be faster on packets. What is measured is kept beside `--out`; interrupted,
the same command goes on. `--only 'crossing-*'` takes the files whose names fit.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import carry_out
from echelon.benchmarks._kept_runs import every_policy_valid, measured
from echelon.experiment import schema
from echelon.places import EXPERIMENTS
from echelon.study.steady import WARM_UP, while_all_run
from echelonflow.errors import InputError, RunError
from echelonflow.model.iterations import ends_s, mean_duration_s
from results.analysis.valid_rows import rows

FOLDER = EXPERIMENTS / "steady"
APART = 0.05
Times = Mapping[str, Sequence[tuple[float, float]]]
"""By policy, of every run: mean iteration time over jobs, on packets and in fluid simulation."""


def run(repeat: int, say: Say, folder: Path, only: Sequence[str] = ()) -> list[Figure]:
    """`repeat` runs of each policy on each file (InputError if `only` fits none, RunError if nothing came out)."""
    paths = [
        path for path in sorted(FOLDER.glob("*.yaml")) if not only or any(fnmatch.fnmatch(path.stem, p) for p in only)
    ]
    if not paths:
        raise InputError(f"--only {' '.join(only)}: fits no file in {FOLDER}, such as drawn-1")
    found: dict[str, Times] = {}
    execute = functools.partial(carry_out, again=max(repeat // 2, 1), pictures="none")
    for path in paths:
        experiment = schema.load(path, {"repeats": repeat})
        root = measured(experiment, folder / "ranking-runs", say, execute, every_policy_valid)
        if root is not None and (times := times_of(root)):
            found[path.stem] = times
    if not found:
        raise RunError("not one valid run came out; see above")
    return figures(found)


def times_of(root: Path) -> dict[str, list[tuple[float, float]]]:
    """What the valid runs in a folder show in steady state."""
    runs: dict[tuple[str, str], dict[str, list[tuple[int, float, float]]]] = defaultdict(lambda: defaultdict(list))
    for row in rows(root, "iterations"):
        each = (int(row["iteration"]), float(row["duration_s"]), float(row["predicted_s"]))
        runs[row["policy"], row["repeat"]][row["job"]].append(each)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for (policy, _), jobs in runs.items():
        lasts = [[each[1:] for each in sorted(iterations)] for iterations in jobs.values()]
        pair = [steady_s([[each[place] for each in job] for job in lasts]) for place in range(2)]
        if pair[0] is not None and pair[1] is not None:
            found[policy].append((pair[0], pair[1]))
    return dict(found)


def steady_s(lasts_s: Sequence[Sequence[float]]) -> float | None:
    """Mean over jobs of the mean iteration time while all run; None where a job ends no two iterations then.

    `lasts_s` is how long the iterations of each job lasted, one after the other; all jobs begin together.
    """
    ends = [ends_s(itertools.accumulate(each)) for each in lasts_s]
    if any(len(each) <= WARM_UP for each in ends):
        return None
    counted = while_all_run(ends)
    if any(len(each) < 2 for each in counted):
        return None
    return statistics.fmean(mean_duration_s(each[1:], each[0]) for each in counted)


def figures(found: Mapping[str, Times]) -> list[Figure]:
    """By file what each policy takes, and over all files how many pairs come in another order than in fluid."""
    made, kept, pairs, turned = [], 0, 0, []
    off = []
    for name, times in found.items():
        medians = {
            policy: tuple(statistics.median(each[place] for each in runs) for place in range(2))
            for policy, runs in times.items()
        }
        off += [on_packets / fluid - 1 for on_packets, fluid in medians.values()]
        shown = ", ".join(f"{policy} {on_packets:.3f} ({fluid:.3f})" for policy, (on_packets, fluid) in medians.items())
        made.append(Figure(f"{name}: iteration on packets (in fluid), seconds", shown, "reported", None))
        for one, other in itertools.combinations(medians, 2):
            (one_s, one_fluid_s), (other_s, other_fluid_s) = medians[one], medians[other]
            if abs(one_fluid_s / other_fluid_s - 1) <= APART:
                continue
            pairs += 1
            if (one_s < other_s) == (one_fluid_s < other_fluid_s):
                kept += 1
            else:
                turned.append(f"{name}: {one} and {other}")
    what = f"policies over {APART:.0%} apart in fluid: the same order on packets"
    made.append(
        Figure(what, f"{kept} of {pairs} pairs" + "".join(f"; not {pair}" for pair in turned), "all", kept == pairs)
    )
    median = statistics.median(map(abs, off))
    made.append(
        Figure(
            "iteration in steady state off fluid, median",
            f"{median:.1%} (up to {max(map(abs, off)):.1%})",
            "reported",
            None,
        )
    )
    return made
