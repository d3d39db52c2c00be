"""A network as a file: what the controller is told of the network that it serves (network.json)."""

from __future__ import annotations

from pathlib import Path

from echelonflow.codec import Document
from echelonflow.errors import InputError
from echelonflow.model.network import Network


def write_network(path: Path, network: Network) -> None:
    """Write `network` to `path`."""
    _DOCUMENT.write(path, network)


def read_network(path: Path) -> Network:
    """The network described in the file at `path` (InputError naming the file if it is none)."""
    try:
        return _DOCUMENT.read(path)
    except InputError as error:
        raise InputError(f"network file {str(error).removeprefix('network file ')}") from None


_DOCUMENT = Document("echelon-network", 1, Network, {0: lambda data, _: data})  # by hand, one may leave the header out
