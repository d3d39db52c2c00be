"""Writes what was measured into docs/live.md. Folders are those of `echelon live --check`.

python -m echelon.documents.live_page DIR...                     all that was measured in them
python -m echelon.documents.live_page across PLAIN SCHEDULED     one program with DDP, and with a job scheduler
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from echelon.documents.made_pages import with_made
from echelon.places import DOCS
from echelon.running import triple
from echelon.running.living import LIVE
from echelonflow.files import write_whole
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest
from results.analysis.figures import JobFigures
from results.analysis.statistics import Ratio, ratio_of
from results.analysis.summary import PolicyResult, Summary, read_summary
from results.analysis.training import trained, training_lines

PAGE = DOCS / "live.md"
MARKS = ("<!-- made by python -m echelon.documents.live_page -->", "<!-- end of what is made -->")
ACROSS = "across"
ACROSS_MARKS = (
    "<!-- made by python -m echelon.documents.live_page across -->",
    "<!-- end of what is made of job schedulers -->",
)


def across(plain: Path, scheduled: Path) -> str:
    """The same program with DDP and with a job scheduler, by policy: what an iteration takes and exposes, and the ratio."""
    before, after = (read_summary(root / LIVE / "summary.json") for root in (plain, scheduled))
    others = {(one.policy, one.job): one for one in before.results}
    table = []
    for one in after.results:
        other = others.get((one.policy, one.job))
        if other is None:
            continue
        mine, theirs = _figures(after, one), _figures(before, other)
        pairs = zip(mine, theirs, strict=False)
        ratio = ratio_of([ours.iteration_s / plain.iteration_s for ours, plain in pairs])
        times_s = [[each.iteration_s for each in found] for found in (theirs, mine)]
        exposed_s = [[each.exposed_s for each in found] for found in (theirs, mine)]
        table.append(
            (one.policy, one.job, *map(_ms, times_s), *map(_ms, exposed_s), _text(ratio), _simulated(other, one),
             f"{other.valid_runs}/{other.runs}", f"{one.valid_runs}/{one.runs}")
        )  # fmt: skip
    head = (
        "policy", "job", "iteration with DDP", "iteration, scheduled", "exposed with DDP", "exposed, scheduled", "iteration, scheduled over DDP",
        "the same simulated", "valid runs with DDP", "valid runs, scheduled",
    )  # fmt: skip
    names = [read_manifest(RunFolder(root / LIVE).manifest).name for root in (plain, scheduled)]
    first = (
        f"`{names[1]}` beside `{names[0]}`: ms, medians over all runs that ended, those that do not count included. "
        "Ratios are geometric means over pairs of them, with 95 % intervals where there are several."
    )
    words = [f"- `{names[1]}`: {line}." for line in training_lines(trained(RunFolder(scheduled / LIVE)))]
    return "\n\n".join([first, tabulate(table, head, tablefmt="pipe"), "\n".join(words)])


def _figures(summary: Summary, one: PolicyResult) -> list[JobFigures]:
    """What a job came to in all runs of a policy, in the order of their numbers."""
    runs = sorted((run for run in summary.runs if run.policy == one.policy), key=lambda run: run.repeat)
    return [run.jobs[one.job] for run in runs if one.job in run.jobs]


def _ms(times_s: Sequence[float]) -> str:
    return f"{statistics.median(times_s) * 1e3:.0f}" if times_s else "-"


def _text(found: Ratio | None) -> str:
    if found is None:
        return "-"
    return f"{found.mean:.3f}" if found.low is None else f"{found.mean:.3f} [{found.low:.3f}, {found.high:.3f}]"


def _simulated(plain: PolicyResult, scheduled: PolicyResult) -> str:
    if plain.predicted is None or scheduled.predicted is None:
        return "-"
    return f"{scheduled.predicted.iteration_s / plain.predicted.iteration_s:.3f}"


def measured(roots: Sequence[Path]) -> str:
    """What the folders hold, as text in Markdown: a table of all, and how their losses compare."""
    table, words = [], []
    for root in roots:
        manifest = read_manifest(RunFolder(root / LIVE).manifest)
        table += [(manifest.name, *row) for row in triple.rows(root)]
        words.append(f"- `{manifest.name}`, runs of each policy: {manifest.repeats}.")
        words += [f"- `{manifest.name}`: {line}." for line in training_lines(trained(RunFolder(root / LIVE)))]
    head = ("experiment", *triple.HEAD)
    lines = [
        "Exposed communication in ms, of the experiments in `experiments/live/`: medians over valid runs. Where nothing stands, no run was valid.",
        tabulate(table, head, tablefmt="pipe"),
        "\n".join(words),
    ]
    return "\n\n".join(lines)


def main(argv: list[str]) -> int:
    """Write the page."""
    page = PAGE.read_text(encoding="utf-8")
    if argv[:1] == [ACROSS]:
        plain, scheduled = map(Path, argv[1:])
        marks, made = ACROSS_MARKS, across(plain, scheduled)
    else:
        marks, made = MARKS, measured([Path(each) for each in argv])
    write_whole(PAGE, with_made(page, *marks, made).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
