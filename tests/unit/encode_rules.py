"""Prints as hexadecimal what a framework sends for rules: `python -m tests.unit.encode_rules ryu`.

A process of its own, because a process can have one framework and eventlet changes the standard library.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

from controller.framework import Framework, SwitchHandle
from controller.rules import base_rules, flow_rule
from echelonflow.model import topologies
from echelonflow.wire.messages import FlowDeclaration


def sample():
    """(rules to add, rule to remove): all kinds there are."""
    network = topologies.build("dumbbell", {"hosts": 2, "rate_bps": 1e8})
    flow = FlowDeclaration("f", 0, "c", "h1", "h2", 1000, 0.0, 10_000, 5001)
    return [*base_rules(network, "s1"), flow_rule(network, flow, 40)[1]], flow_rule(network, flow, 40)[1]


class Recorder:
    """Stands in for a connected switch of the framework: collects what would be written to it."""

    def __init__(self, package: str) -> None:
        protocol = importlib.import_module(f"{package}.ofproto.ofproto_protocol").ProtocolDesc(version=4)
        self.ofproto, self.ofproto_parser = protocol.ofproto, protocol.ofproto_parser
        self.written: list[bytes] = []
        self.xid = 0

    def set_xid(self, message: Any) -> None:
        self.xid += 1
        message.set_xid(self.xid)

    def send(self, data: bytes) -> None:
        self.written.append(data)


def main(name: str) -> None:
    Framework(name)
    recorder = Recorder({"ryu": "ryu", "os-ken": "os_ken"}[name])
    add, remove = sample()
    handle = SwitchHandle(recorder)
    handle.install(add, [remove])
    xid = handle.reset(add[:1])
    assert xid == recorder.xid
    print("\n".join(data.hex() for data in recorder.written))


if __name__ == "__main__":
    main(sys.argv[1])
