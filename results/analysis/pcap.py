"""A fast reader of packet captures: every TCP stream with payload, as arrays.

Reads classic pcap (micro- and nanoseconds, either byte order) of Ethernet, IPv4 and TCP. Nothing is
made per packet but one offset: the fields of all packets are gathered from the mapped file by numpy.
Sizes come from IP's total length, never from the captured length, so short snap lengths and the super-segments
of segmentation offload are measured in full. Checked against scapy in the tests.
"""

from __future__ import annotations

import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from echelonflow.errors import InputError

Int64s = npt.NDArray[np.int64]
FourTuple = tuple[str, int, str, int]
"""(source address, source port, destination address, destination port)."""

_FILE_HEADER_BYTES = 24
_RECORD_HEADER_BYTES = 16
_LINK_TYPE_ETHERNET = 1
_ETHERNET_BYTES = 14
_LEAST_BYTES = _ETHERNET_BYTES + 20 + 14
"""Captured bytes without which a packet tells nothing: Ethernet, IPv4, and TCP up to its flags."""
_FORMATS = {
    b"\xd4\xc3\xb2\xa1": ("<", 1000),
    b"\xa1\xb2\xc3\xd4": (">", 1000),
    b"\x4d\x3c\xb2\xa1": ("<", 1),
    b"\xa1\xb2\x3c\x4d": (">", 1),
}
"""First four bytes of a file to (byte order, nanoseconds in one unit of the fraction)."""


@dataclass(frozen=True, slots=True, eq=False)
class TcpStream:
    """Packets with payload of one direction of one connection, in the order of capture.

    `time_ns` is the capture's clock (realtime). `seq` is the position of the packet's first byte in the stream (0 is
    the first payload byte, unwrapped beyond 4 GiB). `payload_bytes` is its length, `dscp` its mark.
    """

    time_ns: Int64s
    seq: Int64s
    payload_bytes: Int64s
    dscp: npt.NDArray[np.uint8]
    anchored: bool
    """Whether the connection's SYN was captured. If not, position 0 is the first packet seen."""


@dataclass(frozen=True, slots=True, eq=False)
class Capture:
    """One file: its TCP streams that carry payload, and how much of the file could be read."""

    streams: dict[FourTuple, TcpStream]
    packets: int
    """Complete records in the file, of any protocol."""
    unread_bytes: int
    """Bytes from a record on that was cut off (the capturing program was killed in mid-write), or that has none."""


def read(path: Path) -> Capture:
    """Read the capture `path`; InputError, naming the file, if it is not an Ethernet pcap."""
    try:
        with path.open("rb") as file:
            header = file.read(_FILE_HEADER_BYTES)
            if header[:4] not in _FORMATS or len(header) < _FILE_HEADER_BYTES:
                what = "empty" if not header else "not a pcap file (pcapng is not read)"
                raise InputError(f"{path}: is {what}; give a capture written by tcpdump -w")
            order, fraction_ns = _FORMATS[header[:4]]
            link_type = struct.unpack(order + "I", header[20:])[0] & 0xFFFF
            if link_type != _LINK_TYPE_ETHERNET:
                raise InputError(f"{path}: has link type {link_type}; only Ethernet (1) is read")
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Reader(data, order, fraction_ns).read()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None


def _offsets(data: mmap.mmap, order: str) -> tuple[Int64s, int]:
    """Offset of every complete record, and the bytes of an incomplete one at the end.

    The one loop over packets. Measured against other ways of finding the records (see the tests'
    timing), this costs least: where the next record lies is known only from the one before.
    """
    unpack = struct.Struct(order + "I").unpack_from
    found: list[int] = []
    append = found.append
    end = len(data)
    last = end - _RECORD_HEADER_BYTES
    offset = _FILE_HEADER_BYTES
    while offset <= last:
        append(offset)
        # A record without a byte is no packet but a hole, which may have billions of them: the file ends there.
        offset += _RECORD_HEADER_BYTES + (unpack(data, offset + 8)[0] or end)
    unread = 0
    if offset > end:
        unread = end - found.pop()
    elif offset < end:
        unread = end - offset
    return np.array(found, dtype=np.int64), unread


