"""Links of an emulated network that fail, slow down and come back, as planned."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from echelonflow.model.network import Link
from testbed import queues, world

if TYPE_CHECKING:
    from testbed.mininet_network import EmulatedNetwork, Interface


def set_share(net: EmulatedNetwork, links: Iterable[Link], share: float) -> None:
    """Let directed links carry a `share` (0 to 1) of their rate from now on: their queues are served so much slower.

    Raises RunError where the kernel refuses.
    """
    shells = []
    for interface in _interfaces(net, links):
        rate_bps = interface.link.rate_bps * share
        lines = queues.burst_lines(interface.name, rate_bps, net.network.mtu_bytes, net.segment_bytes, net.burst_s)
        script = "\n".join(["tc -batch - <<'.'", *lines, ".", ""])
        shells.append(world.run_script(script, _namespace(net, interface)))
    for shell in shells:
        world.finish(shell, "changing the rate of a link")


def set_up(net: EmulatedNetwork, links: Iterable[Link], *, up: bool) -> None:
    """Take links down, or up again, at their ends on switches: a host then sees that its cable carries nothing.

    A host's own end stays up, since its routes and neighbours would go with it. Raises RunError where the kernel refuses.
    """
    state = "up" if up else "down"
    names = [i.name for i in _interfaces(net, links) if i.node not in net.network.edge_switch]
    lines = "".join(f"ip link set {name} {state}\n" for name in names)
    world.finish(world.run_script(lines), f"taking a link {state}")


def _interfaces(net: EmulatedNetwork, links: Iterable[Link]) -> list[Interface]:
    wanted = {link.index for link in links}
    return [interface for interface in net.interfaces().values() if interface.link.index in wanted]


def _namespace(net: EmulatedNetwork, interface: Interface) -> int | None:
    """A process in the host's namespace; None for the switches', which is the world's own."""
    return net.namespace_pid(interface.node) if interface.node in net.network.edge_switch else None
