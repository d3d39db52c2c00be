"""A rate is kept by writing little at a time, so that nothing of it outlives the next decision."""

from __future__ import annotations

import itertools
import math
import socket

import pytest

from echelonflow.wire.messages import FlowDeclaration, Setting
from traffic.agent.sender import LEAST_PIECE_BYTES, SEGMENT_BYTES, OutgoingFlow

SIZE_BYTES = 60_000
FLOW = FlowDeclaration("f", 0, "f", "h1", "h2", SIZE_BYTES, 0.0, 10_000, 5001)
SLOW_BPS = 146_000.0
"""Two segments in 20 ms."""
LINK_BPS = 3.6e6
"""Of a link of 30 Mbit/s: eight segments in 3.2 ms."""
LINK_PIECE_BYTES = 8 * SEGMENT_BYTES
FAST_BPS = 50e6


@pytest.fixture
def flow():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sending = socket.create_connection(listener.getsockname())
        receiving, _ = listener.accept()
    with sending, receiving:
        flow = OutgoingFlow("job", FLOW, sending, send_buffer_bytes=1 << 20, on_acknowledged=lambda *_: None)
        flow.release(0, 0.0)
        yield flow


def rate(flow, rate_Bps, now_s):
    flow.apply(Setting("job", "f", 0, 40, rate_Bps), now_s)


def written(flow, *moments_s):
    for now_s in moments_s:
        flow.write(now_s)
    return flow.active.written_bytes


def test_two_segments_go_out_as_often_as_the_rate_says(flow):
    rate(flow, SLOW_BPS, 1.0)
    assert (flow.wants_write, flow.next_piece_s) == (False, 1.0)
    assert written(flow, 1.0) == LEAST_PIECE_BYTES
    assert flow.next_piece_s == pytest.approx(1.02)
    assert written(flow, 1.01) == LEAST_PIECE_BYTES
    assert written(flow, 1.021, 1.041) == 3 * LEAST_PIECE_BYTES
    assert flow.next_piece_s == pytest.approx(1.06)


def test_what_was_missed_is_made_up_for_by_one_piece_at_most(flow):
    rate(flow, SLOW_BPS, 1.0)
    assert written(flow, 1.0, 1.5) == 3 * LEAST_PIECE_BYTES
    assert flow.next_piece_s == pytest.approx(1.52)


def test_a_fast_rate_follows_at_once(flow):
    rate(flow, SLOW_BPS, 1.0)
    written(flow, 1.0)
    rate(flow, FAST_BPS, 1.001)
    assert (flow.wants_write, flow.next_piece_s) == (True, math.inf)
    assert written(flow, 1.001) > 10 * LEAST_PIECE_BYTES


def test_a_link_s_whole_rate_is_kept_too_and_ends_when_it_should(flow):
    """The flow is ahead of its rate by two segments at most, and written to its end by then."""
    rate(flow, LINK_BPS, 1.0)
    at_s, bytes_by = 1.0, {}
    while not flow.awaits_acknowledgement:
        at_s = flow.next_piece_s
        bytes_by[at_s] = written(flow, at_s)
    assert flow.wants_write is False
    ahead = [sent - (moment_s - 1.0) * LINK_BPS for moment_s, sent in bytes_by.items()]
    assert max(ahead) <= LEAST_PIECE_BYTES + 1
    assert at_s == pytest.approx(1.0 + (SIZE_BYTES - LEAST_PIECE_BYTES) / LINK_BPS, abs=1e-6)
    assert max(b - a for a, b in itertools.pairwise(bytes_by.values())) == LINK_PIECE_BYTES


def test_what_a_link_s_flow_has_given_away_at_a_pause_is_a_piece(flow):
    rate(flow, LINK_BPS, 1.0)
    before = written(flow, *(1.0 + 0.001 * i for i in range(6)))
    rate(flow, 0.0, 1.006)
    assert written(flow, 1.007, 1.1) == before
    assert before <= 0.006 * LINK_BPS + LEAST_PIECE_BYTES


def test_a_program_that_was_held_up_makes_up_for_twelve_milliseconds(flow):
    rate(flow, LINK_BPS, 1.0)
    assert written(flow, 1.0) == LEAST_PIECE_BYTES
    piece_s = LINK_PIECE_BYTES / LINK_BPS
    assert written(flow, 1.0 + piece_s + 0.011) == LEAST_PIECE_BYTES + 4 * LINK_PIECE_BYTES
    held_up_s = flow.next_piece_s + 0.1
    assert written(flow, held_up_s) <= LEAST_PIECE_BYTES + 8 * LINK_PIECE_BYTES
    assert flow.next_piece_s > held_up_s


def test_a_paused_flow_has_no_next_piece(flow):
    rate(flow, SLOW_BPS, 1.0)
    rate(flow, 0.0, 1.001)
    assert (flow.wants_write, flow.next_piece_s) == (False, math.inf)
    assert written(flow, 2.0) == 0


def test_another_slow_rate_brings_the_next_piece_forward(flow):
    rate(flow, SLOW_BPS / 10, 1.0)
    written(flow, 1.0)
    rate(flow, SLOW_BPS, 1.001)
    assert flow.next_piece_s == pytest.approx(1.021)


def test_the_last_piece_ends_the_flow(flow):
    rate(flow, SLOW_BPS, 0.0)
    at_s = 0.0
    for _ in range(SIZE_BYTES // LEAST_PIECE_BYTES + 1):
        at_s = flow.next_piece_s
        flow.write(at_s)
    assert flow.awaits_acknowledgement
    assert at_s == pytest.approx(SIZE_BYTES / SLOW_BPS, abs=0.02)
