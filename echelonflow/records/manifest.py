"""Where the results of a run folder came from (manifest.json)."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from echelonflow.codec import Document
from echelonflow.errors import InputError
from echelonflow.model.counting import ALL, Counting
from echelonflow.model.faults import Fault
from echelonflow.model.network import Network
from echelonflow.records.placed_job import PlacedJob
from echelonflow.wire.messages import Decisions

RUNS_NAMED = 10
"""Run folders that are named where somebody names the folder above them; their names begin with a time."""
_MOST_SOUGHT = 10_000


class JobNotes(msgspec.Struct, frozen=True):
    """What a reader of results must know of a job: its scale in both clocks, and warnings."""

    job: str
    facts: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    imported: tuple[str, ...] = ()
    """Of a job from other people's files: what was read, dropped and assumed, and the account, as lines of text."""
    dropped: tuple[str, ...] = ()
    """What of that is not in the job."""


class TraceFacts(msgspec.Struct, frozen=True):
    """The trace of Coflows that was simulated."""

    file: str
    coflows: int
    flows: int


class Resumption(msgspec.Struct, frozen=True):
    """That `echelon run --resume` went on with an experiment, and by which revision of the code."""

    started: str
    git: str | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """`experiment` is the experiment file as read; `git` the code's revision, "+changes" where the tree differed."""

    name: str
    title: str = ""
    backend: Literal["emulation", "fluid"]
    started: str | None = None
    experiment_file: str | None = None
    experiment: dict[str, Any] | None = None
    experiment_folder: str | None = None
    """Where the experiment file lay: names of files in it are relative to that."""
    policies: tuple[str, ...]
    stretch: float = 1.0
    """How many times as long as the experiment file says everything took."""
    against: str | None = None
    """The policy that others are compared with; None for the first."""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    """What each policy is called in names of folders and files."""
    repeats: int
    attempts: dict[str, int] = msgspec.field(default_factory=dict)
    """Runs that a policy was given, where they are more than `repeats`: some did not count, and others were made."""
    seed: int = 0
    time_unit_s: float | None = None
    jobs: tuple[PlacedJob, ...] = ()
    trace: TraceFacts | None = None
    notes: tuple[JobNotes, ...] = ()
    faults: tuple[Fault, ...] = ()
    """Planned to happen in every run."""
    network: Network | None = None
    link_capacity_Bps: dict[str, float] = msgspec.field(default_factory=dict)
    counting: Counting = ALL
    """Which iterations count; all of them in folders from before there was a choice."""
    limits: dict[str, float] = msgspec.field(default_factory=dict)
    congestion_control: str | None = None
    framework: str | None = None
    decisions: Decisions | None = None
    """Whether flows wait for a decision at their release ("wait"), or one may be made before ("ahead").

    None in simulations, and in folders from before there was a choice, where they waited."""
    git: str | None = None
    resumed: tuple[Resumption, ...] = ()
    versions: dict[str, str] = msgspec.field(default_factory=dict)
    machine: dict[str, Any] = msgspec.field(default_factory=dict)
    sealed: bool = False
    """Whether a seal (seal.json) belongs to it: folders from before there were seals have none."""

    def runs_simulated(self) -> int:
        """How many simulations of each policy differ: as many as repeats where anything is drawn, and one elsewhere."""
        return self.repeats if any(job.draws is not None for job in self.jobs) else 1

    def runs_given(self) -> dict[str, int]:
        """How many runs each policy was given, those that do not count included; they are numbered from 0."""
        return {policy: max(self.repeats, self.attempts.get(policy, 0)) for policy in self.policies}


def write_manifest(path: Path, manifest: Manifest) -> None:
    """Write manifest.json."""
    _DOCUMENT.write(path, manifest)


def read_manifest(path: Path) -> Manifest:
    """Read manifest.json (InputError, naming it, where it is missing or malformed).

    Where it is missing because the folder is one of run folders, the error names those.
    """
    try:
        return _DOCUMENT.read(path)
    except InputError as error:
        below = sorted(_runs_below(path.parent))
        if path.exists() or not below:
            raise
        newest = below[-RUNS_NAMED:]
        more = f", and {len(below) - len(newest)} more" if len(below) > len(newest) else ""
        raise InputError(f"{path.parent} is no run folder, but holds some: {', '.join(newest)}{more}") from error


def _runs_below(folder: Path) -> Iterator[str]:
    """Paths, from `folder`, of the run folders in it and in the folders in it."""
    with contextlib.suppress(OSError):
        for depth in ("*", "*/*"):
            for found in itertools.islice(folder.glob(f"{depth}/manifest.json"), _MOST_SOUGHT):
                yield found.parent.relative_to(folder).as_posix()


_DOCUMENT = Document("echelon-manifest", 1, Manifest, {0: lambda data, _: data})
