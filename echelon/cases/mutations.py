"""Experiment files with faults that somebody might make, or might want to make: of their values, and of their bytes."""

from __future__ import annotations

import copy
import json
import math
import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Raw:
    """Text that stands in a file as it is, instead of a value."""

    text: str


Tree = Any
"""What YAML makes of a file: mappings, lists and scalars, with `Raw` in them."""
_ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2, 3, 7, 0.5, -0.5, 1e-300, 1e308, -1e308, math.nan, math.inf, -math.inf, 10**4, 10**7,
    30_000, 10**12, 1 << 62, 1 << 63, 10**30, 10**400, "", " ", "x", "5", "-1", "NaN", "0x10", "1_000", "é", "日本",
    "a\nb", "a\tb", "\x00", "a" * 5000, "../../etc/passwd", "/dev/zero", "/proc/self/mem", "~", "$HOME/x", "${NO_SUCH}",
    "%s%n", "{0}", "*", "0 s", "-1 s", "1e308 s", "1e9 s of link", "1e308 s of link", "40 B", "0 B", "1e30 TB", "1 B",
    "1e-300 bit/s", "1e300 Tbit/s", "10 Mbit", "5 %", "500 %", [], {}, [None], [[]], [[[1]]], {"a": 1}, {"": ""}, [1, "a", None],
    Raw("2020-99-99"), Raw("2020-09-09"), Raw("!!binary aGVsbG8="), Raw("!!set {a, b}"), Raw("!!omap [a: 1]"),
    Raw("!!python/object:os.system x"), Raw("!x y"), Raw("&n [*n]"), Raw("*missing"), Raw("9" * 5000), Raw("[" * 300 + "]" * 300),
    Raw("[" * 5000), Raw("{a: " * 40 + "1" + "}" * 40), Raw("'"), Raw('"\\q"'), Raw("@x"), Raw("`x`"), Raw("a: b: c"), Raw("? x"),
    Raw("coflow(grouping=group, order=x)"), Raw("0o17"), Raw("0b11"), Raw("1:30:00"), Raw(".inf"), Raw("-.inf"), Raw(".nan"), Raw("~"),
    Raw("|\n      a\n      b"), Raw(">-\n      a"),
)  # fmt: skip
_NUMBERS = (0, 1, 2, 3, 5, 10, 16, 64, 100, 999, 1000, 4096, 10**4, 10**5, 10**6, 10**7, 10**8, 10**9, 10**18, -1, -5)
_UNITS = (
    "s",
    "ms",
    "us",
    "ns",
    "min",
    "h",
    "days",
    "B",
    "kB",
    "MB",
    "GiB",
    "TB",
    "bit/s",
    "Mbit/s",
    "Gbps",
    "MB/s",
    "%",
    "",
    "s of link",
    "Hz",
)
_NAMES = (
    "fair", "coflow", "coflow(grouping=group)", "echelonflow", "echelonflow(order=remaining)", "srpt(x=1)", "aalo(queues=1e400)",
    "weighted(a=)", "coflow(", ")", "coflow()()", "best", "./mine.py", "gpipe", "fsdp", "hybrid", "zero", "pipedream", "pipeline",
    "data-parallel", "parameter-server", "expert-parallel", "tensor-parallel", "single-switch", "leaf-spine", "dumbbell", "big-switch",
    "h1", "h99", "s1", "h1-s1", "packed", "random(seed=3)", "ring-aware", "fragmented(largest=0)", "ecmp", "ecmp(seed=7)", "fat-tree", "three-layer", "gpt2-small-cpu", "direct", "ring", "ring-steps", "tree", "halving-doubling", "kernel", "derived", "eq6", "eq7",
)  # fmt: skip
_KEYS = (
    "name", "title", "network", "jobs", "policies", "repeats", "seed", "emulation", "fluid", "faults", "topology", "hosts", "rate",
    "mtu", "ports", "leaves", "spines", "hosts_per_leaf", "paradigm", "trace", "import", "profile", "iterations", "weight", "start",
    "placement", "scaling", "stages", "micro_batches", "chunks", "ranks", "layers", "forward", "backward", "activation", "parameter",
    "update", "bucket", "algorithm", "arrangement", "window", "stage", "tensor", "pipeline", "data", "all_reduces", "workers",
    "servers", "colocated", "dispatch", "expert_every", "expert_share", "top_k", "limits", "datapath", "tso", "classes", "format",
    "file", "files", "gpus_per_host", "rates", "routing", "k", "oversubscription", "planes", "coflows", "speed_up", "epoch", "time_unit", "<<",
)  # fmt: skip
_TOKENS = (
    b"\t", b"'", b'"', b"{", b"}", b"[", b"]", b": ", b":", b",", b"#", b"&a ", b"*a", b"!!", b"!!int ", b"---\n", b"...\n", b"%YAML 1.1\n",
    b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xc3\xa9", b"\xe2\x80\xa8", b"\r", b"\r\n", b"\n", b"|\n", b">\n", b"<<: ", b"? ", b"- ", b"-", b"9999999",
    b"1e308", b"-", b".", b" of link", b"0", b"(", b")", b"=", b"\\", b"@", b"`", b"\x1b[31m",
)  # fmt: skip


