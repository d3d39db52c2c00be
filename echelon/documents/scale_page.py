"""Writes docs/scale.md, its picture, and what docs/results.md says of it: `python -m echelon.documents.scale_page [FOLDER ...]`.

A FOLDER is where `echelon sweep experiments/scale/gpus-64.yaml --out FOLDER` (or another of those files) left its cells. What they say
is kept in docs/scale/, and the page is made of that. A cell that was computed again takes the place of what was kept of it.
Without FOLDER the page is made again of what is kept. No number in it is typed by hand.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from echelon.documents import scale_files, scale_why
from echelon.documents.made_pages import with_made
from echelon.documents.modules import filled
from echelon.documents.scale_files import LOADS
from echelon.documents.scale_why import BlamedJob
from echelon.experiment import yaml_file
from echelon.places import DOCS
from echelon.study import at_scale, compare
from echelon.sweeps.building import built
from echelonflow.codec import Log
from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.model.dag import Compute
from echelonflow.records.sweeps import SweepRecord, read_sweep
from echelonflow.scheduling.steady import least_loads_of
from echelonflow.tables import markdown_table
from results.analysis.cells import found_cells
from results.analysis.statistics import ratio_of
from results.pictures.scale_plots import Line, draw_scale

NAME = "scale"
"""Of the page, of its picture, and of the folder of what was measured."""
KEPT = "cells.jsonl"
BASIS = "fair"
LITERAL, DEFAULT = "echelonflow(order=tardiness,within=strict)", "echelonflow(order=due,within=strict)"
DIGITS = 6
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
jobs in many is compared where that is easy."""
_SLOWDOWN = """\
A job's slowdown is its iteration time over its least time alone. The first number is the mean over jobs, the second that of the job that is slowed
down most; both are means over placements, at load {load:g}. *Bound* is what no scheduler can beat in the mean: iteration times of least sum that
respect every link's capacity (`echelonflow/scheduling/steady.py`)."""
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


class ScaleCell(msgspec.Struct, frozen=True):
    """One cell: what each of its jobs took. Lists have an entry for each job, in the order of the file."""

    gpus: int
    load: float
    placement: str
    policy: str
    took_s: float
    """Time that it took to compute."""
    paradigms: list[str]
    ranks: list[int]
    alone_s: list[float]
    """Least iteration time alone."""
    together_s: list[float]
    """Of least sum that links allow."""
    iteration_s: list[float | None]
    """Mean iteration time; None where no iteration counts."""

    @property
    def starves(self) -> bool:
        """Whether some job ends no iteration that counts."""
        return None in self.iteration_s

    @property
    def mean_s(self) -> float:
        """Mean over jobs of the mean iteration time (where none starves)."""
        return statistics.fmean(each for each in self.iteration_s if each is not None)

    @property
    def slowdowns(self) -> list[float]:
        """Of each job that is not starved."""
        both = zip(self.iteration_s, self.alone_s, strict=True)
        return [one_s / alone_s for one_s, alone_s in both if one_s is not None]


LOG: Log[ScaleCell] = Log("echelon-scale-cells", 1, ScaleCell)


def cells_in(folder: Path) -> list[ScaleCell]:
    """What the sweep in a folder says (InputError where it is none, or none of `experiments/scale/`)."""
    record = read_sweep(folder)
    sizes = {scale_files.name_of(size): size.gpus for size in scale_files.SIZES}
    rates = _rates_of(record) if record.name in sizes else []
    asked = record.over.get("network.rate", [])
    if not asked or not {*asked} <= {*rates}:
        raise InputError(
            f"{folder}: a sweep of {record.name}, and not of a file in experiments/scale/; see docs/{NAME}.md"
        )
    found, made, points = found_cells(folder, record), [], {}
    for planned in record.cells:
        cell = found.get(planned.name)
        if cell is None or cell.failed:
            continue
        point = record.points[planned.point]
        if planned.point not in points:
            points[planned.point] = _alone(record, point)
        paradigms, ranks, alone_s, together_s = points[planned.point]
        made.append(
            ScaleCell(
                gpus=sizes[record.name],
                load=LOADS[rates.index(point["network.rate"])],
                placement=str(point.get("placement", record.experiment["placement"])),
                policy=planned.policy,
                took_s=_rounded(cell.took_s),
                paradigms=paradigms,
                ranks=ranks,
                alone_s=alone_s,
                together_s=together_s,
                iteration_s=[
                    None if (one_s := job.get("iteration_s")) is None else _rounded(one_s) for job in cell.jobs.values()
                ],
            )
        )
    return made


