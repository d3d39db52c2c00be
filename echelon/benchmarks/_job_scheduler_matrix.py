"""Several jobs on shared links: every job scheduler under every network policy, in fluid simulation by the full engine."""

from __future__ import annotations

import copy
import itertools
import statistics
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import as_completed
from pathlib import Path
from typing import Any

import msgspec

from echelon.benchmarks import Figure, Say
from echelon.experiment import schema, yaml_file
from echelon.places import EXPERIMENTS
from echelon.running.simulated import predict
from echelonflow.child_process import pool
from echelonflow.codec import Log
from echelonflow.files import write_whole
from results.analysis.rows import iteration_rows

FOLDER = EXPERIMENTS / "job-schedulers"
FIFO, FAIR = "fifo", "fair"
SCHEDULERS = (FIFO, "ddp", "tac(crosses=true)", "dear", "bytescheduler(partition=16 MB, credit=64 MB)")
"""What every job has; partitions are large, so that flows take as long as they do on packets."""
SAME = 0.01
"""A combination that is not so much faster than a part of it alone is no better than that part."""


class Combination(msgspec.Struct, frozen=True):
    """What came of one job scheduler, which every job has, under one network policy."""

    experiment: str
    scheduler: str
    policy: str
    iteration_s: dict[str, float]
    """By job: the mean duration of its iterations. The first counts: that is where jobs meet, and one may be held back."""

    @property
    def key(self) -> tuple[str, str, str]:
        return self.experiment, self.scheduler, self.policy


class Verdict(msgspec.Struct, frozen=True):
    """What one experiment says: speed-ups over fifo under fair sharing, means over jobs."""

    experiment: str
    jobs: int
    inside: Combination
    """The best job scheduler under fair sharing."""
    network: Combination
    """The best network policy with fifo."""
    both: Combination
    """The best of all."""
    inside_gain: float
    network_gain: float
    both_gain: float

    @property
    def words(self) -> str:
        """Whether one makes the other superfluous."""
        best = max(self.inside_gain, self.network_gain)
        if self.both_gain > best * (1 + SAME):
            return "both together bring more than either"
        if self.inside_gain < self.network_gain * (1 - SAME):
            return "the network policy makes the job scheduler superfluous"
        if self.network_gain < self.inside_gain * (1 - SAME):
            return "the job scheduler makes the network policy superfluous"
        return "either will do"


LOG: Log[Combination] = Log("echelon-job-scheduler-matrix", 2, Combination)


def files() -> list[Path]:
    """The experiments with several jobs."""
    return sorted(FOLDER.glob("shared-*.yaml"))


def with_scheduler(data: dict[str, Any], scheduler: str) -> dict[str, Any]:
    """An experiment, as its file says it, in which every job has this scheduler."""
    changed = copy.deepcopy(data)
    for job in changed["jobs"]:
        job["scheduler"] = scheduler
    return changed


def measured(paths: Sequence[Path], log: Path, say: Say) -> list[Combination]:
    """Every combination of these experiments: those in the log, and the others, which go there as soon as each is there."""
    wanted = [
        (path, scheduler, policy)
        for path in paths
        for scheduler, policy in itertools.product(SCHEDULERS, schema.load(path).policies)
    ]
    there = {found.key: found for found in LOG.read(log)}
    left = [each for each in wanted if (each[0].stem, *each[1:]) not in there]
    say(f"{len(wanted) - len(left)} of {len(wanted)} combinations are simulated")
    with pool() as several:
        under_way = [several.submit(simulated, *each) for each in left]
        try:
            for number, done in enumerate(as_completed(under_way), start=1):
                found = done.result()
                there[found.key] = found
                write_whole(log, LOG.header + b"".join(map(LOG.line, there.values())))
                say(f"{number} of {len(left)}: {found.experiment}, {found.scheduler} under {found.policy}")
        finally:
            several.shutdown(wait=False, cancel_futures=True)
    return [there[path.stem, scheduler, policy] for path, scheduler, policy in wanted]


def simulated(path: Path, scheduler: str, policy: str) -> Combination:
    """One combination, simulated."""
    data = {**with_scheduler(yaml_file.read(path).data, scheduler), "policies": [policy]}
    experiment = schema.check(data, path)
    by_job: dict[str, list[float]] = defaultdict(list)
    for row in iteration_rows(predict(experiment, policy), experiment.jobs):
        by_job[row.job].append(row.duration_s)
    return Combination(path.stem, scheduler, policy, {job: statistics.fmean(times) for job, times in by_job.items()})


def gain(found: Combination, against: Combination) -> float:
    """How many times as fast iterations are as in another combination: mean over jobs."""
    return statistics.fmean(against.iteration_s[job] / found.iteration_s[job] for job in against.iteration_s)


def verdicts(found: Sequence[Combination]) -> list[Verdict]:
    """What each experiment says."""
    by_experiment: dict[str, list[Combination]] = defaultdict(list)
    for combination in found:
        by_experiment[combination.experiment].append(combination)
    return [_verdict(experiment, mine) for experiment, mine in by_experiment.items()]


def _verdict(experiment: str, found: Sequence[Combination]) -> Verdict:
    plain = next(each for each in found if (each.scheduler, each.policy) == (FIFO, FAIR))
    gains = {each.key: gain(each, plain) for each in found}
    inside = max((each for each in found if each.policy == FAIR), key=lambda each: gains[each.key])
    network = max((each for each in found if each.scheduler == FIFO), key=lambda each: gains[each.key])
    both = max(found, key=lambda each: gains[each.key])
    return Verdict(
        experiment, len(plain.iteration_s), inside, network, both,
        gains[inside.key], gains[network.key], gains[both.key],
    )  # fmt: skip


def figures(found: Sequence[Combination]) -> list[Figure]:
    """For each experiment: what the job scheduler brings alone, the network policy alone, and the best of all."""
    made = []
    for verdict in verdicts(found):
        prefix = f"{verdict.experiment} ({verdict.jobs} jobs)"
        for what, best, gained in (
            ("job scheduler alone", verdict.inside, verdict.inside_gain),
            ("network policy alone", verdict.network, verdict.network_gain),
            ("best combination", verdict.both, verdict.both_gain),
        ):
            shown = f"{gained:.2f} ({best.scheduler} under {best.policy})"
            made.append(Figure(f"{prefix}: {what}, over fifo under fair", shown, "reported", None))
        made.append(Figure(f"{prefix}: finding", verdict.words, "reported", None))
    return made
