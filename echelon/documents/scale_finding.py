"""The finding of docs/scale.md: sentences whose numbers are computed of cells and of bounds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from echelon.documents.scale_cells import ScaleCell
from echelon.documents.scale_ends import EndedCell
from echelon.documents.scale_figures import (
    BASIS,
    DEFAULT,
    LITERAL,
    Bounds,
    fed,
    kinds,
    policies,
    ratio_over_basis,
    starved,
    text,
)
from echelon.documents.scale_files import LOADS

CLOCK = "clock"


def finding(cells: Sequence[ScaleCell], bounds: Bounds, ended: Sequence[EndedCell]) -> list[str]:
    """All that is to be said."""
    return [
        *(_of_load(cells, load) for load in LOADS),
        *_grown(cells),
        *_starving(cells),
        *_completion(ended),
        *_above_the_bound(cells, bounds),
        *_kinds_served(cells),
    ]


def _of_load(cells: Sequence[ScaleCell], load: float) -> str:
    of_load = {policy: ratio_over_basis(fed(cells), policy, load=load) for policy in policies(cells)}
    known = {policy: found for policy, found in of_load.items() if found is not None and policy != BASIS}
    best = min(known, key=lambda policy: known[policy][0])
    return (
        f"Load {load:g}, all clusters: the shortest mean iterations are those of `{best}`, {text(known[best])} of fair sharing. "
        f"EchelonFlow takes {text(known.get(DEFAULT))} as it is by default, {text(known.get(LITERAL))} as the paper orders it."
    )


def _grown(cells: Sequence[ScaleCell]) -> list[str]:
    sizes = sorted({cell.gpus for cell in cells})
    grown = [(gpus, ratio_over_basis(fed(cells), CLOCK, gpus=gpus, load=max(LOADS))) for gpus in (sizes[0], sizes[-1])]
    if len(sizes) == 1 or any(found is None for _, found in grown):
        return []
    each = " and ".join(f"{text(found)} of fair sharing on {gpus:,} GPUs" for gpus, found in grown)
    return [f"At load {max(LOADS):g} `{CLOCK}` takes {each}."]


def _starving(cells: Sequence[ScaleCell]) -> list[str]:
    """Where jobs are starved, and what that does to the ratios."""
    found = {policy: starved(cells, policy) for policy in policies(cells)}
    worst = max(found, key=lambda policy: found[policy][0] / max(found[policy][1], 1))
    if not found[worst][0]:
        return []
    counts = ", ".join(f"`{policy}` in {count}" for policy, (count, _) in found.items() if policy != worst)
    heavy = {policy: starved([cell for cell in cells if cell.load == max(LOADS)], policy) for policy in found}
    left = ", ".join(f"`{policy}` {points - count} of {points}" for policy, (count, points) in heavy.items() if count)
    lines = [f"`{worst}` starves a job in {found[worst][0]} of {found[worst][1]} points, {counts}."]
    if left:
        lines.append(
            f"Ratios leave out the placements in which the policy starves a job. So they flatter a policy where it does. "
            f"At load {max(LOADS):g} they are over these placements alone: {left}."
        )
    return lines


def _completion(ended: Sequence[EndedCell]) -> list[str]:
    heavy = [cell for cell in ended if cell.load == max(LOADS)]
    known = {policy: ratio_over_basis(heavy, policy) for policy in policies(heavy) if policy != BASIS}
    each = " ".join(f"`{policy}` has {text(found)}." for policy, found in known.items() if found is not None)
    if not each:
        return []
    on = " and ".join(f"{gpus:,}" for gpus in sorted({cell.gpus for cell in heavy}))
    line = f"Mean completion time leaves out no placement: a job that starves goes on when others have ended. At load {max(LOADS):g} "
    return [f"{line}on {on} GPUs it is compared with that under fair sharing. {each}"]


def _above_the_bound(cells: Sequence[ScaleCell], bounds: Bounds) -> list[str]:
    above = {policy: bounds.above(cells, policy, max(LOADS)) for policy in (BASIS, CLOCK)}
    each = " and ".join(f"`{policy}` {found:.0%}" for policy, found in above.items() if found is not None)
    if not each:
        return []
    return [f"At load {max(LOADS):g} mean iterations are above what no scheduler can beat in steady state: {each}."]


def _kinds_served(cells: Sequence[ScaleCell]) -> list[str]:
    lines = []
    heavy = [cell for cell in cells if cell.load == max(LOADS)]
    for policy in (DEFAULT, CLOCK):
        by_kind = kinds(heavy, policy, lambda paradigm, _: paradigm)
        means = {kind: statistics.geometric_mean(ratios) for kind, ratios in by_kind.items()}
        if means:
            first, last = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
            lines.append(
                f"At load {max(LOADS):g} `{policy}` serves {first} jobs best ({means[first]:.2f} of what they take under fair sharing) "
                f"and {last} jobs worst ({means[last]:.2f})."
            )
    return lines
