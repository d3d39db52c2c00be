"""What a newcomer gets: `./run.sh` on a fresh clone, again and again, in peace and beside a busy loop on one core.

Each time the checked-in state of this repository is cloned, and `./run.sh` installs what is missing and runs the headline
experiments. A run is good if the exit code is 0, all experiments are valid, and medians are within 2 % of theory and fluid
simulation. With up to 10 % stolen time every run must be. Beside the loop (`busy-loop`), or with over 20 % stolen, 8 of 10
must be, and each must have said beforehand that the machine is too noisy. `--only undisturbed` measures one part. Each repeat
is two runs of each part. Beside `--out` their records are kept in first-runs/: the same command goes on with those missing.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path
from types import MappingProxyType

import msgspec

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._sabotage import SPIN
from echelon.places import ROOT
from echelonflow.codec import Document
from echelonflow.errors import EXIT_VALID, InputError, RunError
from results.analysis.summary import Summary, read_summary
from testbed import preflight
from testbed.load import read_sample, stolen_share

CALM, BUSY = "undisturbed", "busy-loop"
RUNS = 2
"""Of each part for each repeat: the 5 repeats of `echelon bench` make 10."""
EXPERIMENTS = ("pipeline", "gpt2-pipeline")
"""What `./run.sh` runs."""
THEORY_S: Mapping[tuple[str, str], float] = MappingProxyType(
    {("pipeline", "fair"): 8.5, ("pipeline", "coflow(grouping=group)"): 10.0, ("pipeline", "echelonflow"): 8.0}
)
"""Iteration time by experiment and policy, where theory says it (the paper's Fig. 2)."""
MOST_OFF = 0.02
LITTLE_STOLEN, MUCH_STOLEN = 0.10, 0.20
LEAST_SHARE_NOISY = 0.8
MOST_S, GOAL_S = 360.0, 240.0
EXPECTED_S = 300.0
"""How long one takes, as long as none has been measured."""
BEFOREHAND = "this machine can tell iteration times to"
"""How `echelon run` begins to say that the machine is less accurate than is asked for."""
_INSTALLED = "setup: ready"
_END_LIMIT_S = 60.0


class Median(msgspec.Struct, frozen=True, kw_only=True):
    """Median iteration time of one policy on one job, and the same in fluid simulation; None where there is none."""

    policy: str
    job: str
    iteration_s: float | None
    predicted_s: float | None


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """One experiment of a first run."""

    name: str
    valid: bool
    runs: int
    valid_runs: int
    reasons: tuple[str, ...]
    medians: tuple[Median, ...]


class FirstRun(msgspec.Struct, frozen=True, kw_only=True):
    """One `./run.sh` on a fresh clone."""

    part: str
    revision: str
    exit_code: int
    duration_s: float
    installed_s: float | None
    """When everything was installed; None if that was never said."""
    stolen_share: float
    """Share of the processors that the host took away meanwhile."""
    said_beforehand: bool
    """Whether it said that the machine is less accurate than is asked for."""
    outcomes: tuple[Outcome, ...]
    last_line: str

    @property
    def noisy(self) -> bool:
        """Whether more was taken away from it than a run must bear."""
        return self.part == BUSY or self.stolen_share > MUCH_STOLEN

    @property
    def quiet(self) -> bool:
        return self.part == CALM and self.stolen_share <= LITTLE_STOLEN

    @property
    def off(self) -> float | None:
        """How far the median that is farthest off is off theory or simulation; None where one is missing."""
        shares = [share for outcome in self.outcomes for share in _off(outcome)]
        if None in shares or {outcome.name for outcome in self.outcomes} != set(EXPERIMENTS):
            return None
        return max((abs(share) for share in shares if share is not None), default=None)

    @property
    def good(self) -> bool:
        valid = self.exit_code == EXIT_VALID and all(outcome.valid for outcome in self.outcomes)
        return valid and self.off is not None and self.off <= MOST_OFF


def _off(outcome: Outcome) -> Iterator[float | None]:
    for median in outcome.medians:
        for expected_s in (THEORY_S.get((outcome.name, median.policy)), median.predicted_s):
            if expected_s is not None:
                yield None if median.iteration_s is None else median.iteration_s / expected_s - 1


_DOCUMENT = Document("echelon-first-run", 1, FirstRun)
CarryOut = Callable[[str, Path], FirstRun]
"""Carries out one run of a part; whatever it leaves behind has this path as its stem."""


def run(
    repeat: int, say: Say, folder: Path, only: Sequence[str] = (), carry_out: CarryOut | None = None
) -> list[Figure]:
    """Two runs of each part for each repeat; InputError where `only` fits none, or this machine cannot emulate."""
    parts = [name for name in (CALM, BUSY) if not only or any(fnmatch(name, pattern) for pattern in only)]
    if not parts:
        raise InputError(f"--only {' '.join(only)}: there is: {CALM}, {BUSY}")
    if carry_out is None:
        preflight.require()
        carry_out = first_run
    parent = folder / "first-runs"
    parent.mkdir(parents=True, exist_ok=True)
    stems = [(part, parent / f"{part}-{number}") for part in parts for number in range(1, RUNS * repeat + 1)]
    found = [_DOCUMENT.read(_record(stem)) for _, stem in stems if _record(stem).exists()]
    for part, stem in stems:
        if not _record(stem).exists():
            left = len(stems) - len(found)
            each_s = statistics.fmean(one.duration_s for one in found) if found else EXPECTED_S
            say(f"{stem.name}; {left} of {len(stems)} are left, which take about {left * each_s / 60:.0f} min")
            found.append(carry_out(part, stem))
            _DOCUMENT.write(_record(stem), found[-1])
            say(_in_words(found[-1]))
    return figures(found)


def _record(stem: Path) -> Path:
    return stem.with_name(f"{stem.name}.json")


def first_run(part: str, stem: Path, source: Path = ROOT) -> FirstRun:
    """Clone `source`, and run its `./run.sh` there; its output is kept, and its run folders if it was not good."""
    clone = stem.with_name(f"{stem.name}-clone")
    shutil.rmtree(clone, ignore_errors=True)
    _git("clone", "--quiet", "--no-hardlinks", str(source), str(clone))
    revision = _git("-C", str(clone), "rev-parse", "HEAD")
    before, begin_s = read_sample(), time.monotonic()
    with _busy_loop() if part == BUSY else contextlib.nullcontext():
        exit_code, installed_s = _run_sh(clone, stem.with_name(f"{stem.name}.log"))
    text = stem.with_name(f"{stem.name}.log").read_text(encoding="utf-8", errors="replace")
    lines = text.strip().splitlines()
    found = FirstRun(
        part=part,
        revision=revision,
        exit_code=exit_code,
        duration_s=time.monotonic() - begin_s,
        installed_s=installed_s,
        stolen_share=stolen_share(before, read_sample()),
        said_beforehand=BEFOREHAND in text,
        outcomes=tuple(_outcomes(clone)),
        last_line=lines[-1] if lines else "",
    )
    runs = clone / "results" / "runs"
    if not found.good and runs.exists():
        kept = stem.with_name(f"{stem.name}-runs")
        shutil.rmtree(kept, ignore_errors=True)
        runs.rename(kept)
    shutil.rmtree(clone)
    return found


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RunError(f"git {' '.join(arguments)} failed: {done.stderr.strip()[-500:]}")
    return done.stdout.strip()


def _run_sh(clone: Path, log: Path) -> tuple[int, float | None]:
    """Run `./run.sh` in `clone` with its output in `log`; exit code, and after how many seconds all was installed."""
    own = ("PYTHONPATH", "VIRTUAL_ENV", "PYTHONDONTWRITEBYTECODE")
    begin_s, installed_s = time.monotonic(), None
    with log.open("wb") as file:
        process = subprocess.Popen(
            ["./run.sh"], cwd=clone, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            env={key: value for key, value in os.environ.items() if key not in own},
        )  # fmt: skip
        assert process.stdout is not None
        try:
            for line in process.stdout:
                file.write(line)
                if installed_s is None and line.startswith(_INSTALLED.encode()):
                    installed_s = time.monotonic() - begin_s
            return process.wait(), installed_s
        except BaseException:  # whoever interrupts us wants it to end in order
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_LIMIT_S)
            process.kill()
            raise


