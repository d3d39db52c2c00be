"""Policies compared over runs of several folders: intervals over runs, ratios pair by pair, corrected for their number.

A pair is two runs that differ in the policy alone: the same conditions, backend, seed, repeat and job. Runs that do not count are
left out of everything, and counted.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from echelonflow.errors import InputError
from echelonflow.spelling import unknown
from results.analysis.across_measures import FIRST, MEASURES, Estimates
from results.analysis.gathered import Gathered, Observation
from results.analysis.statistics import Estimate, Ratio, estimate, holm, ratio_of

TIE = 0.005
"""Closer than this, relative, is a tie."""
ALL_JOBS = "all jobs"
"""What stands in place of a job where a measure is of all jobs together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Across(Estimates):
    """One policy on one job, or on all together, under one set of conditions, over the runs that count."""

    KEYS: ClassVar[tuple[str, ...]] = (
        "settings", "backend", "policy", "job", "runs", "valid_runs", *MEASURES, "pairs", "ratio", "p_holm",
    )  # fmt: skip

    settings: Mapping[str, str]
    """What differs between the runs that are compared, by path. From the experiment files."""
    backend: str
    """`fluid` for simulated runs, `emulation` for those on packets. From the folders."""
    policy: str
    """Policy with its options. From the experiment files."""
    job: str
    """Name of the job; `all jobs` where the measure is of all together. From the experiment files."""
    runs: int
    """Number of runs that were made. Computed."""
    valid_runs: int
    """Number of those that count. Computed."""
    pairs: int
    """Number of pairs with the other policy: the same conditions, backend, seed, repeat and job. Computed."""
    ratio: Ratio | None
    """The measure under this policy over that under the other one; null where there is no pair, and for the other one. Computed."""
    p_holm: float | None
    """`p` of the ratio, corrected by Holm for the number of all ratios that are shown. Computed."""


@dataclass(frozen=True, slots=True)
class Overall:
    """One policy on one job over all conditions together: each condition counts once, however many runs it has."""

    backend: str
    """As in `rows`. From the folders."""
    policy: str
    """Policy with its options. From the experiment files."""
    job: str
    """Name of the job. From the experiment files."""
    conditions: int
    """Number of conditions under which there is a pair. Computed."""
    ratio: Ratio
    """The same ratio as in `rows`, over the mean ratios of conditions. Computed."""
    wins: int
    """Number of conditions under which its measure is better by more than half a per cent: mostly smaller. Computed."""
    ties: int
    """Number of those that differ by less. Computed."""
    losses: int
    """Number of those in which it is worse by more. Computed."""


@dataclass(frozen=True)
class Comparisons:
    """All policies under all conditions, compared with one."""

    KEYS = ("against", "measure", "rows", "overall", "runs", "left_out", "reasons", "missing", "damaged", "by_chance")

    against: str
    """Policy that the others are compared with. From the command, else from the experiment file."""
    measure: str
    """Figure of which ratios are taken. From the command."""
    rows: Sequence[Across]
    """One object for each condition, policy and job. Computed."""
    overall: Sequence[Overall]
    """One object for each policy and job over all conditions; empty where there is one condition. Computed."""
    runs: int
    """Number of runs that were made. Computed."""
    left_out: int
    """Number of those that do not count. Computed."""
    reasons: Mapping[str, int]
    """Why runs do not count, each with the number of runs. Computed."""
    missing: int
    """Number of cells that sweeps have not made yet. From sweep.json."""
    damaged: int
    """Number of those of which there is something that cannot be read. From the cells."""
    by_chance: bool
    """False where runs of several seeds are equal to the last digit: intervals over them say nothing. Computed."""


def compare_across(gathered: Gathered, against: str | None = None, measure: str = FIRST) -> Comparisons:
    """Compare all policies with `against` (default: the folders' own, else the first) by `measure`.

    A measure of all jobs together has one row for each condition and policy. InputError where there is no such policy or
    measure.
    """
    if measure not in MEASURES:
        raise InputError(f"--measure: {measure!r} is no measure{unknown(measure, MEASURES)}")
    basis = basis_of(gathered, against)
    cells = _cells(gathered, together=MEASURES[measure].of_run)
    rows = [row for _, row in _rows(cells, gathered.policies, basis, measure)]
    runs = {(seen.settings, seen.backend, seen.policy, seen.seed, seen.repeat): seen for seen in gathered.observations}
    out = [seen for seen in runs.values() if not seen.valid]
    return Comparisons(
        against=basis,
        measure=measure,
        rows=_corrected(rows),
        overall=_overall(rows, more_is_better=MEASURES[measure].more_is_better),
        runs=len(runs),
        left_out=len(out),
        reasons=dict(Counter(seen.reason for seen in out).most_common()),
        missing=gathered.missing,
        damaged=gathered.damaged,
        by_chance=_by_chance(cells, measure),
    )


def by_every_measure(
    gathered: Gathered, against: str | None = None
) -> tuple[list[Across], dict[str, list[Ratio | None]]]:
    """A row for each condition, policy and job, and the ratios of all rows by each measure that any of them knows.

    Measures of all jobs together are the same in all jobs' rows. InputError where there is no such policy.
    """
    basis = basis_of(gathered, against)
    found = _rows(_cells(gathered), gathered.policies, basis, FIRST)
    rows = [row for _, row in found]
    known = [name for name in MEASURES if any(getattr(row, name) is not None for row in rows)]
    return rows, {name: [_ratio_of(*pair, name)[1] for pair, _ in found] for name in known}


