"""Events of a Chrome trace: slices, instants, counters and names.

Readers take microseconds times 1,000 for whole nanoseconds. So slices begin and end at whole nanoseconds, and end a little
earlier than the next one begins: what would overlap by rounding is dropped by Perfetto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Event = dict[str, Any]
_GAP_NS = 2
"""By which a slice is shorter than it was, where it is longer than that: a reader may come out one off at either end."""


@dataclass(frozen=True, slots=True)
class Track:
    """A line of the trace."""

    process: int
    thread: int


@dataclass(slots=True)
class Slice:
    """Something that lasts; `track` is where it was laid."""

    name: str
    category: str
    start_s: float
    finish_s: float
    arguments: Mapping[str, Any]
    track: Track = Track(0, 0)

    @property
    def start_ns(self) -> int:
        return round(self.start_s * 1e9)

    @property
    def length_ns(self) -> int:
        """At least 0."""
        whole = round(self.finish_s * 1e9) - self.start_ns
        return max(whole - _GAP_NS, 0) if whole > _GAP_NS else 0


def slice_events(slices: Sequence[Slice]) -> list[Event]:
    """Every slice as a complete event, in the order of tracks and time."""
    ordered = sorted(slices, key=lambda one: (one.track.process, one.track.thread, one.start_ns, -one.length_ns))
    return [
        {
            "ph": "X", "name": one.name, "cat": one.category, "pid": one.track.process, "tid": one.track.thread,
            "ts": one.start_ns / 1e3, "dur": one.length_ns / 1e3, "args": one.arguments,
        }
        for one in ordered
    ]  # fmt: skip


def instant(track: Track, name: str, category: str, time_s: float, arguments: Mapping[str, Any]) -> Event:
    """Something that happened in a process at one moment."""
    return {
        "ph": "i", "s": "p", "name": name, "cat": category, "pid": track.process, "tid": track.thread,
        "ts": time_s * 1e6, "args": arguments,
    }  # fmt: skip


def counter(process: int, name: str, time_s: float, series: Mapping[str, float]) -> Event:
    """What is counted of a process from one moment on."""
    return {"ph": "C", "name": name, "pid": process, "tid": 0, "ts": time_s * 1e6, "args": series}


def arrow(identity: str, begin: Slice, end: Slice) -> Iterable[Event]:
    """An arrow from one slice to another: each end lies within its slice, which is how readers find it."""
    for phase, one in (("s", begin), ("f", end)):
        event: Event = {
            "ph": phase, "id": identity, "name": "waits for", "cat": "waits", "pid": one.track.process,
            "tid": one.track.thread, "ts": (one.start_ns + one.length_ns // 2) / 1e3,
        }  # fmt: skip
        yield {**event, "bp": "e"} if phase == "f" else event


def name_of(what: str, track: Track, name: str) -> Event:
    """The name of a process or thread."""
    return {"ph": "M", "name": what, "pid": track.process, "tid": track.thread, "args": {"name": name}}
