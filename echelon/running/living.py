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
from echelonflow.records.certainty import write_certainty
from echelonflow.records.experiment_file import experiment_text
from echelonflow.records.folder import LESSON, RunFolder
from echelonflow.records.progress import Done, Interrupted, Report
from traffic.workloads.formats import live as observed_job

LIVE, REPLAYED = "live", "replayed"
"""Folders in that of the experiment, beside LESSON: the runs of the programs, and those of replays."""
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
        return frozenset(each.job for each in self.programs if not each.profiled)


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
    wanted = tuple(_live_program(each, warm_up=0) for each in programs)
    with world.machine_lock():
        ended = worlds.in_world(
            Assignment(network=network, calibrate=False, programs=wanted, lesson=True), folder, report
        )
    if isinstance(ended, Interrupted):
        raise KeyboardInterrupt
    if not isinstance(ended, Done):
        raise RunError(ended.reason)
    warm_up, iterations, words = {}, {}, []
    for each in programs:
        found = observed_job.certainty(sorted(folder.learned(each.name).glob("rank*.json")))
        # One at least: what a program loads and allocates at first use is in its first iteration.
        warm_up[each.name] = max(found.first_alike, 1)
        iterations[each.name] = found.iterations - warm_up[each.name]
        write_certainty(folder.certainty(each.name), found)
        words.append(f"learned {each.name}: {found}")
        if each.profiled is None:
            words.append(f"{each.name}: {MEASURED_WORDS}")
    data = learned_data(
        with_absolute_files(data, path.parent),
        programs,
        {each.name: folder.learned(each.name) for each in programs},
        iterations,
    )
    replay = root / REPLAY_FILE
    write_whole(replay, experiment_text(data, f"echelon run {REPLAY_FILE}").encode())
    experiment = schema.load(replay)
    return Lesson(experiment, tuple(_live_program(each, warm_up[each.name]) for each in programs), tuple(words))


def train_with_gloo(lesson: Lesson, root: Path, say: Callable[[str], None]) -> None:
    """Let each program of a lesson train once without us, for losses that those of its runs are compared with (RunError)."""
    from testbed import world

    folder = RunFolder(root / LIVE)
    with world.machine_lock():
        for each in lesson.programs:
            say(f"training {each.job} with Gloo, unscheduled, for its losses")
            gloo.train(each.program, each.arguments, len(each.placement), folder.with_gloo(each.job))


def _live_program(program: Program, warm_up: int) -> LiveProgram:
    return LiveProgram(
        job=program.name,
        program=str(program.path),
        arguments=program.arguments,
        placement=program.placement,
        warm_up=warm_up,
        profiled=program.profiled is not None,
        scheduler=program.scheduler,
    )


def _require_torch() -> None:
    import importlib.util

    if importlib.util.find_spec("torch") is None:
        raise InputError(
            "training programs need PyTorch, which is not installed here; install it by: scripts/setup.sh --live"
        )
