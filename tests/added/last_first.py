"""The last free GPUs of the network, but for some that are kept for others."""

from __future__ import annotations

from echelonflow.model.placements import Request


def place(request: Request, *, skip: int = 0) -> tuple[str, ...]:
    """The host of every rank; the last `skip` GPUs are left free as long as there are others."""
    end = len(request.slots) - min(skip, len(request.slots) - request.ranks)
    return request.slots[end - request.ranks : end]
