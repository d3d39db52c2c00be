"""The network as one switch that never blocks: only the ports, in and out, can congest.

The model of the Coflow papers (Varys, Aalo, Sincronia), on which public Coflow traces are defined.
"""

from __future__ import annotations

from typing import Literal

from echelonflow.bounds import check_network
from echelonflow.model.network import Cable, Network
from echelonflow.model.units import payload_share

EXAMPLE = {"ports": 6, "rate": "1 Gbit/s", "rate_of": "payload"}


def build(
    *, ports: int, rate_bps: float, rate_of: Literal["line", "payload"] = "line", mtu_bytes: int = 1500
) -> Network:
    """Hosts h1..hN at ports 0..N-1 of switch s1; a flow meets its source's uplink and its destination's downlink.

    `rate_bps` is each direction's line rate, or with `rate_of="payload"` what is left of it for payload: published
    simulators know no packet headers, so theirs is such a rate.
    """
    check_network({"ports": ports}, hosts=ports, switches=1, cables=ports)
    line_rate_bps = rate_bps if rate_of == "line" else rate_bps / payload_share(mtu_bytes)
    names = tuple(f"h{i + 1}" for i in range(ports))
    cables = tuple(Cable(host, "s1", line_rate_bps, kind="edge") for host in names)
    return Network("big-switch", names, ("s1",), cables, mtu_bytes)
