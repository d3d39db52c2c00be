"""The report of a sweep of 100 runs: how long it takes to be built, how large it is, and whether it opens without errors.

The runs are simulated: a report knows cells by their figures alone, whichever way those came about. Timed is the whole
command `echelon report`, with the pictures that it draws.
"""

from __future__ import annotations

import statistics
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._experiments import said_wrong
from echelon.benchmarks._page_in_browser import Opened, open_page
from echelon.benchmarks._sweep_command import END_LIMIT_S, cells_of, ended, sweeping, write_experiment
from echelonflow.child_process import module_argv
from echelonflow.errors import EXIT_VALID, RunError

SEEDS = 10
ITERATIONS = 3
LIMIT_S = 20.0
LIMIT_BYTES = 15e6


def run(repeat: int, say: Say) -> list[Figure]:
    """One sweep, whose report is built `repeat` times and opened once."""
    with tempfile.TemporaryDirectory(prefix="echelon-sweep-report-") as name:
        root = swept(Path(name), SEEDS)
        say(f"{cells_of(SEEDS)} runs are made")
        times_s = []
        for turn in range(repeat):
            times_s.append(report_s(root))
            say(f"{turn + 1} of {repeat}: {times_s[-1]:.1f} s")
        page = root / "report.html"
        return figures(cells_of(SEEDS), times_s, page.stat().st_size, _opened(page))


def swept(folder: Path, seeds: int) -> Path:
    """The folder of a sweep that has ended, in `folder`; RunError where it does not make every cell."""
    root = folder / "out"
    code, said, wrong = ended(sweeping(write_experiment(folder / "cells.yaml", ITERATIONS), root, seeds))
    if code != EXIT_VALID or said_wrong(wrong) or f"{cells_of(seeds)} made now" not in said:
        raise RunError(f"the sweep ended with {code}: {wrong.strip()[-500:]}")
    return root


def report_s(root: Path) -> float:
    """Seconds that `echelon report` takes of the sweep in `root`; RunError where it does not end well."""
    started_s = time.monotonic()
    done = subprocess.run(
        module_argv("echelon.cli", "report", str(root)),
        capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=END_LIMIT_S, check=False,
    )  # fmt: skip
    took_s = time.monotonic() - started_s
    if done.returncode != EXIT_VALID:
        raise RunError(f"the report ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return took_s


def _opened(page: Path) -> Opened | str:
    """The page in a browser, or why there is none."""
    try:
        return open_page(page)
    except RunError as error:
        return str(error)


def figures(runs: int, times_s: Sequence[float], size_bytes: int, opened: Opened | str) -> list[Figure]:
    """What was measured of the report of so many `runs`; what could not be opened has missed."""
    median_s = statistics.median(times_s)
    good = isinstance(opened, Opened) and not opened.complaints and opened.charts > 0
    return [
        Figure(
            f"report of a sweep of {runs} runs, with its pictures",
            f"{median_s:.1f} s ({min(times_s):.1f} to {max(times_s):.1f})",
            f"under {LIMIT_S:g} s",
            median_s < LIMIT_S,
        ),
        Figure("its page", f"{size_bytes / 1e6:.2f} MB", f"under {LIMIT_BYTES / 1e6:g} MB", size_bytes < LIMIT_BYTES),
        Figure("its page in Chromium", _in_words(opened), "opens without errors", good),
    ]


def _in_words(opened: Opened | str) -> str:
    if isinstance(opened, str):
        return opened
    words = f"{opened.charts} charts drawn after {opened.took_s:.1f} s"
    return "; ".join([words, *opened.complaints])