def _rates_of(record: SweepRecord) -> list[str]:
    """The rates in a cluster's file at which it has the loads, in their order; those of a sweep may be some of them."""
    path = Path(record.experiment_folder) / Path(record.experiment_file).name
    rates: list[str] = yaml_file.read(path).data.get("sweep", {}).get("over", {}).get("network.rate", [])
    return rates if len(rates) == len(LOADS) else []


def _alone(record: SweepRecord, point: Mapping[str, Any]) -> tuple[list[str], list[int], list[float], list[float]]:
    """Of the jobs of a point: paradigms, ranks, least times alone, and together."""
    path = Path(record.experiment_folder) / Path(record.experiment_file).name
    experiment = built(record.experiment, path, point, record.seeds[0], record.policies)
    loads = least_loads_of(experiment.jobs, experiment.network)
    ranks = [len({step.rank for step in job.dag.steps if isinstance(step, Compute)}) for job in experiment.jobs]
    paradigms = [job["paradigm"] for job in record.experiment["jobs"]]
    return paradigms, ranks, [*map(_rounded, loads.iteration_s)], [*map(_rounded, loads.together_s)]


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")


def page(cells: Sequence[ScaleCell], why: Sequence[BlamedJob] = ()) -> str:
    """The page of these cells, and of what iterations were spent on, where that was found out."""
    sizes = sorted({cell.gpus for cell in cells})
    most = max(LOADS)
    lines = [*finding(cells), *filter(None, [scale_why.sentence(why, DEFAULT)])]
    parts = [_HEAD, _COMMANDS, filled(_extent(cells)), "## Finding", "\n".join(f"- {line}" for line in lines)]
    parts += [f"![Iteration time over that under fair sharing, by size and load]({NAME}.png)"]
    parts += ["## Iteration time", filled(_RATIOS)]
    for load in LOADS:
        parts += [f"### Load {load:g}", _ratio_table([cell for cell in cells if cell.load == load], cells, sizes)]
    parts += ["## Slowdown", filled(_SLOWDOWN.format(load=most))]
    parts += [_slowdown_table([cell for cell in cells if cell.load == most], sizes)]
    parts += ["## Who wins, and who pays", filled(_WHOM.format(load=most))]
    heavy = [cell for cell in cells if cell.load == most]
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
        kept[cell.gpus].add((cell.load, cell.placement))
    words = ", ".join(f"{len(points)} with {gpus:,} GPUs" for gpus, points in sorted(kept.items()))
    return f"In it are {len(cells)} cells. Points, each a load and a placement: {words}."


