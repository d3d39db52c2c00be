"""How one program of ours starts another, so that nothing but our code and the interpreter's is imported."""

from __future__ import annotations

import sys
from pathlib import Path

_PLACE = str(Path(__file__).resolve().parents[1])
"""Where our packages lie: the checkout, or where they are installed."""
_START = (
    "import runpy, sys; sys.path.append(sys.argv.pop(1)); "
    "runpy.run_module(sys.argv.pop(1), run_name='__main__', alter_sys=True)"
)


def module_argv(module: str, *arguments: str, unbuffered: bool = False) -> list[str]:
    """The command that runs one of our modules with `arguments`, as `python -m` would.

    Unlike that, it leaves the current folder and PYTHONPATH aside (-I). A file that lies there under the name of a
    module, such as json.py or traffic.py, would otherwise be run in its stead, by root.
    """
    options = ["-I", "-u"] if unbuffered else ["-I"]
    return [sys.executable, *options, "-c", _START, _PLACE, module, *arguments]
