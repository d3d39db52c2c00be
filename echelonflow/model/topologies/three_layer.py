"""Three layers of switches as a file describes them: one line for each host, with the switches above it.

The file is a table (CSV) with the columns of Alibaba's GPU cluster trace of 2023, published with Crux (SIGCOMM 2024):

    ip,DSW,PSW,ASW
    0c9d9de1b19e7f39,G6,P10,S14

ASW is the access switch of the host (top of rack), PSW the aggregation switch above that, DSW the core switch. The first column
may be called anything; other columns are ignored. What the file leaves open is assumed so:

- A name of an access switch belongs to its PSW, and that of a PSW to its DSW: S14 below P10 is another switch than S14 below P12.
  In the published file no rack has more than eight hosts then, and most have just eight.
- A PSW or DSW is one name for a plane of switches that stand beside each other, `planes` of them. Each access switch has a cable
  to all of its PSW, and plane n of a PSW has a cable to plane n of its DSW.
- All access switches are alike, and so are all PSW: their cables upwards are made for the one with the most below it.
- Where there is more than one DSW, each PSW reaches only its own. Then a spine `x1` joins them, which does not block.
"""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from echelonflow.bounds import LEAST_HOSTS, MOST_HOSTS, check_most, check_network
from echelonflow.errors import InputError
from echelonflow.model.network import Cable, Network
from echelonflow.model.topologies._fabric import checked_oversubscription
from echelonflow.spelling import shown

EXAMPLE = {"file": "three-layer.csv", "rate": "40 Mbit/s", "planes": 2, "oversubscription": 2}

COLUMNS = ("DSW", "PSW", "ASW")
"""From the top to the host."""
MOST_BYTES = 16 * 1024**2
_NAME = re.compile(r"[A-Za-z0-9_]{1,20}")

Place = tuple[str, str, str]
"""The switches above a host, in the order of `COLUMNS`."""


def build(
    *,
    file: str,
    rate_bps: float,
    planes: int = 1,
    oversubscription: float | None = None,
    leaf_rate_bps: float | None = None,
    core_oversubscription: float | None = None,
    core_rate_bps: float | None = None,
    mtu_bytes: int = 1500,
) -> Network:
    """Hosts h1.. in the order of the file; switches keep their names, such as P10.S14, P10 and G6, or P10.1 for a plane.

    Hosts' links have `rate_bps`. A cable from an access switch upwards has `leaf_rate_bps`, or a rate that follows from
    `oversubscription`. With 4, hosts below can send four times as much as all cables upwards carry. By default nothing
    blocks. The same of cables above that, by `core_rate_bps` or `core_oversubscription`.
    """
    places = _read(Path(file))
    psws = list(dict.fromkeys((dsw, psw) for dsw, psw, _ in places))
    asws = Counter(places)
    leaf_bps = _upwards("", leaf_rate_bps, "leaf_rate", oversubscription, rate_bps * max(asws.values()) / planes)
    below = Counter((dsw, psw) for dsw, psw, _ in asws)
    core_bps = _upwards("core_", core_rate_bps, "core_rate", core_oversubscription, leaf_bps * max(below.values()))
    dsws = list(dict.fromkeys(dsw for dsw, _, _ in places))
    switches = len(asws) + (len(psws) + len(dsws)) * planes + (len(dsws) > 1)
    cables_between = (len(asws) + len(psws)) * planes + (len(dsws) * planes if len(dsws) > 1 else 0)
    check_network({"planes": planes}, hosts=len(places), switches=switches, cables=len(places) + cables_between)

    name = _Names(psws, planes)
    hosts = tuple(f"h{i + 1}" for i in range(len(places)))
    cables = [Cable(host, name.of_asw(place), rate_bps, kind="edge") for host, place in zip(hosts, places, strict=True)]
    for place in asws:
        cables += [Cable(name.of_asw(place), psw, leaf_bps, kind="leaf") for psw in name.of_psw(place)]
    for dsw, psw in psws:
        ends = zip(name.of_psw((dsw, psw, "")), name.of_dsw(dsw), strict=True)
        cables += [Cable(lower, upper, core_bps, kind="core") for lower, upper in ends]
    above: tuple[str, ...] = ()
    if len(dsws) > 1:
        above = ("x1",)
        cables += [Cable(each, "x1", core_bps * len(psws), kind="spine") for dsw in dsws for each in name.of_dsw(dsw)]
    named = [
        *map(name.of_asw, asws),
        *(each for dsw, psw in psws for each in name.of_psw((dsw, psw, ""))),
        *(each for dsw in dsws for each in name.of_dsw(dsw)),
    ]
    return Network("three-layer", hosts, (*named, *above), tuple(cables), mtu_bytes)