@contextlib.contextmanager
def _busy_loop() -> Iterator[None]:
    process = subprocess.Popen(SPIN)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _outcomes(clone: Path) -> Iterator[Outcome]:
    """What its experiments found; those that left no summary are missing."""
    for path in sorted((clone / "results" / "runs").glob("*/summary.json")):
        yield outcome_of(read_summary(path))


def outcome_of(summary: Summary) -> Outcome:
    """What is kept of the summary of an experiment."""
    medians = [
        Median(
            policy=result.policy,
            job=result.job,
            iteration_s=None if result.iteration_s is None else result.iteration_s.median,
            predicted_s=None if result.predicted is None else result.predicted.iteration_s,
        )
        for result in summary.results
    ]
    return Outcome(
        name=summary.name,
        valid=summary.valid,
        runs=len(summary.runs),
        valid_runs=sum(run.valid for run in summary.runs),
        reasons=summary.reasons[:3],
        medians=tuple(medians),
    )


def _in_words(one: FirstRun) -> str:
    valid = ", ".join(f"{o.name} {o.valid_runs}/{o.runs} {'valid' if o.valid else 'INVALID'}" for o in one.outcomes)
    off = "medians missing" if one.off is None else f"medians within {one.off:.1%}"
    noisy = "; said beforehand that the machine is noisy" if one.said_beforehand else ""
    return (
        f"exit {one.exit_code} after {one.duration_s:.0f} s, {one.stolen_share:.0%} stolen: {valid or 'no experiment'}; "
        f"{off}{noisy}"
    )


