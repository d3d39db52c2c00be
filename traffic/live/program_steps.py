"""What an agent asks of a replay, of a program in its place: which flows go, and when all of it is over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized

from echelonflow.job_scheduling.gate import Gate
from echelonflow.model.dag import Job
from echelonflow.model.progress import StepKey
from echelonflow.model.slots import HeldIterations, Slots
from traffic.agent.replay import Action, Released, arrivals


class ProgramSteps:
    """The steps of a program, whose phases are `jobs`: nothing is due. Only what its job scheduler held back follows from ends.

    A flow of a collective goes on only as those of other ranks do, unlike one of a replay. So a task that a peer has begun is started here as
    soon as it is ready, whatever the window says. Otherwise two ranks could wait for each other for ever, each with its credit spent.
    """

    def __init__(self, jobs: Sequence[Job], rank: int, host: str) -> None:
        self._missing = {job.name: arrivals(job, host) * job.iterations for job in jobs}
        """By job: transfers that have yet to arrive."""
        self.program_ended = False
        self.departed = False
        """Whether the program does otherwise than in the lesson: then what is missing may never come."""
        self.under_way: Sized = ()
        """Exchanges of the program's."""
        self.held = {job.name: HeldIterations() for job in jobs}
        self._is_ordered = {job.name: job.discipline is not None for job in jobs}
        self._gates = {job.name: Gate(job, [rank]) for job in jobs}
        self._ready_s: dict[tuple[str, StepKey], float] = {}
        """Since when flows are ready that the job scheduler holds back."""

    @property
    def missing(self) -> int:
        """How many transfers have yet to arrive."""
        return sum(self._missing.values())

    def ready(self, job: str, iteration: int, flow: str, ready_s: float, now_s: float) -> list[Action]:
        """The program has had something for a flow to send since `ready_s`.

        A job scheduler orders what it knows of, so that for it flows are ready from now on.
        """
        if not self._is_ordered[job]:
            return [Released(job, iteration, flow, ready_s)]
        released = self._gates[job].ready(iteration, flow)
        if (iteration, flow) not in released:
            self._ready_s[job, (iteration, flow)] = now_s
        return self._released(job, released, now_s)

    def begun_by_peer(self, job: str, iteration: int, flow: str, now_s: float) -> list[Action]:
        """What a flow of this rank passes on has come."""
        return self._released(job, self._gates[job].begun_by_peer(iteration, flow), now_s)

    def _released(self, job: str, keys: Sequence[StepKey], now_s: float) -> list[Action]:
        return [Released(job, *key, now_s, self._ready_s.pop((job, key), None)) for key in keys]

    @property
    def done(self) -> bool:
        return self.program_ended and not (self.under_way if self.departed else self.missing)

    @property
    def next_due_s(self) -> float:
        return float("inf")

    def begin(self, zero_s: float) -> None:
        """The program's own thread waits for that moment."""

    def advance(self, now_s: float) -> list[Action]:
        return []

    def hold_back(self, slots: Mapping[str, Slots]) -> None:
        for job, held in self.held.items():
            held.slots = slots.get(job)

    def end_job(self, job: str) -> None:
        self._missing[job] = 0

    def arrived(self, job: str, iteration: int, flow: str, now_s: float) -> list[Action]:
        """All of a flow is there: by its connection, or by the link of a sender that does otherwise than in the lesson."""
        self._missing[job] -= 1
        return self._released(job, self._gates[job].ended(iteration, flow), now_s)

    def acknowledged(self, job: str, iteration: int, flow: str, now_s: float) -> list[Action]:
        return self._released(job, self._gates[job].ended(iteration, flow), now_s)
