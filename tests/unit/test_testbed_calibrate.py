"""Which pairs of hosts are chosen to fill a link, and the probe on the loopback interface."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from echelonflow.model.network import Cable, Network
from echelonflow.model.topologies import dumbbell, leaf_spine, single_switch
from testbed import calibrate, probe
from tests.unit.test_records_calibration import link
from tests.waiting import end_of, started

NETWORKS = {
    "single-switch": single_switch.build(hosts=3, rate_bps=100e6),
    "dumbbell": dumbbell.build(hosts=6, rate_bps=100e6, bottleneck_rate_bps=100e6),
    "non-blocking": leaf_spine.build(leaves=4, spines=2, hosts_per_leaf=4, rate_bps=30e6),
    "oversubscribed": leaf_spine.build(leaves=2, spines=1, hosts_per_leaf=4, rate_bps=100e6, fabric_rate_bps=150e6),
}


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_every_link_is_filled(network):
    found = [trial for trials in calibrate.rounds(network) for trial in trials]
    assert {name for trial in found for name in trial.full} == {link.name for link in network.links}
    for trial in found:
        assert trial.expected_Bps == pytest.approx(network.capacity_Bps[trial.link.index])


@pytest.mark.parametrize("network", NETWORKS.values(), ids=NETWORKS)
def test_pairs_meet_on_the_measured_link_alone_and_no_link_is_measured_twice_at_a_time(network):
    for trials in calibrate.rounds(network):
        hosts = [host for trial in trials for pair in trial.pairs for host in pair]
        assert len(hosts) == len(set(hosts))
        paths = [{index for pair in trial.pairs for index in network.path(*pair)} for trial in trials]
        assert sum(map(len, paths)) == len(set().union(*paths))
        for trial in trials:
            assert all(trial.link.index in network.path(*pair) for pair in trial.pairs)


def test_a_switch_with_many_hosts_takes_few_rounds():
    assert len(calibrate.rounds(single_switch.build(hosts=16, rate_bps=30e6))) <= 4


def test_links_that_no_flow_can_cross_are_left_out():
    lonely = leaf_spine.build(leaves=1, spines=1, hosts_per_leaf=2, rate_bps=1e6)
    crossed = {lonely.links[index].name for pair in (("h1", "h2"), ("h2", "h1")) for index in lonely.path(*pair)}
    found = {name for trials in calibrate.rounds(lonely) for trial in trials for name in trial.full}
    assert found == crossed
    assert len(crossed) < len(lonely.links)


def test_a_link_faster_than_its_hosts_is_held_to_what_the_hosts_can_send():
    network = leaf_spine.build(leaves=2, spines=1, hosts_per_leaf=1, rate_bps=10e6, fabric_rate_bps=100e6)
    trials = [trial for trials in calibrate.rounds(network) for trial in trials]
    fabric = next(trial for trial in trials if trial.link.kind == "fabric")
    assert fabric.expected_Bps == pytest.approx(network.capacity_Bps[0])


def test_neither_a_segment_nor_a_burst_is_more_than_two_per_cent_of_a_window():
    fast, slow = (calibrate.rounds(single_switch.build(hosts=2, rate_bps=rate_bps))[0][0] for rate_bps in (1e9, 1e5))
    assert calibrate.window_s(fast, 1500, 0.004) == calibrate.WINDOW_S
    assert calibrate.window_s(fast, 1500, 0.02) == pytest.approx(1.0)
    assert calibrate.window_s(slow, 1500, 0.02) == pytest.approx(100 * 1500 / slow.expected_Bps)


def test_where_no_link_can_be_filled_nothing_is_measured():
    class Net:
        network = Network("lone", ("h1",), ("s1",), (Cable("h1", "s1", 1e6),))

    assert calibrate.rounds(Net.network) == []
    assert calibrate.watch_timers(Net()) is None


def test_the_error_is_a_share_of_what_is_declared():
    trial = calibrate.rounds(NETWORKS["single-switch"])[0][0]
    sent = [{"rtt_s": 0.0002, "rtt_loaded_s": 0.004}]
    received = [{"received_bytes": trial.expected_Bps * 0.96, "span_s": 1.0}]
    entry = calibrate._summary(trial, received, sent)
    assert entry.error == pytest.approx(-0.04)
    assert entry.rtt_ms == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("errors", "attempts", "reported"),
    [([-0.01], 1, -0.01), ([-0.16, 0.02], 2, 0.02), ([-0.16, -0.3, -0.05, -0.2], 4, -0.05)],
    ids=["at once", "after a disturbance", "never"],
)
def test_a_link_that_is_off_is_measured_again_and_longer(monkeypatch, errors, attempts, reported):
    asked = []

    def measured(net, trials, start_s, lasting):
        if trials[0].link.src != "h1":
            return [link(0.0)]
        asked.append(lasting)
        return [link(errors[len(asked) - 1])]

    class Net:
        network = single_switch.build(hosts=2, rate_bps=100e6)

    monkeypatch.setattr(calibrate, "_measure", measured)
    monkeypatch.setattr(calibrate, "_start_up_s", lambda _: 0.01)
    entry, other = calibrate.calibrate(Net())
    assert other.error == 0.0
    assert (entry.attempts, entry.error) == (attempts, reported)
    assert asked == [1, 2, 4, 8][:attempts]


def test_the_probe_counts_what_went_through_the_window():
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    begin_s = time.monotonic() + 0.3
    # In a thread: a process of its own might start when the window is over.
    with ThreadPoolExecutor(1) as pool:
        receiving = pool.submit(probe.receive, port, begin_s, begin_s + 0.2)
        sent = probe.send("127.0.0.1", port, begin_s + 0.2)
        received = receiving.result(10)
    assert 0 < received["span_s"] <= 0.2
    assert received["received_bytes"] > 100_000
    assert 0 < sent["rtt_s"] < 0.3


def test_as_a_script_its_ends_print_what_they_saw():
    argv = [sys.executable, "-I", "-S", probe.__file__]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    end_s = str(time.monotonic() + 2.0)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with (
        started([*argv, "receive", "--port", port, "--begin", "0", "--end", end_s], **pipes) as receiver,
        started([*argv, "send", "--to", "127.0.0.1", "--port", port, "--end", end_s], **pipes) as sender,
    ):
        ends = [end_of(process, 30) for process in (receiver, sender)]
    assert [code for code, *_ in ends] == [0, 0], ends
    received, sent = (json.loads(output) for _, output, _ in ends)
    assert received["received_bytes"] > 0
    assert sent["rtt_s"] > 0
