"""A plain Mininet network for the Echelon controller: a tree of three switches, four hosts, OpenFlow 1.3.

Nothing here is Echelon's: any Mininet script with a RemoteController and OpenFlow 1.3 switches will do, as
long as its cables form no loop. In one terminal, with the hosts whose flows are to be scheduled in a file:

    echo '{"rate": "100 Mbit/s", "hosts": {"h1": "10.0.0.1", "h2": "10.0.0.2",
           "h3": "10.0.0.3", "h4": "10.0.0.4"}}' > hosts.json
    python -m controller.main --hosts hosts.json

and in another, as root, `python examples/plain_mininet.py`. `pingall` works; clients of `traffic.agent.api` declare
flows on control.sock; rest.sock shows and swaps the policy.
"""

from __future__ import annotations

import argparse
import sys

from mininet.cli import CLI
from mininet.net import Mininet
from mininet.node import OVSSwitch, RemoteController
from mininet.topo import Topo


class Tree(Topo):
    """s1 above s2 and s3; h1 and h2 on s2, h3 and h4 on s3."""

    def build(self) -> None:
        top, left, right = (self.addSwitch(name) for name in ("s1", "s2", "s3"))
        self.addLink(top, left)
        self.addLink(top, right)
        for number in range(1, 5):
            host = self.addHost(f"h{number}", ip=f"10.0.0.{number}/8", mac=f"02:00:00:00:00:{number:02x}")
            self.addLink(host, left if number <= 2 else right)


def make(datapath: str, controller_port: int) -> Mininet:
    """The network, not yet started; `datapath` is "kernel" or "user" (where the kernel has no Open vSwitch)."""

    def switch(name: str, **options: object) -> OVSSwitch:
        return OVSSwitch(name, protocols="OpenFlow13", datapath=datapath, failMode="secure", **options)

    net = Mininet(topo=Tree(), switch=switch, controller=None, build=True)
    net.addController("c0", RemoteController, ip="127.0.0.1", port=controller_port)
    if datapath == "user":  # the userspace datapath does not fill in checksums that hosts leave to the card
        for host in net.hosts:
            host.cmd(f"ethtool -K {host.defaultIntf()} tx off tso off gso off gro off")
    return net


def main() -> int:
    """Build the network, wait for a controller, and open Mininet's prompt."""
    parser = argparse.ArgumentParser(description="A plain Mininet network for the Echelon controller.")
    parser.add_argument("--datapath", choices=("kernel", "user"), default="kernel", help="default: %(default)s")
    parser.add_argument("--controller-port", type=int, default=6653, help="default: %(default)s")
    options = parser.parse_args()
    net = make(options.datapath, options.controller_port)
    net.start()
    try:
        net.waitConnected(timeout=10)
        CLI(net)
    finally:
        net.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
