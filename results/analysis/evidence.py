"""What one emulated run left, read once: its records, its packets, and in words what of them cannot be believed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from echelonflow.errors import InputError
from echelonflow.model.dag import Job
from echelonflow.model.faults import ControllerStop
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.assignment import AssignedRun
from echelonflow.records.folder import RunFiles
from echelonflow.records.outcome import RunOutcome, read_outcome
from echelonflow.records.plan import Plan, read_plan
from echelonflow.records.run_record import RunRecord, as_begun
from echelonflow.scheduling.policies.lookahead import Adopted
from results.analysis import contradictions, pcap
from results.analysis.acknowledgements import acknowledgement_share
from results.analysis.asked import NAMED_AT_MOST, check_size, named
from results.analysis.context import Context
from results.analysis.looked_ahead import adopted
from results.analysis.packets import Decided, FlowPackets, RunClock, packets_of_run
from results.analysis.passing import WaitedFor, waited_for
from results.analysis.read_run import ReadRun, read_run
from results.analysis.swaps import Swap, swaps
from results.analysis.training import departures
from results.analysis.windows import of_windows


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a run left, as far as it could be read."""

    jobs: tuple[Job, ...]
    """With the starts that they had."""
    read: ReadRun
    swapped: Sequence[Swap]
    planned: Sequence[Adopted]
    """What a planner put in force, and when; empty where nobody looked ahead."""
    clock: RunClock | None
    """None where captures cannot be compared with logs."""
    captures: Mapping[str, pcap.Capture]
    captures_wrong: Sequence[str]
    packets: Mapping[FlowKey, FlowPackets]
    took_s: Mapping[FlowKey, float]
    """How long computations took of jobs whose computation is measured: that is what they take."""
    waited: Sequence[WaitedFor]
    """Links for which flows waited, the one farthest off its declaration first."""


