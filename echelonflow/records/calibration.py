"""What the links of an emulated network were found to carry (calibration.json)."""

from __future__ import annotations

from pathlib import Path

import msgspec

from echelonflow.codec import Document


class LinkCalibration(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of link: what was measured (payload, bytes/s) of what it declares, and what packets took meanwhile."""

    kind: str
    path: str
    """The link, and the pairs of hosts that filled it."""
    declared_Bps: float
    measured_Bps: float
    error: float
    """Signed share of the declared rate."""
    rtt_ms: float
    """On an idle link, median."""
    rtt_loaded_ms: float = 0.0
    """With full queues, median."""
    attempts: int = 1
    ok: bool = True


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """All kinds of links, and the switch that carried them."""

    links: tuple[LinkCalibration, ...]
    datapath: str
    tso: bool
    openvswitch: str | None = None

    @property
    def worst(self) -> LinkCalibration:
        """The kind that is furthest off (ValueError where nothing was measured)."""
        return max(self.links, key=lambda link: abs(link.error))


def write_calibration(path: Path, calibration: Calibration) -> None:
    """Write calibration.json."""
    _DOCUMENT.write(path, calibration)


def read_calibration(path: Path) -> Calibration | None:
    """Read calibration.json, None where there is none (InputError, naming it, where it is malformed)."""
    return _DOCUMENT.read(path) if path.exists() else None


_DOCUMENT = Document("echelon-calibration", 1, Calibration, {0: lambda data, _: data})
