"""Our capture reader against captures of known content, and against scapy."""

from __future__ import annotations

import os
import struct

import numpy as np
import pytest
from scapy.layers.inet import IP, TCP
from scapy.layers.l2 import ARP, Ether
from scapy.utils import PcapReader, wrpcap

from echelonflow.errors import InputError
from results.analysis.pcap import read
from tests.unit.synthetic_run import ACK, SYN, Packet, write_pcap

A, B = "10.0.0.1", "10.0.0.2"
NAME = (A, 10_000, B, 5001)


def data(time_ns, seq, size, dscp=0, flags=ACK):
    return Packet(time_ns, A, 10_000, B, 5001, seq, size, dscp, flags)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nano", [True, False])
def test_every_format_gives_the_same_streams(tmp_path, order, nano):
    packets = [data(1_000_001_000, 99, 0, 0, SYN), data(2_000_002_000, 100, 1448, 48), data(3_000_003_000, 1548, 10)]
    write_pcap(tmp_path / "x.pcap", packets, order, nano)
    capture = read(tmp_path / "x.pcap")
    stream = capture.streams[NAME]
    assert stream.time_ns.tolist() == [2_000_002_000, 3_000_003_000]
    assert stream.seq.tolist() == [0, 1448]
    assert stream.payload_bytes.tolist() == [1448, 10]
    assert stream.dscp.tolist() == [48, 0]
    assert stream.anchored
    assert (capture.packets, capture.unread_bytes) == (3, 0)


def test_a_hole_of_a_terabyte_ends_a_capture_at_once(tmp_path):
    path = tmp_path / "x.pcap"
    write_pcap(path, [data(1, 99, 0, 0, SYN), data(2, 100, 1448)])
    length = path.stat().st_size
    os.truncate(path, 1 << 40)  # takes no disk
    capture = read(path)
    assert (capture.packets, capture.unread_bytes) == (2, (1 << 40) - length)
    assert capture.streams[NAME].payload_bytes.tolist() == [1448]


def test_positions_unwrap_in_both_directions(tmp_path):
    isn = (1 << 32) - 1001
    sent = [0, 60_000, 0, 60_000, 2_147_000_000, 4_294_000_000, 8_000_000_000 - 2_000_000_000, 60_000 + 6_000_000_000]
    steps = [p for p in sent if p >= 0]
    packets = [data(0, isn, 0, 0, SYN)] + [data(n + 1, isn + 1 + p, 1000) for n, p in enumerate(steps)]
    write_pcap(tmp_path / "x.pcap", packets)
    assert read(tmp_path / "x.pcap").streams[NAME].seq.tolist() == steps


def test_a_second_attempt_to_connect_counts_from_its_own_syn(tmp_path):
    packets = [data(0, 500, 0, 0, SYN), data(1, 90_000, 0, 0, SYN), data(2, 90_001, 700)]
    write_pcap(tmp_path / "x.pcap", packets)
    assert read(tmp_path / "x.pcap").streams[NAME].seq.tolist() == [0]


def test_without_syn_the_first_packet_is_position_zero(tmp_path):
    write_pcap(tmp_path / "x.pcap", [data(2, 90_001, 700), data(3, 90_701, 1)])
    stream = read(tmp_path / "x.pcap").streams[NAME]
    assert stream.seq.tolist() == [0, 700]
    assert not stream.anchored


def test_super_segments_are_counted_in_full(tmp_path):
    """A length beyond 64 KiB is not in the IP header (0); one below is, whatever the snap length."""
    path = tmp_path / "x.pcap"
    write_pcap(path, [data(0, 99, 0, 0, SYN), data(1, 100, 65_000), data(2, 65_100, 3_000)])
    raw = bytearray(path.read_bytes())
    last = len(raw) - 96
    raw[last + 16 : last + 18] = bytes(2)
    raw[last - 4 : last] = struct.pack("<I", 14 + 52 + 100_000)
    path.write_bytes(raw)
    assert read(path).streams[NAME].payload_bytes.tolist() == [65_000, 100_000]


@pytest.mark.parametrize("cut", [1, 50, 96, 100, 111])
def test_a_truncated_last_record_is_left_out_and_reported(tmp_path, cut):
    path = tmp_path / "x.pcap"
    write_pcap(path, [data(0, 99, 0, 0, SYN), data(1, 100, 1000), data(2, 1100, 1000)])
    path.write_bytes(path.read_bytes()[:-cut])
    capture = read(path)
    assert capture.streams[NAME].seq.tolist() == [0]
    assert (capture.packets, capture.unread_bytes) == (2, 16 + 96 - cut)


@pytest.mark.parametrize("content", [b"", b"not a capture", struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 96, 113)])
def test_what_is_no_ethernet_capture_is_refused_by_name(tmp_path, content):
    path = tmp_path / "wrong.pcap"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"wrong\.pcap"):
        read(path)


def test_a_capture_of_nothing_is_empty(tmp_path):
    write_pcap(tmp_path / "x.pcap", [])
    assert read(tmp_path / "x.pcap").streams == {}


def test_scapy_reads_the_same(tmp_path):
    """Random connections written by scapy (padding, IP and TCP options, ARP, pure ACKs), read by both."""
    rng = np.random.default_rng(1)
    packets, now = [], 1000.0
    isn = {port: int(rng.integers(1 << 32)) for port in range(10_000, 10_008)}
    position = dict.fromkeys(isn, 0)
    for port, number in isn.items():
        packets.append(Ether() / IP(src=A, dst=B) / TCP(sport=port, dport=5001, flags="S", seq=number))
    for _ in range(600):
        port = int(rng.integers(10_000, 10_008))
        size = int(rng.integers(0, 1400))
        options = [("Timestamp", (1, 2))] if rng.random() < 0.5 else []
        back = int(rng.integers(0, 3000)) if rng.random() < 0.1 else 0
        seq = max(position[port] - back, 0)
        ip = IP(src=A, dst=B, tos=int(rng.integers(64)) << 2, options=[] if rng.random() < 0.8 else b"\x01" * 4)
        tcp = TCP(sport=port, dport=5001, flags="A", seq=(isn[port] + 1 + seq) % (1 << 32), options=options)
        packets.append(Ether() / ip / tcp / bytes(size))
        packets.append(Ether() / ARP())
        position[port] = max(position[port], seq + size)
    for packet in packets:
        now += 0.001
        packet.time = round(now, 6)
    path = tmp_path / "x.pcap"
    wrpcap(str(path), packets)

    expected: dict = {}
    with PcapReader(str(path)) as reader:
        for packet in reader:
            if TCP not in packet:
                continue
            tcp, ip = packet[TCP], packet[IP]
            payload = ip.len - ip.ihl * 4 - tcp.dataofs * 4
            if payload:
                seq = (tcp.seq - isn[tcp.sport] - 1) % (1 << 32)
                row = (round(float(packet.time) * 1e6), seq, payload, ip.tos >> 2)
                expected.setdefault((ip.src, tcp.sport, ip.dst, tcp.dport), []).append(row)
    streams = read(path).streams
    found = {
        name: list(
            zip((s.time_ns // 1000).tolist(), s.seq.tolist(), s.payload_bytes.tolist(), s.dscp.tolist(), strict=True)
        )
        for name, s in streams.items()
    }
    assert found == expected
