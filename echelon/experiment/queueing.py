"""The queue of an experiment: jobs that say no hosts wait until there are GPUs for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from echelonflow.errors import InputError
from echelonflow.model import placements
from echelonflow.model.dag import Job
from echelonflow.model.network import Network
from echelonflow.model.placements import Cluster, NoRoomError, Request
from simulator.admission import Queue

Discipline = Literal["fifo", "backfill"]
DEFAULT = "packed"


def queue_of(network: Network, discipline: Discipline, placed_by: Mapping[str, str]) -> Queue:
    """The queue for the GPUs of `network`; `placed_by` says by job how it is placed, with options, where it is not `packed`."""
    cluster = Cluster(network)

    def place(free: Mapping[str, int], job: Job) -> tuple[str, ...] | None:
        request = Request(cluster, free, job.dag.ranks, job.name, placements.sent_bytes(job.dag))
        try:
            return placements.place(placed_by.get(job.name, DEFAULT), request)
        except NoRoomError:
            return None

    return Queue(place, cluster.all_free(), backfill=discipline == "backfill")


def check_room(network: Network, jobs: Sequence[Job]) -> None:
    """InputError where a job would wait for ever: it has more ranks than the cluster has GPUs."""
    gpus = len(network.hosts) * network.gpus_per_host
    for job in jobs:
        if not job.is_placed and job.dag.ranks > gpus:
            raise InputError(
                f"job {job.name} has {job.dag.ranks:,} ranks and would wait for ever: the cluster has {gpus:,} GPUs; "
                "give the network more hosts, or more `gpus_per_host`"
            )
