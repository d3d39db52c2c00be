"""What docs/results.md says of jobs in steady state, and of jobs that come and go."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from echelon.cases.random_jobs import PATTERNS
from echelon.study import arrivals, compare, few_queues, prose, sensitivity, steady, steady_cases
from echelon.study.contenders import COLLECTIVE, FAIR, LITERAL, default_form
from echelon.study.section import Schedule, Scores
from echelon.study.steady_cases import ALONE, BOUND, CLOCK, CLOCK_ALONE, CLOCK_OWN, LOOKAHEAD, LOOKAHEAD_PARTS
from echelonflow.model.arrays import Floats
from echelonflow.tables import markdown_table
from results.analysis.statistics import holm
from results.pictures import study_plots

Cases = Mapping[str, Sequence[Scores]]
PICTURES = ("steady", "loads")
MEAN, WORST = 0, 1
"""Places in what `summary` makes of a policy's scores."""
SURE = 0.05
TAIL = 0.95


def parts(cases: Cases, pictures: Path) -> list[str]:
    """The sections of the page, whose pictures go into `pictures`."""
    mixed = summaries(cases[steady_cases.MIXED])
    by_load = {f"load {load:g}": summaries(cases[steady_cases.at_load(load)]) for load in steady_cases.LOADS}
    by_pattern = {pattern: summaries(cases[steady_cases.family(pattern)]) for pattern in PATTERNS}
    return [
        "## In steady state\n\n" + prose.STEADY + "\n\n" + _roster(mixed, cases[steady_cases.MIXED], pictures),
        "### By load\n\n" + prose.LOADS + "\n\n" + _loads(by_load, pictures),
        "### By pattern\n\n" + prose.STEADY_PATTERNS + "\n\n" + _patterns(by_pattern),
        "### On larger networks\n\n" + prose.FABRICS + "\n\n" + _fabrics(cases),
        "### What a real system takes away\n\n" + prose.SENSITIVITY + "\n\n" + _sensitivity(cases[sensitivity.NAME]),
        "### Few queues\n\n" + prose.FEW_QUEUES + "\n\n" + _few_queues(cases[few_queues.NAME]),
        "### What the parts of `clock` and `lookahead` bring\n\n"
        + prose.ABLATIONS
        + "\n\n"
        + _ablations(mixed, by_load, summaries(cases[steady_cases.PARTS])),
        "## Jobs that come and go\n\n" + prose.ARRIVALS + "\n\n" + _arrivals(cases),
    ]


def in_short(cases: Cases) -> list[str]:
    """The answers, one line each."""
    mixed = summaries(cases[steady_cases.MIXED])
    names = compare.names(mixed)
    best = min((name for name in names if not _is_ablation(name)), key=lambda n: compare.ratio(mixed, n, FAIR)[0])
    lines = []
    lines.append(
        f"Steady state, {len(mixed)} cases of mixed jobs: the shortest mean iterations are those of `{best}`, "
        f"{compare.text(compare.ratio(mixed, best, FAIR))} of fair sharing."
    )
    lines.append(
        f"`{CLOCK}` takes {_against(mixed, CLOCK, FAIR)} of fair sharing, {_against(mixed, CLOCK, COLLECTIVE)} of Coflow "
        f"properly grouped, {_against(mixed, CLOCK, LITERAL)} of EchelonFlow as the paper orders it (`{LITERAL}`). It takes "
        f"{_against(mixed, CLOCK, default_form())} of `{default_form()}`."
    )
    lines.append(_of_lookahead(mixed))
    lines.append(
        f"`{CLOCK}` is {compare.mean_gap(mixed, CLOCK):.1%} above the bound in the mean, `{LOOKAHEAD}` "
        f"{compare.mean_gap(mixed, LOOKAHEAD):.1%}; fair sharing is {compare.mean_gap(mixed, FAIR):.1%} above it, Coflow "
        f"properly grouped {compare.mean_gap(mixed, COLLECTIVE):.1%}."
    )
    lines.append(
        f"The job that is slowed down most takes {_worst(mixed, CLOCK):.2f} times its least time alone under `{CLOCK}` (mean over "
        f"cases). It takes {_worst(mixed, LOOKAHEAD):.2f} times that under `{LOOKAHEAD}`, {_worst(mixed, FAIR):.2f} under fair sharing."
    )
    for load in arrivals.LOADS:
        found = completions(cases[arrivals.at_load(load)])
        lines.append(
            f"Jobs that come and go, load {load:g}: from arrival to end they take {_against(found, CLOCK, FAIR)} of fair sharing "
            f"under `{CLOCK}`. It is {_against(found, default_form(), FAIR)} under `{default_form()}`, and "
            f"{_against(found, COLLECTIVE, FAIR)} under Coflow properly grouped."
        )
    return lines


