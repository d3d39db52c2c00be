"""What one run says of each job and of all together, as numbers by name: what cells keep, and what is compared across runs."""

from __future__ import annotations

import csv
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from echelonflow.errors import InputError
from echelonflow.records.cells import Number
from results.analysis.columns import keys_of
from results.analysis.control_plane import ControlPlane
from results.analysis.figures import JobFigures
from results.analysis.measures import JobMeasures, RunMeasures


class MoreOfJob(JobMeasures):
    """What is told of a job beyond `JobFigures`; never made, as its numbers go by name."""

    KEYS: ClassVar[tuple[str, ...]] = (
        "iteration_median_s", "iteration_p95_s", "iteration_p99_s", "completion_s", "alone_s", "slowdown",
        "completion_slowdown", "gpu_share", "tardiness_sum_s",
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFigures:
    """All jobs of a run together: names differ from those of its jobs, as both stand in one row."""

    jobs_mean_s: float | None = None
    """Mean over jobs of their mean iteration time; as all that follows, the same in all rows of the run. Computed."""
    all_iterations_p95_s: float | None = None
    """95th percentile of the durations of all jobs' iterations that count. Computed."""
    all_iterations_p99_s: float | None = None
    """99th percentile of the same. Computed."""
    completion_mean_s: float | None = None
    """Mean completion time of jobs; empty unless all came to their end. Computed."""
    slowdown_mean: float | None = None
    """Mean over jobs of their slowdown. Computed."""
    slowdown_worst: float | None = None
    """The largest slowdown of a job. Computed."""
    jain: float | None = None
    """Jain's index of the jobs' slowdowns: 1 where all are slowed down alike. Computed."""
    all_gpu_share: float | None = None
    """Share of time in which GPUs computed, of all ranks of all jobs while their jobs ran. Computed."""
    all_tardiness_sum_s: float | None = None
    """Sum over jobs of `tardiness_sum_s`. Computed."""
    bound_s: float | None = None
    """What `jobs_mean_s` cannot be below, whatever the scheduler; of simulated cells the weaker one where there are two. Computed."""
    to_gain_share: float | None = None
    """What the best scheduler could still gain at most: 1 less `bound_s` over `jobs_mean_s`. Computed."""
    link_mean_share: float | None = None
    """Mean utilisation of the links that carried anything while iterations that count were under way. Computed."""
    link_max_share: float | None = None
    """Mean utilisation in that time of the link that had most to carry. Computed."""
    messages: int | None = None
    """Messages of agents that reached the controller; empty for simulated runs. From events.jsonl."""
    decisions: int | None = None
    """Decisions that it took; empty for simulated runs. From decisions.jsonl."""
    decision_p50_ms: float | None = None
    """Time from the first of the events to the instructions: median over decisions. From decisions.jsonl."""
    decision_p95_ms: float | None = None
    """The same: 95th percentile. From decisions.jsonl."""


_OTHER_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "all_iterations_p95_s": "iterations_p95_s",
        "all_iterations_p99_s": "iterations_p99_s",
        "all_gpu_share": "gpu_share",
        "all_tardiness_sum_s": "tardiness_sum_s",
    }
)
"""What fields of `RunMeasures` are called that jobs have, too."""


def job_numbers(figures: JobFigures | None, measures: JobMeasures | None) -> dict[str, Number]:
    """All that a run says of one job, by name; `counted` is the number of its iterations that count."""
    found = {**_numbers(JobFigures, figures), **_numbers(MoreOfJob, measures)}
    return found if measures is None else {**found, "counted": measures.iterations}


def run_numbers(
    together: RunMeasures | None, link_shares: Sequence[float], control: ControlPlane | None = None
) -> dict[str, Number]:
    """All that a run says of all jobs together, by name, without what is not known; `link_shares` are of links with traffic."""
    found: dict[str, Number] = {}
    for source in (together, control):
        for name in keys_of(RunFigures):
            value = getattr(source, _OTHER_NAMES.get(name, name), None)
            if value is not None:
                found[name] = value
    if link_shares:
        found |= {"link_mean_share": statistics.fmean(link_shares), "link_max_share": max(link_shares)}
    return found


def link_shares_of(path: Path) -> Mapping[tuple[str, int], Sequence[float]]:
    """Mean utilisation of every link with traffic in each run of a folder, by policy and repeat, of its links.csv.

    Nothing where there is no such file, as in folders that an older revision analysed; InputError where it is none.
    """
    found: dict[tuple[str, int], list[float]] = defaultdict(list)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            for row in csv.DictReader(file):
                found[row["policy"], int(row["repeat"])].append(float(row["mean_share"]))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError, csv.Error) as error:
        raise InputError(f"{path}: is no table of links ({error})") from None
    return found


def _numbers(kind: type, source: Any) -> dict[str, Number]:
    """The numbers of `source` that `kind` names; nothing where there is no source."""
    return {} if source is None else {key: getattr(source, key) for key in keys_of(kind)}
