"""Which hosts the ranks of an experiment's jobs run on: those that a file lists, or those that a placement finds.

A host has one GPU unless `network.gpus_per_host` says more, and a rank needs one. Of one job no host ever has more ranks than
GPUs: what they exchange would cost nothing, and nobody asked for that. Of several jobs together:

- Where `gpus_per_host` is given, a GPU belongs to one job. Jobs without a `placement` are packed into what is free.
- Where it is not, jobs may share hosts, as those do that list the same ones: they are to meet on links. Jobs without a
  `placement` begin at the first host. A placement that has a name still finds GPUs that no list names, nor any job before
  it in the file has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from echelonflow.errors import InputError
from echelonflow.model import placements
from echelonflow.model.dag import JobDag
from echelonflow.model.network import Network
from echelonflow.model.placements import Cluster, NoRoomError, Request
from echelonflow.spelling import shown, unknown

Written = Sequence[str] | str | None
"""Hosts, a placement in words, or nothing."""


class Placing:
    """Places jobs one after the other. Hosts that the file lists are taken from the start; `default` is for jobs that say nothing."""

    def __init__(
        self, network: Network, listed: Iterable[Sequence[str]], default: str | None = None, *, gpus_are_counted: bool
    ) -> None:
        self._cluster = Cluster(network)
        self._network = network
        self._counted = gpus_are_counted
        self._default = default or ("packed" if gpus_are_counted else None)
        self._free = self._cluster.all_free()
        self._over: Counter[str] = Counter()
        """Ranks beyond the GPUs of a host, of all lists together."""
        for hosts in listed:
            self._take(hosts)

    def place(self, job: str, dag: JobDag, written: Written) -> tuple[str, ...]:
        """The host of every rank of `job`; InputError for hosts that there are not, or that have too few GPUs."""
        if written is not None and not isinstance(written, str):
            self._check(written, dag.ranks)
            return tuple(written)
        text = written or self._default
        hosts = self._from_the_first(dag.ranks) if text is None else self._found(text, job, dag)
        self._take(hosts)
        return hosts

    def _found(self, text: str, job: str, dag: JobDag) -> tuple[str, ...]:
        check(text)
        request = Request(self._cluster, self._free, dag.ranks, job, placements.sent_bytes(dag))
        try:
            return placements.place(text, request)
        except NoRoomError as error:
            raise NoRoomError(f"{error}; {self._more_gpus(dag.ranks)}") from None

    def _from_the_first(self, ranks: int) -> tuple[str, ...]:
        hosts = self._network.hosts
        if ranks > len(hosts):
            raise NoRoomError(
                f"{ranks:,} ranks need as many GPUs, and {len(hosts):,} hosts with one each have {len(hosts):,}; "
                + self._more_gpus(ranks)
            )
        return hosts[:ranks]

    def _more_gpus(self, ranks: int) -> str:
        return f"give the network more hosts, or `gpus_per_host: {self._enough(ranks)}`"

    def _enough(self, ranks: int) -> int:
        """GPUs on each host with which there would be room for so many ranks more."""
        hosts = len(self._network.hosts)
        taken = hosts * self._network.gpus_per_host - sum(self._free.values())
        return max(self._network.gpus_per_host + 1, -(-(ranks + taken) // hosts))

    def _check(self, written: Sequence[str], ranks: int) -> None:
        there = self._network.edge_switch
        other = next((host for host in written if host not in there), None)
        if other is not None:
            raise InputError(f"unknown host {other!r}{unknown(other, self._network.hosts)}")
        if len(written) != ranks:
            raise InputError(
                f"{len(written)} host{'s' * (len(written) != 1)} for {ranks} ranks; name one for each rank"
            )
        gpus = self._network.gpus_per_host
        host, most = Counter(written).most_common(1)[0]
        if most > gpus:
            raise InputError(
                f"puts {most} ranks on {host}, which has {_gpus(gpus)}; name another host, "
                f"or give hosts more: `gpus_per_host: {most}` in network"
            )
        full = next((host for host in written if self._over[host]), None)
        if self._counted and full is not None:
            raise InputError(
                f"{full} has {_gpus(gpus)}, and jobs that list it put {gpus + self._over[full]} ranks there; "
                f"name another host, or give hosts more: `gpus_per_host: {gpus + self._over[full]}`"
            )

    def _take(self, hosts: Sequence[str]) -> None:
        for host in hosts:
            if self._free.get(host, 0):
                self._free[host] -= 1
            else:
                self._over[host] += 1


def check(text: str) -> None:
    """InputError unless `text` is a placement with options that it takes."""
    if "," in text and "(" not in text:
        raise InputError(f"{shown(text)} is not a list of hosts; write [h1, h2], or the name of a placement")
    if text.count("(") > text.count(")"):
        raise InputError(f"YAML ends a text at a comma between brackets; put it in quotes: '{text}, ...)'")
    placements.check(text)


def _gpus(count: int) -> str:
    return f"{count} GPU{'s' * (count != 1)}"
