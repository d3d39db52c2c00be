"""Jobs that arrive and wait for GPUs: who is admitted when, and where.

A queue in order of arrival. Whenever a job arrives or leaves, the first of the queue is placed, if the placement policy finds
room in the GPUs that are free then; and so on. With backfilling, those behind one that does not fit are tried, too: small jobs
overtake large ones, which may wait longer for it. Nobody is preempted or moved.

Pure: it knows no time. Who runs the jobs tells it of arrivals and ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from echelonflow.errors import RunError
from echelonflow.model.dag import Job

Place = Callable[[Mapping[str, int], Job], "tuple[str, ...] | None"]
"""Of the GPUs that are free, by host, and a job: a host for each of its ranks, None where there is no room."""


@dataclass(frozen=True)
class Queue:
    """How jobs without a placement of their own get one."""

    place: Place
    gpus: Mapping[str, int]
    """By host: all of them."""
    backfill: bool = False


class Admission:
    """The queue, and the GPUs that are free."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._free = dict(queue.gpus)
        self._waiting: list[tuple[int, Job]] = []
        """In order of arrival; each with its place among all jobs."""
        self._changed = False

    @property
    def waiting(self) -> int:
        """How many jobs wait."""
        return len(self._waiting)

    def arrive(self, place: int, job: Job) -> None:
        """A job that is to be placed waits from now on; `place` is its own among all jobs."""
        self._waiting.append((place, job))
        self._changed = True

    def occupy(self, placement: Sequence[str]) -> None:
        """A job with a placement of its own begins, whatever is free there: it was not asked to wait."""
        for host in placement:
            self._free[host] -= 1

    def leave(self, placement: Sequence[str]) -> None:
        """A job has ended."""
        for host in placement:
            self._free[host] += 1
        self._changed = True

    def admit(self) -> list[tuple[int, tuple[str, ...]]]:
        """The jobs that can begin now, each with its hosts; they occupy their GPUs from now on.

        Raises RunError where the placement policy takes GPUs that are not free.
        """
        if not self._changed:
            return []
        self._changed = False
        found: list[tuple[int, tuple[str, ...]]] = []
        left: list[tuple[int, Job]] = []
        for tried, (place, job) in enumerate(self._waiting):
            hosts = self._placed(job)
            if hosts is not None:
                self.occupy(hosts)
                found.append((place, hosts))
                continue
            left.append((place, job))
            if not self._queue.backfill:
                left += self._waiting[tried + 1 :]
                break
        self._waiting = left
        return found

    def _placed(self, job: Job) -> tuple[str, ...] | None:
        free = {host: gpus for host, gpus in self._free.items() if gpus > 0}
        ranks = job.dag.ranks
        if sum(free.values()) < ranks:
            return None
        hosts = self._queue.place(free, job)
        if hosts is None:
            return None
        if len(hosts) != ranks or any(hosts.count(host) > free.get(host, 0) for host in set(hosts)):
            raise RunError(
                f"job {job.name}: its placement put {ranks} ranks on {', '.join(hosts)}, where not as many GPUs are free"
            )
        return hosts
