"""Run folders with damage that disks, editors and people do: bytes, lines, values, packets, whole files."""

from __future__ import annotations

import json
import math
import random
import shutil
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 0.5, -0.5, 1e-300, 1e300, -1e300, math.nan, math.inf, 10**6, 10**9, 10**12,
    1 << 62, 1 << 63, -(1 << 63), 10**30, "", " ", "x", "5", "NaN", "é", "\x00", "$x^{", "a" * 5000, "../../x", "<b>",
    [], {}, [None], [[1]], {"a": 1}, {"": ""},
)  # fmt: skip
_FACTORS = (0.0, 0.5, 0.9, 0.998, 1.002, 1.01, 1.1, 2.0, 10.0, 1e3, 1e9, -1.0)
_RUBBISH = (b"\x00", b"\xff", b"\xfe\xff", b"{", b"}", b"[", b'"', b"\n", b"null", b"1e999", b"\\", b"<<<<<<< HEAD\n")
_PCAP_HEADER_BYTES, _RECORD_HEADER_BYTES = 24, 16


def damage(folder: Path, seed: int) -> str:
    """Damage the raw files in `folder`, and say in words what was done."""
    chance = random.Random(seed)
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    kinds = sorted({path.suffix for path in files})
    chosen = chance.choice([path for path in files if path.suffix == chance.choice(kinds)] or files)
    change = chance.choice(_changes_of(chosen))
    words = f"{chosen.relative_to(folder)}: {change.__name__.strip('_').replace('_', ' ')}"
    change(chosen, files, chance)
    return words


Change = Callable[[Path, list[Path], random.Random], None]


def _changes_of(path: Path) -> tuple[Change, ...]:
    anything: tuple[Change, ...] = (
        _flip_bytes, _flip_bytes, _cut_off, _empty, _remove, _insert_rubbish, _delete_bytes, _repeat_bytes,
        _swap_with_another, _make_a_folder,
    )  # fmt: skip
    if path.suffix == ".jsonl":
        return (*anything, *(_drop_lines, _double_lines, _swap_lines) * 3, *(_change_a_line,) * 8)
    if path.suffix == ".json":
        return (*anything, *(_change_a_value,) * 14)
    if path.suffix == ".pcap":
        return (*anything, *(_drop_packets, _shift_packets, _remark_packets, _stretch_a_record) * 3)
    return anything


def _flip_bytes(path: Path, _: list[Path], chance: random.Random) -> None:
    content = bytearray(path.read_bytes())
    for _each in range(chance.choice((1, 1, 2, 5, 30))):
        if content:
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    path.write_bytes(content)


def _cut_off(path: Path, _: list[Path], chance: random.Random) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content) + 1)])


def _empty(path: Path, _: list[Path], __: random.Random) -> None:
    path.write_bytes(b"")


def _remove(path: Path, _: list[Path], __: random.Random) -> None:
    path.unlink()


def _make_a_folder(path: Path, _: list[Path], __: random.Random) -> None:
    path.unlink()
    path.mkdir()


def _insert_rubbish(path: Path, _: list[Path], chance: random.Random) -> None:
    content, rubbish = path.read_bytes(), chance.choice(_RUBBISH) * chance.choice((1, 1, 4, 100, 100_000))
    at = chance.randrange(len(content) + 1)
    path.write_bytes(content[:at] + rubbish + content[at:])


def _delete_bytes(path: Path, _: list[Path], chance: random.Random) -> None:
    content = path.read_bytes()
    at = chance.randrange(len(content) + 1)
    path.write_bytes(content[:at] + content[at + chance.choice((1, 2, 10, 100, 1000)) :])


def _repeat_bytes(path: Path, _: list[Path], chance: random.Random) -> None:
    content = path.read_bytes()
    at, size = chance.randrange(len(content) + 1), chance.choice((1, 10, 100, 1000))
    path.write_bytes(content[:at] + content[at : at + size] * chance.choice((2, 3, 50)) + content[at + size :])


def _swap_with_another(path: Path, files: list[Path], chance: random.Random) -> None:
    other = chance.choice([one for one in files if one.suffix == path.suffix])
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


