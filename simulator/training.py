"""Training jobs as a source of flows: computations end, flows are released and end, as their DAGs say."""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
import random
from array import array
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from echelonflow.errors import InputError, RunError
from echelonflow.job_scheduling.gate import Gate
from echelonflow.model.arrays import Floats, Ints
from echelonflow.model.dag import Job
from echelonflow.model.draws import Durations
from echelonflow.model.faults import Fault, Slowdowns
from echelonflow.model.flow_key import FlowKey
from echelonflow.model.following import Following
from echelonflow.model.measured import Measured
from echelonflow.model.network import Network
from echelonflow.model.progress import JobProgress, StepKey
from echelonflow.model.slots import HeldIterations, Slots
from echelonflow.records.run_columns import ComputeColumns, FlowColumns
from echelonflow.records.run_record import Admitted, RunRecord
from echelonflow.scheduling.ahead import Candidates
from echelonflow.scheduling.folding import UNDECIDED
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.scheduling.state import SchedulerState
from echelonflow.scheduling.time_shifts import Profile
from echelonflow.wire.declare import Declarer
from echelonflow.wire.messages import Declare, FlowDeclaration
from simulator.admission import Admission, Queue
from simulator.decided import DecisionsTaken
from simulator.disturbance import Disturbance
from simulator.engine import waits_for_ever
from simulator.flows import Flows
from simulator.training_steps import AskedStep, StepName, asked_of, recorded_computes, recorded_flows