def finding(cells: Sequence[ScaleCell]) -> list[str]:
    """What cells say, in sentences whose numbers are computed."""
    lines = []
    sizes = sorted({cell.gpus for cell in cells})
    for load in LOADS:
        of_load = {policy: ratio_over_basis(cells, policy, load=load) for policy in policies(cells)}
        known = {policy: found for policy, found in of_load.items() if found is not None and policy != BASIS}
        best = min(known, key=lambda policy: known[policy][0])
        lines.append(
            f"Load {load:g}, all clusters: the shortest mean iterations are those of `{best}`, {_text(known[best])} of fair sharing. "
            f"EchelonFlow takes {_text(known.get(DEFAULT))} as it is by default, {_text(known.get(LITERAL))} as the paper orders it."
        )
    grown = [(gpus, ratio_over_basis(cells, "clock", gpus=gpus, load=max(LOADS))) for gpus in (sizes[0], sizes[-1])]
    if len(sizes) > 1 and all(found is not None for _, found in grown):
        lines.append(
            f"At load {max(LOADS):g} `clock` takes "
            + " and ".join(f"{_text(found)} of fair sharing on {gpus:,} GPUs" for gpus, found in grown)
            + "."
        )
    starved = {policy: _starved(cells, policy) for policy in policies(cells)}
    worst = max(starved, key=lambda policy: starved[policy][0] / max(starved[policy][1], 1))
    if starved[worst][0]:
        counts = ", ".join(f"`{policy}` in {count}" for policy, (count, _) in starved.items() if policy != worst)
        lines.append(f"`{worst}` starves a job in {starved[worst][0]} of {starved[worst][1]} points, {counts}.")
    heavy = [cell for cell in cells if cell.load == max(LOADS)]
    for policy in (DEFAULT, "clock"):
        by_kind = _kinds(heavy, policy, lambda paradigm, _: paradigm)
        means = {kind: statistics.geometric_mean(ratios) for kind, ratios in by_kind.items()}
        if means:
            first, last = min(means, key=means.__getitem__), max(means, key=means.__getitem__)
            lines.append(
                f"At load {max(LOADS):g} `{policy}` serves {first} jobs best ({means[first]:.2f} of what they take under fair sharing) "
                f"and {last} jobs worst ({means[last]:.2f})."
            )
    return lines


def policies(cells: Iterable[ScaleCell]) -> list[str]:
    """All that were run, in the order in which they come."""
    return list(dict.fromkeys(cell.policy for cell in cells))


def ratio_over_basis(
    cells: Sequence[ScaleCell], policy: str, *, gpus: int | None = None, load: float | None = None
) -> tuple[float, float | None, float | None] | None:
    """Geometric mean over points of the mean iteration time over that of the basis, and its interval; None where there is no point.

    Of one size and one load, where they are given.
    """
    wanted = [cell for cell in cells if gpus in (None, cell.gpus) and load in (None, cell.load) and not cell.starves]
    basis = {(cell.gpus, cell.load, cell.placement): cell.mean_s for cell in wanted if cell.policy == BASIS}
    mine = {(cell.gpus, cell.load, cell.placement): cell.mean_s for cell in wanted if cell.policy == policy}
    found = ratio_of([mean_s / basis[point] for point, mean_s in mine.items() if point in basis])
    return None if found is None else (found.mean, found.low, found.high)


def _text(found: tuple[float, float | None, float | None] | None) -> str:
    if found is None:
        return "-"
    mean, low, high = found
    return f"{mean:.3f}" if low is None or high is None else compare.text((mean, low, high))


def _starved(cells: Sequence[ScaleCell], policy: str) -> tuple[int, int]:
    """In how many points a policy starves a job, and of how many."""
    mine = [cell for cell in cells if cell.policy == policy]
    return sum(cell.starves for cell in mine), len(mine)


def _ratio_table(of_load: Sequence[ScaleCell], cells: Sequence[ScaleCell], sizes: Sequence[int]) -> str:
    rows = []
    for policy in policies(cells):
        shown = [_text(ratio_over_basis(of_load, policy, gpus=gpus)) for gpus in sizes]
        starved, points = _starved(of_load, policy)
        rows.append([f"`{policy}`", *shown, f"{starved} of {points}"])
    return markdown_table(["policy", *(f"{gpus:,} GPUs" for gpus in sizes), "starves"], rows, align="lr")