def _of_lookahead(cases: Sequence[Scores]) -> str:
    """`lookahead` against the best of the named policies in each case, and against the two rivals."""
    named = [name for name in compare.names(cases) if name != LOOKAHEAD and not _is_ablation(name)]
    ratios = [case[LOOKAHEAD][MEAN] / min(case[name][MEAN] for name in named) for case in cases]
    longer = sum(ratio > 1 + compare.SAME for ratio in ratios)
    return (
        f"`{LOOKAHEAD}` takes {np.exp(np.mean(np.log(ratios))):.3f} of the best named policy of each case ({min(ratios):.3f} to "
        f"{max(ratios):.3f}; longer in {longer} of {len(ratios)} cases). It takes {_against(cases, LOOKAHEAD, COLLECTIVE)} of Coflow "
        f"properly grouped, {_against(cases, LOOKAHEAD, FAIR)} of fair sharing."
    )


def summaries(cases: Sequence[Scores]) -> list[Scores]:
    """Of each policy in each case: mean iteration time over jobs; and how many times longer than alone the worst job's is.

    Under "bound" the mean iteration time of least sum.
    """
    return [
        {
            name: [float(np.mean(_times(scores, name))), float(np.max(_times(scores, name) / scores[ALONE]))]
            for name in scores
            if name not in (ALONE, BOUND)
        }
        | {BOUND: [float(np.mean(scores[BOUND]))]}
        for scores in cases
    ]


def _times(scores: Scores, name: Schedule) -> Floats:
    """Iteration times of the jobs; behind them stands how many iterations count."""
    return np.array(scores[name][: len(scores[ALONE])], np.float64)


def completions(cases: Sequence[Scores]) -> list[Scores]:
    """Of each policy in each case: mean time from arrival to end over jobs; and the 95th percentile of that over alone."""
    return [
        {
            name: [
                float(np.mean(scores[name])),
                float(np.quantile(np.array(scores[name]) / np.array(scores[ALONE]), TAIL)),
            ]
            for name in scores
            if name != ALONE
        }
        for scores in cases
    ]


def _is_ablation(name: str) -> bool:
    return name in (CLOCK_ALONE, CLOCK_OWN)


def _against(cases: Sequence[Scores], name: str, basis: str) -> str:
    return compare.text(compare.ratio(cases, name, basis))


def _worst(cases: Sequence[Scores], name: str) -> float:
    return float(np.mean([case[name][WORST] for case in cases]))


def _starved(cases: Sequence[Scores], name: str) -> int:
    """Cases in which so few iterations of a job ended while all ran that one starves."""
    return sum(case[name][-1] < steady.FEWEST for case in cases)


def _roster(mixed: Sequence[Scores], cases: Sequence[Scores], pictures: Path) -> str:
    """All policies on mixed jobs, the best first."""
    names = sorted(compare.names(mixed), key=lambda n: compare.ratio(mixed, n, FAIR)[0])
    p_values = holm([compare.p_value(mixed, name, FAIR) for name in names])
    rows = [
        (
            f"`{name}`",
            _against(mixed, name, FAIR) + ("*" if p_value < SURE else ""),
            _against(mixed, name, COLLECTIVE),
            f"{_worst(mixed, name):.2f}",
            str(compare.tally(mixed, name, COLLECTIVE)),
            f"{compare.mean_gap(mixed, name):.1%}",
            str(_starved(cases, name)),
        )
        for name, p_value in zip(names, p_values, strict=True)
    ]
    shown = [(name, compare.ratio(mixed, name, FAIR), compare.mean_gap(mixed, name)) for name in names]
    study_plots.draw_roster(pictures / "steady.png", shown, FAIR)
    head = ("policy", "iteration / fair", "iteration / Coflow `collective`", "worst slowdown", "wins / ties / losses",
            "above bound", "starves")  # fmt: skip
    return markdown_table(head, rows) + "\n\n![All policies on mixed jobs in steady state](results/steady.png)"


def _loads(by_load: Mapping[str, Sequence[Scores]], pictures: Path) -> str:
    """Mean iteration time over fair sharing, by load."""
    names = [name for name in compare.names(next(iter(by_load.values()))) if name != FAIR and not _is_ablation(name)]
    rows = [(f"`{name}`", *(_against(found, name, FAIR) for found in by_load.values())) for name in names]
    rows.append(("what the bound leaves", *(_text_of_bound(found) for found in by_load.values())))
    shown = [COLLECTIVE, LITERAL, default_form(), "weighted(per=job)", CLOCK]
    lines = [(load, {name: compare.ratio(found, name, FAIR) for name in shown}) for load, found in by_load.items()]
    study_plots.draw_patterns(pictures / "loads.png", lines, shown, FAIR)
    head = ("iteration / fair", *by_load)
    return markdown_table(head, rows) + "\n\n![Iteration time by load](results/loads.png)"


