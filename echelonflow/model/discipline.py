"""In what order, and how many at a time, a job lets its own transfers go to the network.

A *discipline* is data: what a job scheduler (ByteScheduler, P3 and others) decided about one job. `echelonflow.job_scheduling`
carries it out, for the simulator and for agents alike. Without one, a transfer is released as soon as it is ready.

A *task* is what is started as one on one rank: a partition or a fused bucket of tensors, and all that this rank sends for it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from echelonflow.bounds import MOST_BYTES
from echelonflow.errors import InputError

if TYPE_CHECKING:
    from echelonflow.model.dag import JobDag


@dataclass(frozen=True, slots=True)
class Window:
    """How much one rank has under way at most. InputError for a bound under which nothing could ever start."""

    credit_bytes: int | None = None
    """Bytes of started and unfinished tasks together; None: no bound."""
    slots: int | None = None
    """Number of started and unfinished tasks; None: no bound."""
    overdraw: bool = True
    """Whether a task starts while any credit is left, so that the last one may overdraw it (ByteScheduler).

    Otherwise only what fits is started: larger tasks are skipped, and smaller ones overtake them (BytePS).
    """

    def __post_init__(self) -> None:
        if self.credit_bytes is not None and not 1 <= self.credit_bytes < MOST_BYTES:
            raise InputError(
                f"credit is {self.credit_bytes} bytes; at least 1 byte is needed for anything to start, "
                "63 bits at most, and none at all (null) for no bound"
            )
        if self.slots is not None and self.slots < 1:
            raise InputError(
                f"slots is {self.slots}; at least 1 is needed for anything to start, and none at all (null) for no bound"
            )


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """One task of one rank, in every iteration. InputError for a size or lists that cannot be."""

    name: str
    rank: int
    """Whose core starts it."""
    size_bytes: int
    """Credit that it takes."""
    priority: int
    """Smaller first; of equals the one that was ready first, then the one that stands first in `Discipline.tasks`."""
    transfers: tuple[str, ...]
    """Held until the task is started; this rank sends all of them."""
    ends: tuple[str, ...] = ()
    """Transfers from or to this rank with whose ends the task is finished and its credit comes back; empty: `transfers`."""
    first_priority: int | None = None
    """Its priority in iteration 0, where that differs (PyTorch rebuilds its buckets after the first iteration)."""

    def __post_init__(self) -> None:
        if not 1 <= self.size_bytes < MOST_BYTES:
            raise InputError(
                f"task {self.name!r} has {self.size_bytes} bytes; a size is positive and has 63 bits at most"
            )
        if not self.transfers:
            raise InputError(f"task {self.name!r} holds no transfer; it needs one at least")
        if not self.ends:
            object.__setattr__(self, "ends", self.transfers)

    def priority_in(self, iteration: int) -> int:
        """Its priority in this iteration."""
        return self.first_priority if iteration == 0 and self.first_priority is not None else self.priority


@dataclass(frozen=True, slots=True)
class Discipline:
    """A job scheduler's decisions about one job; transfers that are in no task are not held back.

    InputError where two tasks of one rank have one name, or a task is larger than a credit that may not be overdrawn.
    """

    scheduler: str
    """As written in the experiment."""
    window: Window
    """Of every rank for itself."""
    tasks: tuple[TaskSpec, ...]

    def __post_init__(self) -> None:
        seen: set[tuple[int, str]] = set()
        for task in self.tasks:
            if (task.rank, task.name) in seen:
                raise InputError(f"rank {task.rank} has two tasks called {task.name!r}")
            seen.add((task.rank, task.name))
            credit_bytes = self.window.credit_bytes
            if not self.window.overdraw and credit_bytes is not None and task.size_bytes > credit_bytes:
                raise InputError(
                    f"task {task.name!r} has {task.size_bytes} bytes, more than the credit of {credit_bytes} bytes, which may "
                    f"not be overdrawn: it would never start; a credit of {task.size_bytes} bytes or smaller partitions would do"
                )

    def check(self, job_dag: JobDag) -> None:
        """InputError unless every task is of a rank of this DAG, and its transfers are of that rank and of no other task."""
        ranks_of = {transfer.name: (transfer.src_rank, transfer.dst_rank) for transfer in job_dag.transfers}
        held: dict[str, str] = {}
        for task in self.tasks:
            if not 0 <= task.rank < job_dag.ranks:
                raise InputError(f"task {task.name!r} is on rank {task.rank}; there are ranks 0 to {job_dag.ranks - 1}")
            unknown = next((name for name in (*task.transfers, *task.ends) if name not in ranks_of), None)
            if unknown is not None:
                raise InputError(f"task {task.name!r} names {unknown!r}, which is no transfer of the job")
            for name in task.transfers:
                if ranks_of[name][0] != task.rank:
                    raise InputError(f"task {task.name!r} of rank {task.rank} holds {name!r}, which another rank sends")
                if name in held:
                    raise InputError(f"transfer {name!r} is held by task {held[name]!r} and again by {task.name!r}")
                held[name] = task.name
            for name in task.ends:
                if task.rank not in ranks_of[name]:
                    raise InputError(
                        f"task {task.name!r} of rank {task.rank} ends with {name!r}, which is neither from that rank nor to it"
                    )
            if len(set(task.ends)) != len(task.ends):
                raise InputError(f"task {task.name!r} names a transfer twice among those it ends with")
