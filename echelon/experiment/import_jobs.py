"""From a job's `import` entry in an experiment file, or the command line, to the job that other people's files hold."""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from echelon.experiment.files import find_file
from echelon.experiment.specs import ImportSpec
from echelonflow import options
from echelonflow.errors import InputError, about
from echelonflow.options import Option, bind, bind_text
from echelonflow.spelling import shown
from traffic.workloads import formats

MOST_FILES = 10_000
"""Of a folder that are looked at."""
GIVEN = ("paths",)
"""What a format's reader is given that is no option of its user."""


def import_job(spec: ImportSpec, folder: Path) -> formats.Imported:
    """The job in the files of `spec`, names being relative to `folder` (InputError, one line per fault)."""
    paths = [path for name in spec.files for path in _files(name, folder)]
    about("format", lambda: formats.load(spec.format))
    return import_files(spec.format, paths, dict(spec.model_extra or {}))


def import_files(name: str, paths: Sequence[Path], written: Mapping[str, Any]) -> formats.Imported:
    """The job in `paths` of format `name`, options as a user writes them in an experiment file."""
    return formats.read(name, paths, bind(_reader(name), written, given=GIVEN, beside=("format", "files")))


def import_with_text(name: str, paths: Sequence[Path], texts: Mapping[str, str]) -> formats.Imported:
    """The same, options being text, as the command line has them."""
    return formats.read(name, paths, bind_text(_reader(name), texts, given=GIVEN))


def options_of(name: str) -> list[Option]:
    """The options of format `name`."""
    return options.options_of(_reader(name), given=GIVEN)


def _reader(name: str) -> Callable[..., formats.Imported]:
    reader: Callable[..., formats.Imported] = formats.load(name).read
    return reader


def _files(name: str, folder: Path) -> list[Path]:
    if "*" not in name:
        return [find_file(name, folder)]
    pattern = Path(name).name
    parent = find_file(str(Path(name).parent), folder)
    if not parent.is_dir():
        raise InputError(f"files: {shown(str(parent))} is no folder; * stands in the name of a file only")
    beside = islice(parent.iterdir(), MOST_FILES)  # not of folders in it, which may be all there is
    found = sorted(path for path in beside if fnmatch.fnmatchcase(path.name, pattern))
    if not found:
        raise InputError(
            f"files: no file is called {shown(str(parent / pattern))}; a name is relative to the experiment file"
        )
    return found
