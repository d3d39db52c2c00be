"""Connections that are spread over equally short paths: the same way in simulation, by rules of switches, and in tables."""

from __future__ import annotations

import csv
import dataclasses
import itertools
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from controller.coordinator import Coordinator
from controller.fabric import KnownFabric
from controller.instructions import InstallRules, ResetSwitch
from echelon.experiment import schema
from echelon.running import runner
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.addressing import dpid
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.records.events import SwitchConnected, SwitchLost
from echelonflow.scheduling.bounds import iteration_bound
from echelonflow.wire.declare import FIRST_SOURCE_PORT, declarations, paths_of
from echelonflow.wire.messages import Begin, End, Hello
from results.analysis.columns import write_csv
from results.analysis.rows import FlowRow, flow_rows, run_rows
from simulator.columns.plan import asked_of
from simulator.paths import trace_paths
from tests.unit import coordinator_driver
from tests.unit.fake_switch import FakeFabric

PORTS = range(FIRST_SOURCE_PORT, FIRST_SOURCE_PORT + 400)
RUNNER, AGENT = 1, 2
FOUND_ONCE = ["l1 p4 l3", "l1 p4 l3", "l1 p1 l3", "l1 p4 l3"]


def spread(name, seed=0, **options):
    return dataclasses.replace(topologies.build(name, options), ecmp_seed=seed)


LEAVES = spread("leaf-spine", leaves=3, spines=4, hosts_per_leaf=3, rate_bps=1e8)
TREE = spread("fat-tree", seed=7, k=4, rate_bps=1e8)


def experiment(routing="ecmp", network="topology: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2"):
    job = {
        "paradigm": "data-parallel",
        "ranks": 4,
        "layers": 3,
        "forward": "10 ms",
        "backward": "20 ms",
        "parameter": "1 MB",
    }
    options = dict(part.split(": ") for part in network.split(", "))
    options = {key: int(value) if value.isdigit() else value for key, value in options.items()}
    data = {
        "name": "spread", "network": {**options, "rate": "50 Mbit/s", "routing": routing},
        "jobs": [{**job, "name": "a", "iterations": 2}, {**job, "name": "b", "placement": ["h3", "h1", "h4", "h2"]}],
        "policies": ["fair"],
    }  # fmt: skip
    return schema.check(data, Path("e.yaml"))


@pytest.mark.parametrize("network", [LEAVES, TREE], ids=lambda network: network.name)
def test_connections_take_all_shortest_paths_about_as_often_and_each_always_the_same(network):
    src, dst = network.hosts[0], network.hosts[-1]
    shortest = len(network.path(src, dst))
    taken = Counter(network.path(src, dst, port) for port in PORTS)
    assert len(taken) == 4
    assert min(taken.values()) > len(PORTS) / 4 * 0.7
    for path in taken:
        links = [network.links[index] for index in path]
        assert len(path) == shortest
        assert all(a.dst == b.src for a, b in itertools.pairwise(links))
        assert (links[0].src, links[-1].dst) == (src, dst)
    assert [network.path(src, dst, port) for port in PORTS] == [network.path(src, dst, port) for port in PORTS]


def test_what_a_second_switch_chooses_does_not_follow_from_the_first():
    pairs = {tuple(TREE.path_in_words("h1", "h16", port).split()[1:3]) for port in PORTS}
    assert len(pairs) == 4  # each aggregation switch with both of its cores


def test_another_seed_gives_other_paths_and_without_one_ports_do_not_matter():
    other = dataclasses.replace(LEAVES, ecmp_seed=1)
    ways = [[network.path("h1", "h9", port) for port in PORTS] for network in (LEAVES, other)]
    assert 0.5 < sum(a != b for a, b in zip(*ways, strict=True)) / len(PORTS) < 0.95
    plain = dataclasses.replace(LEAVES, ecmp_seed=None)
    assert {plain.path("h1", "h9", port) for port in PORTS} == {plain.path("h1", "h9")} == {LEAVES.path("h1", "h9")}


def test_the_paths_of_a_connection_are_those_that_were_found_once():
    """Whoever changes the hash changes what every experiment with this routing measured."""
    assert [LEAVES.path_in_words("h1", "h9", port) for port in (10_000, 10_001, 10_002, 10_003)] == FOUND_ONCE


def test_simulation_and_bounds_know_the_same_paths_as_the_declarations():
    spec = experiment()
    jobs, network = spec.jobs, spec.network
    declared = {
        (g.job, f.flow): network.path(f.src_host, f.dst_host, f.src_port) for g in declarations(jobs) for f in g.flows
    }
    assert paths_of(jobs, network) == declared
    assert len(set(declared.values())) > len({(path[0], path[-1]) for path in declared.values()})
    asked = asked_of(jobs, network)
    found = {
        (group.job, flow.flow): tuple(asked.plan.hops[0, start:end].tolist())
        for (group, flow), start, end in zip(
            asked.declared, asked.plan.flows[-1][:-1].tolist(), asked.plan.flows[-1][1:].tolist(), strict=True
        )
    }
    assert found == declared
    assert iteration_bound(jobs, network).mean_s > 0


