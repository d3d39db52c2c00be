"""The verdict on trial: every fault that is injected makes its runs invalid, by a reason of its kind, and clean runs are valid.

Most faults are injected from outside while runs go on: busy loops, a slow link, marks that are stripped, captures that
lose packets, acknowledgements without a mark. The others are forged into the records of clean runs: clocks that are set,
packets that are missing. Most must be caught in any case. Busy loops must be caught in every run that they moved. That is
one whose iteration time is over 2 % off that of clean runs in the median, or its exposed communication over 3 %.
A clean run that nothing moved so far must be valid. Beside `--out` the run folders are kept in verdict-runs/, and a part
that was measured is not run again. `--only 'slow-*'` measures some parts; `clean` is one of them.
"""

from __future__ import annotations

import contextlib
import functools
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType
from typing import Any

from echelon.benchmarks import Figure, Say, _forgery, _sabotage
from echelon.benchmarks._emulated import carry_out
from echelon.benchmarks._kept_runs import measured
from echelon.cases.damage import copy_raw
from echelon.experiment.schema import Experiment, check
from echelonflow.errors import InputError
from echelonflow.records.folder import RunFolder
from echelonflow.records.seal import write_seal
from results.analysis.summary import RunResult, Summary, read_summary
from results.folder import analyse
from testbed import preflight

CLEAN = "clean"
CLEAN_RUNS = 4
"""For each repeat: the 5 repeats of `echelon bench` make 20."""
MOST_ITERATION, MOST_EXPOSED = 0.02, 0.03
"""Shares by which a run's iteration time and exposed communication may be moved and the run be valid all the same."""
CLEAN_POLICIES = ("echelonflow", "fair")
POLICY = CLEAN_POLICIES[0]
HIGHEST_NICENESS = -20
"""Of loops that nothing on the machine goes before."""
SLOW = ("s1", "h2")
"""The link that is made slow: both jobs send over it, so that marks decide there which goes first."""
NETWORK = {"topology": "single-switch", "hosts": 4, "rate": "40 Mbit/s"}
JOBS = (
    {
        "name": "job", "paradigm": "pipeline-1f1b", "stages": 3, "micro_batches": 3, "forward": "150 ms",
        "backward": "150 ms", "activation": "200 ms of link", "iterations": 2, "placement": ["h1", "h2", "h3"],
    },
    {
        "name": "rival", "paradigm": "data-parallel", "ranks": 2, "layers": 2, "forward": "300 ms", "backward": "300 ms",
        "parameter": "600 ms of link", "iterations": 2, "placement": ["h4", "h2"],
    },
)  # fmt: skip
"""Links carry both directions at once, and without marks iterations of the first job take a fifth longer.

Few flows wait at a time. Where many starve for seconds, what they send twice is 3 % of all bytes, which nothing explains.
"""

_LOAD = ("busy", "late ", "late:", "processors")
_LINK = ("link",)
_MARK = ("mark", "class")
_CAPTURE = ("captur", "packet", "bytes")
_MOVED, _UNEXPLAINED = "the machine moved iterations", "that the measured causes explain"
"""How reasons by effect begin, and what others of them say."""
_CLOCK = ("clock", "apart by log", "contradict", "before it was released", "before they had left")


@dataclass(frozen=True)
class Fault:
    """One kind of fault, and what a reason that fits it speaks of."""

    words: tuple[str, ...]
    make: Callable[[], _sabotage.Saboteur] | None = None
    """Who injects it while runs go on; None where it is forged into the records of clean runs."""
    forge: _forgery.Forge | None = None
    always: bool = True
    """Whether it must be caught in any case; else only in runs that it moved."""


