"""What this machine was found to carry (`echelon/running/capacity_trials.py`): remembered, and held against an experiment."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec

from echelon.running import ownership
from echelonflow.codec import Document
from echelonflow.errors import InputError
from echelonflow.model.network import Network
from echelonflow.model.units import format_rate


class Capacity(msgspec.Struct, frozen=True):
    """The highest rate of every host's link at which this many hosts were emulated within the limits."""

    topology: str
    hosts: int
    rate_bps: float


class _Remembered(msgspec.Struct, frozen=True):
    machine: str
    capacities: tuple[Capacity, ...]


_DOCUMENT = Document("echelon-capacity", 1, _Remembered, {0: lambda data, _: data})


def store() -> Path:
    """The file in which capacities of this machine are remembered: under sudo, that of the user who called it."""
    called_by = ownership.caller()
    home = (called_by and called_by.home) or Path.home()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return cache / "echelon" / "capacity.json"


def remember(found: list[Capacity], path: Path) -> None:
    """Add `found` to what is remembered in `path`, replacing what it says of the same topology and hosts."""
    path.parent.mkdir(parents=True, exist_ok=True)
    known = {(c.topology, c.hosts): c for c in (*recall(path), *found)}
    _DOCUMENT.write(path, _Remembered(platform.node(), tuple(known.values())))


def recall(path: Path) -> list[Capacity]:
    """What is remembered in `path`: nothing if it does not exist or was found on another machine."""
    if not path.exists():
        return []
    try:
        remembered = _DOCUMENT.read(path)
    except InputError as error:
        raise InputError(f"{error}; remove the file and run `echelon capacity`") from None
    return list(remembered.capacities) if remembered.machine == platform.node() else []


def warning(network: Network, known: list[Capacity]) -> str | None:
    """What to say before an experiment on `network` that is larger than what was found; None if it is not.

    Compared with the smallest number of hosts tried that is at least the network's: more hosts load a machine more.
    """
    larger = [c for c in known if c.topology == network.name and c.hosts >= len(network.hosts)]
    if not larger:
        return None
    limit = min(larger, key=lambda c: c.hosts)
    rate_bps = max(cable.rate_bps for cable in network.cables if cable.kind == "edge")
    if rate_bps <= limit.rate_bps:
        return None
    return (
        f"{len(network.hosts)} hosts at {format_rate(rate_bps)} are more than this machine was found to carry "
        f"({limit.topology}, {limit.hosts} hosts at {format_rate(limit.rate_bps)}); the run may turn out invalid. "
        "A lower rate with `scaling` keeps the ratios; `echelon capacity` tries again"
    )
