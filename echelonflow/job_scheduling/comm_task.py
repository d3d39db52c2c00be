"""One communication of a job, as every framework and every kind of communication can be seen by a scheduler.

Source: Peng, Zhu, Chen, Bao, Yi, Lan, Wu, Guo, "A generic communication scheduler for distributed DNN training
acceleration" (ByteScheduler, SOSP 2019), section 4. Its `CommTask` has the same four methods.
"""

from __future__ import annotations

import enum

from echelonflow.errors import InputError, RunError


class TaskState(enum.Enum):
    """Where a task is on its way: one step after the other, none left out."""

    POSTED = "posted"
    """Known, but its bytes have yet to be computed."""
    READY = "ready"
    STARTED = "started"
    FINISHED = "finished"


_NEXT = {TaskState.POSTED: TaskState.READY, TaskState.READY: TaskState.STARTED, TaskState.STARTED: TaskState.FINISHED}


class CommTask:
    """The communication of one tensor or bucket on one rank in one iteration, or a partition of it.

    A partitioned task is told nothing more: its partitions are, and its state is what theirs come to.
    Raises InputError for a size that is not positive, RunError for a step out of turn.
    """

    __slots__ = ("_partitions", "_state", "iteration", "name", "priority", "size_bytes")

    def __init__(self, name: str, size_bytes: int, priority: int = 0, iteration: int = 0) -> None:
        if size_bytes < 1:
            raise InputError(f"task {name!r} has {size_bytes} bytes; a size must be positive")
        self.name = name
        self.size_bytes = size_bytes
        self.priority = priority
        """Smaller first."""
        self.iteration = iteration
        self._state = TaskState.POSTED
        self._partitions: list[CommTask] = []

    @property
    def state(self) -> TaskState:
        """Of a partitioned task: ready or started as soon as one of its partitions is, finished when all of them are."""
        if not self._partitions:
            return self._state
        states = {partition.state for partition in self._partitions}
        if len(states) == 1:
            return states.pop()
        return TaskState.READY if states == {TaskState.POSTED, TaskState.READY} else TaskState.STARTED

    def partition(self, size_bytes: int) -> list[CommTask]:
        """As few tasks as there can be of at most `size_bytes` each, a byte apart in size at most; itself where it fits.

        They have its priority and come in order. Raises InputError for a size that is not positive, RunError where the
        task is ready already, or partitioned.
        """
        if size_bytes < 1:
            raise InputError(f"partition is {size_bytes} bytes; at least 1 byte is needed")
        if self._partitions or self._state is not TaskState.POSTED:
            raise RunError(
                f"task {self.name!r} is {self.state.value} or partitioned; only one that is posted can be cut"
            )
        count = -(-self.size_bytes // size_bytes)
        if count == 1:
            return [self]
        cuts = [self.size_bytes * k // count for k in range(count + 1)]
        self._partitions = [
            CommTask(f"{self.name}.{k}", cuts[k + 1] - cuts[k], self.priority, self.iteration) for k in range(count)
        ]
        return list(self._partitions)

    def notify_ready(self) -> None:
        """Its bytes are there."""
        self._step(TaskState.READY)

    def start(self) -> None:
        """It goes to the network."""
        self._step(TaskState.STARTED)

    def notify_finish(self) -> None:
        """It is through."""
        self._step(TaskState.FINISHED)

    def _step(self, state: TaskState) -> None:
        if self._partitions:
            raise RunError(f"task {self.name!r} is partitioned: it is its partitions that are {state.value}")
        if _NEXT.get(self._state) is not state:
            raise RunError(
                f"task {self.name!r} of iteration {self.iteration} is {self._state.value}; it cannot become {state.value}"
            )
        self._state = state