@dataclass(frozen=True, slots=True)
class RawRun:
    """One emulated run while it is read; `wrong` collects in words what cannot be read or contradicts itself."""

    context: Context
    files: RunFiles
    outcome: RunOutcome
    wrong: list[str] = field(default_factory=list)

    @staticmethod
    def of(context: Context, files: RunFiles) -> RawRun:
        """The run in `files`. Where run.json cannot be read, it is known by what was assigned under the folder's name."""
        name = files.root.name
        assigned = _assigned(context, name)
        wrong = list(context.changed_in(name))
        try:
            outcome = read_outcome(files.outcome)
        except InputError as error:
            wrong.append(f"cannot be read: {error}")
            known = assigned or AssignedRun(len(context.files.runs()), name, name, 0, "unknown", 0.0)
            failure = "run.json, which would tell, cannot be read"
            outcome = RunOutcome(
                policy=known.policy, repeat=known.repeat, run_index=known.run_index, label=name,
                enforcer=known.enforcer, failure=failure,
            )  # fmt: skip
            return RawRun(context, files, outcome, wrong)
        wrong += contradictions.of_outcome(outcome, None, assigned)
        if outcome.label != name:
            wrong.append(f"run.json is that of {outcome.label}")
            outcome.label = name
        return RawRun(context, files, outcome, wrong + departures(files))

    def plan(self) -> Plan:
        """Its plan, held against others; InputError where it contradicts itself or cannot be read."""
        plan = read_plan(self.files.plan)
        check_size(plan.jobs)
        self._check_plan(plan)
        return plan

    def evidence(self, plan: Plan) -> Evidence:
        """All that the run left, read once."""
        outcome = self.outcome
        read = read_run(self.files, outcome, plan)
        logs = [part.events for part in (self.files, *self.files.restarts())]
        swapped = swaps(logs, outcome, read.record.decisions, read.faults)
        planned = adopted(logs, outcome, plan, read.faults)
        took_s = _taken_s(read.record, self.context.measured_jobs)
        self._note(read, plan, took_s)
        clock = self._clock()
        captures, captures_wrong = self._captures(read.record)
        # Without a controller agents choose their marks alone, and nobody decides them.
        alone = any(isinstance(done.fault, ControllerStop) for done in outcome.faults)
        decided = {} if alone else _decided(read.record)
        packets = packets_of_run(read.record, plan, captures, clock, decided) if clock is not None else {}
        waited = self._waited(read.record, plan, captures, clock)
        jobs = as_begun(plan.jobs, read.record)
        return Evidence(jobs, read, swapped, planned, clock, captures, captures_wrong, packets, took_s, waited)

    def _check_plan(self, plan: Plan) -> None:
        """Note where the plan contradicts others; InputError where it contradicts itself."""
        fault = contradictions.of_declarations(plan)
        if fault is not None:
            raise InputError(f"{self.files.plan}: {fault}")
        self.wrong.extend(contradictions.of_plan(plan, self.context.manifest))
        self.wrong.extend(contradictions.of_outcome(self.outcome, plan, None))

    def _waited(
        self, record: RunRecord, plan: Plan, captures: Mapping[str, pcap.Capture], clock: RunClock | None
    ) -> list[WaitedFor]:
        """The links for which flows waited, the one farthest off first; planned faults change what links carry."""
        manifest = self.context.manifest
        if clock is None or manifest.network is None or manifest.faults:
            return []
        strange = {host for job in plan.placed for host in job.placement} - set(manifest.network.hosts)
        if strange:
            self.wrong.append(f"plan.json places jobs on {named(sorted(strange))}, which the network lacks")
            return []
        try:
            share = acknowledgement_share(self.outcome, manifest.network.hosts)
            return waited_for(record, plan, manifest.network, captures, clock, share)
        except InputError as error:  # no path
            self.wrong.append(f"manifest.json and plan.json do not fit: {error}")
            return []

    def _note(self, read: ReadRun, plan: Plan, took_s: Mapping[FlowKey, float]) -> None:
        """What could not be read of the logs, and where their times contradict each other."""
        more = len(read.faults) - NAMED_AT_MOST
        self.wrong.extend(f"cannot be read, and is left out: {fault}" for fault in read.faults[:NAMED_AT_MOST])
        if more > 0:
            self.wrong.append(f"{more} more lines cannot be read, and are left out")
        assignment = self.context.assignment
        programs = () if assignment is None else tuple(job for each in assignment.programs for job in each.jobs)
        late = bool(self.context.manifest.faults or programs)
        self.wrong.extend(
            contradictions.of_times(
                read.record, read.acked_s, self.outcome, plan.jobs, may_be_late=late, held_s=read.held_s, took_s=took_s
            )
        )
        self.wrong.extend(of_windows(read.record, read.acked_s, plan.jobs, programs))

    def _clock(self) -> RunClock | None:
        if self.outcome.zero_monotonic_s is None:
            return None
        fault = contradictions.clock_fault(self.outcome)
        if fault is None:
            return RunClock.of(self.outcome)
        self.wrong.append(f"{fault}: packets cannot be compared with logs")
        return None

    def _captures(self, record: RunRecord) -> tuple[dict[str, pcap.Capture], list[str]]:
        """Captures of every host that sends or receives, and in words what is wrong with them."""
        found, wrong = {}, []
        for host in sorted({host for f in record.flows for host in (f.src_host, f.dst_host)}):
            path = self.context.files.capture(self.outcome.label, host)
            counts = self.outcome.captures.get(host)
            if counts is None:
                wrong.append(f"run.json has no counts of the capture of {host}")
            if not path.exists():
                wrong.append(f"there is no capture of {host} (pcap/{path.name})")
                continue
            try:
                found[host] = capture = pcap.read(path)
            except InputError as error:
                wrong.append(f"the capture of {host} cannot be read: {error}")
                continue
            if capture.unread_bytes:
                wrong.append(f"the capture of {host} ends in mid-packet (pcap/{path.name})")
            elif not capture.streams:
                wrong.append(f"the capture of {host} holds no payload (pcap/{path.name})")
        return found, wrong


def _assigned(context: Context, name: str) -> AssignedRun | None:
    """What was assigned under the name of a run; None where assignment.json does not tell."""
    runs = () if context.assignment is None else context.assignment.runs
    return next((run for run in runs if run.label == name), None)


def _taken_s(record: RunRecord, jobs: Collection[str]) -> dict[FlowKey, float]:
    """How long every computation of `jobs` took, by job, iteration and step; what it was late by is not part of it."""
    return {
        (c.job, c.iteration, c.step): max(c.finish_s - c.late_s - c.start_s, 0.0)
        for c in record.computes
        if c.job in jobs
    }


def _decided(record: RunRecord) -> dict[tuple[str, str], dict[int, list[Decided]]]:
    """The marks of every flow, by (job, flow) and iteration, each when it came into force."""
    found: dict[tuple[str, str], dict[int, list[Decided]]] = {}
    for decision in record.decisions:
        for (job, iteration, flow), dscp in decision.marks:
            marks = found.setdefault((job, flow), {}).setdefault(iteration, [])
            if not marks or marks[-1][1] != dscp:
                marks.append((decision.time_s, dscp))
    return found
