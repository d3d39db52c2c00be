"""The one module that turns "100 Mbit/s", "1 s" and "25 MB" into numbers and back.

Decimal prefixes are powers of 1,000 and binary prefixes (KiB, MiB, GiB) powers of 1,024, for bits
and bytes alike. A number without a unit is refused: a reader of an experiment file cannot know
what it means.
"""

from __future__ import annotations

import math
import re

from echelonflow.bounds import LEAST_MTU_BYTES, LEAST_RATE_BPS, MOST_BYTES, MOST_MTU_BYTES, MOST_RATE_BPS, MOST_S
from echelonflow.errors import InputError
from echelonflow.spelling import shown

_DECIMAL = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_TIME_S = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_QUANTITY = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)\s*([^\s0-9.]\S*)\s*")

# Ethernet, IPv4 and TCP (timestamps off, see testbed/world.py) around the payload of one full segment: 1460 of 1514
# bytes at an MTU of 1500.
ETHERNET_HEADER_BYTES = 14
TCP_IP_HEADER_BYTES = 40


def _split(text: object, what: str, example: str) -> tuple[float, str]:
    match = _QUANTITY.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        if isinstance(text, str) and text.strip().startswith("-") and _QUANTITY.fullmatch(text.strip()[1:]):
            raise InputError(f"{shown(text)} is negative; write {what} such as {example!r}")
        raise InputError(f"{shown(text)} is not {what}: write a number and a unit, such as {example!r}")
    value = float(match[1])
    if not math.isfinite(value):
        raise InputError(f"{shown(text)} is not finite: write {what} such as {example!r}")
    return value, match[2]


def _scaled(value: float, prefix: str, text: object, what: str, example: str) -> float:
    factor = _DECIMAL.get(prefix, _BINARY.get(prefix))
    if factor is None:
        raise InputError(f"{shown(text)}: unknown prefix {shown(prefix)}; write {what} such as {example!r}")
    return value * factor


def parse_rate_bps(text: object) -> float:
    """Bits per second in e.g. "100 Mbit/s", "1 Gbps" or "12.5 MB/s" (raises InputError)."""
    example = "100 Mbit/s"
    value, unit = _split(text, "a rate", example)
    for suffix, bits in (("bit/s", 1), ("bps", 1), ("B/s", 8)):
        if unit.endswith(suffix):
            rate_bps = _scaled(value, unit[: -len(suffix)], text, "a rate", example) * bits
            if rate_bps and not LEAST_RATE_BPS <= rate_bps <= MOST_RATE_BPS:
                bounds = f"from {format_rate(LEAST_RATE_BPS)} to {format_rate(MOST_RATE_BPS)}"
                raise InputError(f"{shown(text)} is beyond the bounds of a rate, which goes {bounds}")
            return rate_bps
    raise InputError(f"{shown(text)}: unknown unit {shown(unit)}; write a rate such as {example!r}")


def parse_size_bytes(text: object) -> int:
    """Whole bytes in e.g. "25 MB", "1.5 MiB" or "1448 B" (raises InputError)."""
    example = "25 MB"
    value, unit = _split(text, "a size", example)
    if not unit.endswith("B"):
        raise InputError(f"{shown(text)}: unknown unit {shown(unit)}; write a size such as {example!r}")
    size = _scaled(value, unit[:-1], text, "a size", example)
    if not size < MOST_BYTES:
        raise InputError(f"{shown(text)} is too large for a size; write one such as {example!r}")
    return round(size)


def parse_duration_s(text: object) -> float:
    """Seconds in e.g. "1 s", "20 ms" or "2 min" (raises InputError)."""
    example = "1 s"
    value, unit = _split(text, "a duration", example)
    if unit not in _TIME_S:
        raise InputError(f"{shown(text)}: unknown unit {shown(unit)}; write a duration such as {example!r}")
    if value * _TIME_S[unit] > MOST_S:
        raise InputError(f"{shown(text)} is beyond the bound of a time, {MOST_S:,.0f} s; write one such as {example!r}")
    return value * _TIME_S[unit]


def parse_share(text: object) -> float:
    """The share (0 to 1) in e.g. "40 %" (raises InputError)."""
    example = "40 %"
    value, unit = _split(text, "a share", example)
    if unit != "%":
        raise InputError(f"{shown(text)}: unknown unit {shown(unit)}; write a share such as {example!r}")
    return value / 100


def payload_share(mtu_bytes: int) -> float:
    """The share of a link's line rate that full TCP segments leave for payload (1460/1514 at 1500).

    Raises InputError for an MTU that no IPv4 packet can have.
    """
    if not LEAST_MTU_BYTES <= mtu_bytes <= MOST_MTU_BYTES:
        raise InputError(
            f"mtu: {mtu_bytes:,} B is beyond the bounds of a packet, {LEAST_MTU_BYTES} B to {MOST_MTU_BYTES:,} B; "
            "Ethernet's is 1500 B"
        )
    return (mtu_bytes - TCP_IP_HEADER_BYTES) / (mtu_bytes + ETHERNET_HEADER_BYTES)


def payload_rate_Bps(line_rate_bps: float, mtu_bytes: int) -> float:
    """Payload bytes per second of a link of `line_rate_bps` bits per second at this MTU."""
    return line_rate_bps / 8 * payload_share(mtu_bytes)


def _format(value: float, unit: str) -> str:
    for prefix in ("T", "G", "M", "k"):
        if abs(value) >= _DECIMAL[prefix]:
            return f"{value / _DECIMAL[prefix]:.4g} {prefix}{unit}"
    return f"{value:.4g} {unit}"


def format_rate(rate_bps: float) -> str:
    """`rate_bps` in words, such as "100 Mbit/s"."""
    return _format(rate_bps, "bit/s")


def format_size(size_bytes: float) -> str:
    """`size_bytes` in words, such as "25 MB"."""
    return _format(size_bytes, "B")


def format_duration(duration_s: float) -> str:
    """`duration_s` in words, such as "12.5 ms"."""
    for unit in ("s", "ms", "us"):
        if abs(duration_s) >= _TIME_S[unit]:
            return f"{duration_s / _TIME_S[unit]:.4g} {unit}"
    return f"{duration_s:.3g} s"
