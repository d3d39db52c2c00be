"""The queues of every egress, host and switch alike: one HTB tree, eight strict classes by DSCP, fair within.

Class c of `echelonflow.wire.classes` is HTB class 1:<10 + c> at prio c. All may borrow up to the link's rate, so
that a class is served only while no higher one has a packet. HTB serves every class's own `rate` before
prio counts, hence the leak (`echelonflow.wire.egress`): one segment at most passes ahead of higher classes, and the next one a minute later.
Packets are told apart by the class selector bits of their DSCP; what is not IPv4 (ARP) goes to class 0.

The flows of a data class take turns, byte for byte (deficit round robin). There are `FLOW_QUEUES` FIFOs, told apart by
the low bits of the TCP source port, which `echelonflow.wire.declare` deals out with that in mind. In one FIFO for all,
TCP would share by how many segments each flow happens to have in it, which is chance that lasts. The round robin is a
second HTB, never at its rate, since many kernels have neither fq, fq_codel, sfq nor drr.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from echelonflow.model import tcp
from echelonflow.model.units import ETHERNET_HEADER_BYTES
from echelonflow.records.outcome import ClassCounters, Classes
from echelonflow.wire.classes import CLASSES, CONTROL_CLASS, FLOW_QUEUES, dscp_of_class
from echelonflow.wire.egress import FIRST_CLASS, Egress

QUEUE_S = 0.015
BURST_S = 0.002
"""Of the link, before anything is known of the machine (`testbed.timers` chooses, calibration sets)."""
FLOWS_OF_A_QUEUE = 2
"""How many flows are expected in one FIFO at most: there are `FLOW_QUEUES`, dealt out so that flows seldom meet."""
LARGEST_SEGMENT_BYTES = 65_536
"""A super-segment as the kernel makes it by default."""
LEAST_SEGMENT_S = 0.001
LONGEST_SEGMENT_S = 0.004
SEGMENTS_PER_S = 10_000
"""What a network's switches are asked for at most, all links full: two cores pass some 20,000 to 50,000."""

_UNLIMITED_BPS = 100_000_000_000
_CLASS = re.compile(
    r"^class htb 1:([0-9a-f]+) parent 1:1 .*?\n Sent (\d+) bytes (\d+) pkts? \(dropped (\d+)", re.MULTILINE
)


def frame_bytes(mtu_bytes: int) -> int:
    """Longest frame of a link, as HTB counts it."""
    return mtu_bytes + ETHERNET_HEADER_BYTES


def segment_limit_bytes(rates_bps: Sequence[float], mtu_bytes: int) -> int:
    """How long a super-segment may be in a network whose links have `rates_bps`.

    As short as the switches can bear (`SEGMENTS_PER_S`): a longer one holds up packets of a higher class for longer,
    and makes shares and queues coarse. Between 1 and 4 ms of the slowest link, at least two frames, at most the
    64 KiB of the kernel. One limit holds for all links: a segment keeps its length from end to end.
    """
    slowest_Bps = min(rates_bps) / 8
    bearable = math.fsum(rates_bps) / 8 / SEGMENTS_PER_S
    wanted = min(max(bearable, LEAST_SEGMENT_S * slowest_Bps), LONGEST_SEGMENT_S * slowest_Bps)
    return int(min(max(wanted, 2 * frame_bytes(mtu_bytes)), LARGEST_SEGMENT_BYTES))


def queue_bytes(
    rate_bps: float,
    mtu_bytes: int,
    segment_bytes: int,
    queue_s: float = QUEUE_S,
    send_buffer_bytes: int = tcp.LEAST_SEND_BUFFER_BYTES,
) -> int:
    """Limit of each FIFO: `queue_s` of the link, and room for all that waits there while its class has no turn.

    That is what `FLOWS_OF_A_QUEUE` flows have in their send buffers. A FIFO that is shorter drops it, and again each
    time that TCP tries. A FIFO also takes four of the longest segments, however small buffers are.
    """
    waiting = FLOWS_OF_A_QUEUE * tcp.most_in_flight_bytes(send_buffer_bytes, mtu_bytes)
    return math.ceil(max(rate_bps / 8 * queue_s, waiting, 4 * segment_bytes))


