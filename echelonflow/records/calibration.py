"""calibration.json: what every kind of link was found to carry, each time it was measured.

Version 1. What has no version was written before there was one: it holds the one attempt that there was, as "links".
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from echelonflow.errors import InputError

VERSION = 1
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
    version: int = VERSION

    @property
    def last(self) -> CalibrationAttempt:
        return self.attempts[-1]

    def of_run(self, run_index: int) -> CalibrationAttempt:
        """The attempt that speaks for a run: the latest of those that reach back to it."""
        return next(a for a in reversed(self.attempts) if a.first_run <= run_index)


class _Unversioned(msgspec.Struct, frozen=True):
    links: tuple[LinkMeasurement, ...]
    datapath: str
    tso: bool
    openvswitch: str = "unknown"


class _Version(msgspec.Struct, frozen=True):
    version: int = 0


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write `calibration` to `path`, replacing what was there."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(calibration), indent=1) + b"\n")


def read_calibration(path: Path) -> Calibration:
    """Read what `write_calibration`, or an older version, wrote; InputError where it is malformed or of a later one."""
    try:
        data = path.read_bytes()
        version = msgspec.json.decode(data, type=_Version).version
        if version == VERSION:
            return msgspec.json.decode(data, type=Calibration)
        if version == 0:
            old = msgspec.json.decode(data, type=_Unversioned)
            attempt = CalibrationAttempt(first_run=0, burst_s=_BURST_S_BEFORE_VERSIONS, links=old.links)
            return Calibration(datapath=old.datapath, tso=old.tso, openvswitch=old.openvswitch, attempts=(attempt,))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error
    except msgspec.MsgspecError as error:
        raise InputError(f"{path}: is malformed: {error}") from error
    raise InputError(f"{path}: is of version {version}; this program reads versions up to {VERSION}")