def _lines(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def _drop_lines(path: Path, _: list[Path], chance: random.Random) -> None:
    lines = _lines(path)
    for _each in range(min(chance.choice((1, 1, 3, 20)), len(lines))):
        del lines[chance.randrange(len(lines))]
    path.write_bytes(b"".join(lines))


def _double_lines(path: Path, _: list[Path], chance: random.Random) -> None:
    lines = _lines(path)
    at = chance.randrange(len(lines) or 1)
    path.write_bytes(b"".join(lines[: at + 1] + lines[at : at + chance.choice((1, 1, 5))] + lines[at + 1 :]))


def _swap_lines(path: Path, _: list[Path], chance: random.Random) -> None:
    lines = _lines(path)
    if lines:
        one, two = chance.randrange(len(lines)), chance.randrange(len(lines))
        lines[one], lines[two] = lines[two], lines[one]
    path.write_bytes(b"".join(lines))


def _change_a_line(path: Path, _: list[Path], chance: random.Random) -> None:
    lines = _lines(path)
    at = chance.randrange(len(lines) or 1)
    if lines:
        lines[at] = json.dumps(_changed(json.loads(lines[at]), chance)).encode("utf-8", "replace") + b"\n"
    path.write_bytes(b"".join(lines))


def _change_a_value(path: Path, _: list[Path], chance: random.Random) -> None:
    path.write_text(json.dumps(_changed(json.loads(path.read_bytes()), chance)), encoding="utf-8", errors="replace")


def _changed(tree: Any, chance: random.Random) -> Any:
    """`tree` with one to three changes to its values."""
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        places = list(_places(tree))
        if not places:
            return chance.choice(_ODD)
        # Deep values are many: the shallow ones get their share by halves.
        inside, key = chance.choice(places if chance.random() < 0.5 else places[: max(len(places) // 20, 8)])
        _change_at(inside, key, chance)
    return tree


def _change_at(inside: Any, key: Any, chance: random.Random) -> None:
    value = inside[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    match chance.randrange(8):
        case 0 | 1 | 2 if number:
            scaled = value * chance.choice(_FACTORS)
            inside[key] = round(scaled) if isinstance(value, int) and math.isfinite(scaled) else scaled
        case 3:
            del inside[key]
        case 4 if isinstance(inside, dict):
            inside[f"{key}x"] = inside.pop(key)
        case 5 if isinstance(inside, list):
            inside[key:key] = [inside[key]] * chance.choice((1, 2, 500))
        case 6:
            inside[key] = [value] if chance.random() < 0.5 else {"a": value}
        case _:
            inside[key] = chance.choice(_ODD)


def _places(tree: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with every key or place in it, the outer ones first."""
    waiting = [tree]
    while waiting:
        inside = waiting.pop(0)
        entries = inside.items() if isinstance(inside, dict) else enumerate(inside) if isinstance(inside, list) else ()
        for key, value in list(entries):
            yield inside, key
            if isinstance(value, dict | list):
                waiting.append(value)


def _records(content: bytes) -> list[bytes]:
    """The packets of a capture with their headers (little-endian, as tcpdump writes them here)."""
    found, at = [], _PCAP_HEADER_BYTES
    while at + _RECORD_HEADER_BYTES <= len(content):
        size = _RECORD_HEADER_BYTES + struct.unpack_from("<I", content, at + 8)[0]
        found.append(content[at : at + size])
        at += size
    return found


def _write_records(path: Path, records: list[bytes]) -> None:
    path.write_bytes(path.read_bytes()[:_PCAP_HEADER_BYTES] + b"".join(records))


def _drop_packets(path: Path, _: list[Path], chance: random.Random) -> None:
    share = chance.choice((0.001, 0.01, 0.2, 1.0))
    _write_records(path, [one for one in _records(path.read_bytes()) if chance.random() >= share])


def _shift_packets(path: Path, _: list[Path], chance: random.Random) -> None:
    """Later by up to a minute, from some packet on."""
    records = [bytearray(one) for one in _records(path.read_bytes())]
    for record in records[chance.randrange(len(records) or 1) :]:
        seconds = struct.unpack_from("<I", record)[0]
        struct.pack_into("<I", record, 0, min(seconds + chance.choice((1, 1, 60)), (1 << 32) - 1))
    _write_records(path, [bytes(one) for one in records])


def _remark_packets(path: Path, _: list[Path], chance: random.Random) -> None:
    """Another DSCP in the IP header of a share of the packets."""
    records, share = [bytearray(one) for one in _records(path.read_bytes())], chance.choice((0.05, 0.5, 1.0))
    for record in records:
        if len(record) > _RECORD_HEADER_BYTES + 15 and chance.random() < share:
            record[_RECORD_HEADER_BYTES + 15] = chance.randrange(64) << 2
    _write_records(path, [bytes(one) for one in records])


def _stretch_a_record(path: Path, _: list[Path], chance: random.Random) -> None:
    """A captured or a wire length that is none."""
    content, at = bytearray(path.read_bytes()), _PCAP_HEADER_BYTES
    records = _records(bytes(content))
    if records:
        at += sum(map(len, records[: chance.randrange(len(records))]))
        struct.pack_into("<I", content, at + chance.choice((8, 12)), chance.choice((0, 1, 60, 10**6, (1 << 32) - 1)))
    path.write_bytes(content)


def copy_raw(source: Path, target: Path) -> None:
    """A copy of a run folder at `target`, in place of what was there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
