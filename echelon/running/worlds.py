"""Carries out an assignment in private worlds: one, or as many as it takes where parts of them die."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import subprocess
from collections.abc import Sequence

import msgspec

from echelonflow.child_process import module_argv
from echelonflow.errors import StorageError
from echelonflow.files import refusal
from echelonflow.records.assignment import AssignedRun, Assignment, write_assignment
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import INTERRUPTED, RunOutcome, read_outcome, write_outcome
from echelonflow.records.progress import (
    Broke,
    Done,
    Failed,
    Interrupted,
    Progress,
    Report,
    RunFailed,
    Running,
    parse_progress,
)

MOST_IN_A_ROW = 3
"""So many worlds may break one after the other without a run that was finished, and the experiment ends."""
_END_LIMIT_S = 10.0


def emulate(assignment: Assignment, folder: RunFolder, report: Report) -> str | None:
    """Carry out all runs of `assignment`; returns None, or why the experiment ended before its end.

    A run that fails has its reason in its run.json. Where a world breaks, the run under way is one of those, and what is
    left goes on in a fresh world. Whoever calls holds `world.machine_lock`.
    """
    left, barren = assignment, 0
    while True:
        ended = in_world(left, folder, report)
        untried = tuple(run for run in left.runs if not folder.run(run.label).outcome.exists())
        if isinstance(ended, Done):
            return None
        if isinstance(ended, Interrupted):
            return INTERRUPTED
        if isinstance(ended, Failed):
            return ended.reason
        if not untried:
            return None
        barren = 0 if _any_finished(left.runs, folder) else barren + 1
        if barren == MOST_IN_A_ROW:
            return f"{barren} emulated networks in a row broke before a run was finished; the last: {ended.reason}"
        left = msgspec.structs.replace(left, runs=untried, before=left.before + len(left.runs) - len(untried))


def _any_finished(runs: Sequence[AssignedRun], folder: RunFolder) -> bool:
    tried = (folder.run(run.label).outcome for run in runs)
    return any(read_outcome(path).completed for path in tried if path.exists())


@dataclasses.dataclass
class _Said:
    """What a world has said so far."""

    last: Done | Interrupted | Failed | Broke | None = None
    running: Running | None = None

    def hear(self, progress: Progress) -> None:
        if isinstance(progress, Running):
            self.running = progress
        elif isinstance(progress, Done | Interrupted | Failed | Broke):
            self.last = progress


def in_world(assignment: Assignment, folder: RunFolder, report: Report) -> Done | Interrupted | Failed | Broke:
    """Carry out `assignment` in one world, as far as it goes; returns how that ended.

    Broke where the world ended without a word. Interrupts end it, and keep what there is.
    """
    from testbed import world
    from testbed.openvswitch import RUN_DIR

    said = _Said()
    write_assignment(folder.assignment, assignment)
    try:
        emulator = world.spawn(module_argv("echelon.running.emulator", str(folder.root)), folder.logs / "emulator.log")
    except OSError as error:
        failed = Failed(f"the emulation could not be started: {refusal(error)}")
        report(failed)
        return failed
    try:
        assert emulator.stdout is not None
        for line in emulator.stdout:
            progress = parse_progress(line)
            if progress is not None:
                said.hear(progress)
                report(progress)
    except KeyboardInterrupt:
        said.last = Interrupted()
        report(said.last)
    finally:
        _end(emulator)
        for path in (folder.control_socket, folder.rest_socket, folder.tokens):
            path.unlink(missing_ok=True)  # of a world whose own parts could no longer remove them
        with contextlib.suppress(OSError):
            (folder.root / RUN_DIR).rmdir()
    ended = said.last
    if ended is None:
        ended = Broke(f"the emulation ended without saying why (exit {emulator.returncode}); see logs/emulator.log")
        report(ended)
    with contextlib.suppress(StorageError, OSError):  # a full disk has been reported by what ended the world
        _record_the_run_under_way(said.running, assignment, folder, ended, report)
    return ended


def _record_the_run_under_way(
    running: Running | None, assignment: Assignment, folder: RunFolder, ended: Progress, report: Report
) -> None:
    """Say in its run.json why a run ended, where the emulator no longer could."""
    if running is None or isinstance(ended, Done):
        return
    run = next(run for run in assignment.runs if (run.policy, run.repeat) == (running.policy, running.repeat))
    path = folder.run(run.label).outcome
    if path.exists():
        return
    reason = INTERRUPTED if isinstance(ended, Interrupted) else getattr(ended, "reason", "")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_outcome(
        path,
        RunOutcome(
            policy=run.policy,
            repeat=run.repeat,
            run_index=run.run_index,
            label=run.label,
            enforcer=run.enforcer,
            failure=reason,
        ),
    )
    report(RunFailed(run.policy, run.repeat, reason))


def _end(emulator: subprocess.Popen[bytes]) -> None:
    """End the world: ask, wait for it to write its records, then let the kernel end all of it; a second Ctrl-C at once."""
    with contextlib.suppress(KeyboardInterrupt, subprocess.TimeoutExpired):
        if emulator.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                emulator.send_signal(signal.SIGINT)
        emulator.wait(_END_LIMIT_S)
    if emulator.poll() is None:
        emulator.kill()
        emulator.wait()
    for pipe in (emulator.stdin, emulator.stdout):
        if pipe is not None:
            pipe.close()
