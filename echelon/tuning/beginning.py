"""From what a user asks for to a tuning that can be carried out: all of it is checked before anything is tried."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from echelon.experiment.schema import Experiment
from echelon.running.manifest import git_revision
from echelon.tuning import methods
from echelon.tuning.history import Asked, Backend, asked_in, check_same, write_asked
from echelon.tuning.space import parse_space
from echelon.tuning.trials import experiment_with
from echelon.tuning.tunable import tunable, usual_space
from echelonflow.errors import InputError
from echelonflow.files import PART
from echelonflow.spelling import unknown


@dataclass(frozen=True)
class Wishes:
    """What the command line says beside the experiment."""

    jobs: Sequence[str] = ()
    """The jobs to tune; all that can be where none is named."""
    each: bool = False
    """Whether every job gets options of its own."""
    policy: str | None = None
    method: str = "gp"
    samples: int = 15
    seed: int = 0
    space: Sequence[str] = ()
    backend: Backend = "fluid"
    repeats: int = 3
    """Runs of a point, where they are emulated."""


def asked(experiment: Experiment, wishes: Wishes) -> Asked:
    """What is to be tuned, and how. InputError, which names what would do, where it cannot be."""
    jobs = _jobs(experiment, wishes.jobs)
    for name in jobs:
        job = next(job for job in experiment.jobs if job.name == name)
        if job.iterations < 2:
            raise InputError(
                f"{experiment.path}: job {name} has one iteration, and the first of a job does not count (nothing is on the "
                "way when it begins); write `iterations: 4`"
            )
    space = parse_space(wishes.space, lambda: usual_space(experiment, jobs))
    methods.begin(wishes.method, space, samples=wishes.samples, seed=wishes.seed)
    found = Asked(
        experiment_file=experiment.path.name,
        experiment_folder=str(experiment.path.parent.absolute()),
        experiment=experiment.source,
        policy=_policy(experiment, wishes.policy),
        targets=tuple((job,) for job in jobs) if wishes.each else (tuple(jobs),),
        method=wishes.method,
        samples=wishes.samples,
        seed=wishes.seed,
        space=space,
        backend=wishes.backend,
        repeats=1 if wishes.backend == "fluid" else wishes.repeats,
        revision=git_revision(),
    )
    _check_corners(found)
    return found


def _check_corners(found: Asked) -> None:
    """InputError unless the experiment can be made with the smallest and the largest options."""
    for across, up in ((0.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
        point = found.space.point(across, up)
        try:
            experiment_with(found, {job: point for jobs in found.targets for job in jobs})
        except InputError as error:
            raise InputError(f"--space: {point} does not fit: {error}") from None


def _jobs(experiment: Experiment, named: Sequence[str]) -> list[str]:
    able = tunable(experiment)
    for name in named:
        if name not in able:
            raise InputError(f"--job: {name!r} is no job that can be tuned{unknown(name, able)}")
    return [name for name in able if not named or name in named]


def _policy(experiment: Experiment, named: str | None) -> str:
    """The policy under which is tuned: checked with the experiment where it was named."""
    return named or experiment.policies[0]


def opened(folder: Path, now: Asked) -> Asked:
    """Begin in `folder`, or go on there: what is asked, noted in it.

    Raises InputError where it holds something else than this tuning.
    """
    earlier = asked_in(folder)
    if earlier is None:
        if any(not path.match(f".*{PART}") for path in folder.iterdir()):
            raise InputError(f"{folder} exists and holds something else than a tuning; name another folder with --out")
    else:
        check_same(folder, earlier, now)
    if earlier is None or now.samples > earlier.samples:
        write_asked(folder, now)
        return now
    return msgspec.structs.replace(earlier, samples=now.samples)


def resumed(folder: Path, samples: int | None) -> Asked:
    """What was asked of the tuning in `folder`, perhaps with more samples (InputError where there is none)."""
    earlier = asked_in(folder)
    if earlier is None:
        raise InputError(f"{folder}: no tuning was begun there (it has no tuning.json); begin it without --resume")
    return earlier if samples is None else msgspec.structs.replace(earlier, samples=samples)
