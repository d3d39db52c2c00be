"""From the `background` entry of an experiment file to a job that stands for its traffic."""

from __future__ import annotations

import random

from echelon.experiment.specs import BackgroundSpec
from echelonflow.errors import InputError, about
from echelonflow.model.dag import Job
from echelonflow.model.network import Network
from echelonflow.model.units import format_size, parse_duration_s, parse_share, parse_size_bytes
from echelonflow.records.manifest import JobNotes
from echelonflow.spelling import unknown
from traffic.workloads.background import background


def background_job(spec: BackgroundSpec, network: Network, seed: int, stretch: float) -> tuple[Job, JobNotes]:
    """The job that replays background traffic on `network`, drawn by its own seed or the experiment's, and notes on it.

    Time and sizes are `stretch` times as large. InputError, one line per fault.
    """
    name, hosts = spec.name, spec.hosts or list(network.hosts)
    other = next((host for host in hosts if host not in network.edge_switch), None)
    if other is not None:
        raise InputError(f"hosts: unknown host {other!r}{unknown(other, network.hosts)}")
    if len(set(hosts)) < len(hosts):
        raise InputError("hosts: names a host twice")
    links_Bps = [
        capacity_Bps
        for link, capacity_Bps in zip(network.links, network.capacity_Bps, strict=True)
        if link.src in set(hosts)
    ]
    lasts_s = about("for", lambda: parse_duration_s(spec.for_)) * stretch
    size_bytes = about("size", lambda: parse_size_bytes(spec.size)) * stretch
    dag = background(
        random.Random(f"{seed if spec.seed is None else spec.seed}/{name}"),
        hosts=len(hosts),
        load=about("load", lambda: parse_share(spec.load)),
        link_Bps=min(links_Bps),
        size_bytes=size_bytes,
        sizes=spec.sizes,
        lasts_s=lasts_s,
    )
    sent_bytes = sum(flow.size_bytes for flow in dag.transfers)
    share = sent_bytes / lasts_s / len(hosts) / min(links_Bps)
    fact = f"{len(dag.transfers):,} flows, {format_size(sent_bytes)} in all: {share:.1%} of what hosts could send in {lasts_s:g} s"
    return Job(name, dag, tuple(hosts), is_background=True), JobNotes(name, (fact,))
