"""Policies compared over runs of several folders: intervals over runs, ratios pair by pair, corrected for their number.

A pair is two runs that differ in the policy alone: the same conditions, backend, seed, repeat and job. Runs that do not count are
left out of everything, and counted.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from echelonflow.errors import InputError
from echelonflow.spelling import unknown
from results.analysis.gathered import Gathered, Observation
from results.analysis.statistics import Estimate, Ratio, estimate, holm, ratio_of

MEASURES = ("iteration_s", "exposed_s", "tardiness_s", "completion_s")
"""Figures of jobs by which policies can be compared; less is better."""
TIE = 0.005
"""Closer than this, relative, is a tie."""


@dataclass(frozen=True, slots=True)
class Across:
    """One policy on one job under one set of conditions, over the runs that count."""

    settings: Mapping[str, str]
    """What differs between the runs that are compared, by path. From the experiment files."""
    backend: str
    """`fluid` for simulated runs, `emulation` for those on packets. From the folders."""
    policy: str
    """Policy with its options. From the experiment files."""
    job: str
    """Name of the job. From the experiment files."""
    runs: int
    """Number of runs that were made. Computed."""
    valid_runs: int
    """Number of those that count. Computed."""
    iteration_s: Estimate | None
    """Mean iteration time of a run, over the runs that count. Computed."""
    exposed_s: Estimate | None
    """Mean exposed communication of a run. Computed."""
    tardiness_s: Estimate | None
    """Mean tardiness of a run's EchelonFlows by weight. Computed."""
    completion_s: Estimate | None
    """Job completion time; null in folders of runs, which do not say. Computed."""
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
    """Number of conditions under which its measure is smaller by more than half a per cent. Computed."""
    ties: int
    """Number of those that differ by less. Computed."""
    losses: int
    """Number of those in which it is larger by more. Computed."""


@dataclass(frozen=True)
class Comparisons:
    """All policies under all conditions, compared with one."""

    KEYS = ("against", "measure", "rows", "overall", "runs", "left_out", "reasons", "missing", "by_chance")

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
    by_chance: bool
    """False where runs of several seeds are equal to the last digit: intervals over them say nothing. Computed."""


def compare_across(gathered: Gathered, against: str | None = None, measure: str = MEASURES[0]) -> Comparisons:
    """Compare all policies with `against` (default: the folders' own, else the first) by `measure`.

    InputError where there is no such policy or measure.
    """
    if measure not in MEASURES:
        raise InputError(f"--measure: {measure!r} is no measure{unknown(measure, MEASURES)}")
    if against is not None and against not in gathered.policies:
        raise InputError(f"--against: {against!r} is none of the policies{unknown(against, gathered.policies)}")
    basis = against or gathered.against or gathered.policies[0]
    cells: dict[tuple[object, str, str], dict[str, list[Observation]]] = defaultdict(lambda: defaultdict(list))
    for seen in gathered.observations:
        if seen.job:
            cells[seen.settings, seen.backend, seen.job][seen.policy].append(seen)
    rows = [
        _row(of_policy[policy], of_policy.get(basis, []), measure, is_basis=policy == basis)
        for of_policy in cells.values()
        for policy in gathered.policies
        if policy in of_policy
    ]
    runs = {(seen.settings, seen.backend, seen.policy, seen.seed, seen.repeat): seen for seen in gathered.observations}
    out = [seen for seen in runs.values() if not seen.valid]
    return Comparisons(
        against=basis,
        measure=measure,
        rows=_corrected(rows),
        overall=_overall(rows),
        runs=len(runs),
        left_out=len(out),
        reasons=dict(Counter(seen.reason for seen in out).most_common()),
        missing=gathered.missing,
        by_chance=_by_chance(cells),
    )


def _row(seen: Sequence[Observation], basis: Sequence[Observation], measure: str, *, is_basis: bool) -> Across:
    valid = [each for each in seen if each.valid]
    theirs = {(each.seed, each.repeat): each.figures.get(measure) for each in basis if each.valid}
    pairs = [] if is_basis else [(each.figures.get(measure), theirs.get((each.seed, each.repeat))) for each in valid]
    known = [(ours, other) for ours, other in pairs if ours is not None and other is not None]
    return Across(
        settings=dict(seen[0].settings),
        backend=seen[0].backend,
        policy=seen[0].policy,
        job=seen[0].job,
        runs=len(seen),
        valid_runs=len(valid),
        pairs=len(known),
        ratio=_ratio([ours / other for ours, other in known if ours > 0 and other > 0]),
        p_holm=None,
        **{name: _estimate([v for each in valid if (v := each.figures.get(name)) is not None]) for name in MEASURES},
    )


def _estimate(values: Sequence[float]) -> Estimate | None:
    """As `estimate`; no interval where nothing varies, as in a simulation without chance: it would say what is not known."""
    found = estimate(values)
    return found if found is None or len(set(values)) > 1 else dataclasses.replace(found, low=None, high=None)


def _ratio(ratios: Sequence[float]) -> Ratio | None:
    found = ratio_of(ratios)
    return found if found is None or found.effect is not None else dataclasses.replace(found, low=None, high=None)


def _overall(rows: Sequence[Across]) -> list[Overall]:
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
        found.append(Overall(backend, policy, job, len(ratios), together, wins, len(ratios) - wins - losses, losses))
    return found


def _corrected(rows: Sequence[Across]) -> list[Across]:
    """The rows with what is left of the certainty of each when all are taken together."""
    asked = [place for place, row in enumerate(rows) if row.ratio is not None and row.ratio.p is not None]
    found = holm([p for place in asked if (ratio := rows[place].ratio) is not None and (p := ratio.p) is not None])
    by_place = dict(zip(asked, found, strict=True))
    return [dataclasses.replace(row, p_holm=by_place.get(place)) for place, row in enumerate(rows)]


def _by_chance(cells: Mapping[tuple[object, str, str], Mapping[str, Sequence[Observation]]]) -> bool:
    """Whether anything differs between the seeds of any condition; true, too, where no condition has two that count."""
    several = False
    for of_policy in cells.values():
        for seen in of_policy.values():
            valid = [each.figures.get(MEASURES[0]) for each in seen if each.valid]
            several = several or len(valid) > 1
            if len(set(valid)) > 1:
                return True
    return not several
