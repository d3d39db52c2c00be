"""Placements by name: which hosts a job's ranks run on. One module each, found by its file's name.

A placement has `place(request, *, option=default) -> tuple[str, ...]`: the host of every rank, no host more often than it has
free GPUs. It is a pure function of the request. So it can be asked before a run, or when a job arrives and others have left.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from types import ModuleType

from echelonflow import plugins
from echelonflow.errors import InputError, about
from echelonflow.model.dag import JobDag
from echelonflow.model.nearness import Part, parts_of
from echelonflow.model.network import Network
from echelonflow.options import bind_text

_GIVEN = ("request",)


class NoRoomError(InputError):
    """There are fewer free GPUs than ranks: whoever can wait may ask again when a job has left."""


@dataclass(frozen=True)
class Cluster:
    """A network, and which of its hosts are near each other. One is used for all jobs: finding that out takes time."""

    network: Network

    @cached_property
    def nearness(self) -> Part:
        return parts_of(self.network)

    def all_free(self) -> dict[str, int]:
        """The GPUs of each host, in the network's order."""
        return dict.fromkeys(self.network.hosts, self.network.gpus_per_host)


@dataclass(frozen=True)
class Request:
    """A job that wants `ranks` GPUs, one for each rank."""

    cluster: Cluster
    free: Mapping[str, int]
    """How many GPUs are free on each host; those that are not in it have none."""
    ranks: int
    job: str = ""
    """Its name. What is random differs from job to job by it."""
    sent_bytes: Mapping[tuple[int, int], int] = field(default_factory=dict)
    """What each rank sends to each other one in an iteration."""

    @cached_property
    def slots(self) -> tuple[str, ...]:
        """The free GPUs, each as its host, in the network's order."""
        return tuple(host for host in self.cluster.network.hosts for _ in range(self.free.get(host, 0)))


def sent_bytes(dag: JobDag) -> dict[tuple[int, int], int]:
    """What each rank of `dag` sends to each other one in an iteration."""
    found: Counter[tuple[int, int]] = Counter()
    for transfer in dag.transfers:
        found[transfer.src_rank, transfer.dst_rank] += transfer.size_bytes
    return dict(found)


def names() -> list[str]:
    """Every placement that can be named in an experiment."""
    return plugins.names(sys.modules[__name__])


def load(name: str) -> ModuleType:
    """The module of placement `name`; InputError listing what there is otherwise."""
    return plugins.load(sys.modules[__name__], name, "placement")


def check(text: str) -> None:
    """InputError unless `text` is a placement, its options in brackets."""
    _bound(text)


def place(text: str, request: Request) -> tuple[str, ...]:
    """The host of every rank, by the placement that is written such as "packed" or "random(seed=7)".

    Raises NoRoomError where GPUs are too few, InputError for an unknown placement or option.
    """
    module, options = _bound(text)
    free = len(request.slots)
    if request.ranks > free:
        network = request.cluster.network
        there = len(network.hosts) * network.gpus_per_host
        raise NoRoomError(
            f"{request.ranks:,} GPUs are asked for, one for each rank; {free:,} of the cluster's {there:,} are free"
        )
    found: tuple[str, ...] = module.place(request, **options)
    return found


def _bound(text: str) -> tuple[ModuleType, dict[str, object]]:
    name, texts = plugins.parse_call(text, example="random(seed=7)")
    module = load(name)
    return module, about(name, lambda: bind_text(module.place, texts, given=_GIVEN, units=False))
