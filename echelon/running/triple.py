"""The same jobs live, replayed and simulated, side by side; and what the processes of live runs found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from tabulate import tabulate

from echelon.running.living import LIVE, REPLAYED
from echelonflow.errors import InputError
from echelonflow.records.folder import RunFolder
from echelonflow.records.live_part import LiveOutcome, read_live_outcome
from results.analysis.summary import PolicyResult, read_summary

HEAD = ("policy", "job", "live", "replayed", "simulated", "live over replayed", "live over simulated")


def table(root: Path) -> str:
    """Exposed communication of each policy and job in `root`: live, replayed and simulated, in ms, and how far they differ."""
    return "exposed communication, ms\n" + tabulate(rows(root), HEAD, tablefmt="plain", stralign="right")


def rows(root: Path) -> list[tuple[str, ...]]:
    """The rows of that table; of a policy without valid runs a figure is missing (InputError where there are no results)."""
    live = _results(root / LIVE)
    replayed = _results(root / REPLAYED)
    found: list[tuple[str, ...]] = []
    for (policy, job), one in live.items():
        other = replayed.get((policy, job))
        live_s = None if one.exposed_s is None else one.exposed_s.median
        replayed_s = None if other is None or other.exposed_s is None else other.exposed_s.median
        simulated_s = None if one.predicted is None else one.predicted.exposed_s
        found.append(
            (
                policy,
                job,
                _ms(live_s),
                _ms(replayed_s),
                _ms(simulated_s),
                _over(live_s, replayed_s),
                _over(live_s, simulated_s),
            )
        )
    return found


def outcomes(root: Path) -> Iterator[str]:
    """What processes of the runs in `root` found, in lines: computation beyond its profile, and what was not declared."""
    found: dict[str, list[LiveOutcome]] = defaultdict(list)
    for run in RunFolder(root).runs():
        for path in sorted((run.root / "live").glob("*.json")):
            if path.name.startswith("part-"):
                continue
            try:
                outcome = read_live_outcome(path)
            except InputError:
                continue  # of a run that was cut short, which says so itself
            found[outcome.job].append(outcome)
    for job, each in found.items():
        computed, overran = sum(one.computed for one in each), sum(one.overran for one in each)
        scheduled, other = sum(one.scheduled_bytes for one in each), sum(one.other_bytes for one in each)
        yield f"{job}: {overran:,} of {computed:,} computations took longer than their profile by over 1 %"
        if other:
            first = next(one.first_other for one in each if one.first_other is not None)
            yield (
                f"{job}: {other / max(scheduled + other, 1):.1%} of all bytes were not declared, as the program did otherwise than in the "
                f"lesson (first: {first})"
            )


def _results(root: Path) -> dict[tuple[str, str], PolicyResult]:
    summary = read_summary(root / "summary.json")
    return {(one.policy, one.job): one for one in summary.results}


def _ms(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s * 1e3:.1f}"


def _over(one_s: float | None, other_s: float | None) -> str:
    return "-" if one_s is None or not other_s else f"{one_s / other_s - 1:+.1%}"
