"""What clients have declared in a run: whose jobs there are, and which flow each connection carries. Pure."""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet

from controller.rules import LAST_DATA_PORT
from echelonflow.errors import InputError
from echelonflow.wire.declare import DATA_PORT
from echelonflow.wire.messages import Declare, FlowDeclaration

MOST_DECLARED = 1_000_000
"""Flows, of all clients."""
MOST_WITHDRAWN = 10_000

_Ends = tuple[str, int, str, int]


class Declarations:
    """Connections and declarers. Methods raise InputError, unchanged, for what does not fit."""

    def __init__(self) -> None:
        self._connections: dict[_Ends, tuple[str, str]] = {}
        self._declarers: dict[str, int] = {}
        self._withdrawn: dict[str, None] = {}
        """Jobs that have gone with the client that declared them, the latest of them: others may not know yet."""

    def check(self, group: Declare) -> None:
        """Raise InputError where a group's connections cannot be told from others, or are too many."""
        what = f"group {group.group!r} of job {group.job!r}"
        if len(self._connections) + len(group.flows) > MOST_DECLARED:
            raise InputError(f"{what}: more than {MOST_DECLARED:,} flows in all")
        for flow in group.flows:
            self._check_connection(group.job, flow)
        if len({_ends(flow) for flow in group.flows}) < len(group.flows):
            raise InputError(f"{what}: two flows share hosts and ports")

    def _check_connection(self, job: str, flow: FlowDeclaration) -> None:
        what = f"flow {flow.flow!r} of job {job!r}"
        if not DATA_PORT <= flow.dst_port <= LAST_DATA_PORT:
            raise InputError(
                f"{what} goes to port {flow.dst_port}; a receiver's port lies in {DATA_PORT} to {LAST_DATA_PORT}, "
                "where acknowledgements are told from data"
            )
        if not LAST_DATA_PORT < flow.src_port < 1 << 16:
            raise InputError(f"{what} comes from port {flow.src_port}; it must lie in {LAST_DATA_PORT + 1} to 65535")
        other = self._connections.get(_ends(flow))
        if other is not None:
            raise InputError(f"{what} has the hosts and ports of flow {other[1]!r} of job {other[0]!r}")

    def add(self, group: Declare, client: int) -> None:
        """Keep a group that was checked. Its job is the first client's that declares a group of it."""
        self._connections.update({_ends(flow): (group.job, flow.flow) for flow in group.flows})
        self._declarers.setdefault(group.job, client)
        self._withdrawn.pop(group.job, None)

    @property
    def jobs(self) -> AbstractSet[str]:
        """Those of which anything is declared."""
        return self._declarers.keys()

    def leave(self, client: int) -> set[str]:
        """A client has gone: its jobs, which are known as withdrawn from now on."""
        jobs = {job for job, declarer in self._declarers.items() if declarer == client}
        self._withdrawn |= dict.fromkeys(sorted(jobs))
        while len(self._withdrawn) > MOST_WITHDRAWN:
            del self._withdrawn[next(iter(self._withdrawn))]
        return jobs

    def is_withdrawn(self, job: str) -> bool:
        """Whether a job has gone with its client: what others still report of it is no mistake of theirs."""
        return job in self._withdrawn

    def forget(self, jobs: Collection[str]) -> None:
        """These jobs are no more."""
        self._declarers = {job: client for job, client in self._declarers.items() if job not in jobs}
        self._connections = {ends: flow for ends, flow in self._connections.items() if flow[0] not in jobs}


def _ends(flow: FlowDeclaration) -> _Ends:
    return flow.src_host, flow.src_port, flow.dst_host, flow.dst_port
