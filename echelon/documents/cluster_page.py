"""Writes what was measured into docs/cluster.md: `python -m echelon.documents.cluster_page DIR...`.

A DIR is the folder of a run of experiments/cluster.yaml on packets, or of experiments/cluster/muri.yaml in simulation.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from echelon.documents.made_pages import with_made
from echelon.documents.modules import filled
from echelon.places import DOCS
from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.tables import markdown_table
from results.analysis.statistics import estimate
from results.analysis.summary import Summary, read_summary
from results.analysis.valid_rows import all_rows

PAGE = DOCS / "cluster.md"
END = "<!-- end of what is made -->"
MARKS = ("<!-- made by python -m echelon.documents.cluster_page -->", END)
MARKS_OF_TRACE = ("<!-- of a trace: made by python -m echelon.documents.cluster_page -->", END)
APART = 0.08
"""Policies whose iteration times differ by more than this in fluid are to come in the same order on packets."""
_HOW = """\
{runs} runs of {policies} policies. Iteration times are means over jobs, then over all runs that ended, with 95 % intervals over runs (Student's t).
{valid} of the runs keep to all limits of a valid run."""

Exposed = Mapping[tuple[str, str], Sequence[float]]
"""Seconds, by policy and job; of every run that ended."""


def measured(root: Path) -> str:
    """What the folder of a run says, as text in Markdown: iteration times by policy, and exposed communication by job.

    Raises InputError where there is no such folder.
    """
    summary = read_summary(root / "summary.json")
    exposed, together = _exposed(root), _together(root)
    fluid_s: dict[str, list[float]] = defaultdict(list)
    rows, off = [], []
    for result in summary.results:
        if result.predicted is None:
            raise InputError(f"{root}: of {result.policy} there is no prediction; run it on packets")
        fluid_s[result.policy].append(result.predicted.iteration_s)
        simulated_s, packets_s = result.predicted.exposed_s, exposed.get((result.policy, result.job))
        if not packets_s:
            continue
        median_s = statistics.median(packets_s)
        off.append(median_s / simulated_s - 1)
        rows.append([f"`{result.policy}`", result.job, f"{simulated_s:.3f}", f"{median_s:.3f}", f"{off[-1]:+.1%}"])
    means_s = {policy: statistics.fmean(each) for policy, each in fluid_s.items()}
    valid = sum(run.valid for run in summary.runs)
    return "\n\n".join(
        [
            filled(_HOW.format(runs=len(summary.runs), policies=len(means_s), valid=valid)),
            _by_policy(summary, means_s, together),
            filled(_in_words(off, means_s, together)),
            markdown_table(
                ["policy", "job", "exposed, fluid (s)", "exposed, packets (s)", "difference"], rows, align="llr"
            ),
        ]
    )


def _by_policy(summary: Summary, means_s: Mapping[str, float], together: Mapping[str, Sequence[float]]) -> str:
    rows = []
    for policy, simulated_s in means_s.items():
        found = estimate(together.get(policy, []))
        valid = sum(run.valid for run in summary.runs if run.policy == policy)
        shown = "-"
        if found is not None:
            mean_s = statistics.fmean(together[policy])
            shown = f"{mean_s:.3f}"
            if found.low is not None and found.high is not None:
                shown += f" ± {(found.high - found.low) / 2 / mean_s:.2%}"
        rows.append([f"`{policy}`", f"{simulated_s:.3f}", shown, f"{len(together.get(policy, []))}", f"{valid}"])
    return markdown_table(
        ["policy", "iteration, fluid (s)", "iteration, packets (s)", "runs", "valid"], rows, align="lr"
    )


def _in_words(off: Sequence[float], means_s: Mapping[str, float], together: Mapping[str, Sequence[float]]) -> str:
    packets_s = {policy: statistics.fmean(each) for policy, each in together.items()}
    apart, same = 0, 0
    policies = [policy for policy in means_s if policy in packets_s]
    for place, one in enumerate(policies):
        for other in policies[:place]:
            slow, fast = sorted((one, other), key=means_s.__getitem__, reverse=True)
            if means_s[slow] > means_s[fast] * (1 + APART):
                apart += 1
                same += packets_s[slow] > packets_s[fast]
    distances = [abs(each) for each in off]
    return (
        f"Exposed communication is {statistics.median(distances):.1%} off fluid in the median over policies and jobs, and at most {max(distances):.1%}. "
        f"Of {apart} pairs of policies that are over {APART:.0%} apart in fluid, {same} come in the same order on packets."
    )


def _exposed(root: Path) -> Exposed:
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    for row in all_rows(root, "jobs"):
        found[row["policy"], row["job"]].append(float(row["exposed_s"]))
    return found


def _together(root: Path) -> Mapping[str, Sequence[float]]:
    """By policy the mean iteration time over jobs, of each run."""
    found: dict[str, list[float]] = defaultdict(list)
    for row in all_rows(root, "runs"):
        found[row["policy"]].append(float(row["jobs_mean_s"]))
    return found


def traced(summary: Summary) -> str:
    """What policies do to the jobs of a trace from arrival to end, as a table in Markdown."""
    together = {each.policy: each for each in summary.together}
    rows = []
    for one in summary.completions:
        found = together[one.policy]
        rows.append(
            [
                f"`{one.policy}`",
                f"{one.jobs:,}",
                *(f"{each:.3f}" for each in (one.average_s, one.median_s, one.p95_s, one.p99_s, one.normalised)),
                *("-" if each is None else f"{each.median:.3f}" for each in (found.slowdown, found.slowdown_worst)),
                "-" if found.gpu_share is None else f"{found.gpu_share.median:.1%}",
            ]
        )
    head = [
        "policy",
        "jobs",
        "completion (s)",
        "median",
        "95th percentile",
        "99th",
        "over the first",
        "slowdown",
        "worst",
    ]
    return markdown_table([*head, "GPUs computing"], rows, align="lr")


def main(roots: Sequence[Path], page: Path = PAGE) -> None:
    """Write what the folders of runs say into the page."""
    text = page.read_text(encoding="utf-8")
    for root in roots:
        summary = read_summary(root / "summary.json")
        if summary.completions:
            text = with_made(text, *MARKS_OF_TRACE, traced(summary))
        else:
            text = with_made(text, *MARKS, measured(root))
    write_whole(page, text.encode())


if __name__ == "__main__":
    try:
        main([Path(name) for name in sys.argv[1:]])
    except InputError as error:
        sys.exit(str(error))