def tree_lines(
    interface: str,
    rate_bps: float,
    mtu_bytes: int,
    segment_bytes: int,
    queue_s: float = QUEUE_S,
    burst_s: float = BURST_S,
    send_buffer_bytes: int = tcp.LEAST_SEND_BUFFER_BYTES,
) -> list[str]:
    """Lines for `tc -batch` that put the tree on `interface`.

    `rate_bps`: line rate, Ethernet headers counted; rounded to whole bits per second. `segment_bytes`: the
    longest (super-)segment that arrives, one frame where there is no segmentation offload. `burst_s`: how much of the
    link may pass at once after an idle spell, which makes up for timers that fire late. `send_buffer_bytes`: of each
    flow.
    """
    limit = queue_bytes(rate_bps, mtu_bytes, segment_bytes, queue_s, send_buffer_bytes)
    quantum = max(frame_bytes(mtu_bytes), segment_bytes)
    lines = [
        f"qdisc add dev {interface} root handle 1: htb default {FIRST_CLASS + CONTROL_CLASS:x}",
        *Egress(interface, rate_bps, frame_bytes(mtu_bytes), segment_bytes, burst_s).in_order("add"),
    ]
    for c in range(CLASSES):
        minor = f"{FIRST_CLASS + c:x}"
        match = f"match ip dsfield {dscp_of_class(c) << 2:#04x} 0xe0"
        lines.append(f"filter add dev {interface} parent 1: protocol ip prio 1 u32 {match} flowid 1:{minor}")
        if c == CONTROL_CLASS:
            lines.append(f"qdisc add dev {interface} parent 1:{minor} handle {minor}: bfifo limit {limit}")
        else:
            lines += _flow_queue_lines(interface, minor, quantum, limit)
    return lines


def burst_lines(interface: str, rate_bps: float, mtu_bytes: int, segment_bytes: int, burst_s: float) -> list[str]:
    """Lines for `tc -batch` that give the tree on `interface`, whatever it carries now, bursts of `burst_s` and strict order."""
    return Egress(interface, rate_bps, frame_bytes(mtu_bytes), segment_bytes, burst_s).in_order()


def _flow_queue_lines(interface: str, minor: str, quantum: int, limit: int) -> list[str]:
    """Lines that put `FLOW_QUEUES` FIFOs of `limit` bytes under class 1:`minor`, served `quantum` bytes a turn."""
    rates = f"rate {_UNLIMITED_BPS}bit quantum {quantum}"
    lines = [f"qdisc add dev {interface} parent 1:{minor} handle {minor}: htb default 1"]
    for k in range(FLOW_QUEUES):
        leaf = f"{minor}:{k + 1:x}"
        match = f"match ip sport {k} {FLOW_QUEUES - 1:#06x}"
        lines += [
            f"class add dev {interface} parent {minor}: classid {leaf} htb {rates}",
            f"qdisc add dev {interface} parent {leaf} bfifo limit {limit}",
            f"filter add dev {interface} parent {minor}: protocol ip prio 1 u32 {match} flowid {leaf}",
        ]
    return lines


def class_of_handle(handle: int) -> int | None:
    """The class whose handle the kernel knows by this number; None where it is another part of the tree."""
    number = (handle & 0xFFFF) - FIRST_CLASS
    return number if handle >> 16 == 1 and 0 <= number < CLASSES else None


def counter_script(interfaces: Iterator[str]) -> str:
    """Shell lines that print the class counters of `interfaces`, each after a line with its name."""
    return "".join(f"echo '@{name}'\ntc -s class show dev {name}\n" for name in interfaces)


def parse_counters(text: str) -> Classes:
    """Output of `counter_script`, by interface and class.

    Bytes count Ethernet headers, of every segment where a super-segment was sent; drops are those of the
    class's FIFO.
    """
    found = {}
    for part in text.split("@")[1:]:
        name, _, shown = part.partition("\n")
        found[name] = {
            int(minor, 16) - FIRST_CLASS: ClassCounters(int(sent), int(packets), int(drops))
            for minor, sent, packets, drops in _CLASS.findall(shown)
        }
    return found