def test_flows_of_a_trace_are_spread_one_by_one():
    flows = np.zeros(200, np.int64)
    trace = CoflowTrace(np.arange(1), np.zeros(1), flows, flows, flows + 8, np.ones(200))
    for network, ways in ((LEAVES, 4), (dataclasses.replace(LEAVES, ecmp_seed=None), 1)):
        rows = trace_paths(trace, network)
        assert len(rows.distinct()[0].start) - 1 == ways


def test_tables_say_which_way_each_flow_went(tmp_path):
    spec = experiment()
    record = runner.predict(spec, "fair")
    write_csv(tmp_path / "f.csv", FlowRow, run_rows(record, spec.jobs, network=spec.network).flows)
    with (tmp_path / "f.csv").open() as file:
        rows = list(csv.DictReader(file))
    declared = {(g.job, f.flow): f for g in declarations(spec.jobs) for f in g.flows}
    for row in rows:
        flow = declared[row["job"], row["flow"]]
        assert row["path"] == spec.network.path_in_words(flow.src_host, flow.dst_host, flow.src_port)
    assert {row["path"] for row in rows} >= {"l1", "l2", "l1 p1 l2", "l1 p2 l2"}
    plain = list(record.flows)
    record.flows = plain  # as of an emulated run, not in columns
    assert [row.path for row in flow_rows(record, network=spec.network)] == [row["path"] for row in rows]
    assert {row.path for row in flow_rows(record)} == {None}
    elsewhere = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e6})
    assert {row.path for row in flow_rows(record, network=elsewhere)} == {"s1", None}


class Controlled:
    """A coordinator with an agent that declares all groups of an experiment, and switches that carry out what it says."""

    def __init__(self, spec):
        self.network, self.groups = spec.network, declarations(spec.jobs)
        self.coordinator = Coordinator(KnownFabric(self.network))
        self.fabric = FakeFabric(self.network)
        self.fabric.enact(coordinator_driver.connect_switches(self.coordinator, self.network, 0.0))
        self.say(
            (RUNNER, Hello("r", "")), (RUNNER, Begin("run0", "fair", "priority", 1, "/d")), (AGENT, Hello("a", "h1"))
        )

    def say(self, *messages):
        told = coordinator_driver.say(self.coordinator, *messages, now_s=1.0)
        self.fabric.enact(told)
        return told

    def ways(self):
        """Where packets of each flow go, by the path in words."""
        return {
            (group.job, flow.flow): " ".join(
                self.fabric.tcp(flow.src_host, flow.dst_host, flow.src_port, flow.dst_port)[1][1:]
            )
            for group in self.groups
            for flow in group.flows
        }

    def wanted(self):
        return {
            (group.job, flow.flow): self.network.path_in_words(flow.src_host, flow.dst_host, flow.src_port)
            for group in self.groups
            for flow in group.flows
        }


@pytest.fixture(params=["topology: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2", "topology: fat-tree, k: 4"])
def controlled(request):
    return Controlled(experiment(network=request.param))


def test_packets_take_the_paths_of_the_simulation_as_soon_as_flows_are_declared(controlled):
    by_destination = controlled.ways()
    controlled.say(*((AGENT, group) for group in controlled.groups))
    assert controlled.ways() == controlled.wanted()
    assert controlled.wanted() != by_destination
    rules = [rule for one in controlled.fabric.switches.values() for rule in one.rules.values() if rule.priority == 300]
    assert controlled.coordinator.counters.rules == len(rules) > 0


def test_acknowledgements_and_what_is_not_declared_go_by_destination(controlled):
    network = controlled.network
    controlled.say(*((AGENT, group) for group in controlled.groups))
    for src, dst in itertools.permutations(network.hosts[:4], 2):
        path = [network.links[index].src for index in network.path(src, dst)]
        assert controlled.fabric.tcp(src, dst, 5001, FIRST_SOURCE_PORT)[:2] == (dst, path)
        assert controlled.fabric.tcp(src, dst, 40_000, 80)[:2] == (dst, path)


def test_a_switch_that_comes_back_gets_its_paths_again_and_the_end_takes_them_back(controlled):
    controlled.say(*((AGENT, group) for group in controlled.groups))
    for switch in controlled.network.switches:
        number = dpid(controlled.network, switch)
        controlled.coordinator.handle(SwitchLost(number), 2.0)
        reset = controlled.coordinator.handle(SwitchConnected(number), 3.0)
        assert any(isinstance(told, ResetSwitch) for told in reset)
        controlled.fabric.enact(reset)
    assert controlled.ways() == controlled.wanted()
    controlled.say((RUNNER, End()))
    assert controlled.ways() != controlled.wanted()
    assert not any(rule.priority == 300 for one in controlled.fabric.switches.values() for rule in one.rules.values())


def test_by_destination_switches_hear_nothing_of_paths():
    plain = Controlled(experiment(routing="destination"))
    told = plain.say(*((AGENT, group) for group in plain.groups))
    assert not any(isinstance(each, InstallRules) for each in told)
    assert plain.ways() == plain.wanted()


def test_a_network_of_one_switch_can_be_spread_too():
    spec = experiment(network="topology: single-switch, hosts: 4")
    assert set(paths_of(spec.jobs, spec.network).values()) == {
        spec.network.path(a, b) for a, b in {job.hosts_of(t) for job in spec.jobs for t in job.dag.transfers}
    }
    with pytest.raises(InputError, match="unknown host 'nobody'"):
        LEAVES.next_link("l1", "nobody")
