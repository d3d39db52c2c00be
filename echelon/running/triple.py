"""The same jobs live, replayed and simulated, side by side."""

from __future__ import annotations

from pathlib import Path

from echelon.running.living import LIVE, REPLAYED
from echelonflow.tables import text_table
from results.analysis.summary import PolicyResult, read_summary

HEAD = ("policy", "job", "live", "replayed", "simulated", "live over replayed", "live over simulated")


def table(root: Path) -> str:
    """Exposed communication of each policy and job in `root`: live, replayed and simulated, in ms, and how far they differ."""
    return "exposed communication, ms\n" + text_table(HEAD, rows(root), align="ll")


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


def _results(root: Path) -> dict[tuple[str, str], PolicyResult]:
    summary = read_summary(root / "summary.json")
    return {(one.policy, one.job): one for one in summary.results}


def _ms(time_s: float | None) -> str:
    return "-" if time_s is None else f"{time_s * 1e3:.1f}"


def _over(one_s: float | None, other_s: float | None) -> str:
    return "-" if one_s is None or not other_s else f"{one_s / other_s - 1:+.1%}"
