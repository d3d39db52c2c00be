"""A job whose workers are all alike, with one rank that stands for all of a kind.

What is alike stays alike: where every worker computes the same, sends the same and has as fast a link, all workers do the
same at the same time. Max-min fair rates are unique, so flows that are alike have the same rate. It is enough to
follow one of each kind, if it is known how many like it share every link.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from echelonflow.errors import InputError
from echelonflow.model.dag import Job

Crossings = tuple[tuple[int, int], ...]
"""(link, how many flows like this one cross that link), for each kind of link on a flow's path."""


@dataclass(frozen=True)
class OneOfEach:
    """`job` has a rank for each kind of rank, and one transfer for each kind of transfer.

    `crossings` has the links of every transfer; `capacity_Bps` is what a link of each kind carries, payload bytes per
    second. Raises InputError for transfers without links, and for links that are not there or carry nothing.
    """

    job: Job
    crossings: Mapping[str, Crossings]
    capacity_Bps: tuple[float, ...]

    def __post_init__(self) -> None:
        for rate_Bps in self.capacity_Bps:
            if not rate_Bps > 0:
                raise InputError(f"job {self.job.name}: a link carries {rate_Bps} B/s; it must carry something")
        for transfer in self.job.dag.transfers:
            crossed = self.crossings.get(transfer.name, ())
            if not crossed:
                raise InputError(f"job {self.job.name}: transfer {transfer.name!r} crosses no link; name one at least")
            for link, flows in crossed:
                if not (0 <= link < len(self.capacity_Bps) and flows >= 1):
                    raise InputError(
                        f"job {self.job.name}: transfer {transfer.name!r} crosses link {link} with {flows} flows; "
                        f"there are links 0 to {len(self.capacity_Bps) - 1}, and it is one flow at least"
                    )