_FIRST_ROWS = 64
_BEGIN: StepKey = (0, "")
"""In the calendar: the job starts."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """In the calendar: a transfer has all that it waits for."""

    transfer: StepKey


@dataclass(frozen=True, slots=True)
class _Noticed:
    """In the calendar: some ranks notice that a transfer has ended."""

    transfer: StepKey
    ranks: tuple[int, ...]


class TrainingJobs:
    """All iterations of some jobs. Writes what happens into a run record.

    Computations end later by an exponential time of mean `late_s`; its draws follow from the record's repeat. Where a run
    has `measured` what was late, the same steps are late here by as much. The scheduler is told `profiles`, if there are
    any, instead of how long computations take. Only with `ahead` is it found out which flows
    can be released next (`candidates`), and only with `clocks` what the clocks of the jobs say. Without `connections`
    snapshots do not tell what is sent from host to host. Where a policy has `slots`,
    iterations of jobs begin when it says so; it is asked when jobs come or go. Where a run has measured when they began, that counts.
    Jobs without a placement wait in the `queue` until there is room for them. Those that come after others begin rank by rank
    (InputError where one cannot). A `disturbance` changes a little what steps take.
    """

    def __init__(
        self,
        jobs: Sequence[Job],
        network: Network,
        record: RunRecord,
        late_s: float = 0.0,
        faults: Sequence[Fault] = (),
        measured: Measured | None = None,
        profiles: Sequence[Job] | None = None,
        *,
        ahead: bool = False,
        clocks: bool = False,
        connections: bool = True,
        slots: Callable[[Sequence[Profile]], Mapping[str, Slots]] | None = None,
        queue: Queue | None = None,
        disturbance: Disturbance | None = None,
    ) -> None:
        self.candidates = Candidates()
        self._jobs = list(jobs)
        self._measured = measured or Measured()
        settings = self._measured.settings
        self._taken = None if settings is None or not settings.decided else DecisionsTaken(settings.decided)
        self._begin_s: dict[tuple[int, StepKey], float] = {}
        """Of steps that cannot begin yet though all that they wait for has ended: the end has yet to be noticed."""
        self._ended: set[int] = set()
        """Jobs that a crash has ended."""
        hosts = {host for job in jobs for host in job.placement} if faults else set()
        self._slow = {host: Slowdowns(faults, host) for host in hosts}
        self._progress = [JobProgress(job) for job in jobs]
        self._following, self._place = Following(jobs), {job.name: i for i, job in enumerate(jobs)}
        self._durations = [Durations(job, record.repeat, self._measured.took_s) for job in jobs]
        self._gates = [None if job.discipline is None else Gate(job) for job in jobs]
        """What lets a job's transfers go; None: they go as soon as they are ready."""
        self._held_since_s: dict[tuple[int, StepKey], float] = {}
        self._slots = slots if self._measured.held_s is None else None
        self._held = {job.name: HeldIterations() for job in jobs} if self._slots is not None else {}
        """By job, if any may be held back."""
        self._slots_for: tuple[str, ...] = ()
        """The jobs that were under way when slots were computed last."""
        self._times_asked = 0
        self._state = SchedulerState(network)
        self._late_s, self._disturbance = late_s, disturbance
        self._with_connections = connections
        self._draw = random.Random(record.repeat)
        self._admission = None if queue is None else Admission(queue)
        self._admitted, self._began = record.admitted, record.began
        self._computes, self._flows_ended = ComputeColumns(()), FlowColumns(())
        record.computes, record.flows = self._computes, self._flows_ended
        self._declarer = Declarer(len(jobs), ahead=ahead, network=network if clocks else None)
        self._steps: list[dict[str, AskedStep]] = [{} for _ in jobs]
        """Of each job, once it is placed."""
        placed = [i for i, job in enumerate(jobs) if job.is_placed]
        known = profiles or jobs
        self._make_known(placed, [group for i in placed for group in self._declarer.of(known[i])])
        self._calendar: list[tuple[float, int, int, StepKey | _Ready | _Noticed, float]] = []
        """Heap of (end, sequence number, job, step, start): computations under way, and what is noticed when."""
        self._sequence = self._handles = 0
        self._released: list[tuple[int, float]] = []
        self._handles_ended = array("q")
        """Of the flows in the record, in their order."""
        self._in_flight: dict[int, tuple[int, FlowKey, float, float | None]] = {}
        """By handle: job, key, release, and since when it had been ready if it was held back."""
        self._slot: Ints = np.zeros(_FIRST_ROWS, np.int64)
        """By handle: the flow's slot in the state."""
        self._handle: Ints = np.zeros(_FIRST_ROWS, np.int64)
        """The inverse."""
        for i, job in ((i, job) for i, job in enumerate(jobs) if job.after is None):
            self._schedule(job.start_s, i, _BEGIN, job.start_s)

    def _make_known(self, placed: Sequence[int], groups: Sequence[Declare]) -> None:
        """Declare the `groups` of some jobs, and make room for what their steps will leave in the record."""
        declared: dict[StepName, tuple[FlowDeclaration, str, str]] = {}
        for group in groups:
            self._state.declare(group)
            self.candidates.declare(group)
            declared.update({(group.job, flow.flow): (flow, group.group, group.kind) for flow in group.flows})
        jobs = [self._jobs[i] for i in placed]
        computes, flows = recorded_computes(jobs), recorded_flows(jobs, declared)
        places: dict[StepName, int] = {}
        for columns, steps in ((self._computes, computes), (self._flows_ended, flows)):
            places.update(zip(steps, itertools.count(len(columns.steps))))
        self._computes.add_steps(tuple(computes.values()))
        self._flows_ended.add_steps(tuple(flows.values()))
        for i, job in zip(placed, jobs, strict=True):
            self._steps[i] = {step.name: asked_of(job, step, declared, places) for step in job.dag.steps}

    def next_s(self) -> float:
        return self._calendar[0][0] if self._calendar else math.inf

    def run(self, now_s: float) -> None:
        while self._calendar and self._calendar[0][0] <= now_s:
            _, _, i, step, start_s = heapq.heappop(self._calendar)
            self._end_step(i, step, start_s, now_s)
        self._admit(now_s)
        if self._slots is not None and (under_way := self._state.clocks.names_under_way()) != self._slots_for:
            found = self._slots(self._state.clocks.profiles())
            for job, held in self._held.items():
                held.slots = found.get(job)
            self._slots_for = under_way
            self._times_asked += 1

    def counters(self) -> Mapping[str, int]:
        """How often slots were computed, and how many iterations were held back; nothing where none can be."""
        if self._slots is None:
            return {}
        held = sum(each.held for each in self._held.values())
        return {"times that slots were computed": self._times_asked, "iterations held back": held}

    def take_released(self) -> tuple[Ints, Floats]:
        released, self._released = self._released, []
        return (
            np.array([handle for handle, _ in released], np.int64),
            np.array([size_bytes for _, size_bytes in released], np.float64),
        )

    def end(self, handle: Ints, start_s: Floats, now_s: float) -> None:
        for h, start in zip(handle.tolist(), start_s.tolist(), strict=True):
            i, key, release_s, ready_s = self._in_flight.pop(h)
            self._state.finish(key, now_s)
            self._note_when_noticed(i, key, now_s)
            _, iteration, name = key
            held_s = math.nan if ready_s is None else ready_s
            self._flows_ended.append(self._steps[i][name].place, iteration, release_s, start, now_s, held_s)
            self._handles_ended.append(h)
            self._begin(i, self._progress[i].finish(iteration, name), now_s)
            self._tell_gate(i, key, now_s)
            self._leave_if_done(i)

    def in_force_s(self, handle: Ints, now_s: float) -> Floats:
        """When what is decided now is in force for each of these flows, by what was measured."""
        settings = self._measured.settings
        if settings is None:
            return np.full(len(handle), now_s)
        found = []
        for h in handle.tolist():
            _, key, release_s, _ = self._in_flight[h]
            first_s = release_s + settings.first_s.get(key, settings.usual_first_s)
            change_s = now_s + settings.change_s.get(key, settings.usual_change_s)
            found.append(first_s if now_s <= release_s else max(first_s, change_s))
        return np.array(found)

    def decided(self, handle: Ints, now_s: float) -> tuple[Floats, Ints] | None:
        """Rates and classes of these flows as they were decided in the run that is repeated; None where they never were."""
        if self._taken is None:
            return None
        keys = self.keys(handle)
        decision = self._taken.for_flows(keys, now_s)
        if decision is None:
            return None
        told = [decision.flows[key] for key in keys]
        classes = [UNDECIDED if traffic_class is None else traffic_class for traffic_class, _ in told]
        return np.array([rate_Bps for _, rate_Bps in told]), np.array(classes, np.int64)

    def ends(self, handle: Ints) -> list[tuple[str, str]]:
        """Source and destination hosts of flows in flight."""
        declared = (self._flow(i, key[2])[0] for i, key, *_ in map(self._in_flight.__getitem__, handle.tolist()))
        return [(flow.src_host, flow.dst_host) for flow in declared]

    def snapshot(self, flows: Flows, now_s: float) -> tuple[Snapshot, Ints | None]:
        self._state.progress_all(self._slot[flows.handle], flows.sent_bytes)
        snapshot, _ = self._state.snapshot(now_s, connections=self._with_connections)
        return snapshot, np.searchsorted(flows.handle, self._handle[self._state.slots])

    def connections(self, handle: Ints) -> Sequence[Hashable]:
        return [(job, name) for job, _, name in self.keys(handle)]

    def keys(self, handle: Ints) -> list[FlowKey]:
        """What flows in flight are."""
        return [self._in_flight[h][1] for h in handle.tolist()]

    @property
    def handles_ended(self) -> Ints:
        """What the flows in the record were called, in their order."""
        return np.array(self._handles_ended, np.int64)

    @property
    def state(self) -> SchedulerState:
        """What is known of all flows; bytes sent are as of the last snapshot."""
        return self._state

    def end_jobs(self, host: str) -> Ints:
        struck = {i for i, job in enumerate(self._jobs) if host in job.placement and not self._progress[i].done}
        struck -= self._ended
        self._ended |= struck
        self._calendar = [entry for entry in self._calendar if entry[2] not in struck]
        heapq.heapify(self._calendar)
        gone = [handle for handle, (i, *_) in self._in_flight.items() if i in struck]
        for handle in gone:
            del self._in_flight[handle]
        self._released = [entry for entry in self._released if entry[0] in self._in_flight]
        for i in struck:
            self._state.withdraw(self._jobs[i].name)
        self.candidates.withdraw({self._jobs[i].name for i in struck})
        return np.array(gone, np.int64)

    def check_done(self) -> None:
        """RunError unless every job has come to its end, or to one that was planned."""
        for i, (job, progress) in enumerate(zip(self._jobs, self._progress, strict=True)):
            if not job.is_placed:
                raise RunError(f"job {job.name} waits for ever for {job.dag.ranks} GPUs: no room was found for it")
            if not progress.done and i not in self._ended:
                gate = self._gates[i]
                raise waits_for_ever(job.name, "" if gate is None else gate.why_waiting())

    def _schedule(self, end_s: float, job: int, step: StepKey | _Ready | _Noticed, start_s: float) -> None:
        heapq.heappush(self._calendar, (end_s, self._sequence, job, step, start_s))
        self._sequence += 1

    def _end_step(self, i: int, key: StepKey | _Ready | _Noticed, start_s: float, now_s: float) -> None:
        job, progress = self._jobs[i], self._progress[i]
        if isinstance(key, _Ready | _Noticed):
            self._ask_gate(i, key, now_s)
            return
        if key == _BEGIN:
            self._arrive(i, now_s)
            return
        iteration, name = key
        step = self._steps[i][name]
        if step.flow is not None:
            self._release(i, (job.name, iteration, name), step.size_bytes, now_s)
            return
        if step.compute is not None:
            late_s = self._measured.late_s.get((job.name, iteration, name), 0.0)
            self._computes.append(step.place, iteration, start_s, now_s + late_s, late_s)
        self._begin(i, progress.finish(iteration, name), now_s)
        if step.compute is None:
            self._tell_gate(i, (job.name, iteration, name), now_s)
        else:
            self._follow(job, iteration, step.compute.rank, now_s)
        self._leave_if_done(i)

    def _follow(self, job: Job, iteration: int, rank: int, now_s: float) -> None:
        """A computation of a job has ended: begin on its rank what comes after that job, if that was the last of it."""
        for name in self._following.computed(job.name, iteration, rank):
            i = self._place[name]
            begin_s = self._first_s(name, 0, job.placement[rank], now_s)
            self._began[name] = max(self._began.get(name, 0.0), begin_s)
            self._begin(i, self._progress[i].start_rank(rank), now_s)

    def _arrive(self, i: int, now_s: float) -> None:
        """A job is there: it begins, or waits in the queue until it is placed."""
        job = self._jobs[i]
        if job.is_placed:
            if self._admission is not None and not job.is_background:
                self._admission.occupy(job.placement)
            self._begin(i, self._progress[i].start(), now_s)
        elif self._admission is None:
            raise InputError(f"job {job.name} has no placement, and there is no queue in which it could wait for one")
        else:
            self._admission.arrive(i, job)

    def _admit(self, now_s: float) -> None:
        """Begin the jobs in the queue that there is room for."""
        for i, placement in () if self._admission is None else self._admission.admit():
            arrived = self._jobs[i]
            job = self._jobs[i] = dataclasses.replace(arrived, placement=placement, start_s=now_s)
            self._admitted[job.name] = Admitted(arrived.start_s, now_s, placement)
            self._make_known([i], self._declarer.of_newcomer(job))
            self._begin(i, self._progress[i].start(), now_s)

    def _leave_if_done(self, i: int) -> None:
        job = self._jobs[i]
        if self._admission is None or job.is_background or not self._progress[i].done:
            return
        self._admission.leave(job.placement)
        if job.name in self._admitted:  # the state is of jobs that are there, however many there are in all
            self._state.withdraw(job.name)
            self.candidates.withdraw({job.name})
            self._steps[i] = {}

    def _begin(self, i: int, keys: list[StepKey], now_s: float) -> None:
        steps, job = self._steps[i], self._jobs[i].name
        for key in keys:
            iteration, name = key
            step = steps[name]
            begin_s = max(self._begin_s.pop((i, key), now_s), now_s)
            if step.is_first:
                begin_s = self._first_s(job, iteration, step.host, begin_s)
            if step.flow is not None:
                begin_s += self._measured.release_s.get((job, iteration, name), 0.0)
            if step.compute is None and self._gates[i] is not None:
                if begin_s > now_s:
                    self._schedule(begin_s, i, _Ready(key), begin_s)
                else:
                    self._ask_gate(i, _Ready(key), now_s)
            elif step.flow is not None:
                if begin_s > now_s:
                    self._schedule(begin_s, i, key, begin_s)
                else:
                    self._release(i, (job, iteration, name), step.size_bytes, now_s)
            else:
                late_s = self._draw.expovariate(1 / self._late_s) if self._late_s and step.compute is not None else 0.0
                self._schedule(self._finish_s(i, iteration, step, begin_s) + late_s, i, key, begin_s)

    def _first_s(self, job: str, iteration: int, host: str, now_s: float) -> float:
        """When the first steps of an iteration begin on a host that could begin now: as the policy says, or as was measured."""
        if job in self._held:
            return self._held[job].begin_s(iteration, now_s)
        measured_s = self._measured.held_s or {}
        return max(now_s, measured_s.get((job, iteration, host), now_s))

    def _ask_gate(self, i: int, what: _Ready | _Noticed, now_s: float) -> None:
        """Tell a job's gate, and let go what it lets go."""
        gate = self._gates[i]
        assert gate is not None, "only jobs with a discipline have such entries"
        iteration, name = what.transfer
        if isinstance(what, _Ready):
            self._held_since_s[i, what.transfer] = now_s
            released = gate.ready(iteration, name)
        else:
            released = gate.ended(iteration, name, what.ranks)
        for key in released:
            since_s = self._held_since_s.pop((i, key))
            step = self._steps[i][key[1]]
            if step.flow is None:
                self._schedule(now_s, i, key, now_s)
            else:
                ready_s = since_s if since_s < now_s else None
                self._release(i, (self._jobs[i].name, *key), step.size_bytes, now_s, ready_s)

    def _tell_gate(self, i: int, key: FlowKey, now_s: float) -> None:
        """A transfer has ended: its job's gate hears of that when its ends notice, and after all that ends now."""
        if self._gates[i] is None:
            return
        _, iteration, name = key
        ranks = self._steps[i][name].ends
        noticed_s = self._noticed_s(i, key, now_s)
        for at_s in dict.fromkeys(noticed_s):
            noticing = tuple(rank for rank, its_s in zip(ranks, noticed_s, strict=True) if its_s == at_s)
            self._schedule(at_s, i, _Noticed((iteration, name), noticing), at_s)

    def _noticed_s(self, i: int, key: FlowKey, now_s: float) -> tuple[float, float]:
        """When source and destination notice the end of a transfer, as was measured."""
        settings = self._measured.settings
        if settings is None or self._steps[i][key[2]].flow is None:
            return now_s, now_s
        return now_s + settings.acknowledged_s.get(key, 0.0), now_s + settings.arrival_s.get(key, 0.0)

    def _note_when_noticed(self, i: int, key: FlowKey, now_s: float) -> None:
        """A flow has ended: what follows at each of its ends begins when that end was found to know."""
        if self._measured.settings is None:
            return
        _, iteration, name = key
        declared, _, _ = self._flow(i, name)
        noticed_s = dict(zip((declared.src_host, declared.dst_host), self._noticed_s(i, key, now_s), strict=True))
        for after in self._followers(i, iteration, name):
            begin_s = noticed_s.get(self._steps[i][after[1]].host, now_s)
            if begin_s > self._begin_s.get((i, after), now_s):
                self._begin_s[i, after] = begin_s

    def _followers(self, i: int, iteration: int, name: str) -> Iterable[StepKey]:
        job = self._jobs[i]
        yield from ((iteration, after) for after in job.dag.followers[name])
        if iteration + 1 < job.iterations:
            yield from ((iteration + 1, after) for after in job.dag.next_followers[name])

    def _finish_s(self, i: int, iteration: int, step: AskedStep, start_s: float) -> float:
        """When what does not touch the network ends; a transfer within a host takes no time."""
        if step.compute is None:
            return start_s
        duration_s, slow = self._durations[i].of(iteration, step.compute), self._slow.get(step.host)
        if self._disturbance is not None:
            duration_s = self._disturbance.of((self._jobs[i].name, iteration, step.compute.name), duration_s)
        return start_s + duration_s if slow is None else slow.finish_s(start_s, duration_s)

    def _flow(self, i: int, name: str) -> tuple[FlowDeclaration, str, str]:
        flow = self._steps[i][name].flow
        assert flow is not None, "only flows over the network end as flows"
        return flow

    def _release(self, i: int, key: FlowKey, size_bytes: int, now_s: float, ready_s: float | None = None) -> None:
        slot = self._state.release(key, now_s)
        self.candidates.release(key, self._flow(i, key[2])[0].index)
        self._slot = _set(self._slot, self._handles, slot)
        self._handle = _set(self._handle, slot, self._handles)
        sent_bytes = float(size_bytes) if self._disturbance is None else self._disturbance.of(key, size_bytes)
        self._released.append((self._handles, sent_bytes))
        self._in_flight[self._handles] = (i, key, now_s, ready_s)
        self._handles += 1


def _set(column: Ints, row: int, value: int) -> Ints:
    """`column`, or a longer one where it ends before `row`, with a value set."""
    if row >= len(column):
        column = np.concatenate((column, np.zeros(max(len(column), row + 1 - len(column)), np.int64)))
    column[row] = value
    return column
