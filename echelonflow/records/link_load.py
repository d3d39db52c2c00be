"""How busy a link was in a run."""

from __future__ import annotations

import msgspec


class LinkLoad(msgspec.Struct, frozen=True):
    """One link that carried anything while iterations that count were under way."""

    link: str
    """Name of the link, one direction of a cable. From the network."""
    kind: str
    """What kind of link it is, such as `edge` or `fabric`. From the network."""
    carried_bytes: float
    """Payload that it carried in that time. Computed."""
    mean_share: float
    """Mean utilisation (0 to 1): what it carried over what it declares to carry. Computed."""
    peak_share: float | None = None
    """The same in the busiest fiftieth of that time; empty where rates of flows are not known. Computed."""
