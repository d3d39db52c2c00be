"""Users' own policies: modules in files anywhere, named by path, such as "./mine.py(option=value)"."""

from __future__ import annotations

import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from echelonflow import plugins
from echelonflow.errors import InputError
from echelonflow.files import at_home, is_file

_CALL = re.compile(r"\s*(.*?\.py)\s*(?:\(([^()]*)\))?\s*")
_MODULE = "_echelon_user_file_"
LONGEST_BYTES = 1 << 20
"""A longer file is taken for something else."""


def is_named(text: str) -> bool:
    """Whether `text` names a file: its part before the options has a slash or ends in .py."""
    place = _CALL.fullmatch(text)
    return place is not None or "/" in text.partition("(")[0]


def parse(text: str) -> tuple[Path, dict[str, str]]:
    """Path and options of "path.py(key=value, ...)" (InputError if it is not of that form)."""
    match = _CALL.fullmatch(text)
    if match is None:
        raise InputError(f"{text!r} is not a policy file with options; write such as './mine.py(option=value)'")
    return Path(match[1]), plugins.parse_options(text, match[2] or "")


def absolute(text: str) -> str:
    """`text` so that it means the same from any folder: a file's path is made absolute, a name stays as it is."""
    match = _CALL.fullmatch(text) if is_named(text) else None
    if match is None:
        return text
    return str(at_home(Path(match[1])).absolute()) + (f"({match[2]})" if match[2] else "")


def read(path: Path) -> bytes:
    """What is in the file `path` now (InputError where it cannot be read, or is no policy's by its size)."""
    if not is_file(path):
        raise InputError(f"policy file {path}: there is no such file")
    try:
        with path.open("rb") as file:
            source = file.read(LONGEST_BYTES + 1)
    except OSError as error:
        raise InputError(f"policy file {path}: {error.strerror or error}") from None
    if len(source) > LONGEST_BYTES:
        raise InputError(f"policy file {path}: is longer than {LONGEST_BYTES} bytes; a policy is a short text")
    return source


def execute(path: Path, source: bytes) -> ModuleType:
    """The module that `source`, read from `path`, makes; InputError names file and line of what is wrong.

    This runs the user's code: only `own_policy.worker` may call it, which has given up all that code could do harm with.
    """
    module = ModuleType(_MODULE + re.sub(r"\W", "_", path.stem))
    module.__file__ = str(path)
    sys.modules[module.__name__] = module  # where dataclasses look for the module that they are made in
    try:
        exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 running the user's code is what is asked for
    except SyntaxError as error:
        raise InputError(f"policy file {path}, line {error.lineno}: {error.msg}") from None
    except (Exception, SystemExit) as error:
        raise InputError(fault(path, error)) from error
    finally:
        sys.modules.pop(module.__name__, None)
    return module


def fault(path: Path, error: BaseException) -> str:
    """What went wrong in the user's file, and on which of its lines, in one line."""
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
    where = f", line {lines[-1]}" if lines else ""
    words = " ".join(str(error).split())
    return f"policy file {path}{where}: {type(error).__name__}" + (f": {words}" if words else "")
