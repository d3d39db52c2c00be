"""Tables for docs/live.md: what a policy, or a job scheduler, makes of programs, over pairs of runs of the same repeat."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from echelon.running.living import LIVE
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import Manifest, read_manifest
from echelonflow.tables import markdown_table
from results.analysis.figures import JobFigures
from results.analysis.statistics import Ratio, ratio_of
from results.analysis.summary import PolicyResult, RunResult, Summary, read_summary
from results.analysis.training import trained, training_lines

Repeats = Mapping[int, JobFigures]
"""What a job came to in runs of one policy, by repeat."""
Time = Callable[[JobFigures], float]
NONE = "-"


def iteration_s(figures: JobFigures) -> float:
    """Mean iteration time of a run, in seconds."""
    return figures.iteration_s


def exposed_s(figures: JobFigures) -> float:
    """Mean exposed communication of a run, in seconds."""
    return figures.exposed_s


def policies(root: Path) -> str:
    """What each policy makes of each program of an experiment in `root`, over the policy that others are compared with.

    Valid runs and all runs that ended are told apart. InputError where there are no results.
    """
    summary, manifest = _read(root)
    against = manifest.against or manifest.policies[0]
    others = {(one.policy, one.job): one for one in summary.results}
    table = []
    for one in summary.results:
        other = others[against, one.job]
        cells = [f"{one.valid_runs} of {one.runs}", *_medians(summary, one)]
        if one is other:
            table.append([one.policy, one.job, *cells, *[NONE] * 5])
            continue
        for time in (iteration_s, exposed_s):
            cells += [
                over(_figures(summary, one, valid=valid), _figures(summary, other, valid=valid), time)
                for valid in (True, False)
            ]
        table.append([one.policy, one.job, *cells, _simulated(other, one)])
    head = [
        "policy", "job", "valid runs", "iteration, ms", "exposed, ms", f"iteration over {against}, valid pairs", "the same, all pairs",
        f"exposed over {against}, valid pairs", "the same, all pairs", "iteration, simulated",
    ]  # fmt: skip
    first = (
        f"`{manifest.name}`: times are medians over all runs that ended. Ratios are geometric means over pairs of runs of the same repeat, with "
        "95 % intervals by Student's t of logarithms and the number of pairs. In valid pairs both runs count."
    )
    return _page(first, markdown_table(head, table, align="lll"), found_in(root, manifest.name))


def across(plain: Path, scheduled: Path) -> str:
    """The same program with DDP and with a job scheduler, by policy: what an iteration takes and exposes, and the ratio.

    A policy that only one of them ran has a row of its own.
    """
    (before, its), (after, mine) = _read(plain), _read(scheduled)
    theirs = {(one.policy, one.job): one for one in before.results}
    ours = {(one.policy, one.job): one for one in after.results}
    table = []
    for policy, job in [*theirs, *(key for key in ours if key not in theirs)]:
        row = [policy, job]
        sides = ((before, theirs.get((policy, job))), (after, ours.get((policy, job))))
        row += [f"{one.valid_runs} of {one.runs}" if one is not None else NONE for _, one in sides]
        medians = [(NONE, NONE) if one is None else _medians(summary, one) for summary, one in sides]
        row += [cell for cells in zip(*medians, strict=True) for cell in cells]
        (_, other), (_, one) = sides
        if one is None or other is None:
            row += [NONE, NONE]
        else:
            pairs = (_figures(after, one, valid=False), _figures(before, other, valid=False))
            row += [over(*pairs, iteration_s), _simulated(other, one)]
        table.append(row)
    head = [
        "policy", "job", "valid runs with DDP", "valid runs, scheduled", "iteration with DDP, ms", "iteration, scheduled, ms",
        "exposed with DDP, ms", "exposed, scheduled, ms", "iteration, scheduled over DDP", "the same simulated",
    ]  # fmt: skip
    first = (
        f"`{mine.name}` beside `{its.name}`: medians over all runs that ended, those that do not count included. "
        "Ratios are geometric means over pairs of runs of the same repeat, with 95 % intervals where there are several."
    )
    return _page(first, markdown_table(head, table, align="llll"), found_in(scheduled, mine.name))


def over(ours: Repeats, theirs: Repeats, time: Time) -> str:
    """The ratio of a time over pairs of one repeat, its interval, and the number of pairs; none where nothing is divided by."""
    pairs = [(time(ours[repeat]), time(theirs[repeat])) for repeat in ours if repeat in theirs]
    if not pairs or any(value <= 0 for pair in pairs for value in pair):
        return NONE
    return f"{_text(ratio_of([mine / other for mine, other in pairs]))} ({len(pairs)})"


def found_in(root: Path, name: str) -> list[str]:
    """What the programs of an experiment printed and found, as lines of a list in Markdown."""
    return [f"- `{name}`: {line}." for line in training_lines(trained(RunFolder(root / LIVE)))]


def _page(first: str, table: str, found: Sequence[str]) -> str:
    return "\n\n".join(part for part in (first, table, "\n".join(found)) if part)


def _read(root: Path) -> tuple[Summary, Manifest]:
    return read_summary(root / LIVE / "summary.json"), read_manifest(RunFolder(root / LIVE).manifest)


def _figures(summary: Summary, one: PolicyResult, *, valid: bool) -> Repeats:
    """What a job came to in the runs of a policy that ended, or in those of them alone that are valid."""
    runs = (run for run in summary.runs if run.policy == one.policy and one.job in run.jobs)
    return {run.repeat: run.jobs[one.job] for run in runs if (run.valid if valid else _ended(run))}


def _ended(run: RunResult) -> bool:
    return run.fidelity is None or run.fidelity.completed


def _medians(summary: Summary, one: PolicyResult) -> tuple[str, str]:
    """Iteration time and exposed communication over all runs that ended, in ms."""
    found = _figures(summary, one, valid=False).values()
    return _ms(map(iteration_s, found)), _ms(map(exposed_s, found))


def _ms(times_s: Iterable[float]) -> str:
    several: Sequence[float] = list(times_s)
    return f"{statistics.median(several) * 1e3:.0f}" if several else NONE


def _text(found: Ratio | None) -> str:
    if found is None:
        return NONE
    return f"{found.mean:.3f}" if found.low is None else f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _simulated(other: PolicyResult, one: PolicyResult) -> str:
    if other.predicted is None or one.predicted is None:
        return NONE
    return f"{one.predicted.iteration_s / other.predicted.iteration_s:.3f}"
