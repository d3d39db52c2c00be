"""What a tuning leaves on disk: what was asked (tuning.json) and what came of every sample (history.jsonl).

The history is written anew with every sample, whole or not at all: a tuner that is killed loses the sample under way, and no
other. Whoever goes on there reads both.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from echelon.tuning.space import Point, Space
from echelonflow.codec import Document, Log, builtins
from echelonflow.errors import InputError
from echelonflow.files import write_whole

Backend = Literal["fluid", "emulation"]
Role = Literal["warm-up", "default", "off", "sample", "check-default", "check-best"]
Settings = Mapping[str, Point | None]
"""By job, what is in force instead of what the file says: options, or None where the job scheduler is left off."""


class Asked(msgspec.Struct, frozen=True):
    """What is tuned, and how."""

    experiment_file: str
    experiment_folder: str
    experiment: dict[str, Any]
    """The experiment as its file says it, with what the command line replaced."""
    policy: str
    """The network policy under which is tuned."""
    targets: tuple[tuple[str, ...], ...]
    """The jobs that are tuned: those of one target get the same options; targets are tuned one after the other."""
    method: str
    samples: int
    """Points to try for each target, beside the options that the file has."""
    seed: int
    space: Space
    backend: Backend
    repeats: int
    """Runs of every point."""
    revision: str | None = None

    @property
    def path(self) -> Path:
        """The experiment file."""
        return Path(self.experiment_folder) / self.experiment_file


class Sample(msgspec.Struct, frozen=True):
    """What came of one setting."""

    target: int
    """Place in `Asked.targets`."""
    role: Role
    number: int
    """Among those of its target and role, from 0."""
    point: Point | None
    """What the target's jobs were given; None for the options that the file has, and with the role "off"."""
    settings: dict[str, Point | None]
    """By job, all that was in force beside the file's options (see `Settings`): what was found for other targets is."""
    value_s: float | None
    """Mean iteration time of the target's jobs: over jobs, of the median over runs. None where there is no valid run."""
    runs_s: dict[str, tuple[float, ...]]
    """By job, the mean iteration time in every valid run."""
    why: str | None = None
    """Why there is no value."""
    took_s: float = 0.0
    """How long it took to find out."""
    unexplained: float | None = None
    """The part of iteration time that none of the measured causes explains, as a share: the largest of any job, the mean over
    its runs. None in simulations."""


_ASKED = Document("echelon-tuning", 1, Asked)
_SAMPLES: Log[Sample] = Log("echelon-tuning-history", 1, Sample)
_SAME = ("experiment", "policy", "targets", "method", "seed", "space", "backend", "repeats")
"""What has to be the same for a tuning to go on; there may be more samples."""


class History:
    """The samples in a folder, those of an earlier try among them."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "history.jsonl"
        self.samples: list[Sample] = list(_SAMPLES.read(self._path))

    def add(self, sample: Sample) -> None:
        """Keep a sample (StorageError where it cannot be written)."""
        samples = [*self.samples, sample]
        write_whole(self._path, _SAMPLES.header + b"".join(map(_SAMPLES.line, samples)), durable=True)
        self.samples = samples

    def of(self, target: int, role: Role) -> list[Sample]:
        """The samples of a target and role, in the order in which they were taken."""
        return [sample for sample in self.samples if (sample.target, sample.role) == (target, role)]


def asked_in(folder: Path) -> Asked | None:
    """What was asked of the tuning that was begun in `folder`; None if none was (InputError where it cannot be read)."""
    path = folder / "tuning.json"
    return _ASKED.read(path) if path.exists() else None


def write_asked(folder: Path, asked: Asked) -> None:
    """Note in `folder` what is asked."""
    _ASKED.write(folder / "tuning.json", asked)


def check_same(folder: Path, earlier: Asked, now: Asked) -> None:
    """InputError where the tuning in `folder` was begun with something else; it names what differs."""
    differing = [name for name in _SAME if _plain(getattr(earlier, name)) != _plain(getattr(now, name))]
    if differing:
        raise InputError(
            f"{folder}: holds a tuning of something else ({', '.join(differing)} differ); name another folder with --out, "
            f"or go on with that one: --resume {folder}"
        )


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(builtins(value)))
