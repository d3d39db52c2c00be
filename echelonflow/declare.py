"""From a placed job to the declarations of its groups, with the ports that name its connections."""

from __future__ import annotations

from collections.abc import Sequence

from echelonflow.dag import Job
from echelonflow.errors import InputError
from echelonflow.messages import Declare, FlowDeclaration

DATA_PORT = 5001
"""First port that receivers listen on. Run k of an emulation uses DATA_PORT + k, so that no connection is reused."""
FIRST_SOURCE_PORT = 10_000
MAX_FLOWS = 50_000


def declarations(jobs: Sequence[Job], run_index: int = 0) -> list[Declare]:
    """The groups of all jobs in order, each flow with a TCP source port of its own.

    Flows between ranks on one host are left out: they do not touch the network. Raises InputError where
    there are more flows than ports.
    """
    found = []
    port = FIRST_SOURCE_PORT
    for job in jobs:
        flows: dict[str, list[FlowDeclaration]] = {group.name: [] for group in job.dag.groups}
        for index, transfer in enumerate(job.dag.transfers):
            if job.is_local(transfer):
                continue
            src, dst = job.hosts_of(transfer)
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
            port += 1
        for group in job.dag.groups:
            if flows[group.name]:
                found.append(
                    Declare(job.name, group.name, group.kind, group.weight * job.weight, tuple(flows[group.name]))
                )
    if port - FIRST_SOURCE_PORT > MAX_FLOWS:
        raise InputError(
            f"{port - FIRST_SOURCE_PORT} flows per iteration need as many ports; at most {MAX_FLOWS} can be emulated"
        )
    return found
