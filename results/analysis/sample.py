"""What of a run is shown: all in the window, or some hosts and its first part where all of it could not be read.

A row of a picture is some thousand points wide, and a page has room for some dozens of rows. So what is beyond that is
left out, evenly over hosts and of all runs alike, and pictures say so.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.model.arrays import Floats, Ints
from echelonflow.records.run_columns import ComputeColumns, FlowColumns
from echelonflow.records.run_record import ComputeRecord, FlowRecord, RunRecord
from results.analysis.shown import ShownRun, Window

MOST_STEPS = 10_000
"""Of all shown runs together: nobody reads more step by step, or enlarges pictures of them."""


def beyond_reading(runs: Sequence[ShownRun]) -> bool:
    """Whether `runs` have more than `MOST_STEPS` in all."""
    return sum(len(run.record.computes) + len(run.record.flows) for run in runs) > MOST_STEPS


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much can be read."""

    hosts: int
    """Of one run."""
    in_a_row: int
    """Computations of a host, or flows that it sends."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The hosts that are shown, and how much of the shown iteration is."""

    hosts: tuple[str, ...]
    of_hosts: int
    """How many there are."""
    until_s: float
    """From the start of the iteration; infinite where nothing is cut off."""
    longest_s: float
    """Of the shown iterations."""

    @property
    def words(self) -> str:
        """What is left out, as a sentence's part; empty where nothing is."""
        parts = []
        if len(self.hosts) < self.of_hosts:
            parts.append(f"{len(self.hosts)} of {self.of_hosts} hosts")
        if self.until_s < self.longest_s:
            parts.append(f"the first {self.until_s:.3g} s of {self.longest_s:.3g} s")
        return " and ".join(parts)

    def computes(self, run: ShownRun) -> list[ComputeRecord]:
        """The computations of a run that are shown, in the order of its records."""
        records = run.record.computes
        return [records[place] for place in self._places(_within(records, run.window), run.window)]

    def flows(self, run: ShownRun) -> list[FlowRecord]:
        """The finished flows of a run that are shown, in the order of its records."""
        return [run.record.flows[place] for place in self.flow_places(run)]

    def flow_places(self, run: ShownRun) -> list[int]:
        """Where these flows are in the records."""
        return self._places(_within(run.record.flows, run.window), run.window)

    def _places(self, part: _Part, window: Window) -> list[int]:
        shown = [part.hosts.index(host) for host in self.hosts if host in part.hosts]
        drawn = np.isin(part.host, shown) & (part.begin_s < window.start_s + self.until_s)
        places: list[int] = part.place[drawn].tolist()
        return places


def sampled(runs: Sequence[ShownRun], bounds: Bounds | None) -> Sample:
    """What of `runs` is shown: as much as `bounds` let, and everything without."""
    parts = [(run, _parts(run.record, run.window)) for run in runs]
    hosts = sorted({host for _, both in parts for part in both for host in part.used()}, key=_natural)
    longest_s = max((run.window.finish_s - run.window.start_s for run in runs), default=0.0)
    if bounds is None:
        return Sample(tuple(hosts), len(hosts), math.inf, longest_s)
    number = min(len(hosts), bounds.hosts)
    shown = tuple(hosts[i * len(hosts) // number] for i in range(number))
    until_s = min(
        (part.readable_s(shown, bounds.in_a_row) - run.window.start_s for run, both in parts for part in both),
        default=math.inf,
    )
    return Sample(shown, len(hosts), until_s, longest_s)


def _natural(name: str) -> tuple[int, str]:
    return len(name), name


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The computations or flows in a window, n of them."""

    place: Ints
    """In the record."""
    host: Ints
    """Place in `hosts` of who computes or sends."""
    begin_s: Floats
    """When it began; of a flow, its release."""
    hosts: tuple[str, ...]

    def used(self) -> list[str]:
        """The hosts that there is anything of."""
        return [self.hosts[i] for i in np.unique(self.host).tolist()]

    def readable_s(self, shown: Sequence[str], in_a_row: int) -> float:
        """When the first begins that is one too many in its row; infinite where none is."""
        found = math.inf
        for i in (self.hosts.index(host) for host in shown if host in self.hosts):
            begin_s = self.begin_s[self.host == i]
            if len(begin_s) > in_a_row:
                found = min(found, float(np.partition(begin_s, in_a_row)[in_a_row]))
        return found


def _parts(record: RunRecord, window: Window) -> tuple[_Part, _Part]:
    return _within(record.computes, window), _within(record.flows, window)


def _within(records: Sequence[ComputeRecord | FlowRecord], window: Window) -> _Part:
    if isinstance(records, ComputeColumns):
        return _of_columns(records, [step.host for step in records.steps], records.start_s, window)
    if isinstance(records, FlowColumns):
        return _of_columns(records, [step.src_host for step in records.steps], records.release_s, window)
    rows = [(place, *_lane(each)) for place, each in enumerate(records) if _is_in(each, window)]
    hosts: dict[str, int] = {}
    host = [hosts.setdefault(name, len(hosts)) for _, name, _ in rows]
    place, begin_s = [place for place, _, _ in rows], [begin_s for _, _, begin_s in rows]
    return _Part(np.array(place, np.int64), np.array(host, np.int64), np.array(begin_s, np.float64), tuple(hosts))


def _is_in(record: ComputeRecord | FlowRecord, window: Window) -> bool:
    """Whether it is of the shown iteration, or there meanwhile; what did not finish is not."""
    meanwhile = _lane(record)[1] < window.finish_s and record.finish_s > window.start_s
    return meanwhile or (record.iteration == window.iteration and not math.isnan(record.finish_s))


def _lane(record: ComputeRecord | FlowRecord) -> tuple[str, float]:
    """The host in whose row a record is drawn, and when it begins there."""
    if isinstance(record, ComputeRecord):
        return record.host, record.start_s
    return record.src_host, record.release_s


def _of_columns(
    columns: ComputeColumns | FlowColumns, of_steps: Sequence[str], begin_s: Floats, window: Window
) -> _Part:
    hosts: dict[str, int] = {}
    host = np.array([hosts.setdefault(name, len(hosts)) for name in of_steps], np.int64)
    meanwhile = (begin_s < window.finish_s) & (columns.finish_s > window.start_s)
    place = np.flatnonzero(meanwhile | ((columns.iteration == window.iteration) & ~np.isnan(columns.finish_s)))
    return _Part(place, host[columns.step[place]], begin_s[place], tuple(hosts))
