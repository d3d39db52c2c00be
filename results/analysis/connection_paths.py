"""Which links the flows of a run took: those of their connections."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from echelonflow.model.arrays import Ints
from echelonflow.model.network import Network


class Connected(Protocol):
    """A flow, or what is recorded of one: between which hosts its connection is, and from which port."""

    @property
    def src_host(self) -> str: ...

    @property
    def dst_host(self) -> str: ...

    @property
    def src_port(self) -> int: ...


def paths_of(flows: Iterable[Connected], network: Network) -> tuple[Ints, list[tuple[int, ...]]]:
    """For each flow the place of its path, and the paths as links, each once for all connections that share it.

    Raises InputError where the network has no such host, or no path.
    """
    places: dict[tuple[str, str, int | None], int] = {}
    of_connection = network.spreads_connections
    which = [
        places.setdefault((f.src_host, f.dst_host, f.src_port if of_connection else None), len(places)) for f in flows
    ]
    return np.array(which, np.int64), [network.path(*connection) for connection in places]
