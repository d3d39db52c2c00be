"""What benchmarks of faults ask of an experiment's folder: which runs are finished, and whether they stay what they are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from echelonflow.child_process import module_argv
from echelonflow.errors import InputError
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import read_outcome


def echelon_argv(*arguments: str | Path) -> list[str]:
    """The command line that runs `echelon` as these arguments say."""
    return module_argv("echelon.cli", *map(str, arguments))


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
