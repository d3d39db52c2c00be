"""seal.json: length and SHA-256 of every raw file of a finished experiment, so that a later change of one is found.

It says nothing of records that were wrong from the start: the verdict's own checks look for those.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import msgspec

from echelonflow.codec import Document
from echelonflow.errors import InputError
from echelonflow.records.folder import RunFolder

_CHUNK_BYTES = 1 << 20


class SealedFile(msgspec.Struct, frozen=True):
    """What one file was when the experiment ended."""

    size_bytes: int
    sha256: str


class Seal(msgspec.Struct, frozen=True):
    """Every raw file by its path in the run folder, with slashes."""

    files: dict[str, SealedFile]


def write_seal(folder: RunFolder) -> None:
    """Seal what lies in `folder` now, in place of an earlier seal."""
    _DOCUMENT.write(folder.seal, Seal({name: _sealed(path) for name, path in _raw_files(folder)}))


def read_seal(path: Path) -> Seal:
    """Read seal.json (InputError, naming it, where it is missing or malformed)."""
    return _DOCUMENT.read(path)


def broken(folder: RunFolder, seal: Seal) -> dict[str, str]:
    """The files that are not as they were sealed, by path, and what happened to each, in words."""
    found = dict(_raw_files(folder))
    wrong = {name: "is gone" for name in seal.files if name not in found}
    for name, path in found.items():
        if name not in seal.files:
            wrong[name] = "was added after the run"
            continue
        try:
            same = path.stat().st_size == seal.files[name].size_bytes and _sealed(path) == seal.files[name]
        except OSError as error:
            wrong[name] = f"cannot be read: {error.strerror}"
            continue
        if not same:
            wrong[name] = "was changed after the run"
    return dict(sorted(wrong.items()))


def _raw_files(folder: RunFolder) -> Iterator[tuple[str, Path]]:
    """Raw files that there are; what is derived, logs, sockets and half-written files are left out."""
    single = (
        folder.manifest,
        folder.assignment,
        folder.failure,
        folder.network,
        folder.calibration,
        folder.prediction,
        folder.budget,
        folder.yardsticks,
        folder.simulated_runs,
        folder.coflow_runs,
    )
    for path in (*single, *sorted(folder.raw.rglob("*")), *sorted(folder.pcap.rglob("*"))):
        if path.is_file() and not path.name.startswith("."):
            yield path.relative_to(folder.root).as_posix(), path


def _sealed(path: Path) -> SealedFile:
    digest, size_bytes = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            size_bytes += len(chunk)
    return SealedFile(size_bytes, digest.hexdigest())


def seal_or_none(folder: RunFolder) -> tuple[Seal | None, str | None]:
    """The seal of `folder`, or in words why it cannot be read; both None where there is none."""
    if not folder.seal.exists():
        return None, None
    try:
        return read_seal(folder.seal), None
    except InputError as error:
        return None, str(error)


_DOCUMENT = Document("echelon-seal", 1, Seal)
