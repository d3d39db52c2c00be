"""What a user's policy prints: taken aside, bounded, and shown where its author looks."""

from __future__ import annotations

import contextlib
import os
import re
import sys
import tempfile
from typing import BinaryIO

_LONGEST_BYTES = 1 << 20
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Commands to a terminal, and characters that nobody sees, which turn the order of others round."""


def plain(text: str, longest: int) -> str:
    """`text`, at most so long, without what a terminal would take for commands; lines stay lines."""
    return _CONTROLS.sub("?", text[:longest])


class Output:
    """A nameless file that a process has for its output and errors; `show` prints on ours what is new in it.

    Unlike a pipe it never fills up while nobody reads it, and unlike our own output it takes nothing but bytes.
    """

    def __init__(self) -> None:
        self._file: BinaryIO = _nameless_file()

    def fileno(self) -> int:
        return self._file.fileno()

    def show(self) -> None:
        """Print what was written since the last call, on standard error; call it while the process is not writing."""
        if self._file.closed or not (length := os.fstat(self.fileno()).st_size):
            return
        data = os.pread(self.fileno(), min(length, _LONGEST_BYTES), 0)
        # The position is shared with the process, so that it starts again at the beginning.
        os.lseek(self.fileno(), 0, os.SEEK_SET)
        os.ftruncate(self.fileno(), 0)
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(plain(data.decode(errors="replace"), _LONGEST_BYTES))
            sys.stderr.flush()

    def close(self) -> None:
        """Print what is left, and give the file up."""
        self.show()
        self._file.close()


def _nameless_file() -> BinaryIO:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("policy-output"), "w+b", buffering=0)
    return tempfile.TemporaryFile(buffering=0)
