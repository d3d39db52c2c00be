"""Faults of clocks and captures that are put into the raw records of a good run: as if they had been in them from the start.

The folder is sealed again afterwards, so that it is what the records tell that has to show the fault.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from echelonflow.errors import RunError
from echelonflow.records.folder import RunFiles, RunFolder
from echelonflow.records.outcome import CaptureCounts, RunOutcome, read_outcome, write_outcome

CLOCK_STEP_S = 0.05
"""How far a clock is set."""
EVERY = 100
"""One packet of so many is removed."""
_TIMES = ("start_s", "finish_s", "release_s", "acked_s", "first_s")
_PCAP_HEADER_BYTES = 24
_RECORD = struct.Struct("<IIII")
"""Seconds, nanoseconds, bytes kept and bytes sent of a packet, as our captures have it."""
_NANOSECONDS = b"\x4d\x3c\xb2\xa1"

Forge = Callable[[RunFolder, RunFiles], None]
"""Puts a fault into the records of one run."""


def clock_of_day_set(folder: RunFolder, files: RunFiles) -> None:
    """The time of day jumps in the middle of the run: packets and the last reading of the clock tell of it."""
    outcome = read_outcome(files.outcome)
    begin, end = outcome.clock[0], outcome.clock[-1]
    middle_ns = round((begin.realtime_s + end.realtime_s) / 2 * 1e9)
    for path in _captures(folder, outcome):
        packets = [(_set(time_ns, middle_ns), length, kept) for time_ns, length, kept in _packets(path)]
        _write_packets(path, packets)
    outcome.clock[-1] = msgspec.structs.replace(end, realtime_s=end.realtime_s + CLOCK_STEP_S)
    write_outcome(files.outcome, outcome)


def _set(time_ns: int, from_ns: int) -> int:
    return time_ns + (round(CLOCK_STEP_S * 1e9) if time_ns >= from_ns else 0)


def clock_of_an_agent_set(folder: RunFolder, files: RunFiles) -> None:
    """The clock of one agent jumps in the middle of the run: everything that it notes from then on is later."""
    del folder
    path = max(files.agents.glob("*.jsonl"), key=lambda path: path.stat().st_size)
    first, *lines = path.read_text(encoding="utf-8").splitlines()
    steps = [json.loads(line) for line in lines]
    last_s = max(step[name] for step in steps for name in _TIMES if name in step)
    changed = [json.dumps(_later(step, last_s / 2), separators=(",", ":")) for step in steps]
    path.write_text("\n".join([first, *changed, ""]), encoding="utf-8")


def _later(step: dict[str, Any], from_s: float) -> dict[str, Any]:
    """A line of an agent's log whose times from `from_s` on are those of the clock that was set."""
    later = {name: step[name] + CLOCK_STEP_S for name in _TIMES if name in step and step[name] >= from_s}
    if step.get("late_s") is not None and "finish_s" in later and "start_s" not in later:
        later["late_s"] = step["late_s"] + CLOCK_STEP_S  # it was this step in whose midst the clock was set
    return {**step, **later}


def packets_removed(folder: RunFolder, files: RunFiles) -> None:
    """One packet in a hundred is missing in every capture, and no count tells of it."""
    outcome = read_outcome(files.outcome)
    for host, counts in outcome.captures.items():
        path = folder.pcap / counts.file
        packets = [packet for number, packet in enumerate(_packets(path), 1) if number % EVERY]
        _write_packets(path, packets)
        outcome.captures[host] = CaptureCounts(counts.file, len(packets), counts.dropped)
    write_outcome(files.outcome, outcome)


def _captures(folder: RunFolder, outcome: RunOutcome) -> list[Path]:
    return [folder.pcap / counts.file for counts in outcome.captures.values()]


_Packet = tuple[int, int, bytes]
"""Time in nanoseconds, length on the wire, and the bytes that were kept of it."""


def _packets(path: Path) -> Iterator[_Packet]:
    content = path.read_bytes()
    if not content.startswith(_NANOSECONDS):
        raise RunError(f"{path}: is no capture in nanoseconds of this machine's byte order")
    at = _PCAP_HEADER_BYTES
    while at + _RECORD.size <= len(content):
        seconds, nanoseconds, kept_bytes, length = _RECORD.unpack_from(content, at)
        at += _RECORD.size
        yield seconds * 1_000_000_000 + nanoseconds, length, content[at : at + kept_bytes]
        at += kept_bytes


def _write_packets(path: Path, packets: list[_Packet]) -> None:
    """Put `packets` in the place of those that the capture holds."""
    with path.open("r+b") as file:
        file.seek(_PCAP_HEADER_BYTES)
        for time_ns, length, kept in packets:
            file.write(_RECORD.pack(*divmod(time_ns, 1_000_000_000), len(kept), length) + kept)
        file.truncate()
