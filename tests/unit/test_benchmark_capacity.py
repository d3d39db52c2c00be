"""The benchmark of capacity: its search, what it says of CPU time, and its table. The measuring itself needs root."""

from __future__ import annotations

import os
import time

import pytest

from echelon.benchmarks import _cpu_kinds, capacity
from echelon.benchmarks._cpu_kinds import CpuSample, CpuSampler, cpu_shares, kind_of
from echelon.benchmarks.capacity import SHARES, Kept, figures, highest_share
from echelon.running.capacity_trials import Trial


@pytest.mark.parametrize("limit", [*SHARES, 0.33, 2.0])
def test_the_highest_share_that_is_carried_is_found_in_a_few_trials(limit):
    tried = []

    def attempt(share):
        tried.append(share)
        return Trial("" if share <= limit else "busy", share, 0.0)

    best = highest_share(attempt)
    assert best.carried_bps == max(share for share in SHARES if share <= limit)
    assert tried[0] == 1.0
    assert len(tried) == len(set(tried)) <= 6


def test_where_nothing_is_carried_there_is_no_share():
    assert highest_share(lambda share: Trial("busy", share, 0.0)) is None


def test_processes_are_told_apart_by_their_command_lines():
    assert kind_of(b"ovs-vswitchd\0unix:/run/db.sock\0") == "switch"
    assert kind_of(b"/v/bin/python\0-I\0-c\0run(traffic.agent)\0--host\0h1\0") == "agents"
    assert kind_of(b"iperf3\0-s\0") == "agents"
    assert kind_of(b"tcpdump\0-i\0h1-eth0\0") == "captures"
    assert kind_of(b"/bin/sh\0") == _cpu_kinds.OTHERS


def test_shares_are_of_the_time_between_two_moments():
    def sample(at_s, switch_s, agent_s, busy_s):
        processes = {1: ("switch", switch_s), 2: ("agents", agent_s), 3: ("agents", agent_s)}
        return CpuSample(at_s, processes, softirq_s=busy_s / 4, busy_s=busy_s, stolen_s=0.0)

    samples = [sample(0.0, 0.0, 0.0, 0.0), sample(1.0, 1.0, 0.0, 2.0), sample(3.0, 2.0, 0.5, 4.0), sample(9.0, 9, 9, 9)]
    shares = cpu_shares(samples, 0.5, 3.5)
    assert shares == {"switch": 0.5, "agents": 0.5, "softirq": 0.25, "all": 1.0, "stolen": 0.0}
    assert cpu_shares(samples, 3.5, 8.0) == {}


def test_this_process_is_seen_at_work():
    with CpuSampler() as sampler:
        before = sampler.sample()
        until_s = time.process_time() + 0.1
        while time.process_time() < until_s:
            pass
        after = sampler.sample()
    assert after.processes_s[os.getpid()][1] >= before.processes_s[os.getpid()][1] + 0.05
    assert after.processes_s[os.getpid()][0] == _cpu_kinds.OTHERS
    assert after.busy_s >= before.busy_s
    assert sampler.samples


def test_the_table_tells_medians_and_their_spread():
    kept = [
        Kept(10e9, share * 10e9, {"switch": 0.9, "agents": 0.5}, {"switch": 0.8, "captures": 0.1 * share})
        for share in (0.9, 0.5, 0.7)
    ]
    share, raw_cpu, cpu = figures(8, kept)
    assert share.measured == "7,000 of 10,000 Mbit/s, 70% (50% to 90%, n = 3)"
    assert share.ok is None
    assert raw_cpu.measured == "switch 0.90, agents 0.50"
    assert cpu.measured == "switch 0.80, captures 0.07"


def test_every_number_of_hosts_can_be_tried():
    for hosts in capacity.HOSTS:
        network = capacity.capacity_trials.build(capacity.TOPOLOGY, hosts, 1e8)
        assert len(network.hosts) == hosts
