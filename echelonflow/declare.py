"""From a placed job to the declarations of its groups, with the ports that name its connections."""

from __future__ import annotations

import math
from collections.abc import Sequence

from echelonflow.dag import Job
from echelonflow.errors import InputError
from echelonflow.messages import Declare, FlowDeclaration

DATA_PORT = 5001
"""First port that receivers listen on. Run k of an emulation uses DATA_PORT + k, so that no connection is reused."""
FIRST_SOURCE_PORT = 10_000
MAX_FLOWS = 50_000


def declarations(jobs: Sequence[Job], run_index: int = 0) -> list[Declare]:
    """The groups of all jobs in order, each flow with a TCP source port that no other flow of its host has.

    A host's ports are consecutive, and those of hosts begin apart: so that the flows that meet at an egress, from
    one host or from several, differ in the low bits that tell a class's queues apart. Flows between ranks on one
    host are left out: they do not touch the network. Raises InputError where a host has more flows than ports.
    """
    found = []
    next_port: dict[str, int] = {}
    for job in jobs:
        compute_s = math.fsum(step.duration_s for step in job.dag.computes)
        flows: dict[str, list[FlowDeclaration]] = {group.name: [] for group in job.dag.groups}
        for index, transfer in enumerate(job.dag.transfers):
            if job.is_local(transfer):
                continue
            src, dst = job.hosts_of(transfer)
            port = next_port.setdefault(src, FIRST_SOURCE_PORT + len(next_port))
            next_port[src] += 1
            flows[transfer.group].append(
                FlowDeclaration(
                    flow=transfer.name,
                    index=index,
                    coflow=transfer.coflow,
                    src_host=src,
                    dst_host=dst,
                    size_bytes=transfer.size_bytes,
                    offset_s=job.dag.offset_s[transfer.name],
                    src_port=port,
                    dst_port=DATA_PORT + run_index,
                )
            )
        for group in job.dag.groups:
            if flows[group.name]:
                weight = group.weight * job.weight
                found.append(Declare(job.name, group.name, group.kind, weight, tuple(flows[group.name]), compute_s))
    for host, port in next_port.items():
        if port > FIRST_SOURCE_PORT + MAX_FLOWS:
            raise InputError(
                f"host {host} sends {port - FIRST_SOURCE_PORT} flows per iteration, which need as many ports; "
                f"at most {MAX_FLOWS} can be emulated"
            )
    return found
