"""How one program of ours starts another, so that nothing but our code and the interpreter's is imported; and pools that die with who made them."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Literal

_PLACE = str(Path(__file__).resolve().parents[1])
"""Where our packages lie: the checkout, or where they are installed."""
_DEATH_SIGNAL = 1
"""prctl(2): PR_SET_PDEATHSIG."""
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


def pool(processes: int | None = None, start: Literal["fork", "spawn"] | None = "spawn") -> ProcessPoolExecutor:
    """Processes that end with this one, however it does, by default one for each processor.

    They start as this platform starts them where `start` is None.
    Those of a plain pool wait for ever for work from a process that was killed, and keep what it had open: the lock of an emulation.
    """
    context = multiprocessing.get_context(start)
    return ProcessPoolExecutor(processes, mp_context=context, initializer=end_with, initargs=(os.getpid(),))


def end_with(parent: int) -> None:
    """Have the kernel kill this process when its parent dies, and end at once if it has; nothing where there is no Linux."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