def basis_of(gathered: Gathered, against: str | None) -> str:
    """The policy that the others are compared with (InputError where there is none of the name that is asked for)."""
    if against is not None and against not in gathered.policies:
        raise InputError(f"--against: {against!r} is none of the policies{unknown(against, gathered.policies)}")
    return against or gathered.against or gathered.policies[0]


_Cells = Mapping[tuple[object, str, str], Mapping[str, Sequence[Observation]]]
"""By settings, backend and job, then by policy."""
_Pair = tuple[Sequence[Observation], Sequence[Observation]]
"""Runs of a policy, and those that they are compared with."""


def _cells(gathered: Gathered, *, together: bool = False) -> _Cells:
    """All observations in their places; of each run one, where all jobs are taken `together`."""
    cells: dict[tuple[object, str, str], dict[str, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    taken: set[object] = set()
    for seen in gathered.observations:
        run = (seen.settings, seen.backend, seen.policy, seen.seed, seen.repeat)
        if seen.job and not (together and run in taken):
            taken.add(run)
            one = dataclasses.replace(seen, job=ALL_JOBS, figures=_of_run(seen.figures)) if together else seen
            cells[seen.settings, seen.backend, one.job][seen.policy].append(one)
    return cells


def _of_run(figures: Mapping[str, float | None]) -> Mapping[str, float | None]:
    """The figures that are of all jobs together."""
    return {name: value for name, value in figures.items() if name in MEASURES and MEASURES[name].of_run}


def _rows(cells: _Cells, policies: Sequence[str], basis: str, measure: str) -> list[tuple[_Pair, Across]]:
    """A row for each condition, job and policy, with the runs of which it is made."""
    found = []
    for of_policy in cells.values():
        for policy in policies:
            if policy in of_policy:
                pair = of_policy[policy], () if policy == basis else of_policy.get(basis, ())
                found.append((pair, _row(*pair, measure)))
    return found


def _row(seen: Sequence[Observation], basis: Sequence[Observation], measure: str) -> Across:
    valid = [each for each in seen if each.valid]
    pairs, ratio = _ratio_of(seen, basis, measure)
    return Across(
        settings=dict(seen[0].settings),
        backend=seen[0].backend,
        policy=seen[0].policy,
        job=seen[0].job,
        runs=len(seen),
        valid_runs=len(valid),
        pairs=pairs,
        ratio=ratio,
        p_holm=None,
        **{name: _estimate([v for each in valid if (v := each.figures.get(name)) is not None]) for name in MEASURES},
    )


def _ratio_of(seen: Sequence[Observation], basis: Sequence[Observation], measure: str) -> tuple[int, Ratio | None]:
    """The number of pairs in which both say the measure, and the ratio over them."""
    theirs = {(each.seed, each.repeat): each.figures.get(measure) for each in basis if each.valid}
    pairs = [(each.figures.get(measure), theirs.get((each.seed, each.repeat))) for each in seen if each.valid]
    known = [(ours, other) for ours, other in pairs if ours is not None and other is not None]
    return len(known), _ratio([ours / other for ours, other in known if ours > 0 and other > 0])


def _estimate(values: Sequence[float]) -> Estimate | None:
    """As `estimate`; no interval where nothing varies, as in a simulation without chance: it would say what is not known."""
    found = estimate(values)
    return found if found is None or len(set(values)) > 1 else dataclasses.replace(found, low=None, high=None)


def _ratio(ratios: Sequence[float]) -> Ratio | None:
    found = ratio_of(ratios)
    return found if found is None or found.effect is not None else dataclasses.replace(found, low=None, high=None)


def _overall(rows: Sequence[Across], *, more_is_better: bool) -> list[Overall]:
    """Every policy over all conditions; nothing where there is but one."""
    if len({tuple(row.settings.items()) for row in rows}) < 2:
        return []
    means: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for row in rows:
        if row.ratio is not None:
            means[row.backend, row.policy, row.job].append(row.ratio.mean)
    found = []
    for (backend, policy, job), ratios in means.items():
        together = ratio_of(ratios)
        assert together is not None  # there is one ratio at least
        wins, losses = sum(one < 1 - TIE for one in ratios), sum(one > 1 + TIE for one in ratios)
        if more_is_better:
            wins, losses = losses, wins
        found.append(Overall(backend, policy, job, len(ratios), together, wins, len(ratios) - wins - losses, losses))
    return found


def _corrected(rows: Sequence[Across]) -> list[Across]:
    """The rows with what is left of the certainty of each when all are taken together."""
    asked = [place for place, row in enumerate(rows) if row.ratio is not None and row.ratio.p is not None]
    found = holm([p for place in asked if (ratio := rows[place].ratio) is not None and (p := ratio.p) is not None])
    by_place = dict(zip(asked, found, strict=True))
    return [dataclasses.replace(row, p_holm=by_place.get(place)) for place, row in enumerate(rows)]


def _by_chance(cells: _Cells, measure: str) -> bool:
    """Whether anything differs between the seeds of any condition; true, too, where no condition has two that count."""
    told_by = "jobs_mean_s" if MEASURES[measure].of_run else FIRST
    several = False
    for of_policy in cells.values():
        for seen in of_policy.values():
            valid = [value for each in seen if each.valid and (value := each.figures.get(told_by)) is not None]
            several = several or len(valid) > 1
            if len(set(valid)) > 1:
                return True
    return not several