def _slowdown_table(cells: Sequence[ScaleCell], sizes: Sequence[int]) -> str:
    rows = []
    for policy in policies(cells):
        shown = []
        for gpus in sizes:
            mine = [cell.slowdowns for cell in cells if (cell.policy, cell.gpus) == (policy, gpus) and not cell.starves]
            means, worst = [statistics.fmean(each) for each in mine], [max(each) for each in mine]
            shown.append(f"{statistics.fmean(means):.2f}, {statistics.fmean(worst):.2f}" if mine else "-")
        rows.append([f"`{policy}`", *shown])
    bounds = []
    for gpus in sizes:
        ideal = [
            statistics.fmean(np.array(cell.together_s) / np.array(cell.alone_s))
            for cell in cells
            if cell.gpus == gpus and cell.policy == BASIS
        ]
        bounds.append(f"{statistics.fmean(ideal):.2f}" if ideal else "-")
    rows.append(["*bound*", *bounds])
    return markdown_table(["policy", *(f"{gpus:,} GPUs" for gpus in sizes)], rows, align="lr")


def _kinds(cells: Sequence[ScaleCell], policy: str, kind_of: Callable[[str, int], str]) -> dict[str, list[float]]:
    """By kind of job, its iteration times over those under the basis."""
    basis = {(cell.gpus, cell.load, cell.placement): cell for cell in cells if cell.policy == BASIS}
    found: dict[str, list[float]] = defaultdict(list)
    for cell in cells:
        other = basis.get((cell.gpus, cell.load, cell.placement))
        if cell.policy != policy or other is None:
            continue
        for paradigm, ranks, mine_s, theirs_s in zip(
            cell.paradigms, cell.ranks, cell.iteration_s, other.iteration_s, strict=True
        ):
            if mine_s is not None and theirs_s is not None:
                found[kind_of(paradigm, ranks)].append(mine_s / theirs_s)
    return found


def _kinds_table(cells: Sequence[ScaleCell], what: str, kind_of: Callable[[str, int], str]) -> str:
    shown = [policy for policy in policies(cells) if policy != BASIS]
    by_policy = {policy: _kinds(cells, policy, kind_of) for policy in shown}
    of_basis = _kinds(cells, BASIS, kind_of)
    kinds = sorted(of_basis, key=lambda kind: (len(kind), kind) if what == "ranks" else (0, kind))
    rows = []
    for kind in kinds:
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
    return markdown_table(["policy", *(f"{gpus:,} GPUs" for gpus in sizes)], rows, align="lr")


def merged(kept: Sequence[ScaleCell], swept: Sequence[ScaleCell]) -> list[ScaleCell]:
    """All cells by size; one that was computed anew stands in the place of what was kept."""
    found = {(cell.gpus, cell.load, cell.placement, cell.policy): cell for cell in (*kept, *swept)}
    return sorted(found.values(), key=lambda cell: cell.gpus)


def main(docs: Path = DOCS, folders: Sequence[Path] = ()) -> None:
    """Write the page and its picture, of the sweeps in `folders` and what was kept before."""
    kept = docs / NAME / KEPT
    cells = list(LOG.read(kept)) if kept.is_file() else []
    swept = [cell for folder in folders for cell in cells_in(folder)]
    cells = merged(cells, swept)
    if not cells:  # nothing was computed as yet
        return
    text = page(cells, scale_why.kept(docs / NAME))
    kept.parent.mkdir(exist_ok=True)
    write_whole(kept, LOG.header + b"".join(map(LOG.line, cells)))
    write_whole(docs / f"{NAME}.md", text)
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
        found = {gpus: ratio_over_basis(cells, policy, gpus=gpus, load=load) for gpus in sizes}
        known = {gpus: ratio for gpus, ratio in found.items() if ratio is not None}
        if policy != BASIS and known:
            lines.append(Line(policy, known))
    return lines


if __name__ == "__main__":
    try:
        main(folders=[Path(name) for name in sys.argv[1:]])
    except InputError as error:
        sys.exit(str(error))
