"""Files from other people: read to a limit, unpacked to a limit, and refused with the file's name.

A file may be cut off, packed or only named so, of another format, a pipe, or a bomb.
"""

from __future__ import annotations

import gzip
import io
import json
import math
import stat
import zlib
from pathlib import Path
from typing import Any

from echelonflow.errors import InputError
from echelonflow.spelling import shown

__all__ = ["finite", "read_bytes", "read_json", "read_text", "shown", "whole"]

MAX_BYTES = 1 << 28
"""Unpacked size that is read at most; a job whose trace is larger has more steps than can be replayed."""
MAX_JSON_BYTES = 1 << 27
"""Less for JSON, which takes many times its size in memory."""
_GZIP_MAGIC = b"\x1f\x8b"
_CHUNK_BYTES = 1 << 20
_MOST_DIGITS = 40


def read_bytes(path: Path, most_bytes: int = MAX_BYTES) -> bytes:
    """What is in the file at `path`, unpacked if it is gzip (InputError naming the file where that fails)."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path}: is not a regular file; name the file of a trace")
        with path.open("rb") as file:
            raw = file.read(most_bytes + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"{path}: cannot be read: {reason}") from None
    if not raw:
        raise InputError(f"{path}: is empty")
    if raw.startswith(_GZIP_MAGIC):
        raw = _unpacked(path, raw, most_bytes)
    elif path.suffix == ".gz":
        raise InputError(f"{path}: is called .gz and is not packed by gzip; rename it, or fetch it again")
    if len(raw) > most_bytes:
        raise InputError(
            f"{path}: is larger than {most_bytes >> 20} MiB unpacked, which is the limit; cut it to one step"
        )
    return raw


def read_text(path: Path, most_bytes: int = MAX_BYTES) -> str:
    """The text in the file at `path` (InputError where it is none)."""
    raw = read_bytes(path, most_bytes)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise InputError(f"{path}: line {line}: is not text: byte 0x{raw[error.start]:02x}") from None


def read_json(path: Path) -> Any:
    """The JSON in the file at `path`; InputError with the line where it is none."""
    text = read_text(path, MAX_JSON_BYTES)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}: is not JSON: {error.msg}; is the file complete?") from None
    except (RecursionError, ValueError) as error:  # nested without end; a number of a million digits
        raise InputError(f"{path}: is not JSON that can be read: {type(error).__name__}") from None


def whole(value: object, least: int = 0) -> int | None:
    """`value` as a whole number of at least `least` that fits 63 bits, None where it is none."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit() and len(value) <= 20:
        value = int(value)
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if type(value) is not int or not least <= value < 1 << 63:
        return None
    return value


def finite(value: object) -> float | None:
    """`value`, a number or its text, as a finite number, None where it is none."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and (len(value) > _MOST_DIGITS or "_" in value):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None


def _unpacked(path: Path, raw: bytes, most_bytes: int) -> bytes:
    parts, size = [], 0
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(raw)) as file:
            while size <= most_bytes and (part := file.read(_CHUNK_BYTES)):
                parts.append(part)
                size += len(part)
    except EOFError:
        raise InputError(f"{path}: the gzip stream is cut off; fetch the file again") from None
    except (OSError, zlib.error) as error:
        raise InputError(f"{path}: cannot be unpacked: {error}") from None
    if not size:
        raise InputError(f"{path}: is empty (unpacked)")
    return b"".join(parts)