def figures(found: Sequence[FirstRun]) -> list[Figure]:
    """What is demanded of runs on a quiet machine and on a noisy one; what is between has no figure to reach."""
    quiet, noisy = [one for one in found if one.quiet], [one for one in found if one.noisy]
    between = [one for one in found if not one.quiet and not one.noisy]
    shown = [Figure(f"{one.part} {n}", _in_words(one), "", None) for n, one in enumerate(found, 1)]
    if quiet:
        good = sum(one.good for one in quiet)
        what = f"good runs (valid, medians within {MOST_OFF:.0%}) with up to {LITTLE_STOLEN:.0%} stolen"
        shown.append(Figure(what, f"{good} of {len(quiet)}", "all", good == len(quiet)))
    if noisy:
        good, said = sum(one.good for one in noisy), sum(one.said_beforehand for one in noisy)
        what = f"good runs beside a busy loop, or with over {MUCH_STOLEN:.0%} stolen"
        shown.append(Figure(what, f"{good} of {len(noisy)}", "8 of 10", good >= LEAST_SHARE_NOISY * len(noisy)))
        shown.append(Figure("of these, said so beforehand", f"{said} of {len(noisy)}", "all", said == len(noisy)))
    if between:
        good = sum(one.good for one in between)
        shown.append(
            Figure("good runs with more stolen than that, but not much more", f"{good} of {len(between)}", "", None)
        )
    times_s = [one.duration_s for one in found if one.part == CALM]
    if times_s:
        median_s = statistics.median(times_s)
        shown.append(
            Figure(
                "time of ./run.sh, median and longest, installation included",
                f"{median_s:.0f} s, {max(times_s):.0f} s",
                f"under {MOST_S:.0f} s (goal {GOAL_S:.0f} s)",
                median_s < MOST_S,
            )
        )
    return shown
