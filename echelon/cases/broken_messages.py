"""Messages for the control socket as broken clients send them: each with whether it has to be refused.

Made of a good client's messages by a seed. Values are extreme or of other types, fields are too many or too few, lines
are cut, binary or nested, names unknown, and the order wrong.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

EXTREMES: tuple[Any, ...] = (
    -1, 0, 1, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, -(2**63), 0.5, -0.0, 1e308, "", "x" * 100_000, "\x00", "\ud7ff",
    None, True, [], {}, [[[[]]]], {"a": {"b": []}}, "h1", "job", "NaN", "../../etc/passwd", "%s%n", "${x}",
)  # fmt: skip
RAW = (
    b"", b" ", b"{", b"}", b"[]", b"null", b"NaN", b'{"type":[]}', b'{"type":null}', b'{"type":"explode"}', b'{"type":{}}',
    b"[" * 40_000, b'{"a":' * 20_000, b'{"type":"ready","x":' + b"[" * 9_000 + b"]" * 9_000 + b"}", b"\xff\xfe\x00",
    b'{"type":"release","job":"job","flow":"f0","iteration":0,"time_s":NaN}',
    b'{"type":"release","job":"job","flow":"f0","iteration":0,"time_s":1e999}',
    b'{"type":"hello","client":"\\ud800","host":"h3"}', b"\x16\x03\x01\x02\x00\x01", b"GET /status HTTP/1.1\r",
)  # fmt: skip


@dataclass(frozen=True)
class Line:
    """One line to send; `bad` is True where it must be refused, None where either will do."""

    kind: str
    data: bytes
    bad: bool | None


@dataclass
class Broken:
    """Draws lines for a client of `host`, which declares flows among `hosts` alone, all of jobs called `job`.

    `taken` is a job that is another's.
    """

    draw: random.Random
    host: str
    hosts: tuple[str, ...]
    job: str
    taken: str

    def line(self) -> Line:
        """The next line."""
        kind = self.draw.choice(list(_KINDS))
        return _KINDS[kind](self)

    def good(self) -> dict[str, Any]:
        """A message that would do, if it came at the right moment."""
        draw = self.draw
        flow = {
            "flow": f"x{draw.randrange(4)}", "index": draw.randrange(9), "coflow": "c", "src_host": self.host,
            "dst_host": draw.choice(self.hosts), "size_bytes": draw.randrange(1, 10**6), "offset_s": draw.random(),
            "src_port": draw.randrange(20_000, 60_000), "dst_port": 5001,
        }  # fmt: skip
        name = {"job": self.job, "flow": flow["flow"], "iteration": draw.randrange(3)}
        return draw.choice(
            [
                {
                    "type": "declare",
                    "job": self.job,
                    "group": f"g{draw.randrange(9)}",
                    "kind": "k",
                    "weight": 1.0,
                    "flows": [flow],
                },
                {
                    "type": "job_graph",
                    "job": self.job,
                    "iterations": 1,
                    "steps": [[-1, 0.1, []], [flow["index"], 0.0, [0]]],
                },
                {"type": "release", **name, "time_s": time.monotonic()},
                {"type": "progress", **name, "sent_bytes": draw.randrange(10**6)},
                {"type": "finish", **name, "time_s": time.monotonic()},
                {"type": "finish_again", **name, "time_s": time.monotonic()},
                {"type": "ready"},
                {"type": "done"},
            ]
        )

    def raw(self) -> Line:
        """What is no message at all."""
        return Line("raw", self.draw.choice(RAW), bad=True)

    def binary(self) -> Line:
        """Bytes by chance, but for the one that ends a line."""
        data = self.draw.randbytes(self.draw.randrange(1, 300)).replace(b"\n", b"\x00")
        return Line("binary", data, bad=True)

    def cut(self) -> Line:
        """A message that ends too early."""
        whole = json.dumps(self.good()).encode()
        return Line("cut", whole[: self.draw.randrange(1, len(whole))], bad=True)

    def extreme(self) -> Line:
        """A message with another value in one field."""
        message = self.good()
        where = message["flows"][0] if "flows" in message and self.draw.random() < 0.7 else message
        where[self.draw.choice([key for key in where if key != "type"] or ["x"])] = self.draw.choice(EXTREMES)
        return Line("extreme", json.dumps(message).encode(), bad=None)

    def fields(self) -> Line:
        """A field too many, or one too few."""
        message = self.good()
        if self.draw.random() < 0.5 or len(message) == 1:
            message["more"] = self.draw.choice(EXTREMES)
        else:
            del message[self.draw.choice(list(message))]
        return Line("fields", json.dumps(message).encode(), bad=True)

    def unknown(self) -> Line:
        """About a flow that there is not, or that is another's."""
        job, flow = self.draw.choice([("none", "x0"), (self.taken, "f0"), (self.taken, "none")])
        kind = self.draw.choice(["release", "finish"])
        message = {"type": kind, "job": job, "flow": flow, "iteration": 0, "time_s": time.monotonic()}
        return Line("unknown", json.dumps(message).encode(), bad=True)

    def wrong(self) -> Line:
        """What only others may say, or only at another moment."""
        begin = {
            "type": "begin",
            "run": "r",
            "policy": "fair",
            "enforcer": "rate",
            "agents": 0,
            "decisions_path": "/nowhere",
        }
        message = self.draw.choice(
            [
                begin,
                {"type": "end"},
                {"type": "host_down", "host": "h1", "jobs": []},
                {"type": "start", "zero_s": 0.0},
                {"type": "decide", "settings": []},
                {"type": "event", "what": "x"},
                {"type": "fault", "reason": "x"},
                {"type": "hello", "client": "c", "host": self.host},
                {"type": "hello", "client": "c", "host": ""},
            ]
        )
        return Line("wrong", json.dumps(message).encode(), bad=True)

    def fitting(self) -> Line:
        """Nothing is wrong with it, but for its moment."""
        return Line("fitting", json.dumps(self.good()).encode(), bad=None)


_KINDS: Mapping[str, Callable[[Broken], Line]] = MappingProxyType(
    {
        "raw": Broken.raw,
        "binary": Broken.binary,
        "cut": Broken.cut,
        "extreme": Broken.extreme,
        "fields": Broken.fields,
        "unknown": Broken.unknown,
        "wrong": Broken.wrong,
        "fitting": Broken.fitting,
    }
)
