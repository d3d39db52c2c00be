"""What happens inside the private world: `python -m echelon.running.emulator DIR`.

Builds the network, starts the controller, calibrates, then replays every run that `assignment.json`
asks for and leaves its raw records in DIR. A run that fails is recorded as such, and the next one is tried. Progress goes
to standard output, one JSON object a line. It is process 1 of its world: when it ends, however it ends, the kernel ends
everything that it started.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import sys
from pathlib import Path

from echelon.running.live_programs import learn
from echelon.running.one_run import carry_out
from echelon.running.standing import Standing, WorldError, standing
from echelonflow.alarm import alarm
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_VALID, EchelonError, RunError
from echelonflow.files import refusal
from echelonflow.model.units import format_size
from echelonflow.records.assignment import AssignedRun, read_assignment
from echelonflow.records.calibration import read_calibration, write_calibration
from echelonflow.records.folder import RunFolder
from echelonflow.records.progress import (
    Broke,
    Building,
    Calibrating,
    Done,
    Failed,
    Interrupted,
    IterationBegun,
    Learning,
    Progress,
    RunFailed,
    Running,
    Warned,
    progress_line,
)
from testbed import world
from testbed.calibrator import MORE_STOLEN_SHARE, Calibrator

log = logging.getLogger("emulator")

MOST_IN_A_ROW = 3
"""So many runs may fail one after the other, and the experiment ends: what fails them will fail the next one, too."""


BUILD_LIMIT_S = 60.0
"""For the network and its controller to come up, and `BUILD_NODE_S` more for each host and switch."""
BUILD_NODE_S = 0.5


def say(report: Progress) -> None:
    """One line of progress for whoever started us."""
    sys.stdout.buffer.write(progress_line(report))
    sys.stdout.buffer.flush()


def _calibrator(parts: Standing) -> Calibrator:
    """What keeps the links true; every attempt goes to calibration.json, and what is wrong to whoever started us."""
    assignment, path = parts.assignment, parts.folder.calibration
    earlier = read_calibration(path)
    return Calibrator(
        parts.net,
        assignment.max_link_error,
        runs_s=sum(run.expected_s for run in assignment.runs),
        tell=lambda words: say(Warned(words)),
        save=lambda calibration: write_calibration(path, calibration),
        earlier=() if earlier is None else earlier.attempts,
    )


def carry_out_all(parts: Standing, calibrator: Calibrator) -> None:
    """All runs, on links that are measured before the first of them and whenever there is reason to.

    Raises WorldError where no further run is possible in this world, RunError where too many failed one after the other.
    """
    assignment = parts.assignment
    if assignment.calibrate:
        say(Calibrating(parts.ovs.datapath, parts.ovs.tso))
        calibrator.begin(assignment.runs[0].run_index if assignment.runs else 0)
    in_a_row, told_share = 0, 0.0
    for number, run in enumerate(assignment.runs):
        _require_space(parts.folder.root, assignment.run_bytes)
        calibrator.before_run(run.run_index)
        of = assignment.before + len(assignment.runs)
        say(Running(assignment.before + number, of, run.policy, run.repeat, run.expected_s))
        failure, stolen_share = _try(parts, run)
        if failure is None:
            in_a_row = 0
            if stolen_share > told_share + MORE_STOLEN_SHARE:
                told_share = stolen_share
                say(
                    Warned(
                        f"the host took {stolen_share:.0%} of the processors away in the last run; its effect is judged"
                    )
                )
            calibrator.after_run(run.run_index, stolen_share)
            continue
        in_a_row += 1
        if in_a_row == MOST_IN_A_ROW:
            raise RunError(f"{MOST_IN_A_ROW} runs in a row failed; the last: {failure}")


def _try(parts: Standing, run: AssignedRun) -> tuple[str | None, float]:
    """Carry out a run; returns None or why it failed, and the share of the processors that was taken away meanwhile."""
    try:
        return None, carry_out(parts, run, lambda iteration: say(IterationBegun(iteration)), say)
    except WorldError as error:
        say(RunFailed(run.policy, run.repeat, str(error)))
        raise
    except EchelonError as error:
        reason = str(error)
    except Exception as error:  # a fault of ours in one run is no reason to lose the others
        log.exception("the emulator failed")
        reason = f"the emulator failed: {type(error).__name__}: {error}; see logs/emulator.log"
    say(RunFailed(run.policy, run.repeat, reason))
    return reason, 0.0


def _require_space(root: Path, needed_bytes: int) -> None:
    """Raise RunError where a run's captures and logs would not fit on the disk any more."""
    free_bytes = shutil.disk_usage(root).free
    if free_bytes < needed_bytes:
        raise RunError(
            f"{root}: {format_size(free_bytes)} are free, and a run takes up to {format_size(needed_bytes)}; "
            "free some space there"
        )


def _emulate(folder: RunFolder) -> Progress:
    """All that the assignment asks for; returns how it ended."""
    built = False
    try:
        world.enter()
        assignment = read_assignment(folder.assignment)
        hosts, switches = len(assignment.network.hosts), len(assignment.network.switches)
        say(Building(hosts, switches))
        limit_s = BUILD_LIMIT_S + BUILD_NODE_S * (hosts + switches)
        with contextlib.ExitStack() as stack:
            # Mininet would wait for ever for a shell that was killed.
            with alarm(limit_s, RunError(f"the network was not there after {limit_s:.0f} s; see logs/")):
                parts = stack.enter_context(standing(folder, assignment))
            built = True
            if assignment.lesson:
                say(Learning(len(assignment.programs)))
                learn(parts)
            else:
                carry_out_all(parts, _calibrator(parts))
    except WorldError as error:
        return Broke(str(error)) if built else Failed(str(error))
    except EchelonError as error:
        return Failed(str(error))
    except OSError as error:
        return Failed(refusal(error))
    except Exception as error:
        log.exception("the emulator failed")
        return Failed(f"the emulator failed: {type(error).__name__}: {error}; see logs/emulator.log")
    except KeyboardInterrupt:
        return Interrupted()
    return Done()


def _interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(argv: list[str]) -> int:
    """Carry out DIR/assignment.json; returns an exit code."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    ended = _emulate(RunFolder(Path(argv[0]).resolve()))
    say(ended)
    if isinstance(ended, Interrupted):
        return EXIT_INTERRUPTED
    return EXIT_VALID if isinstance(ended, Done) else EXIT_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
