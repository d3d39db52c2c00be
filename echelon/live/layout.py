"""Where nodes of a network stand in its picture: hosts at the bottom, above them switches by their distance from hosts."""

from __future__ import annotations

import msgspec

from echelonflow.model.network import Network


class Node(msgspec.Struct, frozen=True):
    """A host (layer 0) or a switch; `across` is 0 at the left edge and 1 at the right one."""

    name: str
    layer: int
    across: float


def layout(network: Network) -> tuple[Node, ...]:
    """All nodes of `network`: those of a layer are equally far apart, each about above what it is joined to below.

    A switch that no host is attached to is in the layer above the lowest of its neighbours.
    """
    joined: dict[str, list[str]] = {node: [] for node in (*network.hosts, *network.switches)}
    for cable in network.cables:
        joined[cable.a].append(cable.b)
        joined[cable.b].append(cable.a)
    layer_of = _layers(network, joined)
    across: dict[str, float] = {}
    place_of = {name: place for place, name in enumerate((*network.hosts, *network.switches))}
    for layer in range(max(layer_of.values()) + 1):
        members = [name for name in joined if layer_of[name] == layer]
        if layer == 0:
            members.sort(key=lambda host: (place_of[network.edge_switch[host]], place_of[host]))
        else:
            members.sort(key=lambda name: (_middle([across[n] for n in joined[name] if n in across]), place_of[name]))
        across.update({name: (place + 0.5) / len(members) for place, name in enumerate(members)})
    return tuple(Node(name, layer_of[name], round(across[name], 5)) for name in joined)


def _layers(network: Network, joined: dict[str, list[str]]) -> dict[str, int]:
    """Of each node how many hops it is from the nearest host, by breadth-first search."""
    found = dict.fromkeys(network.hosts, 0)
    last = list(network.hosts)
    while last:
        layer = found[last[0]] + 1
        last = [name for name in dict.fromkeys(n for node in last for n in joined[node]) if name not in found]
        found.update(dict.fromkeys(last, layer))
    return {**found, **{name: 1 for name in network.switches if name not in found}}


def _middle(places: list[float]) -> float:
    return sum(places) / len(places) if places else 0.5
