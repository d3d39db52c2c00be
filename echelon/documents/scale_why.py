"""Finds out why policies do on large clusters what docs/scale.md says: `python -m echelon.documents.scale_why [GPUS ...]`.

The clusters of `experiments/scale/` are simulated again at the highest load, with their first placements, under the policies that tell most.
What each job's iterations were spent on is kept in docs/scale/, and `python -m echelon.documents.scale_page` shows it.
"""

from __future__ import annotations

import statistics
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from echelon.documents import scale_files
from echelon.documents.scale_files import LOADS
from echelon.documents.scale_kept import FOLDER, Kept
from echelon.documents.scale_points import cluster_of
from echelon.experiment.schema import Experiment
from echelon.running.simulated import blamed, rates_to_note
from echelonflow.codec import Log
from echelonflow.errors import InputError
from echelonflow.records.blame import Cause
from echelonflow.tables import markdown_table

MOST_PLACEMENTS = 3
BASIS = "fair"
POLICIES = (BASIS, "echelonflow(order=due,within=strict)", "clock")
CAUSES: tuple[Cause, ...] = ("computation", "communication", "own flows", "other job")
"""All that there are in a simulation without job schedulers, whose decisions take no time."""


class BlamedJob(msgspec.Struct, frozen=True):
    """What the mean iteration of one job of a cluster was spent on."""

    gpus: int
    load: float
    placement: str
    policy: str
    job: str
    paradigm: str
    spent_s: dict[Cause, float]
    """Seconds by cause; empty where no iteration counts."""
    waited_for: int
    """How many other jobs it waited for."""


KEPT: Kept[BlamedJob] = Kept(
    "blame.jsonl",
    Log("echelon-scale-blame", 1, BlamedJob),
    lambda one: (one.gpus, one.load, one.placement, one.policy, one.job),
)


def found_in(gpus: int, folder: Path = scale_files.FOLDER) -> Iterator[BlamedJob]:
    """Of the cluster of so many GPUs, its first placements and `POLICIES`; InputError where there is no such cluster."""
    cluster = cluster_of(gpus, folder)
    paradigms = {job["name"]: job["paradigm"] for job in cluster.data["jobs"]}
    for placement in cluster.placements[:MOST_PLACEMENTS]:
        experiment = cluster.experiment((gpus, LOADS[-1], placement), POLICIES)
        for policy in POLICIES:
            yield from _blamed(experiment, policy, gpus, placement, paradigms)


def _blamed(
    experiment: Experiment, policy: str, gpus: int, placement: str, paradigms: dict[str, str]
) -> Iterator[BlamedJob]:
    if rates_to_note(experiment.jobs) is None:
        raise InputError(f"the cluster of {gpus} GPUs has too many steps for it to be found out what they waited for")
    record = blamed(experiment, policy)
    for job in experiment.jobs:
        spent_s: dict[Cause, float] = defaultdict(float)
        mine = [row for row in record.blame if row.job == job.name]
        for row in mine:
            spent_s[row.cause] += row.blamed_s
        yield BlamedJob(
            gpus=gpus,
            load=LOADS[-1],
            placement=placement,
            policy=policy,
            job=job.name,
            paradigm=paradigms[job.name],
            spent_s={cause: round(value_s, 9) for cause, value_s in spent_s.items()},
            waited_for=len({row.other for row in mine if row.other}),
        )


def table(found: Sequence[BlamedJob]) -> str:
    """By kind of job and policy: the mean iteration by cause, over the whole of it under `BASIS`; means over jobs."""
    rows = []
    for paradigm in sorted({one.paradigm for one in found}):
        for policy in POLICIES:
            mine = [one for one in found if (one.paradigm, one.policy) == (paradigm, policy)]
            parts = _parts(found, paradigm, policy)
            if not parts:
                continue
            ended = [one.waited_for for one in mine if one.spent_s]
            starved = len(mine) - len(ended)
            rows.append(
                [
                    paradigm,
                    f"`{policy}`",
                    f"{len(ended)}" + (f" (and {starved} starved)" if starved else ""),
                    *(f"{part:.2f}" for part in parts.values()),
                    f"{sum(parts.values()):.2f}",
                    f"{statistics.fmean(ended):.1f}",
                ]
            )
    head = ["paradigm", "policy", "jobs", *CAUSES, "iteration", "jobs waited for"]
    return markdown_table(head, rows, align="lllr")


def sentence(found: Sequence[BlamedJob], policy: str) -> str | None:
    """Of the kind of jobs that loses most under `policy`, what its iterations wait for; None where none loses."""
    whole = {paradigm: sum(_parts(found, paradigm, policy).values()) for paradigm in {one.paradigm for one in found}}
    worst = max(whole, key=whole.__getitem__, default=None)
    if worst is None or whole[worst] <= 1.0:
        return None
    mine, before = _parts(found, worst, policy), _parts(found, worst, BASIS)
    return (
        f"Why `{policy}` serves {worst} jobs worst: in parts of their iteration under fair sharing, their own transfers take "
        f"{mine['communication']:.2f} and computation {mine['computation']:.2f}. Waiting for other jobs takes {mine['other job']:.2f}, "
        f"which is {before['other job']:.2f} under fair sharing."
    )


def _parts(found: Sequence[BlamedJob], paradigm: str, policy: str) -> dict[Cause, float]:
    """By cause, means over the jobs of a kind that are starved neither under `policy` nor under `BASIS`; empty where there are none."""
    basis_s = {_key(one): sum(one.spent_s.values()) for one in found if one.policy == BASIS and one.spent_s}
    mine = [
        one
        for one in found
        if (one.paradigm, one.policy) == (paradigm, policy) and one.spent_s and _key(one) in basis_s
    ]
    if not mine:
        return {}
    return {
        cause: statistics.fmean(one.spent_s.get(cause, 0.0) / basis_s[_key(one)] for one in mine) for cause in CAUSES
    }


def _key(one: BlamedJob) -> tuple[int, str, str]:
    return one.gpus, one.placement, one.job


def main(sizes: Iterable[int], folder: Path = FOLDER) -> None:
    """Find it out for clusters of these `sizes`; what is kept of others stays."""
    for gpus in sizes:
        found = []
        for one in found_in(gpus):
            found.append(one)
            print(f"{gpus} GPUs, {one.placement}, {one.policy}: {one.job}", file=sys.stderr)
        KEPT.add(found, folder)


if __name__ == "__main__":
    try:
        main([int(name) for name in sys.argv[1:]] or [scale_files.SIZES[0].gpus])
    except (InputError, ValueError) as error:
        sys.exit(str(error))
