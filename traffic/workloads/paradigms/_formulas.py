"""What paradigms' closed forms have in common: the second source for their bytes, without making the job.

They are of a model that is a sequence of blocks between an embedding and a head. Formulas for collectives are those of
Thakur et al. (2005).
"""

from __future__ import annotations

from echelonflow.errors import InputError
from traffic.workloads.profile import Layer, Profile


def blocks(profile: Profile) -> list[Layer]:
    """The layers between embedding and head."""
    return [layer for layer in profile.layers if layer.kind == "block"]


def hidden_bytes(profile: Profile) -> int:
    """What every layer but the last hands on (InputError for a model whose layers' outputs differ in size)."""
    sizes = {layer.activation_bytes for layer in profile.layers[:-1]}
    if len(sizes) != 1:
        raise InputError(f"{profile.model}: outputs of layers differ; the formulas are of equal ones")
    return sizes.pop()


def pipeline_bytes(profile: Profile, *, ranks: int, micro_batches: int, chunks: int = 1) -> list[float]:
    """Of every rank: every part but the last sends each micro-batch's hidden state on, all but the first its gradient back."""
    sends = [chunks - (rank == ranks - 1) + chunks - (rank == 0) for rank in range(ranks)]
    return [float(count * micro_batches * hidden_bytes(profile)) for count in sends]
