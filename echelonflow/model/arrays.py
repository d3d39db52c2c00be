"""The types of arrays that numbers are kept in, and the form in which records carry them: every bit, as bytes."""

from __future__ import annotations

import base64
import typing
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]


def array_to_data(value: Any) -> bytes:
    """A column of floats or integers as bytes, for a record (msgspec's `enc_hook`; JSON has them as base64)."""
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(f"a record holds {type(value).__name__}")
    return value.astype("<f8" if value.dtype.kind == "f" else "<i8", copy=False).tobytes()


def array_from_data(kind: Any, data: Any) -> Any:
    """The column of type `kind` (Floats or Ints) that `array_to_data` was given; ValueError for other data."""
    return read_only_array(kind, data).copy()  # one that may be written to, as any other


def read_only_array(kind: Any, data: Any) -> Any:
    """The same, but nobody can write to it."""
    if kind not in (Floats, Ints):
        raise NotImplementedError(f"a record holds {kind}")
    found = base64.b64decode(data, validate=True) if isinstance(data, str) else data
    if not isinstance(found, bytes):
        raise ValueError(f"expected bytes, not {type(data).__name__}")  # noqa: TRY004 what msgspec takes for bad data
    array: npt.NDArray[typing.Any] = np.frombuffer(found, "<f8" if kind == Floats else "<i8")
    return array
