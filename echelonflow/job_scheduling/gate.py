"""Between what may start and what does: the dependency proxy of one job's transfers, for simulator and agents alike.

`JobProgress` says which transfers are *ready*. The gate answers which of them are *released*, as the job's discipline has it.
It knows no times: it is told what is ready and what has ended, in that order where both happen at once.

**Why nothing stalls.** Ranks decide apart, and may start different tasks. One that waits for its peer's part of a task holds
credit meanwhile. So does the peer, for another task: each could wait for the other for ever. Systems with one coordinator do
not know that; there is none here. So one rule goes over the credit: where a rank has nothing under way (all that it released
has ended) while tasks queue, it starts one of them. It takes one that a peer has begun, whose data arrived here. Else it
takes its most urgent unfinished task, if that is ready. Urgent is by iteration, then by place in the DAG, then by priority.
The most urgent unfinished task of all ranks is never held for good by this, and nor is the next one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from echelonflow.errors import RunError
from echelonflow.job_scheduling.comm_task import CommTask, TaskState
from echelonflow.job_scheduling.core import Core
from echelonflow.model.dag import Job, JobDag, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec
from echelonflow.model.progress import StepKey

_MOST_NAMED = 3
_BEFORE_START = (TaskState.POSTED, TaskState.READY)


class Gate:
    """What `ranks` (default: all) of a job let go when; transfers of other ranks, and those in no task, pass through.

    A task is ready when the first of its transfers is. When it has started, those of its transfers that are ready are
    released at once, and later ones as they become ready.
    """

    def __init__(self, job: Job, ranks: Collection[int] | None = None) -> None:
        self._ranks: dict[int, _Rank] = {}
        self._holder: dict[str, TaskSpec] = {}
        self._ending: dict[str, list[TaskSpec]] = {}
        self._begun_by: dict[str, list[TaskSpec]] = {}
        discipline = job.discipline
        if discipline is None or (discipline.window.credit_bytes is None and discipline.window.slots is None):
            return  # nothing ever waits
        own = [task for task in discipline.tasks if ranks is None or task.rank in ranks]
        before = _transfers_before(job.dag)
        for task in own:
            self._holder.update(dict.fromkeys(task.transfers, task))
            for name in task.ends:
                self._ending.setdefault(name, []).append(task)
            for name in _begun_by(job.dag, task):
                self._begun_by.setdefault(name, []).append(task)
        for rank in sorted({task.rank for task in own}):
            tasks = [(min(before[name] for name in task.transfers), task) for task in own if task.rank == rank]
            self._ranks[rank] = _Rank(discipline, tasks)

    @property
    def waiting(self) -> int:
        """How many transfers are ready and held."""
        return sum(len(task.held) for rank in self._ranks.values() for task in rank.open.values())

    def ready(self, iteration: int, transfer: str) -> list[StepKey]:
        """All that a transfer waits for has ended; returns the transfers to release now."""
        spec = self._holder.get(transfer)
        if spec is None:
            return [(iteration, transfer)]
        return self._ranks[spec.rank].ready(iteration, spec, transfer)

    def ended(self, iteration: int, transfer: str, noticed_by: Collection[int] | None = None) -> list[StepKey]:
        """A transfer has ended, as some of its ranks notice now (default: all here); returns the transfers to release.

        What becomes ready by that end is to be told before.
        """

        def noticing(tasks: Iterable[TaskSpec]) -> Iterator[TaskSpec]:
            return (task for task in tasks if noticed_by is None or task.rank in noticed_by)

        released: list[StepKey] = []
        concerned: dict[int, None] = {}
        for spec in noticing([self._holder[transfer]] if transfer in self._holder else ()):
            self._ranks[spec.rank].sent(iteration)
            concerned[spec.rank] = None
        for spec in noticing(self._begun_by.get(transfer, ())):
            self._ranks[spec.rank].begun_elsewhere(iteration, spec)
            concerned[spec.rank] = None
        for spec in noticing(self._ending.get(transfer, ())):
            released += self._ranks[spec.rank].end_of(iteration, spec)
            concerned[spec.rank] = None
        for rank in concerned:
            released += self._ranks[rank].start_if_idle()
        return released

    def begun_by_peer(self, iteration: int, transfer: str) -> list[StepKey]:
        """A peer's data wait for this transfer: its task starts now, whatever the window says; returns the transfers to release.

        For transfers that go on only as the peers' do. A peer that has begun holds its credit until all have.
        """
        spec = self._holder.get(transfer)
        return [] if spec is None else self._ranks[spec.rank].start_now(iteration, spec)

    def why_waiting(self) -> str:
        """For messages: what is held on each rank, and what has the credit meanwhile; empty where nothing is held."""
        return "; ".join(f"rank {rank}: {why}" for rank, its in self._ranks.items() if (why := its.why_waiting()))


class _OpenTask:
    """A task of one iteration that is not over: something of it is ready, released, or has ended."""

    __slots__ = ("comm", "ends_missing", "held", "to_release")

    def __init__(self, spec: TaskSpec, iteration: int) -> None:
        self.comm = CommTask(spec.name, spec.size_bytes, spec.priority_in(iteration), iteration)
        self.held: list[str] = []
        """Its transfers that are ready and wait."""
        self.to_release = len(spec.transfers)
        self.ends_missing = len(spec.ends)


class _Rank:
    """The tasks of one rank and their core."""

    def __init__(self, discipline: Discipline, tasks: list[tuple[int, TaskSpec]]) -> None:
        self._core = Core(discipline.window)
        self.open: dict[tuple[int, str], _OpenTask] = {}
        """By iteration and name."""
        self._open_of: dict[CommTask, _OpenTask] = {}
        self._under_way = 0
        """Transfers that are released and have not ended."""
        self._begun_elsewhere: dict[tuple[int, str], None] = {}
        """Tasks that a peer has begun and that have not started here."""
        self._finished: set[tuple[int, str]] = set()
        """Of those behind the most urgent unfinished one."""
        self._urgency = [
            [task.name for _, task in sorted(tasks, key=lambda each: (each[0], each[1].priority_in(iteration)))]
            for iteration in (0, 1)
        ]
        self._first_unfinished = (0, 0)
        """Iteration, and place in its order of urgency."""

    def ready(self, iteration: int, spec: TaskSpec, transfer: str) -> list[StepKey]:
        task = self._task(iteration, spec)
        if task.comm.state not in _BEFORE_START:
            return [self._release(task, iteration, transfer)]
        task.held.append(transfer)
        if task.comm.state is TaskState.READY:
            return []
        return self._started(self._core.notify_ready(task.comm)) + self.start_if_idle()

    def sent(self, iteration: int) -> None:
        self._under_way -= 1
        if self._under_way < 0:
            raise RunError(f"more transfers of iteration {iteration} have ended than were released")

    def begun_elsewhere(self, iteration: int, spec: TaskSpec) -> None:
        if self._task(iteration, spec).comm.state in _BEFORE_START:
            self._begun_elsewhere[iteration, spec.name] = None

    def end_of(self, iteration: int, spec: TaskSpec) -> list[StepKey]:
        """One of the transfers with which a task ends has ended."""
        task = self._task(iteration, spec)
        task.ends_missing -= 1
        return self._finish_if_over(task, iteration)

    def start_now(self, iteration: int, spec: TaskSpec) -> list[StepKey]:
        """Start a task over the credit, if it is ready and waits."""
        task = self.open.get((iteration, spec.name))
        if task is None or task.comm.state is not TaskState.READY:
            return []
        self._core.start_over_credit(task.comm)
        return self._started([task.comm])

    def start_if_idle(self) -> list[StepKey]:
        """Start one task over the credit where tasks wait though nothing is under way."""
        if self._under_way or not self._core.waiting:
            return []
        task = self._begun_and_ready() or self._most_urgent()
        if task is None or task.comm.state is not TaskState.READY:
            return []
        self._core.start_over_credit(task.comm)
        return self._started([task.comm])

    def why_waiting(self) -> str:
        held = [name for task in self.open.values() for name in task.held]
        if not held:
            return ""
        has = [task.comm for task in self.open.values() if task.comm.state is TaskState.STARTED]
        return (
            f"{_named(held)} held, {self._core.under_way_bytes} bytes of credit with "
            f"{_named([f'{comm.name} of iteration {comm.iteration}' for comm in has])}"
        )

    def _task(self, iteration: int, spec: TaskSpec) -> _OpenTask:
        key = (iteration, spec.name)
        task = self.open.get(key)
        if task is None:
            task = self.open[key] = _OpenTask(spec, iteration)
            self._open_of[task.comm] = task
        return task

    def _release(self, task: _OpenTask, iteration: int, transfer: str) -> StepKey:
        self._under_way += 1
        task.to_release -= 1
        self._forget_if_over(task)
        return iteration, transfer

    def _started(self, started: list[CommTask]) -> list[StepKey]:
        """What goes out now that these tasks have started."""
        released: list[StepKey] = []
        for comm in started:
            task = self._open_of[comm]
            held, task.held = task.held, []
            self._begun_elsewhere.pop((comm.iteration, comm.name), None)
            released += [self._release(task, comm.iteration, transfer) for transfer in held]
            released += self._finish_if_over(task, comm.iteration)
        return released

    def _finish_if_over(self, task: _OpenTask, iteration: int) -> list[StepKey]:
        if task.ends_missing or task.comm.state is not TaskState.STARTED:
            return []
        self._finished.add((iteration, task.comm.name))
        self._move_on()
        more = self._core.notify_finish(task.comm)
        self._forget_if_over(task)
        return self._started(more)

    def _forget_if_over(self, task: _OpenTask) -> None:
        if task.to_release == 0 and task.comm.state is TaskState.FINISHED:
            self.open.pop((task.comm.iteration, task.comm.name), None)
            self._open_of.pop(task.comm, None)

    def _begun_and_ready(self) -> _OpenTask | None:
        """Of the tasks that a peer has begun and that wait here, the most urgent."""
        waiting = [
            task
            for key in self._begun_elsewhere
            if (task := self.open.get(key)) is not None and task.comm.state is TaskState.READY
        ]
        return min(waiting, key=lambda task: (task.comm.priority, task.comm.iteration), default=None)

    def _most_urgent(self) -> _OpenTask | None:
        """The most urgent of all unfinished tasks; None where nothing of it is ready yet."""
        iteration, place = self._first_unfinished
        return self.open.get((iteration, self._urgency[min(iteration, 1)][place]))

    def _move_on(self) -> None:
        """Pass over the most urgent tasks that have finished."""
        iteration, place = self._first_unfinished
        order = self._urgency[min(iteration, 1)]
        while (iteration, order[place]) in self._finished:
            self._finished.discard((iteration, order[place]))
            place += 1
            if place == len(order):
                iteration, place = iteration + 1, 0
                order = self._urgency[1]
        self._first_unfinished = iteration, place


def _named(names: list[str]) -> str:
    """The first few of these."""
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return ", ".join(names[:_MOST_NAMED]) + more if names else "nothing"


def _transfers_before(job_dag: JobDag) -> dict[str, int]:
    """For each transfer, how many others the longest chain before it in its iteration has."""
    count = [0] * len(job_dag.steps)
    for place in job_dag.places_in_order:
        for before in job_dag.places_before[place]:
            own = count[before] + isinstance(job_dag.steps[before], Transfer)
            count[place] = max(count[place], own)
    return {transfer.name: count[job_dag.place[transfer.name]] for transfer in job_dag.transfers}


def _begun_by(job_dag: JobDag, task: TaskSpec) -> set[str]:
    """Transfers to this rank that tell that a peer has begun what this task is a part of.

    That is a collective to which both give. A server's answer is none: all of it follows what others sent.
    """

    def incoming(name: str) -> bool:
        step = job_dag.by_name[name]
        return isinstance(step, Transfer) and step.dst_rank == task.rank

    before = {name: {each for each in job_dag.by_name[name].after if incoming(each)} for name in task.transfers}
    if all(before.values()):
        return set()
    return {*filter(incoming, task.ends)}.union(*before.values())
