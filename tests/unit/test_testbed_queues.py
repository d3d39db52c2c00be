"""The HTB tree as text, its sizes, and the reading of its counters."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from echelonflow.model import tcp, topologies
from echelonflow.records.outcome import ClassCounters
from echelonflow.wire.classes import CLASSES, FLOW_QUEUES, class_of_dscp
from testbed import mininet_network, queues

COUNTERS = """@h1-eth0
class htb 1:11 parent 1:1 leaf 11: prio 7 rate 15Kbit ceil 30Mbit burst 1513b cburst 7500b
 Sent 3028 bytes 2 pkt (dropped 1, overlimits 0 requeues 0)
 backlog 0b 0p requeues 0

class htb 1:1 root rate 30Mbit ceil 30Mbit burst 7500b cburst 7500b
 Sent 9094 bytes 7 pkt (dropped 5, overlimits 0 requeues 0)

class htb 1:a parent 1:1 leaf a: prio 0 rate 15Kbit ceil 30Mbit burst 1513b cburst 7500b
 Sent 6066 bytes 5 pkts (dropped 4, overlimits 0 requeues 0)
@s1-eth1
"""


def words_after(lines, word, where):
    return [line.split()[line.split().index(word) + 1] for line in lines if where in line]


def test_each_class_has_a_strict_place_a_queue_and_a_filter():
    lines = queues.tree_lines("h1-eth0", 100e6, 1500, 1514)
    leaves = [line for line in lines if "parent 1:1 " in line]
    assert words_after(leaves, "prio", "htb") == [str(c) for c in range(CLASSES)]
    assert words_after(leaves, "ceil", "htb") == ["100000000bit"] * CLASSES
    assert words_after(lines, "parent", "bfifo limit")[0] == "1:a"


def test_a_burst_is_a_time_of_the_link_and_two_frames_at_least():
    def bursts(rate_bps, burst_s):
        lines = queues.tree_lines("x", rate_bps, 1500, 1514, burst_s=burst_s)
        return {int(size) for size in words_after(lines, "cburst", " cburst ")}

    assert bursts(100e6, 0.004) == {50_000}
    assert bursts(1e6, 0.004) == {2 * 1514}


def test_bursts_are_changed_in_place_and_nothing_else_is():
    before = queues.tree_lines("x", 100e6, 1500, 3000, burst_s=0.002)
    classes = [line for line in before if "class add" in line and ("parent 1: " in line or "parent 1:1 " in line)]
    changes = queues.burst_lines("x", 100e6, 1500, 3000, 0.008)
    assert changes == [line.replace("class add", "class change").replace("25000", "100000") for line in classes]
    assert len(changes) == CLASSES + 1


def test_flows_of_a_data_class_take_turns_in_queues_told_apart_by_source_port():
    lines = queues.tree_lines("h1-eth0", 100e6, 1500, 3000)
    for c in range(1, CLASSES):
        own = [line for line in lines if f"parent {10 + c:x}:" in line]
        leaves = words_after(own, "classid", "class add")
        assert len(leaves) == FLOW_QUEUES
        assert words_after(own, "parent", "filter") == [f"{10 + c:x}:"] * FLOW_QUEUES
        assert words_after(own, "quantum", "class add") == ["3000"] * FLOW_QUEUES
        assert words_after(lines, "parent", "bfifo")[1:].count(leaves[0]) == 1
        ports = range(10_000, 10_000 + 3 * FLOW_QUEUES)
        caught = [[to for to, (value, mask) in sport_filters(own).items() if port & mask == value] for port in ports]
        assert [len(to) for to in caught] == [1] * len(ports)
        assert len({to[0] for to in caught[:FLOW_QUEUES]}) == FLOW_QUEUES


def sport_filters(lines):
    words = [line.split() for line in lines if " sport " in line]
    return {w[-1]: (int(w[w.index("sport") + 1]), int(w[w.index("sport") + 2], 16)) for w in words}


@pytest.mark.parametrize("dscp", range(64))
def test_every_dscp_is_caught_by_the_filter_of_its_class_alone(dscp):
    lines = [line for line in queues.tree_lines("x", 1e6, 1500, 1514) if "dsfield" in line]
    caught = [
        int(line.rsplit(":", 1)[1], 16) - 10
        for line in lines
        if (dscp << 2) & int(line.split("dsfield ")[1].split()[1], 16) == int(line.split("dsfield ")[1].split()[0], 16)
    ]
    assert caught == [class_of_dscp(dscp)]


def test_what_no_filter_catches_goes_to_the_control_class():
    root = queues.tree_lines("x", 1e6, 1500, 1514)[0]
    assert root.endswith("htb default a")


@pytest.mark.parametrize("rate_bps", [1e6, 33_333_333.4, 1e9, 2.5e9, 40e9])
def test_rates_are_whole_bits_however_high(rate_bps):
    for line in queues.tree_lines("x", rate_bps, 9000, 65536):
        for word in ("rate", "ceil"):
            if f" {word} " in line:
                assert line.split(f" {word} ")[1].split()[0].removesuffix("bit").isdigit()


def test_no_class_has_more_of_its_own_than_a_byte_a_second():
    """HTB serves a class's own rate before priorities count; a packet that passes so overtakes those of its flow in others."""
    own = [line for line in queues.tree_lines("x", 30e6, 1500, 6000) if "parent 1:1 " in line]
    assert len(own) == CLASSES
    for line in own:
        words = line.split()
        assert words[words.index("rate") + 1] == "8bit"
        assert words[words.index("burst") + 1] == "1"
        assert words[words.index("ceil") + 1] == "30000000bit"


