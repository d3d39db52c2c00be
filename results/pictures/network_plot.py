"""The picture of a topology: hosts at the bottom, switches above them by how far they are from a host."""

from __future__ import annotations

from pathlib import Path

from echelonflow.model.network import Cable, Network
from echelonflow.model.units import format_rate
from results.colours import BLACK
from results.pictures.style import PALETTE, WIDTH_IN, picture

_ROW_IN = 0.8
_NODE = {"boxstyle": "round,pad=0.35", "linewidth": 0.8, "edgecolor": BLACK}


def draw_network(path: Path, network: Network) -> None:
    """Every node and cable of `network`, a colour for each kind of cable and rate; saved as `path` with suffix .svg."""
    place = _places(network)
    kinds = list(dict.fromkeys((cable.kind, cable.rate_bps) for cable in network.cables))
    height = 1 + max(row for _, row in place.values())
    with picture(path.with_suffix(".png"), _ROW_IN * height + 0.6, WIDTH_IN * 0.7) as figure:
        axes = figure.add_subplot()
        labelled: set[tuple[str, float]] = set()
        for cable, bend in _with_bends(network):
            kind = cable.kind, cable.rate_bps
            label = None if kind in labelled else f"{cable.kind}, {format_rate(cable.rate_bps)}"
            labelled.add(kind)
            (x1, y1), (x2, y2) = place[cable.a], place[cable.b]
            line = [x1, (x1 + x2) / 2 + bend, x2], [y1, (y1 + y2) / 2 + bend, y2]
            axes.plot(*line, color=PALETTE[kinds.index(kind) % len(PALETTE)], linewidth=1.4, label=label, zorder=1)
        for node, (x, y) in place.items():
            box = {**_NODE, "facecolor": "white" if node in network.hosts else "#e8e8e8"}
            axes.text(x, y, node, ha="center", va="center", fontsize=8, bbox=box, zorder=2)
        axes.set(xlim=(-0.05, 1.05), ylim=(-0.4, height - 0.6))
        axes.set_axis_off()
        figure.legend(loc="outside upper left", ncols=len(kinds))
    path.with_suffix(".png").unlink()  # text is what pages need, and changes legibly


def _places(network: Network) -> dict[str, tuple[float, int]]:
    """Where every node is drawn: across from 0 to 1, and its row, which is its distance from the nearest host."""
    row = dict.fromkeys(network.hosts, 0)
    neighbours: dict[str, list[str]] = {node: [] for node in (*network.hosts, *network.switches)}
    for cable in network.cables:
        neighbours[cable.a].append(cable.b)
        neighbours[cable.b].append(cable.a)
    reached = list(network.hosts)
    for node in reached:  # which grows meanwhile
        for other in neighbours[node]:
            if other not in row:
                row[other] = row[node] + 1
                reached.append(other)
    place: dict[str, tuple[float, int]] = {}
    for level in range(max(row.values()) + 1):
        nodes = [node for node in (*network.hosts, *network.switches) if row.get(node) == level]
        for k, node in enumerate(nodes):
            place[node] = ((k + 0.5) / len(nodes), level)
    return place


def _with_bends(network: Network) -> list[tuple[Cable, float]]:
    """Every cable, and how far its middle is moved, so that cables between the same two nodes are told apart."""
    seen: dict[frozenset[str], int] = {}
    found = []
    for cable in network.cables:
        ends = frozenset((cable.a, cable.b))
        seen[ends] = seen.get(ends, -1) + 1
        found.append((cable, 0.06 * seen[ends]))
    return found
