"""Any free GPUs, each set of them as likely as any other."""

from __future__ import annotations

from random import Random

from echelonflow.model.placements import Request


def place(request: Request, *, seed: int = 0) -> tuple[str, ...]:
    """The host of every rank, drawn by `seed` and the job's name."""
    return tuple(Random(f"{seed} {request.job}").sample(request.slots, request.ranks))
