"""Where a tuner looks: sizes of partitions, credits, and the rule that a credit is no smaller than a partition.

Both go by ratios: from 1 to 2 MB is as far as from 16 to 32 MB. Every pair of numbers from 0 to 1 stands for a point that
keeps the rule, so that no method has to know it.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial

import msgspec

from echelonflow.errors import InputError, about
from echelonflow.model.units import format_size, parse_size_bytes
from echelonflow.options import pairs
from echelonflow.spelling import unknown

PARTITION, CREDIT = "partition", "credit"
EXAMPLE = "partition=256 KB..32 MB,credit=1 MB..64 MB"
_DIGITS = 3
"""Of a size that is tried: finer differences cannot be told apart, and sizes can be read."""
_PREFIXES = ((10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


class Point(msgspec.Struct, frozen=True, order=True):
    """One setting of a job scheduler, in bytes."""

    partition_bytes: int
    credit_bytes: int

    def __str__(self) -> str:
        return f"{PARTITION} {format_size(self.partition_bytes)}, {CREDIT} {format_size(self.credit_bytes)}"

    def options(self) -> dict[str, str]:
        """The same as options of a scheduler in an experiment file, to the byte."""
        return {PARTITION: size_text(self.partition_bytes), CREDIT: size_text(self.credit_bytes)}


def size_text(size_bytes: int) -> str:
    """`size_bytes` as `parse_size_bytes` reads it back unchanged, such as "4.19 MB"."""
    for unit_bytes, unit in _PREFIXES:
        if size_bytes >= unit_bytes and size_bytes * 1000 % unit_bytes == 0:
            whole, thousandths = divmod(size_bytes * 1000 // unit_bytes, 1000)
            return f"{whole}.{thousandths:03d}".rstrip("0").rstrip(".") + f" {unit}"
    return f"{size_bytes} B"


@dataclass(frozen=True)
class Space:
    """The least and the greatest size of a partition and credit, bytes. InputError where there are no two points in it."""

    partition_bytes: tuple[int, int]
    credit_bytes: tuple[int, int]

    def __post_init__(self) -> None:
        for key, (low, high) in ((PARTITION, self.partition_bytes), (CREDIT, self.credit_bytes)):
            if low < 1:
                raise InputError(f"{key}: begins at {low} B; begin at 1 B at least")
            if low > high:
                raise InputError(
                    f"{key}: begins at {format_size(low)} and ends at {format_size(high)}, so that there is nothing in it; "
                    "write the smaller size first"
                )
        if self.partition_bytes[0] > self.credit_bytes[1]:
            raise InputError(
                f"has no point: the smallest partition ({format_size(self.partition_bytes[0])}) is larger than the largest "
                f"credit ({format_size(self.credit_bytes[1])}), and a credit holds one partition at least"
            )
        if len({self.point(across, up) for across in (0.0, 1.0) for up in (0.0, 1.0)}) == 1:
            raise InputError(
                f"has one point alone ({self.point(0, 0)}), so that there is nothing to choose; widen a range"
            )

    def __str__(self) -> str:
        ranges = ((PARTITION, self.partition_bytes), (CREDIT, self.credit_bytes))
        return ",".join(f"{key}={size_text(low)}..{size_text(high)}" for key, (low, high) in ranges)

    def point(self, across: float, up: float) -> Point:
        """The point at two numbers from 0 to 1: `across` all sizes of partitions, and `up` the credits that hold one."""
        partition_bytes = _between(*self._partitions, across)
        return Point(partition_bytes, _between(*self._credits(partition_bytes), up))

    def place(self, point: Point) -> tuple[float, float]:
        """The two numbers at which `point` stands: what `point` is the inverse of, but for rounding."""
        return (
            _share(*self._partitions, point.partition_bytes),
            _share(*self._credits(point.partition_bytes), point.credit_bytes),
        )

    def coordinates(self, point: Point) -> tuple[float, float]:
        """Where `point` lies between the ends of both ranges, 0 to 1, by ratios: points that are near are much alike."""
        return _share(*self.partition_bytes, point.partition_bytes), _share(*self.credit_bytes, point.credit_bytes)

    def any_point(self, draw: random.Random) -> Point:
        """A point by chance."""
        return self.point(draw.random(), draw.random())

    @property
    def _partitions(self) -> tuple[int, int]:
        low, high = self.partition_bytes
        return low, min(high, self.credit_bytes[1])

    def _credits(self, partition_bytes: int) -> tuple[int, int]:
        low, high = self.credit_bytes
        return max(low, partition_bytes), high


def _between(low: int, high: int, share: float) -> int:
    """A size between two, by ratios, rounded to a few digits."""
    size_bytes = low * math.pow(high / low, min(max(share, 0.0), 1.0))
    unit = round(math.pow(10, max(math.floor(math.log10(size_bytes)) - _DIGITS + 1, 0)))
    return min(max(round(size_bytes / unit) * unit, low), high)


def _share(low: int, high: int, size_bytes: int) -> float:
    """How far `size_bytes` lies between two sizes, by ratios; in the middle where they are the same."""
    return 0.5 if low == high else min(max(math.log(size_bytes / low) / math.log(high / low), 0.0), 1.0)


def parse_space(texts: Iterable[str], usual: Callable[[], Space]) -> Space:
    """The space in such as "partition=256 KB..32 MB,credit=1 MB..64 MB"; what is not said is as in `usual`.

    InputError names the key and what would do.
    """
    written = pairs((part for text in texts for part in text.split(",")), "--space")
    others = [key for key in written if key not in (PARTITION, CREDIT)]
    if others:
        raise InputError(f"--space: there is no option {others[0]!r} to tune{unknown(others[0], (PARTITION, CREDIT))}")
    ranges = {key: about(f"--space: {key}", partial(_range, text)) for key, text in written.items()}
    if len(ranges) < 2:
        found = usual()
        ranges = {PARTITION: found.partition_bytes, CREDIT: found.credit_bytes, **ranges}
    return about("--space", lambda: Space(ranges[PARTITION], ranges[CREDIT]))


def _range(text: str) -> tuple[int, int]:
    low, dots, high = text.partition("..")
    if not dots:
        raise InputError(f"{text!r} is not a range; write such as {EXAMPLE}")
    return parse_size_bytes(low), parse_size_bytes(high)
