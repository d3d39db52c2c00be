"""From a job's `import` entry in an experiment file, or the command line, to the job that other people's files hold."""

from __future__ import annotations

import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from echelon.experiment.files import find_file
from echelon.experiment.options import bind
from echelon.experiment.specs import ImportSpec
from echelonflow.errors import InputError
from traffic.workloads import formats


def import_job(spec: ImportSpec, folder: Path) -> formats.Imported:
    """The job in the files of `spec`, names being relative to `folder` (InputError, one line per fault)."""
    paths = [path for name in spec.files for path in _files(name, folder)]
    return import_files(spec.format, paths, dict(spec.model_extra or {}))


def import_files(name: str, paths: Sequence[Path], options: Mapping[str, Any]) -> formats.Imported:
    """The job in `paths` of format `name`, options as a user writes them in an experiment file."""
    return formats.read(name, paths, bind(_reader(name), options, given=("paths",)))


def options_from_text(name: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Options of format `name` from text, as the command line has them, each as the type that the format takes."""
    hints = typing.get_type_hints(_reader(name))
    return {key: _typed(text, str(hints.get(key, "str"))) for key, text in texts.items()}


def _reader(name: str) -> Callable[..., formats.Imported]:
    reader: Callable[..., formats.Imported] = formats.load(name).read
    return reader


def _typed(text: str, hint: str) -> Any:
    """`text` as a number or truth value where `hint` asks for one; text that is none stays, for `bind` to refuse."""
    if "int" in hint and text.isascii() and text.isdigit():
        return int(text)
    if "bool" in hint and text in ("true", "false"):
        return text == "true"
    if "float" in hint:
        try:
            return float(text)
        except ValueError:
            return text
    return text


def _files(name: str, folder: Path) -> list[Path]:
    if "*" not in name:
        return [find_file(name, folder)]
    pattern = Path(name).name
    parent = find_file(str(Path(name).parent), folder)
    found = sorted(parent.glob(pattern))
    if not found:
        raise InputError(
            f"files: no file is called {str(parent / pattern)!r}; a name is relative to the experiment file"
        )
    return found