def _upwards(prefix: str, rate_bps: float | None, rate_key: str, over: float | None, whole_bps: float) -> float:
    """The rate of a cable upwards: the one given, or what is needed for nothing to block, divided by the oversubscription."""
    key = f"{prefix}oversubscription"
    if rate_bps is not None and over is not None:
        raise InputError(f"{key}: does not go with {rate_key}; each gives the rate of the same cables")
    return rate_bps if rate_bps is not None else whole_bps / checked_oversubscription(key, over)


@dataclass(frozen=True)
class _Names:
    """What switches are called: as short as they are told apart by."""

    psws: Collection[tuple[str, str]]
    planes: int

    def of_asw(self, place: Place) -> str:
        return f"{self._pod(place)}.{place[2]}"

    def of_psw(self, place: Place) -> list[str]:
        return self._in_planes(self._pod(place))

    def of_dsw(self, dsw: str) -> list[str]:
        return self._in_planes(dsw)

    def _pod(self, place: Place) -> str:
        dsw, psw, _ = place
        alone = len({psw for _, psw in self.psws}) == len(self.psws) and psw not in {dsw for dsw, _ in self.psws}
        return psw if alone else f"{dsw}.{psw}"

    def _in_planes(self, name: str) -> list[str]:
        return [name] if self.planes == 1 else [f"{name}.{plane + 1}" for plane in range(self.planes)]


def _read(path: Path) -> list[Place]:
    """Where each host of the file is, in its order (InputError, which names file and line)."""
    rows = csv.reader(_text(path).splitlines())
    head = [cell.strip() for cell in next(rows, [])]
    missing = [column for column in COLUMNS if column not in head]
    if missing:
        raise InputError(
            f"file: {path}:1: no column {missing[0]}; the first line names the columns, such as ip,{','.join(COLUMNS)}"
        )
    columns = [head.index(column) for column in COLUMNS]
    own = next((i for i in range(len(head)) if i not in columns), None)
    places: list[Place] = []
    seen: dict[str, int] = {}
    for line, row in enumerate(rows, start=2):
        if not row:
            continue
        if len(row) != len(head):
            raise InputError(f"file: {path}:{line}: has {len(row)} cells; the first line names {len(head)} columns")
        if own is not None:
            before = seen.setdefault(row[own], line)
            if before != line:
                raise InputError(f"file: {path}:{line}: the host {shown(row[own])} stands on line {before} already")
        cells = [row[column].strip() for column in columns]
        for column, cell in zip(COLUMNS, cells, strict=True):
            if not _NAME.fullmatch(cell):
                raise InputError(
                    f"file: {path}:{line}: {shown(cell)} in column {column} is no name of a switch: letters, digits and '_', 20 at most"
                )
        places.append((cells[0], cells[1], cells[2]))
        check_most("hosts in the file", len(places), MOST_HOSTS, {})
    if len(places) < LEAST_HOSTS:
        raise InputError(f"file: {path}: describes {len(places)} hosts; a network has at least {LEAST_HOSTS}")
    return places


def _text(path: Path) -> str:
    try:
        with path.open("rb") as opened:
            content = opened.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"file: {path}: cannot be read: {reason}") from None
    if len(content) > MOST_BYTES:
        raise InputError(f"file: {path}: is longer than {MOST_BYTES // 1024**2} MiB, which no table of hosts is")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"file: {path}: is not text; save it as CSV in UTF-8") from None
