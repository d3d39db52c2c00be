"""How one emulated run went: what the emulator alone can say of it (run.json)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from echelonflow.codec import Document
from echelonflow.model.faults import Fault

INTERRUPTED = "interrupted"
"""Why a run, or a whole experiment, failed that its user ended."""


class ClockReading(msgspec.Struct, frozen=True):
    """Both clocks at one moment: agents' times are CLOCK_MONOTONIC, captures' CLOCK_REALTIME."""

    monotonic_s: float
    realtime_s: float


class CaptureCounts(msgspec.Struct, frozen=True):
    """A host's capture: the file's name, the packets that passed its filter, and those of them that were lost."""

    file: str
    received: int
    dropped: int


class LoadWindow(msgspec.Struct, frozen=True, array_like=True):
    """Shares of all cores (0 to 1) between two readings of CLOCK_MONOTONIC."""

    begin_s: float
    end_s: float
    busy: float
    stolen: float
    """What the host took away."""
    others: float
    """What processes took that are not of our world."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """Busy shares (0 to 1) of all cores and of the switch's busiest thread: over the run, and in its worst two seconds."""

    cpu_busy: float = 0.0
    cpu_busy_max: float = 0.0
    cpu_stolen: float = 0.0
    """Share of all cores that the host took away, over the run."""
    switch_thread_busy: float = 0.0
    switch_thread_busy_max: float = 0.0
    core_busy: float | None = None
    """Of the busiest core, over the run; None in runs from before it was measured."""
    cpu_others: float | None = None
    """Share of all cores that processes took that are not of our world, over the run; None as above."""
    windows: tuple[LoadWindow, ...] = ()
    """The same, half a second at a time."""


class ClassCounters(msgspec.Struct, frozen=True):
    """What one traffic class of one egress carried and dropped in a run."""

    bytes: int = 0
    packets: int = 0
    drops: int = 0

    def since(self, before: ClassCounters) -> ClassCounters:
        """What has been counted since `before`."""
        return ClassCounters(self.bytes - before.bytes, self.packets - before.packets, self.drops - before.drops)


Classes = dict[str, dict[int, ClassCounters]]
"""By interface and class."""


class FaultDone(msgspec.Struct, frozen=True):
    """A planned fault as it was carried out, in seconds since the run's zero.

    `end_s` is when it was over: None where it held to the end of the run. That of a controller is when it knew the run
    again.
    """

    fault: Fault
    begin_s: float
    end_s: float | None = None


class RunOutcome(msgspec.Struct, kw_only=True):
    """`zero_monotonic_s` is None where the run never started; `clock` is read at its begin and at its end."""

    policy: str
    repeat: int
    run_index: int
    label: str
    enforcer: str
    completed: bool = False
    failure: str | None = None
    zero_monotonic_s: float | None = None
    clock: list[ClockReading] = msgspec.field(default_factory=list)
    captures: dict[str, CaptureCounts] = msgspec.field(default_factory=dict)
    load: Load | None = None
    classes: Classes = msgspec.field(default_factory=dict)
    faults: list[FaultDone] = msgspec.field(default_factory=list)


def write_outcome(path: Path, outcome: RunOutcome) -> None:
    """Write run.json."""
    _DOCUMENT.write(path, outcome)


def read_outcome(path: Path) -> RunOutcome:
    """Read run.json (InputError, naming it, where it is missing or malformed)."""
    return _DOCUMENT.read(path)


_DOCUMENT = Document("echelon-run", 1, RunOutcome, {0: lambda data, _: data})