def _text_of_bound(cases: Sequence[Scores]) -> str:
    return f"{np.exp(np.mean([np.log(case[BOUND][0] / case[FAIR][0]) for case in cases])):.3f}"


def _patterns(by_pattern: Mapping[str, Sequence[Scores]]) -> str:
    """Two jobs of a pattern: against Coflow properly grouped, corrected for the number of comparisons."""
    names = (FAIR, LITERAL, default_form(), "coflow(grouping=collective,order=job)", CLOCK)
    pairs = [(pattern, name) for pattern in by_pattern for name in names]
    p_values = holm([compare.p_value(by_pattern[pattern], name, COLLECTIVE) for pattern, name in pairs])
    sure = {pair for pair, p_value in zip(pairs, p_values, strict=True) if p_value < SURE}
    rows = []
    for pattern, found in by_pattern.items():
        cells = [_against(found, name, COLLECTIVE) + ("*" if (pattern, name) in sure else "") for name in names]
        tally = compare.tally(found, CLOCK, COLLECTIVE)
        rows.append((pattern, str(len(found)), *cells, str(tally), f"{compare.mean_gap(found, CLOCK):.1%}"))
    head = ("pattern", "cases", *(f"`{name}`" for name in names), "`clock` wins / ties / losses", "`clock` above bound")
    return markdown_table(head, rows)


def _ablations(mixed: Sequence[Scores], by_load: Mapping[str, Sequence[Scores]], parts: Sequence[Scores]) -> str:
    """The ablations of `clock` and of `lookahead`, each against what it is a part of."""
    every = {"mixed": mixed, **by_load}
    rows = [
        (f"`{part}` / `{CLOCK}`", *(_against(found, part, CLOCK) for found in every.values()))
        for part in (CLOCK_ALONE, CLOCK_OWN)
    ]
    of_lookahead = [(f"`{part}` / `{LOOKAHEAD}`", _against(parts, part, LOOKAHEAD)) for part in LOOKAHEAD_PARTS]
    second = markdown_table(("iteration", f"mixed, {len(parts)} cases of their own"), of_lookahead)
    return markdown_table(("iteration", *every), rows) + "\n\n" + second


def _fabrics(cases: Cases) -> str:
    """Mean iteration time over fair sharing, by size of the network."""
    found = {hosts: summaries(cases[steady_cases.on_fabric(hosts)]) for hosts in steady_cases.HOSTS}
    rows = [
        (f"`{name}`", *(f"{_against(each, name, FAIR)}, {_worst(each, name):.2f}" for each in found.values()))
        for name in steady_cases.policies_on_fabrics()
    ]
    rows.append(("what the bound leaves", *(_text_of_bound(each) for each in found.values())))
    return markdown_table(("iteration / fair, worst slowdown", *(f"{hosts} hosts" for hosts in found)), rows)


def _sensitivity(cases: Sequence[Scores]) -> str:
    """Mean iteration time over fair sharing at every level."""
    found = summaries(cases)
    names = sensitivity.policies_compared()
    rows = []
    for level in sensitivity.levels():
        basis = sensitivity.key(FAIR, level if level.is_felt_by_fair else sensitivity.levels()[0])
        cells = [_against(found, sensitivity.key(name, level), basis) for name in names]
        rows.append((str(level), *cells))
    return markdown_table(("iteration / fair", *(f"`{name}`" for name in names)), rows)


def _few_queues(cases: Sequence[Scores]) -> str:
    """Mean iteration time with few classes over that without a limit, by folding; and what each policy is without one."""
    found = summaries(cases)
    names = few_queues.policies_compared()
    rows = [("no limit / fair", "", *(_against(found, name, FAIR) for name in names))]
    for way in few_queues.foldings():
        for classes in few_queues.CLASSES:
            cells = [_against(found, few_queues.key(name, way, classes), name) for name in names]
            rows.append((f"`{way}`", str(classes), *cells))
    return markdown_table(("folded / no limit", "classes", *(f"`{name}`" for name in names)), rows)


def _arrivals(cases: Cases) -> str:
    found = {load: completions(cases[arrivals.at_load(load)]) for load in arrivals.LOADS}
    rows = []
    for name in sorted(
        arrivals.policies_compared(), key=lambda n: compare.ratio(found[arrivals.LOADS[-1]], n, FAIR)[0]
    ):
        cells: list[str] = []
        for each in found.values():
            cells += [_against(each, name, FAIR), f"{np.mean([case[name][WORST] for case in each]):.2f}"]
        rows.append((f"`{name}`", *cells))
    head = ["policy"]
    for load in found:
        head += [f"load {load:g}: arrival to end / fair", f"load {load:g}: slowdown, 95th percentile"]
    return markdown_table(tuple(head), rows)