def structured(trees: Sequence[Tree], seed: int) -> str:
    """One of `trees` with one to four changes to its values and keys, written as YAML."""
    chance = random.Random(seed)
    tree = copy.deepcopy(chance.choice(trees))
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 4))):
        tree = _changed(tree, trees, chance)
    return _bomb(chance) + written(tree) if chance.random() < 0.02 else written(tree)


def bytewise(texts: Sequence[bytes], seed: int) -> bytes:
    """One of `texts` with one to six changes to its bytes."""
    chance = random.Random(seed)
    out = bytearray(chance.choice(texts))
    for _ in range(chance.choice((1, 1, 2, 3, 4, 6))):
        _change_bytes(out, texts, chance)
    return bytes(out)


def written(tree: Tree, indent: int = 0) -> str:
    """A tree as block YAML."""
    if isinstance(tree, dict) and tree:
        lines = []
        for key, value in tree.items():
            name = key.text if isinstance(key, Raw) else _scalar(key)
            lines.append(" " * indent + name + ":" + _behind(value, indent))
        return "".join(lines)
    if isinstance(tree, list) and tree:
        return "".join(" " * indent + "-" + _behind(value, indent) for value in tree)
    return " " * indent + _scalar(tree) + "\n"


def _behind(value: Tree, indent: int) -> str:
    if isinstance(value, dict | list) and value:
        return "\n" + written(value, indent + 2)
    return f" {_scalar(value)}\n"


def _scalar(value: Any) -> str:
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else (".inf" if value > 0 else "-.inf")
    if isinstance(value, int) and abs(value) >= 10**300:
        return "1" + "0" * 400
    if (
        isinstance(value, str)
        and re.fullmatch(r"[A-Za-z][A-Za-z0-9 _./=()-]*", value)
        and value not in ("true", "false", "null")
    ):
        return value
    return json.dumps(value, ensure_ascii=False)


def _places(tree: Tree) -> Iterator[tuple[Any, Any]]:
    """Every container with every key or place in it."""
    entries: list[tuple[Any, Any]] = []
    if isinstance(tree, dict):
        entries = list(tree.items())
    elif isinstance(tree, list):
        entries = list(enumerate(tree))
    for key, value in entries:
        yield tree, key
        yield from _places(value)


def _changed(tree: Tree, trees: Sequence[Tree], chance: random.Random) -> Tree:
    places = list(_places(tree))
    if not places:
        return copy.deepcopy(chance.choice(trees))
    inside, key = chance.choice(places)
    change = chance.choice(_CHANGES)
    change(inside, key, trees, chance)
    return tree


