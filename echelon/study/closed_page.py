"""What docs/results.md says of closed batches, of tardiness, and of the distance to bounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from echelon.cases.random_jobs import PATTERNS
from echelon.study import closed, compare, contenders, prose
from echelon.study.flow_orders import FlowOrder
from echelon.study.gaps import GOAL, gaps_of
from echelon.study.section import Scores
from echelon.study.store import Measured
from echelonflow import plugins
from echelonflow.model.dag import Compute, Transfer
from echelonflow.tables import markdown_table
from results.analysis.statistics import estimate
from results.pictures import study_plots

Cases = Mapping[str, Sequence[Scores]]
"""The scores of all measured cases, by section, in order of number."""
PICTURES = ("mixed", "patterns", "gap", "property-1")


def parts(cases: Cases, measured: Mapping[tuple[str, int], Measured], pictures: Path) -> list[str]:
    """The sections of the page, whose pictures go into `pictures`."""
    return [
        "## Closed batches\n\n" + prose.CLOSED + "\n\n" + _in_short(cases),
        "### All traffic patterns mixed\n\n" + prose.MIXED + "\n\n" + _roster(cases, pictures / "mixed.png"),
        "### Pattern by pattern\n\n" + prose.PATTERNS + "\n\n" + _patterns(cases, pictures / "patterns.png"),
        "### Why\n\n" + prose.WHY + "\n\n" + _why(cases),
        "## How far from the best\n\n" + prose.GAPS + "\n\n" + _gaps(cases, pictures / "gap.png"),
        "## Tiny jobs: every order tried\n\n" + prose.TINY + "\n\n" + _tiny(cases[closed.TINY]),
        "## Does less tardiness mean shorter iterations?\n\n" + prose.PROPERTY + "\n\n"
        + _property(cases, measured, pictures / "property-1.png"),
    ]  # fmt: skip


def _in_short(cases: Cases) -> str:
    """The answers, one line each."""
    mixed, everything = cases[closed.MIXED], _whole_jobs(cases)
    best = min(_orders(mixed), key=lambda name: compare.ratio(mixed, name, contenders.FAIR)[0])
    lines = []
    default = contenders.default_form()
    for name in dict.fromkeys((default, best)):
        words = (
            {default: " (the default)", best: " (the best order here)"}[name] if default != best else " (the default)"
        )
        lines.append(
            f"`{name}`{words}: mixed jobs' iterations take "
            f"{compare.text(compare.ratio(mixed, name, contenders.FAIR))} of what they take under fair sharing. "
            f"They take {compare.text(compare.ratio(mixed, name, contenders.COLLECTIVE))} of Coflow properly grouped (`collective`), "
            f"{compare.text(compare.ratio(mixed, name, contenders.GROUP))} of whole-group Coflow."
        )
        against = compare.tally(everything, name, contenders.COLLECTIVE)
        lines.append(
            f"Over all {len(everything)} cases with whole jobs it wins, ties and loses against Coflow `collective` "
            f"{against} times (a tie is within {compare.TIE:.1%})."
        )
    lines += _told_apart(cases, default)
    gap = estimate(gaps_of(cases[closed.GROUPS], default))
    assert gap is not None
    lines.append(
        f"On {gap.n} random sets of groups the sum of tardiness of `{default}` is "
        f"{compare.mean_gap(cases[closed.GROUPS], default):.1%} above the lower bound on average "
        f"(median {gap.median:.1%}; goal: under {GOAL:.0%})."
    )
    alone, two = (compare.agreement(cases[name]) for name in (closed.ONE_JOB, closed.TWO_JOBS))
    lines.append(
        f"Of two schedules of one job the less tardy has shorter iterations in {alone.shorter / max(alone.pairs, 1):.0%} "
        f"of pairs and longer ones in {alone.longer / max(alone.pairs, 1):.0%}; of two jobs in "
        f"{two.shorter / max(two.pairs, 1):.0%} and {two.longer / max(two.pairs, 1):.0%}."
    )
    return "\n".join(f"- {line}" for line in lines)


def _told_apart(cases: Cases, name: str) -> list[str]:
    """Families in which `name` and Coflow properly grouped differ by more than chance: a line each way, and one for each family."""
    ratios = {family: compare.ratio(cases[family], name, contenders.COLLECTIVE) for family in _families(cases)}
    shorter = [f"\n  - {family}: {mean:.3f}" for family, (mean, _, high) in ratios.items() if high < 1 - compare.SAME]
    longer = [f"\n  - {family}: {mean:.3f}" for family, (mean, low, _) in ratios.items() if low > 1 + compare.SAME]
    against = "than under Coflow `collective`, the whole interval"
    return [
        f"Families in which iterations under `{name}` are shorter {against} below 1:{''.join(shorter) or ' none.'}",
        f"Families in which they are longer {against} above 1:{''.join(longer) or ' none.'}",
    ]


def _families(cases: Cases) -> list[str]:
    """The sections whose cases are closed batches of whole jobs under all compared policies."""
    companies = (closed.ALONE, closed.BESIDE_ITS_LIKE)
    families = {closed.family(pattern, company) for pattern in PATTERNS for company in companies}
    return [name for name in cases if name in families or name == closed.MIXED]


def _whole_jobs(cases: Cases) -> list[Scores]:
    """All cases that were run under all compared policies, whatever their pattern."""
    return [scores for name in _families(cases) for scores in cases[name]]


def _orders(cases: Sequence[Scores]) -> list[str]:
    """The forms of EchelonFlow that these cases were run under."""
    return [name for name in compare.names(cases) if contenders.is_form(name)]


def _roster(cases: Cases, picture: Path) -> str:
    """All policies on mixed jobs, the best first."""
    mixed = cases[closed.MIXED]
    names = sorted(compare.names(mixed), key=lambda n: compare.ratio(mixed, n, contenders.FAIR)[0])
    rows = [
        (
            f"`{name}`",
            compare.text(compare.ratio(mixed, name, contenders.FAIR)),
            f"{compare.ratio(mixed, name, contenders.FAIR, 2)[0]:.3f}",
            str(compare.tally(mixed, name, contenders.COLLECTIVE)),
            f"{compare.mean_gap(mixed, name):.1%}",
        )
        for name in names
    ]
    shown = [(n, compare.ratio(mixed, n, contenders.FAIR), compare.mean_gap(mixed, n)) for n in names]
    study_plots.draw_roster(picture, shown, contenders.FAIR)
    head = ("policy", "iteration / fair", "tardiness / fair", "wins / ties / losses", "above bound")
    return markdown_table(head, rows) + f"\n\n![All policies on mixed jobs](results/{picture.name})"


def _patterns(cases: Cases, picture: Path) -> str:
    """Each family of cases: EchelonFlow and whole-group Coflow against Coflow properly grouped."""
    forms = _orders(cases[closed.MIXED])
    best = min(forms, key=lambda name: compare.ratio(cases[closed.MIXED], name, contenders.FAIR)[0])
    default, literal = contenders.default_form(), contenders.LITERAL
    names = list(dict.fromkeys((contenders.FAIR, contenders.GROUP, literal, default, best)))
    rows, lines = [], []
    for family in _families(cases):
        found = cases[family]
        ratios = {name: compare.ratio(found, name, contenders.COLLECTIVE) for name in names}
        lines.append((family, ratios))
        winner = min(forms, key=lambda name: compare.ratio(found, name, contenders.COLLECTIVE)[0])
        rows.append(
            (
                family,
                str(len(found)),
                *(compare.text(ratios[name]) for name in names),
                str(compare.tally(found, default, contenders.COLLECTIVE)),
                f"`{_order_of(winner)}` {compare.ratio(found, winner, contenders.COLLECTIVE)[0]:.3f}",
            )
        )
    study_plots.draw_patterns(picture, lines, names, contenders.COLLECTIVE)
    head = (
        "family",
        "cases",
        *(f"`{name}`" for name in names),
        "default wins / ties / losses",
        "best order",
    )
    return markdown_table(head, rows) + f"\n\n![Iteration time by family](results/{picture.name})"


def _order_of(form: str) -> str:
    """What tells a form of EchelonFlow apart."""
    return plugins.parse_call(form)[1].get("order", "default")


def _why(cases: Cases) -> str:
    """Every order against Coflow properly grouped, by what competes."""
    kinds = {
        company: [c for pattern in PATTERNS for c in cases.get(closed.family(pattern, company), ())]
        for company in (closed.ALONE, closed.BESIDE_ITS_LIKE)
    } | {"mixed": list(cases[closed.MIXED])}
    rows = []
    for form in (contenders.GROUP, *_orders(cases[closed.MIXED])):
        rival = contenders.COLLECTIVE
        cells = [
            f"{compare.text(compare.ratio(found, form, rival))} ({compare.tally(found, form, rival)})"
            for found in kinds.values()
        ]
        rows.append((f"`{form}`", *cells))
    head = ("iteration / Coflow `collective` (wins / ties / losses)", *kinds)
    return markdown_table(head, rows)


def _gaps(cases: Cases, picture: Path) -> str:
    """The gap to the bound on random groups, the smallest first."""
    found = cases[closed.GROUPS]
    names = sorted(compare.names(found), key=lambda n: compare.mean_gap(found, n))
    rows = []
    for name in names:
        gaps = gaps_of(found, name)
        mean = estimate(gaps)
        assert mean is not None
        assert mean.low is not None
        assert mean.high is not None
        near = sum(gap <= GOAL for gap in gaps) / len(gaps)
        average = f"{compare.mean_gap(found, name):.1%} [{mean.low:.1%}, {mean.high:.1%}]"
        rows.append((f"`{name}`", average, f"{mean.median:.1%}", f"{near:.0%}", f"{max(gaps):.0%}"))
    forms = [name for name in names if contenders.is_form(name)]
    shown = dict.fromkeys(
        (
            forms[0],
            contenders.default_form(),
            contenders.LITERAL,
            contenders.COLLECTIVE,
            contenders.GROUP,
            "srpt",
            contenders.FAIR,
        )
    )
    study_plots.draw_gaps(picture, {name: gaps_of(found, name) for name in shown if name in names})
    best_of_all = [min(values[0] for n, values in c.items() if n != "bound") / c["bound"][0] - 1 for c in found]
    note = (
        f"The best policy of each instance is {sum(best_of_all) / len(best_of_all):.1%} above the bound on average: "
        "what the bound lacks, and what no policy here finds."
    )
    head = ("policy", "mean gap", "median", f"within {GOAL:.0%}", "worst")
    return markdown_table(head, rows) + f"\n\n{note}\n\n![Gaps to the lower bound](results/{picture.name})"


def _tiny(cases: Sequence[Scores]) -> str:
    """Policies against the best of all orders of flows, and the best order against the bound."""
    best = [min(values[0] for values in compare.order_scores(case).values()) for case in cases]
    rows = []
    for name in compare.names(cases):
        above = [case[name][0] / least - 1 for case, least in zip(cases, best, strict=True)]
        optimal = sum(a <= compare.SAME for a in above) / len(above)
        rows.append((sum(above) / len(above), f"`{name}`", f"{optimal:.0%}", f"{max(above):.1%}"))
    rows.sort()
    bound = [least / case["bound"][0] - 1 for case, least in zip(cases, best, strict=True)]
    note = (
        f"{len(cases)} jobs. The best order's iteration is the bound in {sum(b <= compare.SAME for b in bound)} of them, "
        f"and {sum(bound) / len(bound):.2%} above it on average."
    )
    head = ("policy", "iteration above the best order, mean", "as good as the best order", "worst")
    return (
        note + "\n\n" + markdown_table(head, [(name, f"{mean:.2%}", same, worst) for mean, name, same, worst in rows])
    )


def _property(cases: Cases, measured: Mapping[tuple[str, int], Measured], picture: Path) -> str:
    """How often less tardiness is a shorter iteration, and the smallest case where it is not."""
    rows, panels = [], []
    for name in (closed.ONE_JOB, closed.TWO_JOBS, closed.TINY):
        found = compare.agreement(cases[name])
        share = [f"{n / max(found.pairs, 1):.1%}" for n in (found.shorter, found.equal, found.longer)]
        best = f"{found.best_is_best} of {found.cases}"
        rows.append((name, str(found.pairs), *share, best, f"{found.worst_loss:.1%}"))
        panels.append((name, _relative(cases[name])))
    study_plots.draw_property(picture, panels)
    head = (
        "schedules", "pairs", "shorter", "equal", "longer", "least tardy is shortest", "longer by at most",
    )  # fmt: skip
    text = markdown_table(head, rows) + f"\n\n![Tardiness against iteration time](results/{picture.name})"
    return text + "\n\n### The smallest counterexample\n\n" + prose.SMALLEST + "\n\n" + _counterexample(measured)


def _relative(cases: Sequence[Scores]) -> list[tuple[float, float]]:
    """(tardiness, iteration time) of every schedule, relative to the means of its case."""
    points = []
    for case in cases:
        schedules = compare.schedules_of(case)
        long_s, late_s = (sum(column) / len(schedules) for column in zip(*schedules, strict=True))
        if late_s > 0:
            points += [(late / late_s, long / long_s) for long, late in schedules]
    return points


def _counterexample(measured: Mapping[tuple[str, int], Measured]) -> str:
    """The tiny case with the fewest flows whose least tardy order does not have the shortest iterations."""
    found = []
    for (section, number), known in measured.items():
        if section == closed.TINY:
            scores = compare.order_scores(known.scores)
            loss = compare.loss_of_least_tardy(scores)
            if loss > compare.SAME:
                flows = len(next(iter(scores)))
                found.append((flows, -loss, number))
    if not found:
        return "None among these jobs: the least tardy order always had the shortest iterations."
    _, loss, number = min(found)
    case, scores = closed.tiny_case(number), compare.order_scores(measured[closed.TINY, number].scores)
    late = min(scores, key=lambda name: (scores[name][2], scores[name][0]))
    short = min(scores, key=lambda name: (scores[name][0], scores[name][2]))
    lines = [f"Tiny job number {number} ({case.words}); times in milliseconds, sizes in milliseconds of the link.", ""]
    rate_Bps = min(case.network.capacity_Bps)
    for job in case.jobs:
        for step in job.dag.steps:
            after = f" after {', '.join(step.after)}" if step.after else ""
            if isinstance(step, Compute):
                lines.append(
                    f"    {job.name}: rank {step.rank} computes {step.name} for {step.duration_s * 1e3:.1f}{after}"
                )
            elif isinstance(step, Transfer) and not job.is_local(step):
                size = step.size_bytes / rate_Bps * 1e3
                due = f"group {job.dag.group_of[step.name].name}, offset {job.dag.offset_s[step.name] * 1e3:.1f}"
                lines.append(f"    {job.name}: flow {step.name} of {size:.1f} ({due}){after}")
    for words, name in (("Least tardy", late), ("Shortest iteration", short)):
        long_s, _, late_s = scores[name]
        lines.append(
            f"\n{words}: tardiness {late_s * 1e3:.1f}, mean iteration {long_s * 1e3:.1f}; order: {_in_words(name)}."
        )
    lines.append(f"\nThe least tardy order's iterations are {-loss:.1%} longer.")
    return "\n".join(lines)


def _in_words(order: FlowOrder) -> str:
    return ", ".join("/".join(flow) for flow in order)
