"""Traffic classes: the DSCP of each, and how an order of flows is folded into few of them.

Class 0 is the top class and carries acknowledgements and control alone (they starve in any other);
classes 1 .. 7 carry data, 1 first. DSCPs are the class selectors of RFC 2474, so that any switch
that honours them agrees with ours: class c is CS(7 - c), and unmarked traffic (DSCP 0) is class 7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

CLASSES = 8
CONTROL_CLASS = 0
DATA_CLASSES = tuple(range(1, CLASSES))
DEFAULT_CLASS = CLASSES - 1


def dscp_of_class(traffic_class: int) -> int:
    """The six-bit DSCP that marks `traffic_class` (0 .. 7)."""
    return (CLASSES - 1 - traffic_class) << 3


def class_of_dscp(dscp: int) -> int:
    """The class of a packet marked `dscp`: its class selector, lower bits ignored."""
    return CLASSES - 1 - (dscp >> 3)


def fold(
    ranks: Mapping[str, int],
    in_force: Mapping[str, int] | None = None,
    classes: Sequence[int] = DATA_CLASSES,
) -> dict[str, int]:
    """Give every flow a class so that no flow of a lower rank is below one of a higher rank.

    `ranks` maps flow to its place in the order (0 is served first; equal ranks share). `in_force` maps
    flow to the class it has now. With no more distinct ranks than classes every rank gets a class of
    its own; otherwise the first len(classes) - 1 ranks do and all later ones share the last. Among such
    assignments the one that changes the fewest flows in force is taken, and among those the one that
    uses the highest classes (a promotion never starves a flow). Returns flow to class.
    """
    in_force = in_force or {}
    levels = sorted(set(ranks.values()))
    exact, folded = levels[: len(classes)], levels[len(classes) :]
    position = {rank: i for i, rank in enumerate(exact)}
    position.update(dict.fromkeys(folded, len(classes) - 1))
    members: list[list[str]] = [[] for _ in exact]
    for flow, rank in ranks.items():
        members[position[rank]].append(flow)

    def changes(place: int, traffic_class: int) -> int:
        return sum(1 for flow in members[place] if in_force.get(flow, traffic_class) != traffic_class)

    # best[c]: least (changes, sum of classes) for the places so far with the last one in classes[c].
    best: list[tuple[int, int, tuple[int, ...]]] = [(0, 0, ())]
    for place in range(len(exact)):
        step: list[tuple[int, int, tuple[int, ...]]] = []
        for index, traffic_class in enumerate(classes):
            options = [b for b in best if len(b[2]) == place and (not b[2] or b[2][-1] < index)]
            if not options:
                continue
            cost, total, chosen = min(options)
            step.append((cost + changes(place, traffic_class), total + index, (*chosen, index)))
        best = step
    chosen = min(best)[2]
    return {flow: classes[chosen[place]] for place, flows in enumerate(members) for flow in flows}
