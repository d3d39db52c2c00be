"""The plain-text table that ends a run on the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from echelonflow.printable import printable
from results.analysis.arrivals import CompletionResult
from results.analysis.asked import named
from results.analysis.coflows import FIGURES, CoflowResult
from results.analysis.figures import JobFigures
from results.analysis.summary import PolicyPart, PolicyResult, Summary
from results.report.blame import blame_lines
from results.report.budget import budget_lines, chance_lines
from results.report.comparison import comparison_lines
from results.report.in_job import in_job_lines
from results.report.printed_column import (
    MISSING,
    PrintedColumn,
    TimeUnit,
    format_share,
    plain,
    printed,
    timed,
    unit_for,
)
from results.report.together import together_lines

COLUMNS: tuple[PrintedColumn[PolicyResult], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    plain("job", "", "Name of the job.", lambda r: r.job),
    timed(
        "iteration", "Iteration time: median over the valid runs, and the 95 % interval of their mean.",
        lambda r: r.iteration_s,
    ),
    timed(
        "exposed", "Exposed communication: iteration time less what it would be if transfers took no time.",
        lambda r: r.exposed_s,
    ),
    timed(
        "tardiness", "How much later than ideally the job's EchelonFlows ended, on average by their weights.",
        lambda r: r.tardiness_s,
    ),
    timed(
        "predicted", "Iteration time in the fluid simulation of the same jobs, network and policy.",
        lambda r: r.predicted.iteration_s if r.predicted else None,
    ),
    plain("off", "%", "`iteration` over `predicted`, less 1.", lambda r: format_share(r.iteration_difference)),
    plain(
        "speed-up", "", "Iteration time of the first policy over that of this one.",
        lambda r: MISSING if r.speedup is None else f"{r.speedup:.3f}",
    ),
    plain("valid", "", "Valid runs out of all attempts; only they count.", lambda r: f"{r.valid_runs}/{r.runs}"),
)  # fmt: skip
"""The table of jobs."""


@dataclass(frozen=True, slots=True)
class SwappedPart:
    """One job in one part of a run in which policies were swapped: a line of that table."""

    run: str
    part: PolicyPart
    job: str
    figures: JobFigures | None


SWAP_COLUMNS: tuple[PrintedColumn[SwappedPart], ...] = (
    plain("run", "", "Name of the run.", lambda r: r.run),
    plain("in force", "", "Policy in force in that part of it.", lambda r: r.part.policy),
    timed("since", "When it was swapped in; a dash for the run's own policy.", lambda r: r.part.since_s),
    plain("job", "", "Name of the job.", lambda r: r.job),
    timed(
        "iteration", "Mean iteration time, over the iterations that lie wholly in that part.",
        lambda r: r.figures.iteration_s if r.figures else None,
    ),
    timed("exposed", "Their mean exposed communication.", lambda r: r.figures.exposed_s if r.figures else None),
    timed(
        "tardiness", "Mean tardiness of their EchelonFlows by weight.",
        lambda r: r.figures.tardiness_s if r.figures else None,
    ),
)  # fmt: skip
"""The table of runs in which policies were swapped: before and after."""


def swapped_parts(summary: Summary) -> list[SwappedPart]:
    """Every job in every part of the runs in which policies were swapped."""
    return [
        SwappedPart(run.label, part, job, part.jobs.get(job))
        for run in summary.runs
        for part in run.parts
        for job in run.jobs
    ]


def _seconds(name: str, meaning: str, place: int) -> PrintedColumn[CoflowResult]:
    field = FIGURES[place]
    return timed(name, f"{meaning} of Coflow completion times.", lambda r: getattr(r, field))


def _ratio(name: str, place: int) -> PrintedColumn[CoflowResult]:
    meaning = f"`{name}` over the first policy's."
    return plain(f"{name}/1st", "", meaning, lambda r: f"{r.normalised[place]:.3f}")


_FIGURES = (("average", "Average"), ("median", "Median"), ("95th", "95th percentile"), ("99th", "99th percentile"))
COFLOW_COLUMNS: tuple[PrintedColumn[CoflowResult], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    plain("Coflows", "", "Number of Coflows in the trace.", lambda r: str(r.coflows)),
    *(_seconds(name, meaning, place) for place, (name, meaning) in enumerate(_FIGURES)),
    *(_ratio(name, place) for place, (name, _) in enumerate(_FIGURES)),
)
"""The table of a simulated trace of Coflows."""


COMPLETION_COLUMNS: tuple[PrintedColumn[CompletionResult], ...] = (
    plain("policy", "", "Policy with its options.", lambda r: r.policy),
    plain("jobs", "", "Number of jobs that came to their end, over all runs.", lambda r: str(r.jobs)),
    timed("average", "Average time from a job's arrival to its end.", lambda r: r.average_s),
    timed("median", "Median of the same.", lambda r: r.median_s),
    timed("95th", "95th percentile of the same.", lambda r: r.p95_s),
    timed("99th", "99th percentile of the same.", lambda r: r.p99_s),
    timed("waited", "Average time that jobs waited for GPUs.", lambda r: r.waited_s),
    timed("all done", "When the last job ended.", lambda r: r.end_s),
    plain("average/1st", "", "`average` over the first policy's.", lambda r: f"{r.normalised:.3f}"),
)
"""The table of jobs that arrive one after the other."""
MOST_LISTED = 100
"""Lines of the table of jobs: with more, jobs are told of all together."""


def unit_of(summary: Summary) -> TimeUnit:
    """The unit of all times of an experiment's tables: by its shortest iteration, or average completion of Coflows."""
    return unit_for(
        [
            *(result.iteration_s.median for result in summary.results if result.iteration_s is not None),
            *(result.average_s for result in summary.coflows),
        ]
    )


