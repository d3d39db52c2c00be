"""The traffic classes of an egress, as lines for `tc -batch`: in strict order, or sharing the link by weights.

Every outgoing interface of the testbed has one HTB tree, which `testbed.queues` puts there. Class c is HTB class
1:<10 + c>. All borrow what they send from the link's class. In strict order class c borrows at prio c. By weights
all data classes borrow at one prio, and take turns there (deficit round robin) that are as long as their weights. Class 0,
of acknowledgements, goes before them either way.

Weights are turns and not rates that HTB guarantees. What a class sent while such a rate was low, it owes. When the rate
is raised, it has no turn by it until that debt is paid, for up to a minute. Turns have no memory.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping

import msgspec

from echelonflow.errors import InputError
from echelonflow.model import addressing
from echelonflow.model.network import Link, Network
from echelonflow.model.units import ETHERNET_HEADER_BYTES
from echelonflow.wire.classes import CLASSES, DATA_CLASSES
from echelonflow.wire.messages import Queues

LEAK = "rate 8bit burst 1"
"""What a class gets before its priority counts: as little as HTB knows. The kernel lets it owe a minute of that at most.

At 0.05 % of the link a segment passed every three seconds, and one at once in each class that had been idle. A flow that
is moved down has packets in several classes. So they overtook one another, and TCP took that for loss.
"""
FIRST_CLASS = 10
LONGEST_INTERFACE_NAME = 15
LONGEST_TURN = 256
"""Of the longest segments. Where weights are further apart, the lightest class gets more than its share."""
_NAME = re.compile(rf"[\w.-]{{1,{LONGEST_INTERFACE_NAME}}}")


class Egress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An interface of the testbed: `rate_bps` of its link, headers counted, and what its tree was made for."""

    interface: str
    rate_bps: float
    frame_bytes: int
    """The longest frame, as HTB counts it."""
    segment_bytes: int
    """The longest (super-)segment that arrives, one frame where there is no segmentation offload."""
    burst_s: float
    """How much of the link may pass at once after an idle spell."""

    @staticmethod
    def of(network: Network, link: Link, queues: Queues) -> Egress:
        """The interface by which `link` leaves; InputError for one whose name no interface can have."""
        name = addressing.interface_name(network, link)
        if not _NAME.fullmatch(name):
            raise InputError(f"{name!r} is not the name of an interface")
        frame_bytes = network.mtu_bytes + ETHERNET_HEADER_BYTES
        return Egress(name, link.rate_bps, frame_bytes, queues.segment_bytes, queues.burst_s)

    def in_order(self, verb: str = "change") -> list[str]:
        """Lines that add or change the link's class and the traffic classes below it, in strict order."""
        rate, burst = round(self.rate_bps), self._burst_bytes
        link = f"rate {rate}bit ceil {rate}bit burst {burst} cburst {burst}"
        lines = [f"class {verb} dev {self.interface} parent 1: classid 1:1 htb {link}"]
        return [*lines, *(self._line(verb, c, c, 1.0) for c in range(CLASSES))]

    def equal(self) -> list[str]:
        """Lines that have all data classes share the link alike, whatever it did before."""
        return [self._line("change", c, DATA_CLASSES[0], 1.0) for c in DATA_CLASSES]

    def weighted(self, shares: Mapping[int, float]) -> list[str]:
        """Lines that have data classes share by weights, all of them positive; those that are not named keep theirs.

        The lightest one's turn is a segment, those of others are as much longer as they are heavier.
        """
        least = min(shares.values(), default=1.0)
        return [
            self._line("change", c, DATA_CLASSES[0], min(share / least, LONGEST_TURN)) for c, share in shares.items()
        ]

    @property
    def _burst_bytes(self) -> int:
        return math.ceil(max(round(self.rate_bps) / 8 * self.burst_s, 2 * self.frame_bytes))

    def _line(self, verb: str, traffic_class: int, prio: int, turn: float) -> str:
        quantum = round(max(self.frame_bytes, self.segment_bytes) * turn)
        borrows = f"ceil {round(self.rate_bps)}bit cburst {self._burst_bytes} prio {prio} quantum {quantum}"
        minor = f"{FIRST_CLASS + traffic_class:x}"
        return f"class {verb} dev {self.interface} parent 1:1 classid 1:{minor} htb {LEAK} {borrows}"
