"""calibration.json: what every kind of link was found to carry, each time it was measured."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from echelonflow.codec import Document
from echelonflow.errors import InputError

_BURST_S_BEFORE_VERSIONS = 0.002


class LinkMeasurement(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of link: what TCP got through it, and how far off its declaration that is."""

    kind: str
    path: str
    """The link that was measured, and the pairs of hosts that filled it."""
    declared_Bps: float
    """Payload bytes per second, as is `measured_Bps`."""
    measured_Bps: float
    error: float
    """Signed share of the declared rate."""
    rtt_ms: float | None = None
    """Of the idle link, median."""
    rtt_loaded_ms: float | None = None
    attempts: int = 1
    """How often it was measured, each time for longer; the least error is reported."""
    links: tuple[str, ...] = ()
    """Names of all links that were full while it was; empty in records from before they were told."""


class TimerLateness(msgspec.Struct, frozen=True, kw_only=True):
    """How late timers fired on this machine while a link was filled (`testbed.timers`)."""

    waits: int
    median_s: float
    p99_s: float
    max_s: float
    lost_share: dict[str, float]
    """By burst, such as "4 ms": the share of its capacity that a link would lose with it."""


class CalibrationAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """All kinds of links, measured one after the other."""

    first_run: int
    """Index of the first run that this attempt speaks for; it holds until a later attempt."""
    burst_s: float
    """How much of its rate a link could pass at once after an idle spell, while this was measured and from then on."""
    links: tuple[LinkMeasurement, ...]
    timers: TimerLateness | None = None
    """None where they were not measured anew."""
    stolen_share: float = 0.0
    """Share of the processors that the host took away meanwhile."""
    after_s: float = 0.0
    """Seconds since the first attempt began."""

    def off(self, max_error: float) -> list[LinkMeasurement]:
        """The links that carry too much or too little."""
        return [link for link in self.links if not abs(link.error) <= max_error]


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """Every attempt of an experiment, in order; the last is the final state."""

    datapath: str
    tso: bool
    openvswitch: str
    attempts: tuple[CalibrationAttempt, ...]

    @property
    def last(self) -> CalibrationAttempt:
        return self.attempts[-1]

    def of_run(self, run_index: int) -> CalibrationAttempt | None:
        """The attempt that speaks for a run: the latest of those that reach back to it; None if none does."""
        return next((a for a in reversed(self.attempts) if a.first_run <= run_index), None)


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write `calibration` to `path`, replacing what was there."""
    _DOCUMENT.write(path, calibration)


def read_calibration(path: Path) -> Calibration | None:
    """Read calibration.json, of any version; None where there is none, InputError where it is malformed."""
    if not path.exists():
        return None
    found = _DOCUMENT.read(path)
    if not found.attempts:
        raise InputError(f"{path}: holds no attempt; a calibration has one at least")
    return found


def _with_attempts(data: Any, _: Path) -> Any:
    """Version 0 held the one attempt that there was, as "links"."""
    known = LinkMeasurement.__struct_fields__
    links = [{key: value for key, value in link.items() if key in known} for link in data.pop("links")]
    attempt = {"first_run": 0, "burst_s": _BURST_S_BEFORE_VERSIONS, "links": links}
    return {"openvswitch": "unknown", **data, "attempts": [attempt]}


_DOCUMENT = Document("echelon-calibration", 1, Calibration, {0: _with_attempts})