def lists_jobs(summary: Summary) -> bool:
    """Whether there is a line for each policy and job: where jobs are many, and there are figures of all together, there is none."""
    return not summary.completions or len(summary.results) <= MOST_LISTED


def stretched(factor: float) -> str:
    """That times are not those of the experiment file."""
    return f"time was stretched {factor:g} times (--stretch): seconds over {factor:g} are those of the experiment as its file says"


def attempts_lines(summary: Summary) -> list[str]:
    """What policies took to come to the valid runs that were asked for, where it was more than that; and what does not count."""
    of_policy = {result.policy: result for result in summary.results}
    lines = [
        f"{printable(policy)}: {result.runs} attempts for {result.asked} valid runs"
        + ("" if result.valid_runs >= result.asked else f", of which there are {result.valid_runs}")
        for policy, result in of_policy.items()
        if result.runs > result.asked
    ]
    if summary.set_aside:
        lines += ["kept, and left out of every average:", *(f"  - {printable(reason)}" for reason in summary.set_aside)]
    return lines


def window_lines(summary: Summary) -> list[str]:
    """Which iterations count, and the jobs of which none does; nothing where all count."""
    if summary.window is None:
        return []
    without = [
        f"{result.job} under {result.policy}"
        for result in summary.results
        if result.valid_runs and result.iteration_s is None
    ]
    missing = f"; none of {printable(named(without))}" if without else ""
    return [f"counted: {summary.window}{missing}"]


def summary_table(summary: Summary, *, blame: bool = False) -> str:
    """All results of an experiment in lines of text, with the verdict below them; with `blame`, what iterations were spent on."""
    simulated, unit = summary.backend == "fluid", unit_of(summary)
    title = f"{printable(summary.name)}{' (simulated)' if simulated else ''}:"
    if summary.coflows:
        lines = [printed(COFLOW_COLUMNS, summary.coflows, "l", unit)]
        lines.append(
            f"Coflow completion times in {unit.words}, simulated (fluid), no packets were sent; /1st: over the first policy's"
        )
    else:
        lines = [printed(COLUMNS, summary.results, "ll", unit)]
        if not lists_jobs(summary):
            jobs = len({result.job for result in summary.results})
            lines = [
                f"{jobs:,} jobs; summary.json has the iteration times of each, and arrivals.csv its completion time"
            ]
        source = "simulated (fluid), no packets were sent" if simulated else "measured on emulated links"
        several = any(r.iteration_s is not None and r.iteration_s.low is not None for r in summary.results)
        note = "; medians over runs [95 % interval]" if several else ""
        lines.append(
            f"{unit.words}, {source}{note}; predicted: iteration by fluid simulation; speed-up over the first policy"
        )
        lines += window_lines(summary)
        if summary.stretch != 1:
            lines.append(stretched(summary.stretch))
        lines += together_lines(summary, unit)
        if summary.completions:
            lines += ["from arrival to end:", printed(COMPLETION_COLUMNS, summary.completions, "l", unit)]
        lines += budget_lines(summary.results, unit)
        if blame:
            lines += blame_lines(summary.results, unit)
        lines += in_job_lines(summary.results, unit)
        lines += comparison_lines(summary.comparisons if lists_jobs(summary) else (), unit)
        swapped = swapped_parts(summary)
        if swapped:
            lines += [
                "policies swapped in mid-run, which count for neither:",
                printed(SWAP_COLUMNS, swapped, "llrl", unit),
            ]
    lines += attempts_lines(summary)
    if not summary.valid:
        lines += ["verdict: INVALID", *(f"  - {printable(reason)}" for reason in summary.reasons)]
    else:
        lines.append(f"verdict: {'simulated' if simulated else 'valid'}")
    lines += [f"  {printable(line)}" for line in chance_lines(summary.results)]
    return "\n".join([title, *lines])
