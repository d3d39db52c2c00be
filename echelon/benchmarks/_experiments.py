"""What benchmarks of faults ask of an experiment's folder: which runs are finished, and whether they stay what they are."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from echelonflow.child_process import module_argv
from echelonflow.errors import InputError
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import read_outcome
from echelonflow.scheduling.kernels import PLAIN_VARIABLE

END_LIMIT_S = 150.0


def started(*arguments: str | Path) -> subprocess.Popen[str]:
    """`echelon` with these arguments, whose standard error is to be read by `ended`."""
    return subprocess.Popen(
        module_argv("echelon.cli", *map(str, arguments)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, PLAIN_VARIABLE: "1"},  # they decide the same without compiled loops, and start sooner
    )


def going_on(file: Path, out: Path, *options: str, attempts: int | None = None) -> subprocess.Popen[str]:
    """The command that begins the experiment in `out`, or goes on with it there.

    Where runs are counted, `attempts` are as many as its repeats: no other is made in the place of one that does not count.
    """
    bound = () if attempts is None else ("--attempts", str(attempts))
    if (out / "manifest.json").exists():
        return started("run", "--resume", out, *bound)
    return started("run", file, "--out", out, *options, *bound)


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    """The exit code of a command and what it said on standard error."""
    try:
        _, said = process.communicate(timeout=END_LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return -signal.SIGALRM, f"it had not ended {END_LIMIT_S:.0f} s later"
    return process.returncode, said


def finished_runs(root: Path) -> list[str]:
    """Labels of the emulated runs in `root` that are finished."""
    found = []
    for files in RunFolder(root).runs():
        try:
            if read_outcome(files.outcome).completed:
                found.append(files.root.name)
        except InputError:
            continue
    return found


def said_wrong(said: str) -> str | None:
    """The traceback in what a command said, if there is one."""
    return said[said.index("Traceback") :][-1000:] if "Traceback" in said else None


@dataclass(frozen=True)
class Kept:
    """Digests of every raw file of every finished run in a folder."""

    digests: Mapping[Path, str]

    @classmethod
    def of(cls, root: Path) -> Kept:
        folder = RunFolder(root)
        files = [
            path
            for label in finished_runs(root)
            for path in (*folder.run(label).root.rglob("*"), *folder.pcap.glob(f"{label}-*"))
        ]
        return cls({path: _digest(path) for path in files if path.is_file()})

    def difference(self, root: Path) -> str | None:
        """What has changed since of the runs that were finished; None if nothing has."""
        now = Kept.of(root).digests
        changed = [path for path, digest in self.digests.items() if now.get(path) != digest]
        return f"{changed[0]} of a finished run has changed or is gone" if changed else None


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
