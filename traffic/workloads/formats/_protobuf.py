"""Protocol buffers without a library: the wire format, read and written.

Source: protobuf.dev/programming-guides/encoding. A message is a sequence of (field number, value); a value is an
int (varint, or fixed little-endian as raw bytes) or bytes (strings, messages, packed lists).
"""

from __future__ import annotations

from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
_MOST_VARINT_BYTES = 10


class WireError(ValueError):
    """The bytes are no message: cut off, or of another format."""


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The unsigned number at `at`, and where it ends (WireError where the bytes end before it does)."""
    value = 0
    for i in range(_MOST_VARINT_BYTES):
        if at + i >= len(data):
            raise WireError("ends within a number")
        byte = data[at + i]
        value |= (byte & 0x7F) << (7 * i)
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at + i + 1
    raise WireError("a number is longer than 64 bits")


def read_fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """(field number, wire type, value) of every field of the message `data`, in order."""
    at = 0
    while at < len(data):
        key, at = read_varint(data, at)
        number, wire = key >> 3, key & 7
        if number == 0:
            raise WireError("a field has number 0")
        if wire == VARINT:
            value, at = read_varint(data, at)
            yield number, wire, value
            continue
        if wire == LENGTH:
            size, at = read_varint(data, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise WireError(f"field {number} has wire type {wire}")
        if at + size > len(data):
            raise WireError(f"ends within field {number}")
        yield number, wire, data[at : at + size]
        at += size


def read_packed(data: bytes) -> Iterator[int]:
    """The unsigned numbers of a packed list."""
    at = 0
    while at < len(data):
        value, at = read_varint(data, at)
        yield value


def signed(value: int) -> int:
    """A varint read as unsigned, as the int32 or int64 that was written."""
    return value - (1 << 64) if value >= 1 << 63 else value


def varint(value: int) -> bytes:
    """`value` (negative ones as 64-bit two's complement) as a varint."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def number_field(number: int, value: int) -> bytes:
    """Field `number` with the varint `value`."""
    return varint(number << 3 | VARINT) + varint(value)


def bytes_field(number: int, value: bytes) -> bytes:
    """Field `number` with a string, message or packed list."""
    return varint(number << 3 | LENGTH) + varint(len(value)) + value
