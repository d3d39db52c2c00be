"""A network that is learned: where packets go, what the controller is shown, and when that ends."""

from __future__ import annotations

import json

import pytest

from controller.instructions import InstallRules
from controller.learning import (
    DESTINATIONS,
    MOST_ADDRESSES,
    SETTLED_S,
    SOURCES,
    LearnedFabric,
    read_hosts,
    unknown_fabric,
)
from controller.rules import FLOOD, TO_CONTROLLER, Match, Rule
from echelonflow.errors import InputError
from echelonflow.wire.messages import FlowDeclaration

A, B = "02:00:00:00:00:0a", "02:00:00:00:00:0b"


class Table:
    """The three tables of one switch; `send` says where a packet goes and whether the controller sees it."""

    def __init__(self, fabric, switch="s"):
        self.fabric, self.switch = fabric, switch
        self.rules = {(r.table, r.priority, r.match): r for r in fabric.base_rules(switch)}
        self.now_s = 0.0

    def enact(self, instructions):
        for i in instructions:
            for rule in i.remove:
                del self.rules[rule.table, rule.priority, rule.match]
            for rule in i.add:
                self.rules[rule.table, rule.priority, rule.match] = rule

    def send(self, port, src, dst):
        table, out, shown = 0, None, False
        while table is not None:
            fits = [r for (t, _, m), r in self.rules.items() if t == table and self._fits(m, port, src, dst)]
            rule = max(fits, key=lambda r: r.priority)
            shown = shown or rule.output == TO_CONTROLLER
            out = out if rule.output in (None, TO_CONTROLLER) else rule.output
            table = rule.goto_table
        if shown:
            self.enact(self.fabric.seen(self.switch, port, src, self.now_s))
        return out, shown

    def _fits(self, match, port, src, dst):
        pairs = ((match.in_port, port), (match.eth_src, src), (match.eth_dst, dst))
        return all(wanted in (None, found) for wanted, found in pairs) and match.tcp_src is None


def test_what_is_not_known_is_flooded_and_shown_once():
    table = Table(unknown_fabric())
    assert table.send(1, A, B) == (FLOOD, True)
    assert table.send(1, A, B) == (FLOOD, False)
    assert table.send(2, B, A) == (1, True)
    assert table.send(1, A, B) == (2, False)
    assert table.send(2, B, A) == (1, False)


def test_many_packets_of_one_source_that_were_under_way_are_learned_once():
    fabric = unknown_fabric()
    fabric.base_rules("s")
    assert len(fabric.seen("s", 1, A, 0.0)) == 1
    assert all(fabric.seen("s", 1, A, 0.0) == [] for _ in range(1000))


def test_a_host_that_moves_is_found_at_its_new_port_but_not_too_often():
    table = Table(unknown_fabric())
    table.send(1, A, B)
    table.now_s = SETTLED_S
    assert table.send(3, A, B) == (FLOOD, True)
    assert table.send(2, B, A) == (3, True)
    assert [r for r in table.rules.values() if r.match == Match(in_port=1, eth_src=A)] == []
    assert table.fabric.seen("s", 1, A, SETTLED_S + 0.1) == []  # as a loop would have it


def test_group_addresses_are_no_sources_and_unknown_switches_no_matter():
    fabric = unknown_fabric()
    fabric.base_rules("s")
    assert fabric.seen("s", 1, "ff:ff:ff:ff:ff:ff", 0.0) == []
    assert fabric.seen("other", 1, A, 0.0) == []


def test_a_switch_that_was_told_enough_addresses_shows_no_more():
    fabric = unknown_fabric()
    fabric.base_rules("s")
    for i in range(MOST_ADDRESSES):
        (last,) = fabric.seen("s", 1, f"02:00:00:00:{i >> 8:02x}:{i & 255:02x}", 0.0)
    assert Rule(SOURCES, 0, Match(), goto_table=DESTINATIONS) in last.add
    assert fabric.seen("s", 1, "02:00:00:01:00:00", 0.0) == []


def test_a_switch_that_comes_back_starts_anew():
    table = Table(unknown_fabric())
    table.send(1, A, B)
    again = Table(table.fabric)
    assert again.send(1, A, B) == (FLOOD, True)


def test_a_declared_flow_is_marked_on_every_switch_both_ways():
    fabric = LearnedFabric(unknown_fabric().network, {"h1": "10.0.0.1", "h2": "10.0.0.2"})
    found = fabric.flow_rules(FlowDeclaration("f", 0, "f", "h1", "h2", 1, 0.0, 10_000, 5001), 48, {"b", "a"})
    assert [switch for switch, _ in found] == ["a", "a", "b", "b"]
    there, back = found[0][1], found[1][1]
    assert (there.match.ipv4_src, there.match.tcp_src, there.match.tcp_dst, there.set_dscp) == (
        "10.0.0.1",
        10_000,
        5001,
        48,
    )
    assert (back.match.ipv4_src, back.match.tcp_src, back.match.tcp_dst) == ("10.0.0.2", 5001, 10_000)
    assert there.goto_table == back.goto_table == SOURCES


def test_hosts_are_read_from_a_file(tmp_path):
    path = tmp_path / "hosts.json"
    path.write_text(json.dumps({"rate": "8 Mbit/s", "hosts": {"a": "10.0.0.1", "b": "10.0.0.2"}}))
    network = read_hosts(path).network
    assert network.hosts == ("a", "b")
    assert len(network.path("a", "b")) == 2
    assert {link.rate_bps for link in network.links} == {8e6}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "is not JSON"),
        ("[]", "write"),
        ('{"rate": "1 Gbit/s"}', "write"),
        ('{"rate": "fast", "hosts": {}}', "hosts.json: 'fast'"),
        ('{"rate": "1 Gbit/s", "hosts": {"a": "10.0.0.300"}}', "host a: "),
        ('{"rate": "1 Gbit/s", "hosts": {"a": 7}}', "host a: "),
        ('{"rate": "1 Gbit/s", "hosts": {"a": "10.0.0.1", "b": "10.0.0.1"}}', "two hosts share"),
        ('{"rate": "1 Gbit/s", "hosts": {"network": "10.0.0.1"}}', "a node name is used twice"),
    ],
)
def test_a_hosts_file_that_makes_no_sense_is_named(tmp_path, text, words):
    path = tmp_path / "hosts.json"
    path.write_text(text)
    with pytest.raises(InputError, match=words):
        read_hosts(path)
    with pytest.raises(InputError, match=r"none\.json"):
        read_hosts(tmp_path / "none.json")


def test_what_is_learned_is_installed_on_that_switch():
    fabric = unknown_fabric()
    fabric.base_rules("s")
    (install,) = fabric.seen("s", 4, A, 0.0)
    assert isinstance(install, InstallRules)
    assert (install.switch, len(install.add), install.remove) == ("s", 2, ())
