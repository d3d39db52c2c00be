"""A network as plain data: nodes, directed links with a rate, and the path of every pair of hosts.

The simulator runs on this description, the testbed realises it in Mininet, the controller derives
its forwarding rules from it. Topologies (`echelonflow.model.topologies`, one file each) produce it.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter, deque
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from echelonflow.bounds import MOST_GPUS_PER_HOST, check_network
from echelonflow.errors import InputError
from echelonflow.model.units import payload_rate_Bps, payload_share

_SECOND_CHOICE_HOPS = 3


@dataclass(frozen=True, slots=True)
class Cable:
    """A full-duplex cable between two nodes: two directed links of the same rate.

    `kind` names the class of link ("edge", "fabric", ...): links of one kind are calibrated together.
    """

    a: str
    b: str
    rate_bps: float
    delay_s: float = 0.0
    kind: str = "edge"


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a cable: traffic that leaves `src` towards `dst`."""

    index: int
    src: str
    dst: str
    rate_bps: float
    kind: str
    parallel: int = 1
    """1 for the first cable between its two nodes, 2 for the second, and so on."""

    @property
    def name(self) -> str:
        """Such as s1->s2, or s1->s2#2 on the second cable between the two: unique in a network."""
        return f"{self.src}->{self.dst}" + (f"#{self.parallel}" if self.parallel > 1 else "")


