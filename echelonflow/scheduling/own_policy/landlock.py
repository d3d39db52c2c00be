"""Linux's Landlock: a process gives up, for good, the rest of the file system, and TCP. No root is needed for it."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from collections.abc import Iterable
from pathlib import Path

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
"""Numbers of the system calls, the same on every processor."""
_VERSION = 1
_PATH_BENEATH = 1
_READ_FILE, _READ_DIR, _WRITE_FILE = 1 << 2, 1 << 3, 1 << 1
_FILE_RIGHTS = ((1, (1 << 13) - 1), (2, 1 << 13), (3, 1 << 14), (5, 1 << 15))
"""By version: what is denied unless it is allowed. First executing, reading, writing, making and removing; later
moving between folders, truncating, and commands to devices."""
_TCP = (1 << 0) | (1 << 1)
_SCOPES = (1 << 0) | (1 << 1)
"""Abstract Unix sockets and signals of processes outside."""


def version() -> int:
    """The kernel's version of Landlock; 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    return max(int(_libc().syscall(_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint(_VERSION))), 0)


def restrict(readable: Iterable[Path]) -> bool:
    """Allow this process to read what is beneath `readable`, and nothing else of files; whether the kernel can.

    Nothing can be written, made, removed or executed any more; from version 4 of Landlock on no TCP is possible, from 6
    on no signal to others. Needs "no new privileges". OSError where the kernel refuses.
    """
    known = version()
    if known == 0:
        return False
    rights = sum(bits for since, bits in _FILE_RIGHTS if known >= since)
    attributes = struct.pack("=Q", rights)
    if known >= 4:
        attributes += struct.pack("=Q", _TCP)
    if known >= 6:
        attributes += struct.pack("=Q", _SCOPES)
    rules = _call(_CREATE, attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    try:
        for path in readable:
            _allow(rules, path, _READ_FILE | _READ_DIR)
        _allow(rules, Path(os.devnull), _READ_FILE | _WRITE_FILE)
        _call(_RESTRICT, ctypes.c_int(rules), ctypes.c_uint(0))
    finally:
        os.close(rules)
    return True


def _allow(rules: int, path: Path, rights: int) -> None:
    """Allow `rights` beneath `path`; nothing where there is no such path."""
    try:
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not path.is_dir():
            rights &= ~_READ_DIR
        rule = struct.pack("=Qi", rights, place)
        _call(_ADD_RULE, ctypes.c_int(rules), ctypes.c_int(_PATH_BENEATH), rule, ctypes.c_uint(0))
    finally:
        os.close(place)


def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _call(number: int, *arguments: object) -> int:
    """A system call by its number; OSError where it fails."""
    result = int(_libc().syscall(number, *arguments))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"Landlock: {os.strerror(code)}")
    return result