FAULTS: Mapping[str, Fault] = MappingProxyType(
    {
        "busy-loop": Fault(_LOAD, lambda: _sabotage.BusyLoops(1, 0), always=False),
        "busy-loops": Fault(_LOAD, lambda: _sabotage.BusyLoops(0, HIGHEST_NICENESS), always=False),
        "little-stolen": Fault(_LOAD, lambda: _sabotage.Thieves(0.01, 0.09), always=False),
        "much-stolen": Fault(_LOAD, lambda: _sabotage.Thieves(0.08, 0.08), always=False),
        "slow-link-before": Fault(_LINK, lambda: _sabotage.SlowLink(SLOW, before_calibration=True)),
        "slow-link-after": Fault(_LINK, lambda: _sabotage.SlowLink(SLOW, before_calibration=False)),
        "marks-stripped": Fault(_MARK, lambda: _sabotage.MarksStripped(mid_run=False)),
        "marks-stripped-later": Fault(_MARK, lambda: _sabotage.MarksStripped(mid_run=True)),
        "acks-unmarked": Fault((*_MARK, "acknowledg"), _sabotage.AcknowledgementsUnmarked),
        "captures-dropped": Fault(_CAPTURE, _sabotage.CapturesDropped),
        "clock-of-day-set": Fault(_CLOCK, forge=_forgery.clock_of_day_set),
        "agent-clock-set": Fault(_CLOCK, forge=_forgery.clock_of_an_agent_set),
        "packets-removed": Fault(_CAPTURE, forge=_forgery.packets_removed),
    }
)
"""Every part but the clean runs, by its name."""


def run(repeat: int, say: Say, folder: Path, only: Sequence[str] = ()) -> list[Figure]:
    """Each fault in `repeat` runs (forged ones in all clean runs), and four clean runs for each repeat.

    InputError if `only` fits no part, or where this machine cannot emulate.
    """
    parts = [name for name in (CLEAN, *FAULTS) if not only or any(fnmatch(name, pattern) for pattern in only)]
    if not parts:
        raise InputError(f"--only {' '.join(only)}: there is: {', '.join((CLEAN, *FAULTS))}")
    preflight.require()
    parent = folder / "verdict-runs"
    # Everything is held against clean runs, so that these are made in any case.
    clean = measured(_experiment(CLEAN, repeat), parent, say, _execute(None), _all_ended)
    runs = () if clean is None else read_summary(clean / "summary.json").runs
    judged = {CLEAN: runs} if CLEAN in parts else {}
    for name in (part for part in parts if part != CLEAN):
        if FAULTS[name].make is not None:
            judged[name] = _struck(name, repeat, parent, say)
        elif clean is not None:
            judged[name] = _forged(name, clean, say)
    return figures(judged, Usual.of(runs))


