"""What agents tell again in whatever order, kept until it fits: ends before releases, releases of flows that are sent."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from echelonflow.errors import InputError
from echelonflow.model.flow_key import FlowKey
from echelonflow.wire.declare import MAX_FLOWS

MOST_KEPT = 4
"""Iterations of a flow of which something is kept: the latest."""

Kept = TypeVar("Kept")
_OfFlow = dict[tuple[str, str], dict[int, Kept]]


class ToldAgain:
    """Ends without a release, and releases without an end; of no more flows than a host may have."""

    def __init__(self) -> None:
        self._ends: _OfFlow[tuple[str, float]] = {}
        """By which host they were told, and when they were: the flow may not even be declared yet."""
        self._sent: _OfFlow[tuple[int, float]] = {}
        """By which client flows were released, and when: all of their bytes are acknowledged."""

    def keep_end(self, key: FlowKey, host: str, finish_s: float) -> None:
        """A flow has ended that is not released yet (InputError for too many of them)."""
        if len(self._ends) >= MAX_FLOWS and (key[0], key[2]) not in self._ends:
            raise InputError(f"finish of flow {key[2]!r}: {MAX_FLOWS} flows have ended that nobody has released")
        _keep(self._ends, key, (host, finish_s))

    def take_end(self, key: FlowKey, host: str) -> float | None:
        """When a flow ended, if `host` has told so: what another one told is thrown away."""
        by, finish_s = self._ends.get((key[0], key[2]), {}).pop(key[1], ("", 0.0))
        return finish_s if by == host else None

    def keep_sent(self, key: FlowKey, client: int, release_s: float) -> None:
        """A flow is sent to its last byte, and its receiver will tell when it ended."""
        _keep(self._sent, key, (client, release_s))

    def take_sent(self, key: FlowKey) -> tuple[int, float] | None:
        """By whom a flow was released that is sent, and when."""
        return self._sent.get((key[0], key[2]), {}).pop(key[1], None)

    def forget(self, jobs: Collection[str]) -> None:
        """These jobs are no more."""
        self._ends = {flow: kept for flow, kept in self._ends.items() if flow[0] not in jobs}
        self._sent = {flow: kept for flow, kept in self._sent.items() if flow[0] not in jobs}


def _keep(of_flow: _OfFlow[Kept], key: FlowKey, value: Kept) -> None:
    job, iteration, flow = key
    kept = of_flow.setdefault((job, flow), {})
    kept[iteration] = value
    while len(kept) > MOST_KEPT:
        del kept[min(kept)]
