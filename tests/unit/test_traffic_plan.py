"""What the plan of a run tells all agents alike."""

from __future__ import annotations

from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.model.tcp import LEAST_SEND_BUFFER_BYTES, SEND_BUFFER_S
from traffic.agent.plan import make_plan
from traffic.workloads.paradigms import gpipe

NETWORK = topologies.build("dumbbell", {"hosts": 4, "rate_bps": 1e8, "bottleneck_rate_bps": 1e7})
"""h1 and h2 are on one side of a link of 10 Mbit/s, h3 and h4 on the other."""
DAG = gpipe.build(stages=2, micro_batches=1, forward_s=0.01, backward_s=0.02, activation_bytes=1000)


def send_buffer_bytes(*placements):
    jobs = [Job(f"j{number}", DAG, hosts) for number, hosts in enumerate(placements)]
    return make_plan(jobs, NETWORK, 0).send_buffer_bytes


def test_send_buffers_fill_the_fastest_path_that_flows_take():
    host_Bps = max(NETWORK.capacity_Bps)
    assert round(host_Bps * SEND_BUFFER_S) > LEAST_SEND_BUFFER_BYTES
    assert send_buffer_bytes(("h1", "h2")) == round(host_Bps * SEND_BUFFER_S)
    assert send_buffer_bytes(("h1", "h3"), ("h2", "h1")) == round(host_Bps * SEND_BUFFER_S)


def test_where_all_flows_cross_a_slow_link_no_more_waits_before_it_than_it_asks_for():
    assert send_buffer_bytes(("h1", "h3"), ("h2", "h4")) == LEAST_SEND_BUFFER_BYTES


def test_a_plan_without_flows_has_small_buffers():
    assert send_buffer_bytes() == LEAST_SEND_BUFFER_BYTES