def _experiment(name: str, repeat: int) -> Experiment:
    policies, repeats = (
        (CLEAN_POLICIES, CLEAN_RUNS // len(CLEAN_POLICIES) * repeat) if name == CLEAN else ((POLICY,), repeat)
    )
    data: dict[str, Any] = {
        "name": name, "network": NETWORK, "jobs": list(JOBS), "policies": list(policies), "repeats": repeats,
    }  # fmt: skip
    return check(data, Path(f"{name}.yaml"))


def _all_ended(summary: Summary) -> bool:
    return bool(summary.runs) and all(run.jobs for run in summary.runs)


def _execute(make: Callable[[], _sabotage.Saboteur] | None) -> Callable[[Experiment, Path, Say], tuple[int, Summary]]:
    """Carries out an experiment while a saboteur does its work."""

    def execute(experiment: Experiment, root: Path, say: Say) -> tuple[int, Summary]:
        saboteur = _sabotage.Nobody() if make is None else make()
        world = _sabotage.World(root, experiment.network)
        with contextlib.closing(saboteur):
            hear = functools.partial(saboteur.hear, world=world)
            return carry_out(experiment, root, say, hear, pictures="none")

    return execute


def _struck(name: str, repeat: int, parent: Path, say: Say) -> tuple[RunResult, ...]:
    """Runs in which a fault was injected."""
    root = measured(_experiment(name, repeat), parent, say, _execute(FAULTS[name].make), _all_ended)
    return () if root is None else read_summary(root / "summary.json").runs


def _forged(name: str, clean: Path, say: Say) -> tuple[RunResult, ...]:
    """The clean runs that are valid, with a fault in their records."""
    forge = FAULTS[name].forge
    assert forge is not None
    say(f"{name}: forged into the records of {clean}")
    valid = {run.label for run in read_summary(clean / "summary.json").runs if run.valid}
    with tempfile.TemporaryDirectory(prefix="echelon-forged-") as parent:
        root = Path(parent) / name
        copy_raw(clean, root)
        folder = RunFolder(root)
        for files in folder.runs():
            forge(folder, files)
        folder.seal.unlink(missing_ok=True)
        write_seal(folder)
        summary = analyse(root, pictures="none")
    return tuple(run for run in summary.runs if run.label in valid)


@dataclass(frozen=True)
class Usual:
    """What clean runs take in the median, by policy and job: iteration time and exposed communication, in seconds."""

    times_s: Mapping[tuple[str, str], tuple[float, float]]

    @staticmethod
    def of(clean: Sequence[RunResult]) -> Usual:
        found: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
        for run in clean:
            for name, job in run.jobs.items():
                found[run.policy, name].append((job.iteration_s, job.exposed_s))
        return Usual(
            {
                key: (statistics.median(t for t, _ in times), statistics.median(t for _, t in times))
                for key, times in found.items()
            }
        )

    def moved(self, run: RunResult) -> tuple[float, float] | None:
        """Shares by which the two times of the job that is farthest off are off the usual ones; None where none is known."""
        known = [(job, usual) for name, job in run.jobs.items() if (usual := self.times_s.get((run.policy, name)))]
        shares = [(job.iteration_s / usual[0] - 1, job.exposed_s / usual[1] - 1) for job, usual in known]
        return max(shares, key=lambda share: abs(share[0]), default=None)

    def too_far(self, run: RunResult) -> bool:
        """Whether a run was moved by more than a valid one may be; one without times was."""
        moved = self.moved(run)
        return moved is None or abs(moved[0]) > MOST_ITERATION or abs(moved[1]) > MOST_EXPOSED


def figures(judged: Mapping[str, Sequence[RunResult]], usual: Usual) -> list[Figure]:
    """What was caught of each fault, and how many clean runs were accused; then the sums."""
    found: list[Figure] = []
    caught_all = of_all = 0
    for name, runs in judged.items():
        if name == CLEAN:
            found += _of_clean(runs, usual)
            continue
        fault = FAULTS[name]
        counted = [run for run in runs if fault.always or usual.too_far(run)]
        caught = [run for run in counted if _fits(run, fault, usual)]
        caught_all, of_all = caught_all + len(caught), of_all + len(counted)
        ok = None if runs and not counted else bool(runs) and len(caught) == len(counted)
        what = f"{name}: caught" if fault.always else f"{name}: caught of the runs that it moved"
        found.append(Figure(what, f"{len(caught)} of {len(counted)}{_told(runs, counted, usual)}", "all", ok))
    if of_all:
        found.append(Figure("injected faults caught", f"{caught_all} of {of_all}", "all", caught_all == of_all))
    return found


def _of_clean(runs: Sequence[RunResult], usual: Usual) -> Iterator[Figure]:
    """Clean runs that were accused, and those that the machine itself moved."""
    still = [run for run in runs if not usual.too_far(run)]
    accused = [run for run in still if not run.valid]
    words = f"; {accused[0].reasons[0]}" if accused else ""
    yield Figure(
        f"false alarms in {len(still)} clean runs that nothing moved",
        f"{len(accused)}{words}",
        "0",
        bool(still) and not accused,
    )
    moved = [run for run in runs if usual.too_far(run)]
    invalid = sum(not run.valid for run in moved)
    yield Figure(
        "clean runs that this machine moved all the same", f"{len(moved)}, {invalid} of them invalid", "", None
    )


def _fits(run: RunResult, fault: Fault, usual: Usual) -> bool:
    """Whether a run is invalid by a reason that speaks of the fault.

    Where a fault moved it, that its time is not explained will do: that is what a verdict by effect is for.
    """
    if usual.too_far(run) and any(_UNEXPLAINED in reason for reason in run.reasons):
        return True
    return any(word in _gist(reason) for reason in run.reasons for word in fault.words)


def _gist(reason: str) -> str:
    """What a reason is about: of the causes that moved a run, it is the first, which is the largest."""
    if reason.startswith(_MOVED):
        reason = reason.partition(": ")[2].partition(";")[0]
    return reason.lower()


def _told(runs: Sequence[RunResult], counted: Sequence[RunResult], usual: Usual) -> str:
    """How far the runs were moved, and the first reason that was given, or that there is none."""
    moved = [found for run in runs if (found := usual.moved(run)) is not None]
    parts = [f"{len(runs)} runs"] if len(counted) < len(runs) else []
    if moved:
        iteration, exposed = (statistics.median(shares) for shares in zip(*moved, strict=True))
        parts.append(f"iterations {iteration:+.1%}, exposed {exposed:+.1%} in the median")
    reasons = [run.reasons[0] for run in counted if run.reasons]
    if reasons:
        parts.append(f'"{reasons[0]}"')
    return f" ({'; '.join(parts)})" if parts else ""
