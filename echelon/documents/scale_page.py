"""Writes docs/scale.md, its picture, and what docs/results.md says of it: `python -m echelon.documents.scale_page [FOLDER ...]`.

A FOLDER is where `echelon sweep experiments/scale/gpus-64.yaml --out FOLDER` (or another of those files) left its cells. What they say
is kept in docs/scale/ with the bounds of their points, and the page is made of that. Without FOLDER it is made again of what is kept.
No number in it is typed by hand.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path

from echelon.documents import scale_bounds, scale_cells, scale_ends, scale_why
from echelon.documents.made_pages import with_made
from echelon.documents.modules import filled
from echelon.documents.scale_bounds import PointBound
from echelon.documents.scale_cells import ScaleCell
from echelon.documents.scale_ends import EndedCell
from echelon.documents.scale_figures import (
    BASIS,
    DEFAULT,
    Bounds,
    Measured,
    fed,
    kinds,
    policies,
    ratio_over_basis,
    starved,
    text,
)
from echelon.documents.scale_files import LOADS
from echelon.documents.scale_finding import finding
from echelon.documents.scale_kept import NAME
from echelon.documents.scale_why import BlamedJob
from echelon.places import DOCS
from echelon.study import at_scale
from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.tables import markdown_table
from results.pictures.scale_plots import Line, draw_scale

SIZES_OF_JOBS = ((4, 8), (16, 32), (64, 128))
"""Ranks of small, middling and large jobs."""
_HEAD = """\
# Clusters of growing size

