"""Which jobs of an experiment have something to tune, and where is looked if nothing else is said."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from echelon.experiment.jobs import bound_scheduler
from echelon.experiment.schema import Experiment
from echelon.experiment.specs import JobSpec
from echelon.tuning.space import CREDIT, PARTITION, Space
from echelonflow import plugins
from echelonflow.errors import InputError
from traffic.workloads import job_schedulers
from traffic.workloads.tensors import Setting, TensorModel

MOST_PARTS = 400
"""Of a model, where nothing else is said: with more, each costs more than it can save, and trials take long."""


def tunable(experiment: Experiment) -> list[str]:
    """The jobs whose scheduler takes both a partition and a credit, in the order of the file.

    Raises InputError, which names what would do, where there is none.
    """
    if experiment.trace is not None:
        raise InputError(f"{experiment.path}: is a trace of Coflows; what is tuned are the schedulers of jobs")
    if experiment.queue is not None:
        raise InputError(
            f"{experiment.path}: its jobs wait for GPUs; what is tuned are jobs whose hosts are known before"
        )
    texts = {job["name"]: job.get("scheduler") for job in experiment.source["jobs"]}
    found = [name for name, text in texts.items() if text is not None and takes_both(text)]
    if not found:
        named = ", ".join(f"{name} has {text or 'none'}" for name, text in texts.items())
        able = ", ".join(name for name in job_schedulers.names() if takes_both(name))
        raise InputError(
            f"{experiment.path}: no job has a scheduler with {PARTITION} and {CREDIT} to tune ({named}); there is: {able}; "
            f"write `scheduler: ...` into a job, or use --scheduler"
        )
    return found


def takes_both(scheduler: str) -> bool:
    """Whether a job scheduler, as it is written, has a partition and a credit."""
    name, _ = plugins.parse_call(scheduler)
    return {PARTITION, CREDIT} <= {option.key for option in job_schedulers.options(name)}


def usual_space(experiment: Experiment, jobs: Collection[str]) -> Space:
    """What fits the tensors of all `jobs`: partitions up to the largest tensor, and credits up to all of them.

    The smallest of both cuts the model into some hundred parts. InputError where no size fits all jobs.
    """
    models = [
        tensors(experiment, JobSpec.model_validate(job)) for job in experiment.source["jobs"] if job["name"] in jobs
    ]
    try:
        return common_space(models)
    except InputError as error:
        raise InputError(
            f"--space: is not given, and what fits the tensors of all jobs {error}; use --each, or --job"
        ) from None


def common_space(models: Sequence[tuple[TensorModel, Setting]]) -> Space:
    """The space that fits all of these models (InputError where there is no point in it)."""
    low = max(max(model.total_bytes // MOST_PARTS, setting.least_bytes) for model, setting in models)
    largest, total = (min(sizes) for sizes in zip(*((m.largest_bytes, m.total_bytes) for m, _ in models), strict=True))
    return Space((min(low, largest), largest), (min(low, total), total))


def tensors(experiment: Experiment, spec: JobSpec) -> tuple[TensorModel, Setting]:
    """What a job's scheduler is given to order: tensors before they are scaled, and on what they go."""
    assert spec.scheduler is not None
    link_Bps = min(experiment.network.capacity_Bps)
    bound = bound_scheduler(spec, spec.scheduler, link_Bps, link_Bps)
    try:
        bound.builder(**{**bound.given, "scheduler": _Asking()}, **bound.options)
    except _Asked as asked:
        return asked.model, asked.setting
    raise AssertionError("a paradigm with a scheduler asks it")


@dataclass
class _Asked(Exception):  # noqa: N818 -- no error: it brings an answer
    model: TensorModel
    setting: Setting


class _Asking:
    """A job scheduler that only wants to know what it is asked."""

    def job(self, model: TensorModel, setting: Setting, *_: Any) -> NoReturn:
        raise _Asked(model, setting)
