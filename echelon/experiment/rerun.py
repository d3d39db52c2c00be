"""An experiment's file such that it means the same from any folder: what a run leaves, so that it can be repeated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echelon.experiment.schema import Experiment
from echelonflow.files import is_file
from echelonflow.scheduling import user_file

_NO_FILES = frozenset({"name", "title", "topology", "paradigm", "format"})
"""Keys whose values name something else, whatever files there are."""
_OF_POLICIES = frozenset({"policies", "against"})
_FROM_HERE = frozenset({"profile"})
"""Keys whose files are looked for from the current folder, and not from the experiment's."""
_LONGEST = 4096


def rerun_data(experiment: Experiment) -> dict[str, Any]:
    """What the experiment was made of, files by their absolute paths; relative ones are relative to its own file."""
    return with_absolute_files(experiment.source, experiment.path.parent)


def with_absolute_files(data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The data of an experiment file that lay in `folder`, files by their absolute paths."""
    return {key: _moved(value, key, folder) for key, value in data.items()}


def _moved(value: Any, key: str, folder: Path) -> Any:
    if isinstance(value, dict):
        return {inner: _moved(part, inner, folder) for inner, part in value.items()}
    if isinstance(value, list):
        return [_moved(part, key, folder) for part in value]
    if not isinstance(value, str) or key in _NO_FILES:
        return value
    if key in _OF_POLICIES:
        return user_file.absolute(value)
    return _absolute(value, Path() if key in _FROM_HERE else folder)


def _absolute(text: str, folder: Path) -> str:
    """The path of the file that `text` names from `folder`, or of the files where it holds a *; else `text`."""
    if not text or len(text) > _LONGEST or "\n" in text:
        return text
    path = folder / text
    named = path.parent.is_dir() and ("/" in text or "." in text) if "*" in path.name else is_file(path)
    return str(path.absolute()) if named else text
