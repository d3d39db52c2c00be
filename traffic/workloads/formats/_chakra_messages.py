"""Chakra's messages on the wire: a file is a GlobalMetadata, then Nodes, each after its length.

Source: mlcommons/chakra, schema/protobuf/et_def.proto and src/third_party/utils/protolib.py.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from echelonflow.errors import InputError
from traffic.workloads.formats import _files
from traffic.workloads.formats._protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    WireError,
    bytes_field,
    number_field,
    read_fields,
    read_packed,
    read_varint,
    signed,
    varint,
)

VERSION = "1.0.0"
METADATA, MEM_LOAD, MEM_STORE, COMP, COMM_SEND, COMM_RECV, COMM_COLL = 1, 2, 3, 4, 5, 6, 7
Value = int | float | bool | str
_DOUBLE, _FLOAT, _INT64, _FLAG, _STRING = 3, 5, 9, 27, 29
_INT32 = 7
_INT32_ATTRIBUTES = {"comm_src", "comm_dst", "comm_tag"}
"""What ASTRA-sim reads as int32; it reads other whole numbers as int64."""
_CONTROL, _DATA = 4, 5
"""Dependencies of a node, by kind."""
_SIGNED, _UNSIGNED, _ZIGZAG = {7, 9}, {11, 13}, {15, 17}
_FIXED = {5: "<f", 19: "<I", 23: "<i", 3: "<d", 21: "<Q", 25: "<q"}
_FIXED_SIZE = {FIXED32: {5, 19, 23}, FIXED64: {3, 21, 25}}

MAX_NODES = 2_000_000
"""Of one file: twice the steps that a job may have, for nodes that become none."""


@dataclass
class Node:
    """One node of one rank's trace; `attributes` are those with a single value."""

    id: int = 0
    name: str = ""
    type: int = 0
    after: list[int] = field(default_factory=list)
    """Ids of the nodes that it waits for, control and data alike, in the order written."""
    duration_us: int = 0
    attributes: dict[str, Value] = field(default_factory=dict)
    control: set[int] = field(default_factory=set)
    """Those of `after` that it waits for by control and not for their data."""


def read(path: Path) -> tuple[dict[str, Value], list[Node]]:
    """The metadata attributes and nodes in the file at `path` (InputError naming file and message)."""
    data = _files.read_bytes(path)
    metadata: dict[str, Value] = {}
    nodes: list[Node] = []
    count = 0
    try:
        for message in _messages(data):
            if count == 0:
                metadata = _metadata(message)
            else:
                nodes.append(_node(message, count))
            count += 1
    except (WireError, UnicodeDecodeError) as error:
        where = "its metadata" if count == 0 else f"node {count}"
        reason = error if isinstance(error, WireError) else "a name is not text"
        raise InputError(f"{path}: {where}: {reason}; this is no complete Chakra trace") from None
    return metadata, nodes


def encode(metadata: Mapping[str, Value], nodes: Iterator[Node]) -> bytes:
    """The bytes of a trace file."""
    head = bytes_field(1, VERSION.encode()) + b"".join(bytes_field(2, _attribute(k, v)) for k, v in metadata.items())
    return b"".join(varint(len(message)) + message for message in (head, *map(_encoded, nodes)))


def _messages(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size, at = read_varint(data, at)
        if at + size > len(data):
            raise WireError("ends within a message")
        yield data[at : at + size]
        at += size


def _metadata(message: bytes) -> dict[str, Value]:
    attributes: dict[str, Value] = {}
    for number, wire, value in read_fields(message):
        if number == 2 and wire == LENGTH:
            assert isinstance(value, bytes)
            _add_attribute(attributes, value)
        elif number != 1 or wire != LENGTH:
            raise WireError(f"field {number} is none of GlobalMetadata")
    return attributes


def _node(message: bytes, count: int) -> Node:
    """The node in a message that is the `count`-th of its file (WireError where it is none)."""
    if not message:
        raise WireError("is empty")
    if count > MAX_NODES:
        raise WireError(f"is one more than {MAX_NODES:,}, which is the limit")
    node = Node()
    data: set[int] = set()
    for number, wire, value in read_fields(message):
        if isinstance(value, int):
            if number == 1:
                node.id = value
            elif number == 3:
                node.type = value
            elif number in (_CONTROL, _DATA):
                node.after.append(value)
                (data if number == _DATA else node.control).add(value)
            elif number == 7:
                node.duration_us = value
        elif wire == LENGTH:
            if number == 2:
                node.name = value.decode("utf-8")
            elif number in (_CONTROL, _DATA):
                before = list(read_packed(value))
                node.after.extend(before)
                (data if number == _DATA else node.control).update(before)
            elif number == 10:
                _add_attribute(node.attributes, value)
    node.control -= data
    return node


def _add_attribute(attributes: dict[str, Value], message: bytes) -> None:
    """Add one AttributeProto, whatever its type; lists and raw bytes are of no use here and left out."""
    name = ""
    found: Value | None = None
    for number, wire, value in read_fields(message):
        if isinstance(value, int):
            if number == _FLAG:
                found = bool(value)
            elif number in _SIGNED:
                found = signed(value)
            elif number in _UNSIGNED:
                found = value
            elif number in _ZIGZAG:
                found = (value >> 1) ^ -(value & 1)
        elif number == 1 and wire == LENGTH:
            name = value.decode("utf-8")
        elif number == _STRING and wire == LENGTH:
            found = value.decode("utf-8")
        elif number in _FIXED_SIZE.get(wire, ()):
            found = struct.unpack(_FIXED[number], value)[0]
    if found is not None:
        attributes[name] = found


def _encoded(node: Node) -> bytes:
    parts = [number_field(1, node.id), bytes_field(2, node.name.encode()), number_field(3, node.type)]
    for kind, by_control in ((_CONTROL, True), (_DATA, False)):
        if before := [other for other in node.after if (other in node.control) is by_control]:
            parts.append(bytes_field(kind, b"".join(map(varint, before))))
    if node.duration_us:
        parts.append(number_field(7, node.duration_us))
    parts += [bytes_field(10, _attribute(name, value)) for name, value in node.attributes.items()]
    return b"".join(parts)


def _attribute(name: str, value: Value) -> bytes:
    head = bytes_field(1, name.encode())
    if isinstance(value, bool):
        return head + number_field(_FLAG, value)
    if isinstance(value, int):
        return head + number_field(_INT32 if name in _INT32_ATTRIBUTES else _INT64, value)
    if isinstance(value, float):
        return head + varint(_DOUBLE << 3 | FIXED64) + struct.pack("<d", value)
    return head + bytes_field(_STRING, value.encode())
