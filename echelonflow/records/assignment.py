"""What the emulator has to do, from the runner outside to the emulator inside the private world (assignment.json)."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import msgspec

from echelonflow.codec import Document
from echelonflow.model.faults import Fault
from echelonflow.model.network import Network
from echelonflow.records.folder import policy_labels, run_label
from echelonflow.records.phases import Phase
from echelonflow.records.placed_job import PlacedJob
from echelonflow.wire.messages import Decisions


class AssignedRun(msgspec.Struct, frozen=True):
    """One run of one policy; `label` is its name in the folder, `expected_s` its length by fluid simulation."""

    run_index: int
    policy: str
    label: str
    repeat: int
    enforcer: str
    expected_s: float


class LiveProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A training program that runs in the place of a replay: rank i of program `job` on `placement[i]`.

    `phases` say which of its iterations are those of which job. Where computation is `profiled`, it takes what the jobs say; elsewhere it is
    measured, and takes what each run's log says.
    """

    job: str
    program: str
    arguments: tuple[str, ...]
    placement: tuple[str, ...]
    phases: tuple[Phase, ...] = ()
    """In order; none while it is to be learned, and none was written before a program could have several."""
    profiled: bool = False
    scheduler: str | None = None
    """The job scheduler that puts in order what it sends."""

    @property
    def jobs(self) -> tuple[str, ...]:
        """The jobs that it is, in order."""
        return tuple(phase.job for phase in self.phases) or (self.job,)

    @property
    def pauses(self) -> bool:
        """Whether it makes iterations between its phases, in which nobody schedules what it sends."""
        return any(one.end < other.first for one, other in itertools.pairwise(self.phases))


class Assignment(msgspec.Struct, frozen=True, kw_only=True):
    """The runs, to be carried out in this order, and how the network is realised for all of them.

    `before` other runs of the experiment are done. A run is not begun where less than `run_bytes` are free on the disk.
    """

    network: Network
    jobs: tuple[PlacedJob, ...] = ()
    runs: tuple[AssignedRun, ...] = ()
    before: int = 0
    run_bytes: int = 0
    faults: tuple[Fault, ...] = ()
    calibrate: bool = True
    datapath: str = "auto"
    tso: bool | None = None
    congestion_control: str = "cubic"
    framework: str = "ryu"
    progress_interval_s: float = 0.05
    max_link_error: float = 1.0
    decisions: Decisions = "wait"
    """As `Begin` says; assignments from before there were any ahead lack it."""
    confirm_rules: bool = False
    """Whether switches confirm every change of rules, for rules.jsonl."""
    programs: tuple[LiveProgram, ...] = ()
    """Jobs that are not replayed, but run."""
    lesson: bool = False
    """Whether programs run once and for nothing but to be seen, in the place of all runs."""
    watched: bool = False
    """Whether links are read while runs go on, for who watches."""


def write_assignment(path: Path, assignment: Assignment) -> None:
    """Write assignment.json."""
    _DOCUMENT.write(path, assignment)


def read_assignment(path: Path) -> Assignment:
    """Read assignment.json (InputError, naming it, where it is missing or malformed)."""
    return _DOCUMENT.read(path)


def _with_labels(data: Any, _: Path) -> Any:
    """Version 1 had no labels: they were made of a policy's text then as they are now of texts that do not clash."""
    labels = policy_labels(list(dict.fromkeys(run["policy"] for run in data["runs"])))
    runs = [{**run, "label": run_label(labels[run["policy"]], run["repeat"])} for run in data["runs"]]
    return {**data, "runs": runs}


_DOCUMENT = Document("echelon-assignment", 2, Assignment, {1: _with_labels})
