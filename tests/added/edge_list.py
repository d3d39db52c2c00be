"""Edge lists: who computes for how long and then sends how much to whom, in turn.

Each line has a source rank, a destination rank, the seconds that the source computes before it sends, and bytes. Lines of
one rank follow each other. A rank that receives waits for the data before it computes again.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from echelonflow.errors import InputError
from traffic.workloads.formats import _files
from traffic.workloads.formats._account import Account
from traffic.workloads.formats._iteration import ImportedIteration
from traffic.workloads.formats._layers import only
from traffic.workloads.formats._report import Imported, Report

SUMMARY = "edge list: one file of lines with source, destination, seconds and bytes"
EXAMPLE_FILES = {"edges.txt": "0 1 0.5 1000\n1 2 0.25 2000\n0 2 0.5 3000\n2 0 1 500\n"}
_COLUMNS = 4
_MOST_RANKS = 1000


def read(paths: Sequence[Path]) -> Imported:
    """The job of the one file of `paths` (InputError naming file and line)."""
    path = only(paths, "an edge list")
    edges = [_edge(path, number, line) for number, line in enumerate(_files.read_text(path).split("\n"), 1) if line]
    if not edges:
        raise InputError(f"{path}: there is no line")
    ranks = 1 + max(max(src, dst) for src, dst, _, _ in edges)
    account = Account()
    iteration = ImportedIteration(str(path), ranks, account=account, algorithm="ring")
    tail: dict[int, tuple[str, ...]] = {}
    for number, (src, dst, seconds, size_bytes) in enumerate(edges):
        account.found(size_bytes=size_bytes, compute_s=seconds, communications=1)
        done = iteration.compute(f"compute {number}", src, seconds, tail.get(src, ()))
        sent, received = f"sent {number}", f"received {number}"
        iteration.send(f"edge {number}", src, dst, size_bytes, (done,), tail.get(dst, ()), sent=sent, received=received)
        tail[src], tail[dst] = (done,), (received,)
    dag = iteration.dag(parameters={"imported": "edge-list", "file": path.name})
    read_lines = [f"{path}: {len(edges)} edges among {ranks} ranks"]
    assumed = ["lines of one rank follow each other"]
    return Imported(dag, Report.of(account, dag, source=str(path), read=read_lines, assumed=assumed))


def _edge(path: Path, number: int, line: str) -> tuple[int, int, float, int]:
    parts = line.split()
    if len(parts) != _COLUMNS:
        raise InputError(
            f"{path}: line {number}: {len(parts)} words; a source, a destination, seconds and bytes belong there"
        )
    src, dst, size_bytes = (_files.whole(parts[place]) for place in (0, 1, 3))
    seconds = _files.finite(parts[2])
    if src is None or dst is None or not (0 <= src < _MOST_RANKS and 0 <= dst < _MOST_RANKS) or src == dst:
        raise InputError(f"{path}: line {number}: ranks are two whole numbers below {_MOST_RANKS}, and differ")
    if seconds is None or seconds < 0 or size_bytes is None or size_bytes < 1:
        raise InputError(f"{path}: line {number}: seconds of at least 0 and whole bytes of at least 1 belong there")
    return src, dst, seconds, size_bytes
