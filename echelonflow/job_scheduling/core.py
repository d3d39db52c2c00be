"""The core of one rank: a priority queue of tasks, and a window of credit through which they go to the network.

What is started is not taken back. Preemption comes from the window: several tasks are under way, later ones wait, and a more
urgent one overtakes those that wait. A small window preempts soon, a large one keeps the network full.
Source: Peng et al. (ByteScheduler, SOSP 2019), section 4.2, "credit-based preemption".
"""

from __future__ import annotations

import heapq

from echelonflow.job_scheduling.comm_task import CommTask, TaskState
from echelonflow.model.discipline import Window

_Entry = tuple[int, int, int, CommTask]
"""Priority, iteration, sequence number, task."""


class Core:
    """Starts tasks in order of priority, then of iteration, then of readiness, as far as the window allows.

    Pure: it is told what is ready and what has finished, and answers what it has started.
    """

    def __init__(self, window: Window) -> None:
        self._window = window
        self._by_size = window.credit_bytes is not None and not window.overdraw
        self._queues: dict[int, list[_Entry]] = {}
        """Heaps. One for all, under 0, or where only what fits may start, one for each size: a thousand that do not fit need
        not be passed over one by one. Tasks that were started over the credit stay in them."""
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
        queue = self._queues.setdefault(task.size_bytes if self._by_size else 0, [])
        heapq.heappush(queue, (task.priority, task.iteration, self._sequence, task))
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
        while self._waiting and self._has_room():
            queue = self._next_queue()
            if queue is None:
                break
            task = heapq.heappop(queue)[-1]
            if not queue and self._by_size:
                del self._queues[task.size_bytes]
            self._start(task)
            started.append(task)
        return started

    def _next_queue(self) -> list[_Entry] | None:
        """The queue whose first task goes next; None where no task fits."""
        found: list[_Entry] | None = None
        left_bytes = (self._window.credit_bytes or 0) - self._under_way_bytes if self._by_size else 0
        for size_bytes, queue in self._queues.items():
            if size_bytes > left_bytes:
                continue
            while queue and queue[0][-1].state is not TaskState.READY:
                heapq.heappop(queue)
            if queue and (found is None or queue[0] < found[0]):
                found = queue
        return found

    def _has_room(self) -> bool:
        """Whether anything may start: a slot is free and some credit is left."""
        slots, credit_bytes = self._window.slots, self._window.credit_bytes
        return (slots is None or self._under_way < slots) and (
            credit_bytes is None or self._under_way_bytes < credit_bytes
        )
