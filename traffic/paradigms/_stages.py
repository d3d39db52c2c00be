"""What pipeline paradigms share: values per stage, groups per pair of neighbours, offsets."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, TypeVar

from echelonflow.arrangement import staggered
from echelonflow.dag import Group, JobDag, Transfer, derived_offsets
from echelonflow.errors import InputError

Arrangement = Literal["derived", "eq6"]

Number = TypeVar("Number", int, float)


def spread(name: str, value: Number | Sequence[Number], count: int, places: str) -> tuple[Number, ...]:
    """`count` values: one value for all, or the list as given (InputError if its length differs)."""
    if isinstance(value, (int, float)):
        return (value,) * count
    if len(value) != count:
        raise InputError(f"{name}: {len(value)} values for {count} {places}; give one value, or one for each")
    return tuple(value)


def check_counts(stages: int, micro_batches: int) -> None:
    """Raise InputError unless there is a pipeline to speak of."""
    if stages < 2:
        raise InputError(f"stages: {stages} is too few; a pipeline has at least 2")
    if micro_batches < 1:
        raise InputError(f"micro_batches: {micro_batches} is too few; at least 1 is needed")


@dataclasses.dataclass(frozen=True)
class NeighbourGroup:
    """The EchelonFlow of one direction between two neighbouring stages, its transfers in order of consumption."""

    kind: str
    src: int
    dst: int
    transfers: tuple[str, ...]
    unit_s: float
    """T of equation 6: the slower of the two stages' times for a micro-batch."""

    @property
    def name(self) -> str:
        return group_name(self.kind, self.src, self.dst)


def group_name(kind: str, src: int, dst: int) -> str:
    return f"{kind} {src}->{dst}"


def transfer(kind: str, src: int, dst: int, micro_batch: int, *, size_bytes: int, after: str) -> Transfer:
    """The transfer of one micro-batch between neighbours: a Coflow of its own, in the neighbours' EchelonFlow."""
    name = transfer_name(kind, src, dst, micro_batch)
    return Transfer(name, src, dst, size_bytes, group_name(kind, src, dst), name, (after,))


def transfer_name(kind: str, src: int, dst: int, micro_batch: int) -> str:
    return f"{kind} {src}->{dst} m{micro_batch}"


def arranged(job_dag: JobDag, groups: Sequence[NeighbourGroup], arrangement: Arrangement) -> JobDag:
    """`job_dag` (built without groups checked) with `groups`, their offsets by equation 6 or from the DAG."""
    offsets = derived_offsets(job_dag)
    found = []
    for group in groups:
        if arrangement == "eq6":
            arrangement_s = staggered(len(group.transfers), group.unit_s)
        else:
            arrangement_s = tuple(offsets[name] for name in group.transfers)
        found.append(Group(group.name, group.kind, group.transfers, arrangement_s))
    return dataclasses.replace(job_dag, groups=tuple(found))


def provisional(groups: Sequence[NeighbourGroup]) -> tuple[Group, ...]:
    """The groups with equal offsets, for a DAG from which the offsets are yet to be derived."""
    return tuple(Group(g.name, g.kind, g.transfers, (0.0,) * len(g.transfers)) for g in groups)
