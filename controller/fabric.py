"""What the controller knows of the switches: which there are, their standing rules, where a flow gets its mark.

`KnownFabric` is one of our own networks: everything is known ahead, nothing is learned. `LearnedFabric` is
somebody else's network, of which only hosts' addresses may be known (controller.learning).
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from controller.instructions import Instruction
from controller.rules import Rule, base_rules, flow_rule, path_rules
from echelonflow.model.addressing import dpid
from echelonflow.model.network import Network
from echelonflow.wire.messages import FlowDeclaration


class Fabric(Protocol):
    """The switches of one network, by name."""

    @property
    def network(self) -> Network:
        """What policies see: hosts, and the links that flows share."""

    def switch_name(self, datapath_id: int) -> str | None:
        """The switch with this OpenFlow datapath id; None where the network has none such."""

    def datapath_id(self, switch: str) -> int:
        """The OpenFlow datapath id of a switch that has a name."""

    @property
    def addresses(self) -> Mapping[str, str] | None:
        """The hosts' IPv4 addresses where the network is learned; None where it was described."""

    def base_rules(self, switch: str) -> list[Rule]:
        """The rules of a switch that has just connected."""

    def flow_rules(self, flow: FlowDeclaration, dscp: int, connected: AbstractSet[str]) -> list[tuple[str, Rule]]:
        """(switch, rule) of all rules that give a flow its mark."""

    def path_rules(self, flow: FlowDeclaration) -> list[tuple[str, Rule]]:
        """(switch, rule) of all rules that keep a flow on its path, whatever its mark."""

    def complete(self, ready: AbstractSet[str]) -> bool:
        """Whether the switches that are ready are all that a run needs."""

    def seen(self, switch: str, port: int, source_mac: str, now_s: float) -> list[Instruction]:
        """What follows from a packet that a switch has shown."""


class KnownFabric:
    """A network of ours: forwarding is worked out ahead, marks are set at the edge."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._switch_of_dpid = {dpid(network, switch): switch for switch in network.switches}

    @property
    def network(self) -> Network:
        return self._network

    def switch_name(self, datapath_id: int) -> str | None:
        return self._switch_of_dpid.get(datapath_id)

    def datapath_id(self, switch: str) -> int:
        return dpid(self._network, switch)

    @property
    def addresses(self) -> None:
        return None

    def base_rules(self, switch: str) -> list[Rule]:
        return base_rules(self._network, switch)

    def flow_rules(self, flow: FlowDeclaration, dscp: int, connected: AbstractSet[str]) -> list[tuple[str, Rule]]:
        return [flow_rule(self._network, flow, dscp)]

    def path_rules(self, flow: FlowDeclaration) -> list[tuple[str, Rule]]:
        return path_rules(self._network, flow)

    def complete(self, ready: AbstractSet[str]) -> bool:
        return len(ready) == len(self._network.switches)

    def seen(self, switch: str, port: int, source_mac: str, now_s: float) -> list[Instruction]:
        """Nothing: no rule of ours shows the controller a packet."""
        return []