def _replace(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    inside[key] = copy.deepcopy(chance.choice(_ODD))


def _resize(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    """Another number; in a quantity, another number or unit."""
    value = inside[key]
    match = re.fullmatch(r"([0-9.]+) (.*)", value) if isinstance(value, str) else None
    if match is None:
        inside[key] = chance.choice(_NUMBERS)
    elif chance.random() < 0.5:
        inside[key] = f"{chance.choice(_NUMBERS)} {match[2]}"
    else:
        inside[key] = f"{match[1]} {chance.choice(_UNITS)}"


def _nudge(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    """Another value of the same kind, as somebody who knows the format would write; most such files are right."""
    value = inside[key]
    match = re.fullmatch(r"([0-9.]+) (.*)", value) if isinstance(value, str) else None
    if isinstance(value, dict | list) and value:
        _nudge(value, chance.choice(list(value) if isinstance(value, dict) else range(len(value))), _, chance)
    elif isinstance(value, bool):
        inside[key] = not value
    elif isinstance(value, int):
        inside[key] = chance.choice((value + 1, max(value - 1, 0), value * 2, value * 10))
    elif isinstance(value, float):
        inside[key] = value * chance.choice((0.5, 2, 10))
    elif match is not None:
        inside[key] = f"{float(match[1]) * chance.choice((0.1, 0.5, 2, 10, 1000)):g} {match[2]}"


def _rename(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    if not isinstance(inside, dict):
        inside[key] = chance.choice(_NAMES)
        return
    old = str(key)
    at = chance.randrange(len(old) or 1)
    new: Any = chance.choice(
        (
            old[:at] + old[at + 1 :],
            old[:at] + old[at : at + 1] + old[at:],
            old.upper(),
            chance.choice(_KEYS),
            Raw("1"),
            Raw("[a]"),
            Raw("null"),
        )
    )
    inside[new] = inside.pop(key)


def _remove(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    del inside[key]


def _double(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    if isinstance(inside, list):
        inside[key:key] = [copy.deepcopy(inside[key])] * chance.choice((1, 1, 2, 50, 2000))
    else:
        inside[Raw(f"{key} ")] = copy.deepcopy(inside[key])


def _wrap(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    value = inside[key]
    for _each in range(chance.choice((1, 1, 1, 2, 40))):
        value = [value] if chance.random() < 0.5 else {"a": value}
    inside[key] = value


def _unwrap(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    value = inside[key]
    if isinstance(value, dict) and value:
        inside[key] = chance.choice((next(iter(value.values())), [dict([each]) for each in value.items()], "text"))
    elif isinstance(value, list) and value:
        inside[key] = chance.choice((value[0], dict(enumerate(map(str, value))), {str(each): None for each in value}))
    else:
        inside[key] = [copy.deepcopy(value)] * chance.choice((2, 30))


def _transplant(inside: Any, key: Any, trees: Sequence[Tree], chance: random.Random) -> None:
    """A part of another file, or of this one."""
    other, place = chance.choice(list(_places(chance.choice(trees))))
    if isinstance(inside, dict) and chance.random() < 0.5:
        inside[place if isinstance(place, str) else chance.choice(_KEYS)] = copy.deepcopy(other[place])
    else:
        inside[key] = copy.deepcopy(other[place])


def _add(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    value = chance.choice((chance.choice(_ODD), chance.choice(_NAMES), chance.choice(_NUMBERS)))
    if isinstance(inside, dict):
        inside[chance.choice(_KEYS)] = copy.deepcopy(value)
    else:
        inside.insert(key, copy.deepcopy(value))


def _name(inside: Any, key: Any, _: Sequence[Tree], chance: random.Random) -> None:
    inside[key] = chance.choice(_NAMES)


_CHANGES = (
    *(_nudge,) * 6,
    _replace,
    _replace,
    _resize,
    _resize,
    _resize,
    _rename,
    _remove,
    _double,
    _wrap,
    _unwrap,
    _transplant,
    _add,
    _name,
)


def _bomb(chance: random.Random) -> str:
    """Aliases of aliases, which stand for more values than fit anywhere."""
    wide, deep = chance.choice((2, 9, 30)), chance.choice((3, 9, 25))
    lines = ["a0: &a0 [" + ", ".join(["x"] * wide) + "]\n"]
    lines += [f"a{i}: &a{i} [" + ", ".join([f"*a{i - 1}"] * wide) + "]\n" for i in range(1, deep)]
    return "".join(lines)


def _change_bytes(out: bytearray, texts: Sequence[bytes], chance: random.Random) -> None:
    at = chance.randrange(len(out) or 1)
    size = chance.choice((1, 1, 2, 5, 30, 200))
    match chance.randrange(10):
        case 0:
            out[at : at + 1] = bytes([chance.randrange(256)])
        case 1:
            out[at : at + 1] = bytes([(out[at] if out else 0) ^ (1 << chance.randrange(8))])
        case 2:
            del out[at : at + size]
        case 3:
            out[at:at] = bytes(chance.randrange(256) for _ in range(min(size, 5)))
        case 4 | 5:
            out[at:at] = chance.choice(_TOKENS) * chance.choice((1, 1, 1, 3))
        case 6:
            out[at:at] = out[at : at + size] * chance.choice((1, 2, 20))
        case 7:
            other = chance.choice(texts)
            start = chance.randrange(len(other))
            out[at:at] = other[start : start + size * 3]
        case 8:
            digits = [i for i, byte in enumerate(out) if 48 <= byte < 58]
            if digits:
                at = chance.choice(digits)
                out[at : at + 1] = chance.choice((b"0", b"-1", b"99999999", b"1e308", b"nan", b"0.5", b"", b"9" * 40))
        case _:
            lines = bytes(out).split(b"\n")
            i, j = chance.randrange(len(lines)), chance.randrange(len(lines))
            lines[i], lines[j] = lines[j], chance.choice((lines[i], lines[j], b"  " + lines[i], lines[i].strip()))
            out[:] = b"\n".join(lines)
