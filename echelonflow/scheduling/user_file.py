"""Users' own policies: modules in files anywhere, named by path, such as "./mine.py(option=value)"."""

from __future__ import annotations

import importlib.util
import re
import sys
import traceback
from pathlib import Path
from types import ModuleType

from echelonflow import plugins
from echelonflow.errors import InputError

_CALL = re.compile(r"\s*(.*?\.py)\s*(?:\(([^()]*)\))?\s*")
_MODULE = "_echelon_user_file_"


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
    return str(Path(match[1]).expanduser().absolute()) + (f"({match[2]})" if match[2] else "")


def load(path: Path) -> ModuleType:
    """The module in the file `path`, read anew each time; InputError names file and line of what is wrong."""
    if not path.is_file():
        raise InputError(f"policy file {path}: there is no such file")
    spec = importlib.util.spec_from_file_location(_MODULE + re.sub(r"\W", "_", path.stem), path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # where dataclasses look for the module that they are made in
    try:
        # Compiled here, past the cache of byte code: a file that was changed a moment ago counts as it is now.
        code = compile(path.read_bytes(), str(path), "exec")
        exec(code, module.__dict__)  # noqa: S102 running the user's code is what is asked for
    except SyntaxError as error:
        raise InputError(f"policy file {path}, line {error.lineno}: {error.msg}") from None
    except OSError as error:
        raise InputError(f"policy file {path}: {error.strerror or error}") from None
    except (Exception, SystemExit) as error:  # noqa: BLE001 it is the user's code
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        where = f", line {lines[-1]}" if lines else ""
        raise InputError(f"policy file {path}{where}: {type(error).__name__}: {error}") from None
    finally:
        sys.modules.pop(spec.name, None)
    return module
