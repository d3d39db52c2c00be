"""Jobs into files: our own JSON form, and Chakra traces. All of a job is written, or nothing.

What is written can be read again: files are refused that would be longer than what is read (`_files`).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path

from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag, to_dict
from traffic.workloads.formats import _files
from traffic.workloads.formats._chakra_job import encode_job


def write_job(dag: JobDag, out: Path) -> list[Path]:
    """Write `dag` to the job file `out`; returns what was written (InputError where that fails, or nobody could read it)."""
    data = json.dumps(to_dict(dag), separators=(",", ":"), default=list).encode()
    return _written({out: data}, _files.MAX_JSON_BYTES)


def write_chakra(dag: JobDag, out: Path) -> list[Path]:
    """Write `dag` as Chakra traces `out`.0.et, `out`.1.et, .. and return their paths.

    Raises InputError for a job with dependencies that only another rank can notice, and where files cannot be written.
    """
    files = {out.parent / f"{out.name}.{rank}.et": data for rank, data in enumerate(encode_job(dag))}
    return _written(files, _files.MAX_BYTES)


def _written(files: Mapping[Path, bytes], most_bytes: int) -> list[Path]:
    """Write all files beside their places first, so that a full disk or a missing folder leaves nothing half done."""
    for path, data in files.items():
        if len(data) > most_bytes:
            raise InputError(
                f"{path}: would have {len(data) / (1 << 20):.0f} MiB, and files of up to {most_bytes >> 20} MiB are read; "
                "name what you convert in the experiment file itself (import: in the entry of a job), or make a smaller job: "
                "fewer ranks, layers or micro-batches"
            )
    if not all(path.name for path in files):
        raise InputError("--out names a folder; name a file in it")
    aside = {path: path.with_name(f".{path.name}.part") for path in files}
    try:
        for path, data in files.items():
            aside[path].write_bytes(data)
        for path, part in aside.items():
            part.replace(path)
    except OSError as error:
        for part in aside.values():
            with contextlib.suppress(OSError):  # whatever keeps it from being written may keep it from being named
                part.unlink(missing_ok=True)
        raise InputError(
            f"{error.filename}: cannot be written: {error.strerror}; name another place with --out"
        ) from None
    return list(files)