Written by `python -m echelon.documents.scale_page`, from what the commands below computed. No number is typed by hand. All of
it is **simulated**: flows are fluids, and decisions take no time. The clusters of `experiments/scale/` have eight GPUs to
a host, on leaves and spines that are 2:1 oversubscribed. Jobs of mixed paradigms and of 4 to 128 ranks fill most of a cluster, and lie
where earlier jobs left gaps. What counts is the steady state: iterations while all jobs run. The load is what jobs ask of the
cables between switches at the pace that each has alone. It is the mean over all of these, and some have several times as much."""
_COMMANDS = """\
    .venv/bin/echelon sweep experiments/scale/gpus-64.yaml --out scale/64
    .venv/bin/python -m echelon.documents.scale_page scale/64"""
_RATIOS = """\
Mean over jobs of the mean iteration time, over that under `fair`: the geometric mean over placements and its 95 % interval (Student's t of
logarithms), where there are several. *Starves*: under so many placements a job ends no iteration that counts, as none began after all
jobs had ended two and ended before the first job was done. Such a placement is left out of that policy's ratio. So a policy that starves
jobs in many is compared where that is easy. *Bound* is what no scheduler can be below in steady state, over what `fair` takes; see
[below](#slowdown)."""
_COMPLETION = """\
Mean over jobs of the time from a job's start to its end, over that under `fair`: the geometric mean over placements and its 95 % interval. All
iterations are in it, and no placement is left out: a job that starves goes on when others have ended. Jobs have as many iterations as
would last about equally long at a pace that they can keep up together. Made by `python -m echelon.documents.scale_ends 64 256`."""
_SLOWDOWN = """\
A job's slowdown is its iteration time over its least time alone. The first number is the mean over jobs, the second that of the job that is slowed
down most. Both are means over the placements in which the policy starves no job. *Bound* is a lower bound on the mean, over all placements.
It holds for all schedulers while all jobs run: no iteration takes less than alone, and links carry no more than they can
(`echelonflow/scheduling/bounds/pace.py`). Connections take the paths that they take in the simulation."""
_BOUNDS_MADE = """\
Iteration times that all links allow come within {gap:.3%} of each bound. Whether a scheduler could have them is not known: the
order of transfers within a job is left out. Bounds are made by `python -m echelon.documents.scale_bounds`."""
_NONE_BELOW = """\
None of the {cells} cells in which no job starves is below its bound of the mean iteration time or of the mean slowdown; the nearest
is {nearest:.2%} above it."""
_SOME_BELOW = """\
Of the {cells} cells in which no job starves, {below} are below their bound of the mean iteration time or of the mean slowdown, down to {nearest:.3f}
of it. The bound is that of a steady state that lasts. In a window of few iterations links may carry part of what counts before it begins."""
_WHOM = """\
Iteration time of each job over what it has under `fair`: geometric means over all jobs of a kind, of all clusters, at load {load:g}. A job that
is starved counts nowhere. Below 1 the policy serves that kind of job better than equal shares do."""
_WHY = """\
What a mean iteration was spent on, along the job's critical path ([measures.md](measures.md#blame)), at load {load:g} on {gpus} GPUs with the first
placements. All are over the job's iteration under `fair`, means over jobs. *Communication* is what its transfers take alone; *own flows* is
waiting behind other flows of the job itself; *other job* is waiting behind those of others. In the last column is how many others that were.
Made by `python -m echelon.documents.scale_why 64 256`."""
_COST = """\
Median time of a cell on one processor, seconds: building the cluster and its jobs, simulating them under one policy, and all figures."""


def page(
    cells: Sequence[ScaleCell],
    found: Sequence[PointBound],
    ended: Sequence[EndedCell] = (),
    why: Sequence[BlamedJob] = (),
) -> str:
    """The page of these cells and the bounds of their points; of ends of jobs and what they waited for, where that was found out."""
    bounds, most = Bounds(found), max(LOADS)
    sizes = sorted({cell.gpus for cell in cells})
    heavy = [cell for cell in cells if cell.load == most]
    lines = [*finding(cells, bounds, ended), *filter(None, [scale_why.sentence(why, DEFAULT)])]
    parts = [_HEAD, _COMMANDS, filled(_extent(cells)), "## Finding", "\n".join(f"- {line}" for line in lines)]
    parts += [f"![Iteration time over that under fair sharing, by size and load]({NAME}.png)"]
    parts += ["## Iteration time", filled(_RATIOS)]
    for load in LOADS:
        parts += [f"### Load {load:g}", _ratio_table(cells, load, sizes, bounds)]
    if ended:
        parts += ["## Completion time", filled(_COMPLETION), *_completion_tables(ended)]
    parts += ["## Slowdown", filled(_SLOWDOWN), filled(_bounds_in_words(cells, bounds))]
    for load in LOADS:
        parts += [f"### Slowdown at load {load:g}", _slowdown_table(cells, load, sizes, bounds)]
    parts += ["## Who wins, and who pays", filled(_WHOM.format(load=most))]
    parts += [_kinds_table(heavy, "paradigm", lambda paradigm, _: paradigm)]
    parts += [_kinds_table(heavy, "ranks", lambda _, ranks: _size_in_words(ranks))]
    if why:
        sizes_asked = " and ".join(f"{gpus:,}" for gpus in sorted({one.gpus for one in why}))
        parts += ["## Why", filled(_WHY.format(load=most, gpus=sizes_asked)), scale_why.table(why)]
    parts += ["## What it costs to simulate", filled(_COST), _cost_table(cells, sizes)]
    return "\n\n".join(parts) + "\n"


def _extent(cells: Sequence[ScaleCell]) -> str:
    kept = defaultdict(set)
    for cell in cells:
        kept[cell.gpus].add(cell.point)
    words = ", ".join(f"{len(points)} with {gpus:,} GPUs" for gpus, points in sorted(kept.items()))
    return f"In it are {len(cells)} cells. Points, each a load and a placement: {words}."


def _bounds_in_words(cells: Sequence[ScaleCell], bounds: Bounds) -> str:
    below = bounds.below(cells)
    made = _BOUNDS_MADE.format(gap=bounds.widest_gap(cells))
    if below is None:
        return made
    if below.below:
        return f"{_SOME_BELOW.format(cells=below.cells, below=len(below.below), nearest=below.nearest)} {made}"
    return f"{_NONE_BELOW.format(cells=below.cells, nearest=below.nearest - 1.0)} {made}"


def _over_sizes(cells: Sequence[Measured], policy: str, load: float, sizes: Sequence[int]) -> list[str]:
    return [text(ratio_over_basis(cells, policy, gpus=gpus, load=load)) for gpus in sizes]


def _ratio_table(cells: Sequence[ScaleCell], load: float, sizes: Sequence[int], bounds: Bounds) -> str:
    of_load = [cell for cell in cells if cell.load == load]
    rows = []
    for policy in policies(cells):
        count, points = starved(of_load, policy)
        rows.append([f"`{policy}`", *_over_sizes(fed(cells), policy, load, sizes), f"{count} of {points}"])
    rows.append(["*bound*", *(text(bounds.over_basis(cells, gpus=gpus, load=load)) for gpus in sizes), ""])
    return markdown_table([*_head(sizes), "starves"], rows, align="lr")


def _head(sizes: Sequence[int]) -> list[str]:
    return ["policy", *(f"{gpus:,} GPUs" for gpus in sizes)]


def _completion_tables(ended: Sequence[EndedCell]) -> list[str]:
    sizes, parts = sorted({cell.gpus for cell in ended}), []
    for load in LOADS:
        rows = [[f"`{policy}`", *_over_sizes(ended, policy, load, sizes)] for policy in policies(ended)]
        parts += [f"### Completion at load {load:g}", markdown_table(_head(sizes), rows, align="lr")]
    return parts


def _slowdown_table(cells: Sequence[ScaleCell], load: float, sizes: Sequence[int], bounds: Bounds) -> str:
    rows, of_bound = [], []
    for policy in policies(cells):
        shown = []
        for gpus in sizes:
            mine = [cell for cell in cells if (cell.policy, cell.gpus, cell.load) == (policy, gpus, load)]
            known = [each for each in map(bounds.slowdowns, mine) if each is not None]
            means = [statistics.fmean(values) for values in zip(*known, strict=True)]
            shown.append(", ".join(f"{mean:.2f}" for mean in means) or "-")
        rows.append([f"`{policy}`", *shown])
    for gpus in sizes:
        points = {cell.point: cell for cell in cells if (cell.gpus, cell.load) == (gpus, load)}
        least = [bounds.of(cell).slowdown for cell in points.values()]
        of_bound.append(f"{statistics.fmean(least):.2f}" if least else "-")
    return markdown_table(_head(sizes), [*rows, ["*bound*", *of_bound]], align="lr")


def _kinds_table(cells: Sequence[ScaleCell], what: str, kind_of: Callable[[str, int], str]) -> str:
    shown = [policy for policy in policies(cells) if policy != BASIS]
    by_policy = {policy: kinds(cells, policy, kind_of) for policy in shown}
    of_basis = kinds(cells, BASIS, kind_of)
    names = sorted(of_basis, key=lambda kind: (len(kind), kind) if what == "ranks" else (0, kind))
    rows = []
    for kind in names:
        means = [by_policy[policy].get(kind, []) for policy in shown]
        rows.append(
            [
                kind,
                f"{len(of_basis[kind])}",
                *(f"{statistics.geometric_mean(each):.3f}" if each else "-" for each in means),
            ]
        )
    return markdown_table([what, "jobs", *(f"`{policy}`" for policy in shown)], rows, align="lr")


def _size_in_words(ranks: int) -> str:
    return next((f"{low} to {high}" for low, high in SIZES_OF_JOBS if ranks <= high), f"over {SIZES_OF_JOBS[-1][1]}")


def _cost_table(cells: Sequence[ScaleCell], sizes: Sequence[int]) -> str:
    rows = []
    for policy in policies(cells):
        took_s = [[cell.took_s for cell in cells if (cell.policy, cell.gpus) == (policy, gpus)] for gpus in sizes]
        rows.append([f"`{policy}`", *(f"{statistics.median(each):.1f}" if each else "-" for each in took_s)])
    return markdown_table(_head(sizes), rows, align="lr")


def main(docs: Path = DOCS, folders: Sequence[Path] = ()) -> None:
    """Write the page and its picture, of the sweeps in `folders` and what was kept before."""
    folder = docs / NAME
    cells, bounds = scale_cells.KEPT.rows_in(folder), scale_bounds.KEPT.rows_in(folder)
    for swept in map(scale_cells.swept_in, folders):
        cells = scale_cells.KEPT.merged(cells, swept.cells)
        found = (scale_bounds.bound_of(experiment, point) for point, experiment in swept.experiments.items())
        bounds = scale_bounds.KEPT.merged(bounds, found)
    if not cells:  # nothing was computed as yet
        return
    made = page(cells, bounds, scale_ends.KEPT.rows_in(folder), scale_why.KEPT.rows_in(folder))
    scale_cells.KEPT.write(cells, folder)
    scale_bounds.KEPT.write(bounds, folder)
    write_whole(docs / f"{NAME}.md", made)
    picture = docs / f"{NAME}.png"
    draw_scale(picture, {f"load {load:g}": lines_of(cells, load) for load in LOADS}, BASIS)
    picture.with_suffix(".svg").unlink(missing_ok=True)  # pictures come in two forms; the page shows one
    results = docs / "results.md"
    if results.is_file() and at_scale.MARKS[0] in (before := results.read_text(encoding="utf-8")):
        write_whole(results, with_made(before, *at_scale.MARKS, at_scale.opening(docs)))


def lines_of(cells: Sequence[ScaleCell], load: float) -> list[Line]:
    """Of each policy but the basis, its ratio on each size of cluster."""
    sizes = sorted({cell.gpus for cell in cells})
    lines = []
    for policy in policies(cells):
        found = {gpus: ratio_over_basis(fed(cells), policy, gpus=gpus, load=load) for gpus in sizes}
        known = {gpus: ratio for gpus, ratio in found.items() if ratio is not None}
        if policy != BASIS and known:
            lines.append(Line(policy, known))
    return lines


if __name__ == "__main__":
    try:
        main(folders=[Path(name) for name in sys.argv[1:]])
    except InputError as error:
        sys.exit(str(error))
