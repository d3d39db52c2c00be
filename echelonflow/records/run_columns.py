"""Computations and flows of a simulated run, a column each: what steps are is said once, and what happened in numbers.

A run of a million flows takes 48 MB in that form, and no million objects are made. Who wants records gets them all the
same: both classes are sequences of them, which are made when they are asked for.
"""

from __future__ import annotations

import math
import operator
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar, overload

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.records.run_record import ComputeRecord, FlowRecord

Step = TypeVar("Step")
Record = TypeVar("Record")


@dataclass(frozen=True, slots=True)
class ComputeStep:
    """What is the same of a computation in every iteration."""

    job: str
    step: str
    kind: str
    rank: int
    host: str


@dataclass(frozen=True, slots=True)
class FlowStep:
    """What is the same of a flow in every iteration."""

    job: str
    flow: str
    group: str
    kind: str
    coflow: str
    src_host: str
    dst_host: str
    src_port: int
    dst_port: int
    size_bytes: int
    offset_s: float


class _Columns(Sequence[Record], Generic[Step, Record]):
    """Rows of (place in `steps`, iteration, times): in the order in which they were added."""

    TIMES: ClassVar[tuple[str, ...]]
    """Names of the times of a row, in seconds since the run's zero."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = tuple(steps)
        self._step, self._iteration = array("q"), array("q")
        self._times = tuple(array("d") for _ in self.TIMES)

    def add_steps(self, steps: Sequence[Step]) -> None:
        """Make more steps known, behind those that are."""
        self.steps = (*self.steps, *steps)

    @property
    def step(self) -> Ints:
        """Places in `steps`."""
        return np.array(self._step, np.int64)

    @property
    def iteration(self) -> Ints:
        """Numbers of iterations, counted from 0."""
        return np.array(self._iteration, np.int64)

    def times_s(self, name: str) -> Floats:
        """One of `TIMES`."""
        return np.array(self._times[self.TIMES.index(name)], np.float64)

    @property
    def finish_s(self) -> Floats:
        """When each ended."""
        return self.times_s("finish_s")

    @property
    def last_s(self) -> float:
        """When the last of all that ended did; 0 of none."""
        return max((at_s for at_s in self._times[self.TIMES.index("finish_s")] if not math.isnan(at_s)), default=0.0)

    @property
    def start_s(self) -> Floats:
        """When each began; of a flow, when its first byte was sent."""
        return self.times_s("start_s")

    def _append(self, step: int, iteration: int, *times_s: float) -> None:
        self._step.append(step)
        self._iteration.append(iteration)
        for column, time_s in zip(self._times, times_s, strict=True):
            column.append(time_s)

    def _extend(self, step: Any, iteration: Any, *times_s: Any) -> None:
        if len({len(step), len(iteration), *map(len, times_s)}) != 1:
            raise ValueError(f"columns of different lengths: {len(step)}, {len(iteration)}, {[*map(len, times_s)]}")
        for whole, numbers in ((self._step, step), (self._iteration, iteration)):
            whole.frombytes(np.ascontiguousarray(numbers, np.int64).tobytes())
        for column, values in zip(self._times, times_s, strict=True):
            column.frombytes(np.ascontiguousarray(values, np.float64).tobytes())

    def _record(self, step: int, iteration: int, *times_s: float) -> Record:
        raise NotImplementedError

    def __len__(self) -> int:
        return len(self._step)

    @overload
    def __getitem__(self, place: int) -> Record: ...
    @overload
    def __getitem__(self, place: slice) -> list[Record]: ...
    def __getitem__(self, place: int | slice) -> Record | list[Record]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        return self._record(self._step[place], self._iteration[place], *(column[place] for column in self._times))

    def __iter__(self) -> Iterator[Record]:
        for row in zip(self._step, self._iteration, *self._times, strict=True):
            yield self._record(*row)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type(self)) and self.steps == other.steps:
            mine, theirs = (self._step, self._iteration), (other._step, other._iteration)
            return mine == theirs and all(
                np.array_equal(one, another, equal_nan=True)
                for one, another in zip(self._times, other._times, strict=True)
            )
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(operator.eq, self, other))

    __hash__ = None  # type: ignore[assignment]


class ComputeColumns(_Columns[ComputeStep, ComputeRecord]):
    """The computations of a run, in the order in which they ended."""

    TIMES = ("start_s", "finish_s", "late_s")

    def append(self, step: int, iteration: int, start_s: float, finish_s: float, late_s: float = 0.0) -> None:
        """Add one computation; `step` is its place in `steps`."""
        self._append(step, iteration, start_s, finish_s, late_s)

    def extend(
        self, step: Sequence[int] | Ints, iteration: Sequence[int] | Ints, start_s: Sequence[float] | Floats,
        finish_s: Sequence[float] | Floats, late_s: Sequence[float] | Floats,
    ) -> None:  # fmt: skip
        """Add many; all columns have the same length (ValueError)."""
        self._extend(step, iteration, start_s, finish_s, late_s)

    @property
    def late_s(self) -> Floats:
        """How much longer than asked each took to end."""
        return self.times_s("late_s")

    def _record(self, step: int, iteration: int, *times_s: float) -> ComputeRecord:
        s = self.steps[step]
        return ComputeRecord(s.job, iteration, s.step, s.kind, s.rank, s.host, *times_s)

    @staticmethod
    def of(records: Sequence[ComputeRecord]) -> ComputeColumns:
        """The same computations as columns."""
        if isinstance(records, ComputeColumns):
            return records
        places: dict[ComputeStep, int] = {}
        rows = [
            (
                places.setdefault(ComputeStep(c.job, c.step, c.kind, c.rank, c.host), len(places)),
                c.iteration, c.start_s, c.finish_s, c.late_s,
            )
            for c in records
        ]  # fmt: skip
        found = ComputeColumns(tuple(places))
        for row in rows:
            found.append(*row)
        return found


class FlowColumns(_Columns[FlowStep, FlowRecord]):
    """The flows of a simulated run, in the order in which they ended: all their bytes arrived, and none was sent again."""

    TIMES = ("release_s", "start_s", "finish_s", "ready_s")

    def append(
        self, step: int, iteration: int, release_s: float, start_s: float, finish_s: float, ready_s: float = math.nan
    ) -> None:
        """Add one flow; `ready_s` is not a number where its job did not hold it back."""
        self._append(step, iteration, release_s, start_s, finish_s, ready_s)

    def extend(
        self, step: Sequence[int] | Ints, iteration: Sequence[int] | Ints, release_s: Sequence[float] | Floats,
        start_s: Sequence[float] | Floats, finish_s: Sequence[float] | Floats, ready_s: Sequence[float] | Floats,
    ) -> None:  # fmt: skip
        """Add many; all columns have the same length (ValueError)."""
        self._extend(step, iteration, release_s, start_s, finish_s, ready_s)

    @property
    def release_s(self) -> Floats:
        """When each was released."""
        return self.times_s("release_s")

    @property
    def ready_s(self) -> Floats:
        """When each could have been released, of those that their job held back; not a number elsewhere."""
        return self.times_s("ready_s")

    def _record(self, step: int, iteration: int, *times_s: float) -> FlowRecord:
        s, (release_s, start_s, finish_s, ready_s) = self.steps[step], times_s
        return FlowRecord(
            s.job, iteration, s.flow, s.group, s.kind, s.coflow, s.src_host, s.dst_host, s.src_port, s.dst_port,
            s.size_bytes, s.offset_s, release_s, start_s, finish_s, s.size_bytes, s.size_bytes,
            ready_s=None if math.isnan(ready_s) else ready_s,
        )  # fmt: skip

    @staticmethod
    def of(records: Sequence[FlowRecord]) -> FlowColumns:
        """The same flows as columns; ValueError for what only packets show, such as a retransmission."""
        if isinstance(records, FlowColumns):
            return records
        places: dict[FlowStep, int] = {}
        rows = []
        for f in records:
            step = FlowStep(
                f.job, f.flow, f.group, f.kind, f.coflow, f.src_host, f.dst_host, f.src_port, f.dst_port,
                f.size_bytes, f.offset_s,
            )  # fmt: skip
            ready_s = math.nan if f.ready_s is None else f.ready_s
            rows.append(
                (places.setdefault(step, len(places)), f.iteration, f.release_s, f.start_s, f.finish_s, ready_s)
            )
        found = FlowColumns(tuple(places))
        for row in rows:
            found.append(*row)
        if found != records:
            raise ValueError("a flow that was simulated has arrived whole, without marks or retransmissions")
        return found
