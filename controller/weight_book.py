"""The weights of classes on links: which are in force where `weighted` is the enforcer, and what an answer changes.

Pure. Weights are put in force where queues are. Those of switches are in the network that the controller is in: its shell
does it. Those of hosts are their agents' to change. Whoever it is, only what differs is told.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from controller.instructions import BeginWeighing, ChangeWeights, EndWeighing, Instruction, SendTo
from echelonflow.errors import InputError
from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.network import Network
from echelonflow.scheduling import weighting
from echelonflow.scheduling.folding import UNDECIDED, contended
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.wire.classes import DATA_CLASSES
from echelonflow.wire.egress import Egress
from echelonflow.wire.messages import ClassShare, Queues, Weigh

SAME_RATIO = 0.05
"""Relative change of the ratio between two weights that is not worth a message."""
_DIGITS = 6

Weights = tuple[tuple[str, tuple[tuple[int, float], ...]], ...]
"""By name of the link: (class, share of the link) of the classes that have flows there."""


class WeightBook:
    """What is in force on each link of `network`; `senders` gives the clients on a host.

    Without `queues` nothing is known of the queues, and there are no weights to change.
    """

    def __init__(self, network: Network, queues: Queues | None, senders: Callable[[str], Sequence[int]]) -> None:
        self._network = network
        self._queues = queues
        self._senders = senders
        self._active = False
        self._told: dict[int, dict[int, float]] = {}
        """By link and class: the shares that were told last, together."""

    @property
    def active(self) -> bool:
        """Whether classes share by weights."""
        return self._active

    def check(self) -> None:
        """Raise InputError where weights cannot be changed."""
        if self._queues is None:
            raise InputError(
                "enforcer weighted needs the queues of an emulated network, of which this controller was told nothing; "
                "choose priority or rate"
            )

    def begin(self) -> list[Instruction]:
        """From now on classes share by weights, equal ones at first. What agents are told is for them to `greet`."""
        assert self._queues is not None, "this was checked"
        self._active = True
        self._told.clear()
        egress = [
            (link.name, Egress.of(self._network, link, self._queues))
            for link in self._network.links
            if link.src not in self._network.edge_switch
        ]
        return [BeginWeighing(tuple(egress))]

    def greet(self, clients: Sequence[int]) -> list[Instruction]:
        """What clients on hosts are told before they send anything; nothing where there are no weights."""
        if not self._active:
            return []
        links, hosts = self._network.links, self._network.edge_switch
        self._told = {link: told for link, told in self._told.items() if links[link].src not in hosts}
        return [SendTo(client, Weigh(())) for client in clients]

    def end(self, clients: Sequence[int] = ()) -> list[Instruction]:
        """Classes are served in order again; these clients on hosts are told so. Nothing where there were no weights."""
        if not self._active:
            return []
        self._active = False
        return [EndWeighing(), *(SendTo(client, Weigh(None)) for client in clients)]

    def change(self, snapshot: Snapshot, traffic_class: Ints, rates_Bps: Floats) -> tuple[list[Instruction], Weights]:
        """What follows from an answer that allocates `rates_Bps` to flows in these classes (UNDECIDED: none).

        Only links on which a queue can form, and which several classes share, matter.
        """
        place = np.where(traffic_class == UNDECIDED, UNDECIDED, traffic_class - DATA_CLASSES[0])
        shares = weighting.weights_Bps(snapshot, place, rates_Bps, len(DATA_CLASSES)) / snapshot.capacity_Bps[:, None]
        several = contended(snapshot) & ((shares > 0).sum(axis=1) > 1)
        changed: list[tuple[int, dict[int, float]]] = []
        for link in np.flatnonzero(several).tolist():
            wanted = {
                DATA_CLASSES[at]: round(share, _DIGITS) for at, share in enumerate(shares[link].tolist()) if share > 0
            }
            if not _alike(wanted, self._told.get(link, {})):
                self._told[link] = wanted
                changed.append((link, wanted))
        return self._instructions(changed), tuple(
            (self._network.links[link].name, tuple(wanted.items())) for link, wanted in changed
        )

    def _instructions(self, changed: Sequence[tuple[int, dict[int, float]]]) -> list[Instruction]:
        on_switches, instructions = [], list[Instruction]()
        for link, wanted in changed:
            leaving = self._network.links[link]
            shares = tuple(ClassShare(traffic_class, share) for traffic_class, share in wanted.items())
            if leaving.src in self._network.edge_switch:
                instructions += [SendTo(client, Weigh(shares)) for client in self._senders(leaving.src)[:1]]
            else:
                on_switches.append((leaving.name, shares))
        return [ChangeWeights(tuple(on_switches)), *instructions] if on_switches else instructions


def _alike(wanted: dict[int, float], told: dict[int, float]) -> bool:
    """Whether classes have these weights, as good as that: in what ratio they stand is what counts."""
    if not wanted.keys() <= told.keys():
        return False
    ratios = [told[traffic_class] / share for traffic_class, share in wanted.items()]
    return max(ratios) <= min(ratios) * (1 + SAME_RATIO)
