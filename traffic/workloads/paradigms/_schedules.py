"""The order in which the GPU of a pipeline stage runs micro-batches forward and backward.

A visit is one micro-batch on one stage in one direction. With `chunks` > 1 a rank holds several stages of the model:
rank r of p holds stages r, p + r, 2 p + r, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from echelonflow.bounds import MOST_STEPS, check_most
from echelonflow.errors import InputError

Schedule = Literal["gpipe", "1f1b", "interleaved"]


@dataclass(frozen=True, slots=True)
class Visit:
    """A forward or backward pass of one micro-batch through one stage of the model."""

    forward: bool
    stage: int
    micro_batch: int


def order(schedule: Schedule, ranks: int, rank: int, micro_batches: int, chunks: int = 1) -> list[Visit]:
    """The visits of `rank` in one iteration; InputError for chunks where the schedule has none, or too few.

    gpipe        all forward in order, all backward in reverse (Huang et al., NeurIPS 2019)
    1f1b         as many forward as there are ranks behind, then in turns, so that min(micro_batches, ranks - rank)
                 are held at once (DAPPLE, PPoPP 2021; PipeDream-flush, ICML 2021)
    interleaved  the same with `chunks` stages per rank, micro-batches in bunches of `ranks` (Narayanan et al., SC 2021)
    """
    check_most("visits of a rank's GPU", 2 * micro_batches * chunks, MOST_STEPS, {"micro_batches": micro_batches})
    if schedule == "interleaved":
        return _interleaved(ranks, rank, micro_batches, chunks)
    if chunks != 1:
        raise InputError(f"chunks: {chunks} per rank need the interleaved schedule, not {schedule}")
    if schedule == "gpipe":
        forward = [Visit(True, rank, m) for m in range(micro_batches)]
        return forward + [Visit(False, rank, m) for m in reversed(range(micro_batches))]
    forward = [Visit(True, rank, m) for m in range(micro_batches)]
    backward = [Visit(False, rank, m) for m in range(micro_batches)]
    return _alternating(forward, backward, min(ranks - rank, micro_batches) - 1)


def _alternating(forward: list[Visit], backward: list[Visit], ahead: int) -> list[Visit]:
    """`ahead` forward visits, then one forward and one backward in turns, then the rest backward."""
    visits = forward[:ahead]
    for k, visit in enumerate(forward[ahead:]):
        visits += [visit, backward[k]]
    return visits + backward[len(forward) - ahead :]


def _interleaved(ranks: int, rank: int, micro_batches: int, chunks: int) -> list[Visit]:
    if chunks < 2:
        raise InputError(f"chunks: {chunks} per rank is too few to interleave; at least 2 are needed, or use 1f1b")
    if micro_batches % ranks:
        raise InputError(
            f"micro_batches: {micro_batches} is no multiple of {ranks} stages; the interleaved schedule takes "
            f"micro-batches in bunches of that many"
        )
    bunch = ranks * chunks
    places = [(k // bunch * ranks + k % ranks, k % bunch // ranks) for k in range(micro_batches * chunks)]
    forward = [Visit(True, chunk * ranks + rank, m) for m, chunk in places]
    backward = [Visit(False, (chunks - 1 - chunk) * ranks + rank, m) for m, chunk in places]
    # With one bunch only, nothing could go in turns: all forward passes come first.
    ahead = 2 * (ranks - rank - 1) + (chunks - 1) * ranks if micro_batches > ranks else len(places)
    return _alternating(forward, backward, min(ahead, len(places)))