@dataclass(frozen=True)
class Network:
    """Hosts and switches joined by cables; `mtu_bytes` holds everywhere.

    Two switches may be joined by several cables. A host has `gpus_per_host` GPUs, one for each rank that runs there. Raises InputError where a name is used twice or unknown, a rate is
    not positive, or there is more of anything than `echelonflow.bounds` allows. It also does where a cable leads back to its own node, or a host is not attached by exactly one cable.
    """

    name: str
    hosts: tuple[str, ...]
    switches: tuple[str, ...]
    cables: tuple[Cable, ...]
    mtu_bytes: int = 1500
    parameters: dict[str, Any] = field(default_factory=dict, compare=False)
    gpus_per_host: int = 1
    ecmp_seed: int | None = None
    """None: flows are spread over equally short paths by their destination. Else by their connection, with a hash of this seed."""

    def __post_init__(self) -> None:
        check_network({}, hosts=len(self.hosts), switches=len(self.switches), cables=len(self.cables))
        payload_share(self.mtu_bytes)  # which refuses a size that no packet can have
        nodes = [*self.hosts, *self.switches]
        if len(set(nodes)) != len(nodes):
            raise InputError(f"topology {self.name}: a node name is used twice")
        degree = dict.fromkeys(nodes, 0)
        for cable in self.cables:
            for end in (cable.a, cable.b):
                if end not in degree:
                    raise InputError(f"topology {self.name}: cable to unknown node {end!r}")
                degree[end] += 1
            if cable.a == cable.b:
                raise InputError(f"topology {self.name}: a cable leads from {cable.a} to itself")
            if not (cable.rate_bps > 0 and math.isfinite(cable.rate_bps)):
                raise InputError(
                    f"topology {self.name}: cable {cable.a}-{cable.b} has rate {cable.rate_bps}; "
                    "a rate must be positive and finite"
                )
        if not 1 <= self.gpus_per_host <= MOST_GPUS_PER_HOST:
            raise InputError(
                f"topology {self.name}: {self.gpus_per_host} GPUs per host; a host has 1 to {MOST_GPUS_PER_HOST}"
            )
        for host in self.hosts:
            if degree[host] != 1:
                raise InputError(f"topology {self.name}: host {host} has {degree[host]} cables; a host has one")

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """Every directed link; cable i gives links 2i (a to b) and 2i+1 (b to a)."""
        found: list[Link] = []
        cables_between: Counter[frozenset[str]] = Counter()
        for cable in self.cables:
            ends = frozenset((cable.a, cable.b))
            cables_between[ends] += 1
            for src, dst in ((cable.a, cable.b), (cable.b, cable.a)):
                found.append(Link(len(found), src, dst, cable.rate_bps, cable.kind, cables_between[ends]))
        return tuple(found)

    @cached_property
    def capacity_Bps(self) -> tuple[float, ...]:
        """Payload bytes per second of each link, in the order of `links`."""
        return tuple(payload_rate_Bps(link.rate_bps, self.mtu_bytes) for link in self.links)

    @cached_property
    def _neighbours(self) -> dict[str, list[Link]]:
        out: dict[str, list[Link]] = {node: [] for node in (*self.hosts, *self.switches)}
        for link in self.links:
            out[link.src].append(link)
        return out

    @cached_property
    def edge_switch(self) -> dict[str, str]:
        """The switch that each host is attached to."""
        return {host: self._neighbours[host][0].dst for host in self.hosts}

    def path(self, src: str, dst: str, src_port: int | None = None) -> tuple[int, ...]:
        """Indices of the links from host `src` to host `dst`, empty where they are the same host.

        The path is a shortest one, and free of loops. Among equals the choice is spread by *destination*, as the controller
        forwards by destination, and fixed for a given topology. With an `ecmp_seed` a connection, told by its `src_port`,
        has a choice of its own at each switch (ECMP, RFC 2992). Without a port the destination's holds there too.
        Raises InputError where there is none.
        """
        if src == dst:
            return ()
        edge, nearer = self._towards(dst)
        first = self._neighbours[src][0] if src in self._place_of_host else None
        if first is not None and first.dst == dst:
            return (first.index,)
        node, hops = ("", []) if first is None else (first.dst, [first.index])
        while node != edge:
            if node not in nearer:
                raise InputError(f"topology {self.name}: no path from {src} to {dst}")
            choices = nearer[node]
            if self.ecmp_seed is None or src_port is None or len(choices.links) == 1:
                link = choices.towards(self._place_of_host[dst])
            else:
                link = choices.links[_hash(self.ecmp_seed, node, src, dst, src_port) % len(choices.links)]
            hops.append(link.index)
            node = link.dst
        return (*hops, self._link_to_host[dst].index)

    def path_in_words(self, src: str, dst: str, src_port: int) -> str:
        """The switches on the path of a connection, such as "l1 p2 l3"; "#2" behind one is its second cable from the one before."""
        links = [self.links[index] for index in self.path(src, dst, src_port)][:-1]
        return " ".join(link.dst + (f"#{link.parallel}" if link.parallel > 1 else "") for link in links)

    @property
    def spreads_connections(self) -> bool:
        """Whether connections between the same two hosts may take different paths."""
        return self.ecmp_seed is not None

    def next_links(self, dst: str) -> dict[str, Link]:
        """For every node but `dst`, the link by which it sends towards host `dst`: what switches forward by."""
        edge, nearer = self._towards(dst)
        place = self._place_of_host[dst]
        found = {edge: self._link_to_host[dst]}
        found.update({node: choices.towards(place) for node, choices in nearer.items()})
        for host, switch in self.edge_switch.items():
            if host != dst and switch in found:
                found[host] = self._neighbours[host][0]
        return found

    def next_link(self, switch: str, dst: str) -> Link:
        """The link by which `switch`, which is not the one of host `dst`, sends towards it (InputError where there is none)."""
        _, nearer = self._towards(dst)
        if switch not in nearer:
            raise InputError(f"topology {self.name}: no path from {switch} to {dst}")
        return nearer[switch].towards(self._place_of_host[dst])

    def _towards(self, dst: str) -> tuple[str, dict[str, _Choices]]:
        """What a host is attached to, and the links that lead nearer to that."""
        if dst not in self._place_of_host:
            raise InputError(f"topology {self.name}: unknown host {dst!r}")
        edge = self.edge_switch[dst]
        return edge, self._nearer_links(edge)

    @cached_property
    def _place_of_host(self) -> dict[str, int]:
        return {host: place for place, host in enumerate(self.hosts)}

    @cached_property
    def _link_to_host(self) -> dict[str, Link]:
        """The link by which each host is reached."""
        return {link.dst: link for link in self.links if link.dst in self._place_of_host}

    @cached_property
    def _nearer(self) -> dict[str, dict[str, _Choices]]:
        return {}

    def _nearer_links(self, edge: str) -> dict[str, _Choices]:
        """For every other switch from which the switch `edge` can be reached, the links that lead one hop nearer to it."""
        if edge not in self._nearer:
            distance, queue = {edge: 0}, deque([edge])
            while queue:
                node = queue.popleft()
                for link in self._neighbours[node]:
                    if link.dst not in distance and link.dst not in self._place_of_host:
                        distance[link.dst] = distance[node] + 1
                        queue.append(link.dst)
            self._nearer[edge] = {
                node: _Choices(hops, [link for link in self._neighbours[node] if distance.get(link.dst) == hops - 1])
                for node, hops in distance.items()
                if node != edge
            }
        return self._nearer[edge]


@dataclass(frozen=True, slots=True)
class _Choices:
    """The links by which a switch may send towards another one, which is `hops` away."""

    hops: int
    links: list[Link]

    def towards(self, place: int) -> Link:
        """The link for the host of this place in the network: hosts are spread over the links.

        Where there are three layers, the second choice on the way up, three hops away, goes by the next digit of the place.
        By the same one it would follow from the first, and most switches at the top would never be chosen.
        """
        digit = place // len(self.links) if self.hops == _SECOND_CHOICE_HOPS else place
        return self.links[digit % len(self.links)]


def _hash(seed: int, switch: str, src: str, dst: str, src_port: int) -> int:
    """What a switch makes of a connection. Each has a hash of its own: with one for all, choices of later switches follow from the first's.

    The destination's port is left out. It tells the runs of an experiment apart, and all of them are to take the same paths.
    """
    text = f"{seed} {switch} {src} {dst} {src_port}".encode()
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
