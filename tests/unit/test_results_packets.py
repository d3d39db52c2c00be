"""What packets say of a flow: iterations, losses, marks, clocks."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from echelonflow.errors import InputError
from echelonflow.records.outcome import ClockReading, RunOutcome
from results.analysis.packets import RunClock, flow_packets, throughput_Bps
from results.analysis.pcap import Capture, TcpStream

NAME = ("10.0.0.1", 10_000, "10.0.0.2", 5001)
CLOCK = RunClock(realtime_ns=1_000_000_000_000, run_s=-1.0, rate=1.0)


def capture(*packets):
    """A capture of one stream from (run time in s, position, bytes, dscp)."""
    times = [round(1e12 + (p[0] + 1.0) * 1e9) for p in packets]
    columns = [np.array([p[i] for p in packets], dtype=np.int64) for i in (1, 2, 3)]
    stream = TcpStream(np.array(times), columns[0], columns[1], columns[2].astype(np.uint8), anchored=True)
    return Capture({NAME: stream}, len(packets), 0)


def one(source, destination, size=1000, iterations=1):
    return flow_packets(source, destination, NAME, size, iterations=iterations, clock=CLOCK)


def test_a_flow_without_losses():
    source = capture((1.0, 0, 600, 0), (1.1, 600, 400, 0))
    (seen,) = one(source, capture((1.2, 0, 600, 48), (1.3, 600, 400, 40)))
    assert (seen.start_s, seen.finish_s) == (pytest.approx(1.0), pytest.approx(1.3))
    assert seen.unique_bytes == 1000
    assert (seen.retransmitted_bytes, seen.retransmitted_segments) == (0, 0)
    assert (seen.source_dscp, seen.dscp, seen.last_dscp) == ({0: 1000}, {48: 600, 40: 400}, 40)


def test_a_lost_segment_ends_the_flow_when_it_arrives_at_last():
    source = capture((1.0, 0, 500, 0), (1.1, 500, 500, 0), (1.9, 0, 500, 0))
    (seen,) = one(source, capture((1.2, 500, 500, 48), (2.0, 0, 500, 40)))
    assert seen.finish_s == pytest.approx(2.0)
    assert seen.unique_bytes == 1000
    assert (seen.retransmitted_bytes, seen.retransmitted_segments) == (500, 1)
    assert seen.last_dscp == 40


def test_what_arrives_twice_counts_once_and_at_its_first_arrival():
    source = capture((1.0, 0, 1000, 0), (1.5, 300, 200, 0))
    (seen,) = one(source, capture((1.1, 0, 1000, 48), (1.6, 300, 200, 0)))
    assert (seen.unique_bytes, seen.finish_s, seen.dscp) == (1000, pytest.approx(1.1), {48: 1000})
    assert (seen.retransmitted_bytes, seen.retransmitted_segments) == (200, 1)


def test_a_super_segment_across_iterations_is_cut_at_the_bound():
    packets = capture((1.0, 0, 900, 48), (2.0, 900, 600, 40), (3.0, 1500, 500, 40))
    first, second = one(packets, packets, iterations=2)
    assert (first.finish_s, second.start_s, second.finish_s) == tuple(map(pytest.approx, (2.0, 2.0, 3.0)))
    assert (first.dscp, second.dscp) == ({48: 900, 40: 100}, {40: 1000})
    assert first.retransmitted_segments == second.retransmitted_segments == 0


def test_a_flow_that_never_completed_has_no_finish():
    packets = capture((1.0, 0, 400, 48), (2.0, 600, 400, 48))
    first, second = one(packets, packets, iterations=2)
    assert (first.finish_s, first.unique_bytes) == (None, 800)
    assert (second.start_s, second.finish_s, second.unique_bytes, second.last_dscp) == (None, None, 0, None)


def test_a_missing_capture_leaves_its_part_empty():
    (seen,) = one(capture((1.0, 0, 1000, 0)), None)
    assert (seen.start_s, seen.finish_s, seen.unique_bytes) == (pytest.approx(1.0), None, 0)


def test_random_segments_against_a_byte_by_byte_account():
    rng = np.random.default_rng(7)
    size, iterations = 50, 4
    for _ in range(50):
        packets, first = [], {}
        sent = np.zeros(size * iterations, dtype=int)
        for n in range(40):
            begin = int(rng.integers(0, size * iterations - 1))
            length = min(int(rng.integers(1, 60)), size * iterations - begin)
            packets.append((float(n), begin, length, int(rng.integers(0, 3)) * 8))
            sent[begin : begin + length] += 1
            for byte in range(begin, begin + length):
                first.setdefault(byte, n)
        both = capture(*packets)
        for k, seen in enumerate(one(both, both, size, iterations)):
            mine = [first[b] for b in range(k * size, (k + 1) * size) if b in first]
            assert seen.unique_bytes == len(mine)
            assert seen.start_s == (pytest.approx(min(mine)) if mine else None)
            assert seen.finish_s == (pytest.approx(max(mine)) if len(mine) == size else None)
            assert seen.retransmitted_bytes == int(np.maximum(sent[k * size : (k + 1) * size] - 1, 0).sum())
            marks = {d: c for d in (0, 8, 16) if (c := sum(packets[n][3] == d for n in mine))}
            assert seen.dscp == marks


def test_the_clock_is_linear_between_its_two_readings():
    readings = [ClockReading(5000.0, 1_790_000_000.0), ClockReading(5100.0, 1_790_000_101.0)]
    run = RunOutcome(
        policy="fair", repeat=0, run_index=0, label="x", enforcer="priority", zero_monotonic_s=5010.0, clock=readings
    )
    clock = RunClock.of(run)
    times = np.array([1_790_000_000, 1_790_000_101], dtype=np.int64) * 1_000_000_000
    assert clock.run_times_s(times).tolist() == pytest.approx([-10.0, 90.0])
    with pytest.raises(InputError, match="never started"):
        RunClock.of(msgspec.structs.replace(run, zero_monotonic_s=None))


def test_throughput_counts_what_arrives_by_mark_and_not_what_leaves():
    packets = capture((0.5, 0, 1000, 48), (1.5, 1000, 500, 48), (1.6, 1500, 500, 40))
    addresses = {"h1": "10.0.0.1", "h2": "10.0.0.2"}
    found = throughput_Bps({"h1": packets, "h2": packets}, addresses, CLOCK, np.array([0.0, 1.0, 3.0]))
    assert {mark: rates.tolist() for mark, rates in found.items()} == {48: [1000.0, 250.0], 40: [0.0, 250.0]}