class _Reader:
    """Gathers fields of many packets at once from a mapped file."""

    def __init__(self, data: mmap.mmap, order: str, fraction_ns: int) -> None:
        self._data = data
        self._order = order
        self._fraction_ns = fraction_ns

    def _field(self, dtype: str, offsets: Int64s) -> Int64s:
        """The value of type `dtype` at each of `offsets`, which need not be aligned."""
        kind = np.dtype(dtype)
        everywhere: npt.NDArray[Any] = np.ndarray(
            shape=(len(self._data) - kind.itemsize + 1,), dtype=kind, buffer=self._data, strides=(1,)
        )
        return everywhere[offsets].astype(np.int64)

    def read(self) -> Capture:
        """All streams of the file."""
        offsets, unread = _offsets(self._data, self._order)
        packets = offsets.size
        captured = self._field(self._order + "u4", offsets + 8)
        offsets = offsets[captured >= _LEAST_BYTES]
        start = offsets + _RECORD_HEADER_BYTES
        ip = start + _ETHERNET_BYTES
        ipv4_tcp = (self._field(">u2", start + 12) == 0x0800) & (self._field("u1", ip + 9) == 6)
        # A fragment other than the first has no TCP header.
        ipv4_tcp &= (self._field(">u2", ip + 6) & 0x1FFF) == 0
        offsets, ip = offsets[ipv4_tcp], ip[ipv4_tcp]
        ip_header = (self._field("u1", ip) & 0x0F) * 4
        tcp = ip + ip_header
        room = self._field(self._order + "u4", offsets + 8) - _ETHERNET_BYTES - ip_header >= 14
        offsets, ip, tcp, ip_header = offsets[room], ip[room], tcp[room], ip_header[room]
        total = self._field(">u2", ip + 2)
        # Super-segments beyond 64 KiB carry a total length of 0; the record still knows the packet's length.
        wire = self._field(self._order + "u4", offsets + 12) - _ETHERNET_BYTES
        total = np.where(total == 0, wire, total)
        offset_flags = self._field(">u2", tcp + 12)
        payload = total - ip_header - (offset_flags >> 12) * 4
        syn = (offset_flags & 0x02) != 0
        kept = (payload > 0) | syn
        return Capture(self._streams(offsets[kept], ip[kept], tcp[kept], payload[kept], syn[kept]), packets, unread)

    def _streams(
        self, offsets: Int64s, ip: Int64s, tcp: Int64s, payload: Int64s, syn: npt.NDArray[np.bool_]
    ) -> dict[FourTuple, TcpStream]:
        seconds = self._field(self._order + "u4", offsets)
        time_ns = seconds * 1_000_000_000 + self._field(self._order + "u4", offsets + 4) * self._fraction_ns
        dscp = (self._field("u1", ip + 1) >> 2).astype(np.uint8)
        src, dst = self._field(">u4", ip + 12), self._field(">u4", ip + 16)
        ports, seq = self._field(">u4", tcp), self._field(">u4", tcp + 4)
        # Number the connections: first the pairs of addresses, then those with their ports.
        _, pair = np.unique((src << 32 | dst).view(np.uint64), return_inverse=True)
        key = pair.astype(np.int64) << 32 | ports
        by_stream = np.argsort(key, kind="stable")
        bounds = np.flatnonzero(np.diff(key[by_stream])) + 1
        streams = {}
        for members in np.split(by_stream, bounds) if by_stream.size else []:
            stream = _stream(time_ns[members], seq[members], payload[members], dscp[members], syn[members])
            if stream.seq.size:
                one = members[0]
                name = (_dotted(src[one]), int(ports[one] >> 16), _dotted(dst[one]), int(ports[one] & 0xFFFF))
                streams[name] = stream
        return streams


def _dotted(address: np.int64) -> str:
    return ".".join(str(int(address) >> shift & 255) for shift in (24, 16, 8, 0))


def _stream(
    time_ns: Int64s, seq: Int64s, payload: Int64s, dscp: npt.NDArray[np.uint8], syn: npt.NDArray[np.bool_]
) -> TcpStream:
    """One stream from its packets in order: positions counted from the SYN, unwrapped."""
    data = np.flatnonzero((payload > 0) & ~syn)
    # A refused connection is tried again from the same port with a new initial number: the last SYN
    # before the first payload is the one that counts.
    syns = np.flatnonzero(syn)
    syns = syns[syns < data[0]] if data.size else syns[:0]
    numbers = seq[data]
    steps = np.diff(numbers, prepend=seq[syns[-1:]] + 1 if syns.size else numbers[:1])
    steps = (steps + (1 << 31)) % (1 << 32) - (1 << 31)
    return TcpStream(time_ns[data], np.cumsum(steps), payload[data], dscp[data], bool(syns.size))
