"""How much of emulated runs' time nothing explains, and whether any valid run is far off what explains it.

Runs `pipeline.yaml` and `gpt2-pipeline.yaml`. Beside `--out` the run folders are kept in budget-runs/, and what was measured is not
run again. The runs that other benchmarks keep there (folders ending in -runs) are counted, too.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import carry_out
from echelon.benchmarks._kept_runs import every_policy_valid, measured
from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelon.places import EXPERIMENTS
from echelonflow.errors import InputError
from results.analysis.summary import Summary, read_summary
from testbed import preflight

FILES = ("pipeline.yaml", "gpt2-pipeline.yaml")
RUNS_OF_A_REPEAT = 6
"""Of each policy; there are seven, so that the 5 repeats of `echelon bench` make 210 runs."""
MUST, GOAL = 0.01, 0.005
"""Share of iteration time that nothing explains, median over all runs."""
MOST_OFF = 0.03
"""Of a valid run's iteration time, off what explains it."""


@dataclass(frozen=True, slots=True)
class Off:
    """One job in one run: whether the run is valid, and how far its iteration time is off what explains it."""

    valid: bool
    share: float


def run(repeat: int, say: Say, folder: Path) -> list[Figure]:
    """Six runs of every policy of both experiments for each repeat."""
    preflight.require()
    for name in FILES:
        experiment = schema.load(EXPERIMENTS / name, {"repeats": RUNS_OF_A_REPEAT * repeat})
        measured(experiment, folder / "budget-runs", say, _execute, every_policy_valid)
    return figures([off for summary in _summaries(folder) for off in offs(summary)])


def _execute(experiment: Experiment, root: Path, say: Say) -> tuple[int, Summary]:
    return carry_out(experiment, root, say, pictures="none")


def _summaries(folder: Path) -> Iterator[Summary]:
    """What all kept runs came to; faults that were injected on purpose are no part of it."""
    for path in sorted(folder.glob("*-runs/*/summary.json")):
        if path.parent.parent.name == "verdict-runs" and not path.parent.name.startswith("clean."):
            continue
        try:
            yield read_summary(path)
        except InputError:  # of an older revision, or half written
            continue


def offs(summary: Summary) -> list[Off]:
    """Every job of every run that was explained."""
    return [
        Off(run.valid, abs(budget.unexplained_s) / budget.explained_s)
        for run in summary.runs
        for budget in run.budgets.values()
        if budget.explained_s > 0
    ]


def figures(found: Sequence[Off]) -> list[Figure]:
    """The figures of the runs that were found."""
    if not found:
        return [Figure("unexplained part of iteration time", "no run was explained", f"under {MUST:.0%}", ok=False)]
    valid = [off.share for off in found if off.valid]
    median = statistics.median(off.share for off in found)
    far = sum(share > MOST_OFF for share in valid)
    return [
        Figure(
            f"unexplained part of iteration time, median over {len(found)} jobs in runs",
            f"{median:.2%}",
            f"under {MUST:.0%}, goal {GOAL:.1%}",
            median < MUST,
        ),
        Figure(
            f"valid runs whose iteration time is over {MOST_OFF:.0%} off what explains it",
            f"{far} of {len(valid)}",
            "0",
            bool(valid) and far == 0,
        ),
        Figure(
            "the same, of valid runs the farthest", f"{max(valid):.2%}" if valid else "-", f"under {MOST_OFF:.0%}", None
        ),
    ]