def test_a_queue_holds_its_time_in_bytes_but_never_less_than_a_few_segments():
    assert queues.queue_bytes(100e6, 1500, 1514, queue_s=0.02) == 250_000
    assert queues.queue_bytes(10e6, 1500, 40_000, queue_s=0.01) == 160_000


@pytest.mark.parametrize("rate_bps", [1e6, 5e6, 30e6, 100e6, 1e9, 10e9])
@pytest.mark.parametrize("mtu_bytes", [1500, 9000])
def test_a_queue_holds_all_that_two_flows_without_a_turn_have_sent(rate_bps, mtu_bytes):
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": rate_bps, "mtu_bytes": mtu_bytes})
    send_buffer_bytes = tcp.send_buffer_bytes(max(network.capacity_Bps))
    limit = queues.queue_bytes(rate_bps, mtu_bytes, queues.frame_bytes(mtu_bytes), send_buffer_bytes=send_buffer_bytes)
    # Linux grants twice the buffer that is asked for; whatever of it is payload goes out in frames.
    frames = 2 * send_buffer_bytes / (mtu_bytes - 40)
    assert limit >= 2 * frames * (mtu_bytes + 14)


def test_every_queue_of_the_tree_has_that_limit():
    lines = queues.tree_lines("x", 5e6, 1500, 3000, send_buffer_bytes=40_000)
    limit = queues.queue_bytes(5e6, 1500, 3000, send_buffer_bytes=40_000)
    assert {int(limit) for limit in words_after(lines, "limit", "bfifo")} == {limit}


@pytest.mark.parametrize(
    ("rates_bps", "expected"),
    [
        ([100e6] * 4, 0.001 * 100e6 / 8),  # few links: short ones
        ([30e6] * 32, 32 * 30e6 / 8 / queues.SEGMENTS_PER_S),  # many: as long as needed
        ([30e6] * 96, 0.004 * 30e6 / 8),  # but never longer than this
        ([100e6, 1e5], 2 * 1514),
        ([100e9] * 4, queues.LARGEST_SEGMENT_BYTES),
    ],
)
def test_super_segments_are_as_short_as_the_switches_can_bear(rates_bps, expected):
    assert queues.segment_limit_bytes(rates_bps, 1500) == pytest.approx(expected, abs=1)


def test_counters_are_read_by_class_and_the_root_is_left_out():
    found = queues.parse_counters(COUNTERS)
    assert found == {
        "h1-eth0": {
            7: ClassCounters(3028, 2, 1),
            0: ClassCounters(6066, 5, 4),
        },
        "s1-eth1": {},
    }


@pytest.mark.parametrize(
    ("rates_bps", "readings", "read"), [((1e7, 1e8), [1], 1), ((1e8, 1e7), [1, 5, 7, 7, 9], 4), ((1e8, 1e7), [3, 3], 2)]
)
def test_counters_are_read_again_until_they_rest_where_a_link_is_slower_than_hosts(
    monkeypatch, rates_bps, readings, read
):
    rate_bps, bottleneck_bps = rates_bps
    network = topologies.build("dumbbell", {"hosts": 4, "rate_bps": rate_bps, "bottleneck_rate_bps": bottleneck_bps})
    monkeypatch.setattr(mininet_network, "REST_LOOK_S", 0.0)
    seen = []

    def class_counters():
        seen.append(readings[len(seen)])
        return seen[-1]

    net = SimpleNamespace(network=network, class_counters=class_counters)
    assert mininet_network.EmulatedNetwork.counters_at_rest(net) == readings[read - 1]
    assert len(seen) == read
