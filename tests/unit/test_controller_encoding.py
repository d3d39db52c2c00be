"""What both frameworks put on the wire for our rules, read back by the OpenFlow 1.3 specification."""

from __future__ import annotations

import socket
import struct
import subprocess
import sys

import pytest

from controller.launch import FRAMEWORKS
from controller.rules import Match, Rule
from tests.unit.encode_rules import sample

FLOW_MOD, BARRIER_REQUEST = 14, 20
ADD, DELETE, DELETE_STRICT = 0, 3, 4
ALL_TABLES, ANY = 0xFF, 0xFFFFFFFF


@pytest.fixture(scope="module", params=FRAMEWORKS)
def written(request):
    """The two writes of `encode_rules`, as lists of (type, body)."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.encode_rules", request.param], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return [split(bytes.fromhex(line)) for line in done.stdout.split()]


def split(data):
    messages = []
    while data:
        version, kind, length, _ = struct.unpack_from("!BBHI", data)
        assert version == 4
        messages.append((kind, data[8:length]))
        data = data[length:]
    return messages


def number(data):
    return int.from_bytes(data, "big")


OXM = {
    0: ("in_port", number),
    3: ("eth_dst", lambda data: ":".join(f"{byte:02x}" for byte in data)),
    5: ("eth_type", number),
    8: ("ip_dscp", number),
    10: ("ip_proto", number),
    11: ("ipv4_src", socket.inet_ntoa),
    12: ("ipv4_dst", socket.inet_ntoa),
    13: ("tcp_src", number),
    14: ("tcp_dst", number),
}


def read_oxm(data):
    """Fields of a list of OXM entries (specification, 7.2.3.2)."""
    fields = {}
    while data:
        oxm_class, field, length = struct.unpack_from("!HBB", data)
        assert oxm_class == 0x8000
        name, read = OXM[field >> 1]
        value, data = data[4 : 4 + length], data[4 + length :]
        if field & 1:
            value, mask = value[: length // 2], value[length // 2 :]
            fields[f"{name}_mask"] = number(mask)
        fields[name] = read(value)
    return fields


def read_flow_mod(body):
    """(command, rule, whether it is restricted to no output) of a flow mod (specification, 7.3.4.1)."""
    table, command = body[16], body[17]
    idle, hard, priority, buffer, out_port, out_group = struct.unpack_from("!HHHIII", body, 18)
    assert (idle, hard, buffer) == (0, 0, ANY)
    if command in (DELETE, DELETE_STRICT):
        assert (out_port, out_group) == (ANY, ANY)
    match_type, match_length = struct.unpack_from("!HH", body, 40)
    assert match_type == 1
    match = Match(**read_oxm(body[44 : 40 + match_length]))
    instructions, effects = body[40 + (match_length + 7) // 8 * 8 :], {}
    while instructions:
        kind, length = struct.unpack_from("!HH", instructions)
        if kind == 1:
            effects["goto_table"] = instructions[4]
        else:
            assert kind == 4  # apply actions
            effects |= read_actions(instructions[8:length])
        instructions = instructions[length:]
    return command, Rule(table, priority, match, **effects)


def read_actions(data):
    effects = {}
    while data:
        kind, length = struct.unpack_from("!HH", data)
        if kind == 0:
            effects["output"] = number(data[4:8])
        else:
            assert kind == 25  # set field
            oxm_length = 4 + data[7]
            effects["set_dscp"] = read_oxm(data[4 : 4 + oxm_length])["ip_dscp"]
        data = data[length:]
    return effects


def test_installing_removes_then_adds_exactly_the_rules(written):
    add, remove = sample()
    assert all(kind == FLOW_MOD for kind, _ in written[0])
    read = [read_flow_mod(body) for _, body in written[0]]
    assert read[0] == (DELETE_STRICT, Rule(remove.table, remove.priority, remove.match))
    assert read[1:] == [(ADD, rule) for rule in add]


def test_resetting_clears_all_tables_adds_and_asks_for_a_barrier(written):
    kinds = [kind for kind, _ in written[1]]
    assert kinds == [FLOW_MOD, FLOW_MOD, BARRIER_REQUEST]
    command, rule = read_flow_mod(written[1][0][1])
    assert (command, rule.table, rule.match) == (DELETE, ALL_TABLES, Match())
    assert read_flow_mod(written[1][1][1]) == (ADD, sample()[0][0])
