"""The core of one rank: a priority queue of tasks, and a window of credit through which they go to the network.

What is started is not taken back. Preemption comes from the window: several tasks are under way, later ones wait, and a more
urgent one overtakes those that wait. A small window preempts soon, a large one keeps the network full.
Source: Peng et al. (ByteScheduler, SOSP 2019), section 4.2, "credit-based preemption".
"""

from __future__ import annotations

import heapq

from echelonflow.job_scheduling.comm_task import CommTask, TaskState
from echelonflow.model.discipline import Window


class Core:
    """Starts tasks in order of priority, then of iteration, then of readiness, as far as the window allows.

    Pure: it is told what is ready and what has finished, and answers what it has started.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._queue: list[tuple[int, int, int, CommTask]] = []
        """Heap of (priority, iteration, sequence number, task); tasks that were started over the credit stay in it."""
        self._sequence = 0
        self._waiting = 0
        self._under_way = 0
        self._under_way_bytes = 0

    @property
    def waiting(self) -> int:
        """How many tasks are ready and not started."""
        return self._waiting

    @property
    def under_way(self) -> int:
        """How many tasks are started and not finished."""
        return self._under_way

    @property
    def under_way_bytes(self) -> int:
        """Credit that tasks under way have taken."""
        return self._under_way_bytes

    def notify_ready(self, task: CommTask) -> list[CommTask]:
        """A task's bytes are there; returns the tasks that start now."""
        task.notify_ready()
        heapq.heappush(self._queue, (task.priority, task.iteration, self._sequence, task))
        self._sequence += 1
        self._waiting += 1
        return self._start_what_may()

    def notify_finish(self, task: CommTask) -> list[CommTask]:
        """A task is through, and its credit comes back; returns the tasks that start now."""
        task.notify_finish()
        self._under_way -= 1
        self._under_way_bytes -= task.size_bytes
        return self._start_what_may()

    def start_over_credit(self, task: CommTask) -> None:
        """Start a task that waits, whatever the window says; it takes its credit like any other."""
        self._start(task)

    def _start(self, task: CommTask) -> None:
        task.start()
        self._waiting -= 1
        self._under_way += 1
        self._under_way_bytes += task.size_bytes

    def _start_what_may(self) -> list[CommTask]:
        started: list[CommTask] = []
        skipped: list[tuple[int, int, int, CommTask]] = []
        while self._queue and self._has_room():
            entry = heapq.heappop(self._queue)
            task = entry[-1]
            if task.state is not TaskState.READY:
                continue
            if self._fits(task):
                self._start(task)
                started.append(task)
            else:
                skipped.append(entry)
        for entry in skipped:
            heapq.heappush(self._queue, entry)
        return started

    def _has_room(self) -> bool:
        """Whether anything may start: a slot is free and some credit is left."""
        slots, credit_bytes = self._window.slots, self._window.credit_bytes
        return (slots is None or self._under_way < slots) and (
            credit_bytes is None or self._under_way_bytes < credit_bytes
        )

    def _fits(self, task: CommTask) -> bool:
        credit_bytes = self._window.credit_bytes
        if self._window.overdraw or credit_bytes is None:
            return True
        return self._under_way_bytes + task.size_bytes <= credit_bytes
