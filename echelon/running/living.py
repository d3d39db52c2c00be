"""An experiment whose jobs are training programs: they are seen once, and then run under every policy.

What was seen becomes jobs (`traffic.workloads.formats.live`). With these the experiment is one like any other: it is predicted,
declared, captured and judged as replays are, and it can be replayed and simulated.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from echelon.experiment import schema, yaml_file
from echelon.experiment.fault_lines import refusal
from echelon.experiment.programs import Program, learned_data, programs_of
from echelon.experiment.rerun import with_absolute_files
from echelon.experiment.schema import Experiment
from echelon.running import gloo, place, worlds
from echelonflow.errors import InputError, RunError
from echelonflow.files import write_whole
from echelonflow.records.assignment import Assignment, LiveProgram
from echelonflow.records.certainty import Certainty, write_certainty
from echelonflow.records.experiment_file import experiment_text
from echelonflow.records.folder import LESSON, RunFolder
from echelonflow.records.phases import Phase, phase_job
from echelonflow.records.progress import Done, Interrupted, Report
from traffic.workloads.formats import live as observed_job

LIVE, REPLAYED = "live", "replayed"
"""Folders in that of the experiment, beside LESSON: the runs of the programs, and those of replays."""
STEADY_WORD = "steady"
"""Of `window:` in an experiment file."""
REPLAY_FILE = "replay.yaml"
"""The experiment with what was learned in the place of programs, which `echelon run` takes."""
MEASURED_WORDS = "computation is measured: it is predicted by the medians of the lesson, and each run is explained by what computations took in it"


@dataclass(frozen=True)
class Lesson:
    """What was learned of an experiment's programs."""

    experiment: Experiment
    """Such as `echelon run` takes it."""
    programs: tuple[LiveProgram, ...]
    words: tuple[str, ...]
    """How certain that is, program by program, and whose computation will be measured."""

    @property
    def performed(self) -> Experiment:
        """The same for runs of the programs: its notes say whose computation is measured in them."""
        notes = (
            msgspec.structs.replace(each, facts=(*each.facts, MEASURED_WORDS)) if each.job in self.measured else each
            for each in self.experiment.notes
        )
        return dataclasses.replace(self.experiment, notes=tuple(notes))

    @property
    def measured(self) -> frozenset[str]:
        """The jobs whose computation takes what it takes here."""
        return frozenset(job for each in self.programs if not each.profiled for job in each.jobs)


def learn(path: Path, override: Mapping[str, Any], root: Path, report: Report) -> Lesson:
    """Run the programs of the experiment file at `path` once, in the new folder `root`, and make of them what can be scheduled.

    `override` replaces top-level keys. Raises InputError for a file that has no programs, or that cannot be run, and RunError naming the
    log where a program fails.
    """
    from testbed import preflight, world

    file = yaml_file.read(path)
    if file.faults:
        raise refusal(path, file.faults, file.line_of)
    data = {**file.data, **override}
    network, programs = programs_of(data, path, file.line_of)
    schema.check_beside_jobs(data, path, file.line_of)
    _require_torch()
    preflight.require()
    if root.exists() and any(root.iterdir()):
        raise InputError(f"{root} exists and is not empty; name another folder with --out")
    folder = RunFolder((root / LESSON).resolve())
    place.make_parts(folder)
    wanted = tuple(map(_live_program, programs))
    with world.machine_lock():
        ended = worlds.in_world(
            Assignment(network=network, calibrate=False, programs=wanted, lesson=True), folder, report
        )
    if isinstance(ended, Interrupted):
        raise KeyboardInterrupt
    if not isinstance(ended, Done):
        raise RunError(ended.reason)
    phases: dict[str, tuple[Phase, ...]] = {}
    words: list[str] = []
    for each in programs:
        phases[each.name], found = _phases(each, folder, is_steady=data.get("window") == STEADY_WORD)
        write_certainty(folder.certainty(each.name), found)
        words.append(f"learned {each.name}: {found}")
        if each.profiled is None:
            words.append(f"{each.name}: {MEASURED_WORDS}")
    data = learned_data(
        with_absolute_files(data, path.parent),
        programs,
        {each.name: folder.learned(each.name) for each in programs},
        phases,
    )
    replay = root / REPLAY_FILE
    write_whole(replay, experiment_text(data, f"echelon run {REPLAY_FILE}").encode())
    experiment = schema.load(replay)
    return Lesson(experiment, tuple(_live_program(each, phases[each.name]) for each in programs), tuple(words))


def train_with_gloo(lesson: Lesson, root: Path, say: Callable[[str], None]) -> None:
    """Let each program of a lesson train once without us, for losses that those of its runs are compared with (RunError)."""
    from testbed import world

    folder = RunFolder(root / LIVE)
    with world.machine_lock():
        for each in lesson.programs:
            say(f"training {each.job} with Gloo, unscheduled, for its losses")
            gloo.train(each.program, each.arguments, len(each.placement), folder.with_gloo(each.job))


def _phases(program: Program, folder: RunFolder, *, is_steady: bool) -> tuple[tuple[Phase, ...], Certainty]:
    """The phases of a program that count, and how certain they are.

    Where only a steady state counts, it is that of the last phase. So it is where a job scheduler has the program's units cross from one
    iteration to the next: there, no moment parts one phase from another.
    """
    files = sorted(folder.learned(program.name).glob("rank*.json"))
    found = observed_job.phases(files)
    if is_steady or program.scheduler is not None:
        found = found[-1:]
    jobs = [phase_job(program.name, number) for number in range(len(found))]
    # One warms up at least: what a program loads and allocates at first use is in its first iteration.
    begins = [max(each.first, 1) for each in found]
    phases = tuple(Phase(job, first, each.end - first) for job, first, each in zip(jobs, begins, found, strict=True))
    return phases, observed_job.certainty(files, jobs if len(jobs) > 1 else ())


def _live_program(program: Program, phases: tuple[Phase, ...] = ()) -> LiveProgram:
    return LiveProgram(
        job=program.name,
        program=str(program.path),
        arguments=program.arguments,
        placement=program.placement,
        phases=phases,
        profiled=program.profiled is not None,
        scheduler=program.scheduler,
    )


def _require_torch() -> None:
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise InputError(
            "training programs need PyTorch, which is not installed here; install it by: scripts/setup.sh --live"
        )
