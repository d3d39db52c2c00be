"""Which hosts are near each other: those at one switch, then those whose switches meet one layer up, and so on."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from echelonflow.model.network import Network


@dataclass(frozen=True)
class Part:
    """Hosts that are nearer to each other than to any other, in the network's order; `parts` are those that are nearer still.

    The parts of hosts at one switch are the hosts themselves, which have none. `hops` is the most links between two
    switches of its hosts.
    """

    hosts: tuple[str, ...]
    hops: int
    parts: tuple[Part, ...] = ()


def parts_of(network: Network) -> Part:
    """All hosts of `network`, in parts by how many links lie between the switches that they are attached to.

    Two switches are in one part at a distance if a chain of others leads from one to the other, no two of which are farther
    apart. In a tree or a Clos network that is: if they are not farther apart themselves.
    """
    attached: dict[str, list[str]] = {}
    for host in network.hosts:
        attached.setdefault(network.edge_switch[host], []).append(host)
    found = [Part(tuple(hosts), 0, tuple(Part((host,), 0) for host in hosts)) for hosts in attached.values()]
    distances = _distances(network, list(attached))
    switches = [[switch] for switch in attached]
    for hops in sorted({hops for row in distances.values() for hops in row.values()} - {0}):
        groups = _joined(switches, distances, hops)
        if len(groups) < len(switches):
            found = [_whole([found[place] for place in group], hops) for group in groups]
            switches = [[switch for place in group for switch in switches[place]] for group in groups]
    return _whole(found, max((part.hops for part in found), default=0) + 1)  # of hosts that cannot reach each other


def _whole(parts: Sequence[Part], hops: int) -> Part:
    return (
        parts[0] if len(parts) == 1 else Part(tuple(host for part in parts for host in part.hosts), hops, tuple(parts))
    )


def _distances(network: Network, switches: Iterable[str]) -> dict[str, dict[str, int]]:
    """Links between every two of `switches` that can reach each other."""
    beside: dict[str, list[str]] = {switch: [] for switch in network.switches}
    for link in network.links:
        if link.src in beside and link.dst in beside:
            beside[link.src].append(link.dst)
    wanted = set(switches)
    found = {}
    for switch in switches:
        hops, queue = {switch: 0}, deque([switch])
        while queue:
            node = queue.popleft()
            for other in beside[node]:
                if other not in hops:
                    hops[other] = hops[node] + 1
                    queue.append(other)
        found[switch] = {other: count for other, count in hops.items() if other in wanted}
    return found


def _joined(switches: Sequence[Sequence[str]], distances: dict[str, dict[str, int]], hops: int) -> list[list[int]]:
    """Groups of places in `switches` that chains of switches join, none of which are more than `hops` apart."""
    of_switch = {switch: place for place, several in enumerate(switches) for switch in several}
    groups: list[list[int]] = []
    seen: set[int] = set()
    for first in range(len(switches)):
        if first in seen:
            continue
        seen.add(first)
        group, queue = [first], deque([first])
        while queue:
            for switch in switches[queue.popleft()]:
                for other, count in distances[switch].items():
                    place = of_switch[other]
                    if count <= hops and place not in seen:
                        seen.add(place)
                        group.append(place)
                        queue.append(place)
        groups.append(sorted(group))
    return groups
