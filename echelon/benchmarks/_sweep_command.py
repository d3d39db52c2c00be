"""The sweep that benchmarks carry out: the command as a process, and what is in its folder."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from echelonflow.child_process import module_argv
from echelonflow.records.cells import CELL, read_cell
from echelonflow.records.sweeps import CELLS

END_LIMIT_S = 600.0

EXPERIMENT = """
name: cells
network: {topology: leaf-spine, leaves: 2, spines: 1, hosts_per_leaf: 4, rate: 1 Gbit/s, fabric_rate: 2 Gbit/s}
jobs:
  - {name: pipe, paradigm: gpipe, stages: 4, micro_batches: 4, forward: 5 ms, backward: 10 ms, activation: 2 MB,
     iterations: ITERATIONS, placement: [h1, h2, h5, h6]}
  - {name: data, paradigm: data-parallel, ranks: 4, layers: 4, forward: 5 ms, backward: 10 ms, parameter: 8 MB,
     iterations: ITERATIONS, placement: [h3, h4, h7, h8]}
policies: [fair, echelonflow]
"""


def write_experiment(path: Path, iterations: int) -> Path:
    """The experiment, whose cells take longer the more iterations its jobs have."""
    path.write_text(EXPERIMENT.replace("ITERATIONS", str(iterations)))
    return path


def sweeping(file: Path, out: Path, seeds: int, *options: str) -> subprocess.Popen[str]:
    """The command that begins or goes on with a sweep of five rates, two policies and so many seeds."""
    rates = "network.rate=0.5 Gbit/s,0.75 Gbit/s,1 Gbit/s,1.5 Gbit/s,2 Gbit/s"
    arguments = ("sweep", str(file), "--out", str(out), "--over", rates, "--over", f"seed=0..{seeds - 1}", *options)
    return subprocess.Popen(
        module_argv("echelon.cli", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


def cells_of(seeds: int) -> int:
    """How many cells that has."""
    return 5 * 2 * seeds


def ended(process: subprocess.Popen[str], limit_s: float = END_LIMIT_S) -> tuple[int, str, str]:
    """Exit code, output and errors of a command; it is killed where it does not end."""
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return -1, "", f"it had not ended {limit_s:.0f} s later"
    return process.returncode, out, err


@dataclass(frozen=True)
class Finished:
    """Every cell that is finished in a folder, with what tells whether it was written again."""

    stamps: Mapping[str, tuple[int, int, bytes]]

    @classmethod
    def of(cls, out: Path) -> Finished:
        found = {}
        for path in sorted((out / CELLS).glob(f"*/{CELL}")):
            cell = read_cell(path.parent)
            if cell is not None and cell.valid:
                seen = path.stat()
                found[cell.name] = (seen.st_ino, seen.st_mtime_ns, path.read_bytes())
        return cls(found)

    def difference(self, out: Path) -> str | None:
        """Which of these cells is not there any more, or was made again; None if none."""
        now = Finished.of(out).stamps
        for name, stamp in self.stamps.items():
            if name not in now:
                return f"cell {name} was finished, and is lost"
            if now[name] != stamp:
                return f"cell {name} was finished, and was made again"
        return None
