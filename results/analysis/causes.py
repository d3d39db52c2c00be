"""What a run measured of each cause that keeps it from being ideal, from its logs, decisions, packets and calibration."""

from __future__ import annotations

import bisect
import dataclasses
import math
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence

from echelonflow.model.dag import Compute, Job
from echelonflow.model.flow_key import FlowKey
from echelonflow.model.following import begins_after
from echelonflow.model.measured import Measured, Settings
from echelonflow.model.network import Network
from echelonflow.records.agent_log import Mark
from echelonflow.records.calibration import CalibrationAttempt
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.run_record import FlowRecord, RunRecord
from results.analysis.acknowledgements import acknowledgement_share
from results.analysis.asked import held_names, ready_s
from results.analysis.decided import decided
from results.analysis.evidence import Evidence, RawRun
from results.analysis.packets import FlowPackets
from results.analysis.passing import WaitedFor
from results.analysis.read_run import ReadRun
from results.analysis.spells import taken_spells, within_any
from results.analysis.statistics import quantile

LEAST_FREE = 10
"""Settings that came while nobody else had the machine: so many say what is usual."""
PASSING_TELLS_APART = 0.02
"""What links carried in passing is counted in whole segments, over gaps between flows: in runs whose time calibration
explains it was up to 1.5 % less."""
MORE_TELLS_APART = 0.05
"""A burst of 4 ms after an idle spell is 4 % of what a bin of 0.1 s holds, and is simulated as a burst."""
HELD_UP_TELLS_APART = 0.005
"""Nothing carries more than it can. A link that carried so much more in passing than by its calibration was held up then.
Programs beside a trial of two seconds took 2.9 % of it, and nothing of the runs that followed."""
CALIBRATION_TELLS_APART = 0.001
"""A trial of two seconds counts a few thousand segments. Less is no difference; taken for one, it would decide ties.

Nor is a loss that is no greater than the share of the processors that the host took meanwhile: that held up the trial.
"""
MOST_CHANGE_S = 1.0
"""A setting that was put in force longer after the last event than this was not asked for by that event."""


def measured(
    read: ReadRun,
    packets: Mapping[FlowKey, FlowPackets],
    jobs: Sequence[Job],
    carried_Bps: tuple[float, ...] | None,
    acknowledged_share: float = 0.0,
    took_s: Mapping[FlowKey, float] | None = None,
) -> Measured:
    """All causes of one run; what no record tells of counts as on time. Computations take what they `took_s`, where that is what they take."""
    record = read.record
    late_s = {(c.job, c.iteration, c.step): c.late_s for c in record.computes if c.late_s > 0}
    held_s = dict(read.held_s) if read.held_s else None
    return Measured(
        late_s,
        _late_releases(read, jobs),
        _settings(read, packets),
        carried_Bps,
        acknowledged_share,
        took_s or {},
        held_s,
    )


def _late_releases(read: ReadRun, jobs: Sequence[Job]) -> dict[FlowKey, float]:
    """How much later each flow was released than all that it waits for had ended at its source.

    One that its job held back counts as released when it was ready: what came after was no lateness.
    """
    record = read.record
    ended_s = {(c.job, c.iteration, c.step): c.finish_s - c.late_s for c in record.computes}
    flows = {(f.job, f.iteration, f.flow): f for f in record.flows}
    found: dict[FlowKey, float] = {}

    def end_s(key: FlowKey, host: str) -> float:
        """When a step had ended for `host`; not a number where nothing tells."""
        flow = flows.get(key)
        if flow is None:
            return ended_s.get(key, math.nan)
        return flow.finish_s if host == flow.dst_host else read.acked_s.get(key, math.nan)

    by_name = {job.name: job for job in jobs}
    for job in jobs:
        held, begins = held_names(job), begins_after(job, by_name)
        for iteration in range(job.iterations):
            for name in job.dag.order:
                step, key = job.dag.by_name[name], (job.name, iteration, name)
                if isinstance(step, Compute):
                    continue
                host = job.placement[step.src_rank]
                before = [*_before(job, key), *(begins.get(name, ()) if not iteration else ())]
                due_s = max([job.earliest_s, *(end_s(one, host) for one in before)])
                if name in job.first_steps:
                    due_s = max(due_s, read.held_s.get((job.name, iteration, host), due_s))
                if job.is_local(step):
                    # How long one was held back within its host, no log tells: nothing that follows it counts as late.
                    ended_s[key] = math.inf if name in held else due_s
                elif key in flows and ready_s(flows[key]) > due_s:
                    found[key] = ready_s(flows[key]) - due_s
    return found


def _before(job: Job, key: FlowKey) -> list[FlowKey]:
    """The steps that a step waits for, those of the iteration before included."""
    name, iteration, step = key
    found = [(name, iteration, before) for before in job.dag.by_name[step].after]
    if iteration:
        found += [(name, iteration - 1, before) for before in job.dag.previous.get(step, ())]
    return found


def _settings(read: ReadRun, packets: Mapping[FlowKey, FlowPackets]) -> Settings:
    record = read.record
    wire_end_s = {key: seen.finish_s for key, seen in packets.items() if seen.finish_s is not None}
    asked = _Asked(record, wire_end_s)
    first_s: dict[FlowKey, float] = {}
    change_s: dict[FlowKey, list[float]] = {}
    arrival_s: dict[FlowKey, float] = {}
    acknowledged_s: dict[FlowKey, float] = {}
    for f in record.flows:
        key = (f.job, f.iteration, f.flow)
        marks = read.marks.get(key, ())
        # Not the first packet on the wire: behind higher classes of its own host it may leave long after.
        since_release_s = _not_negative((marks[0].time_s if marks else f.start_s) - f.release_s)
        took_s, changes_s = asked.took_s(key, marks)
        # A flow that was held back from the start got its first setting when its turn came: that was no delay.
        if took_s is None and f.held:  # its sender gave it its turn
            took_s, changes_s = 0.0, [0.0, *changes_s]
        first_s[key] = since_release_s if took_s is None else min(took_s, since_release_s)
        if _may_go_at_once(f, marks):
            # What its agent took to begin: in a training program it waits for the interpreter.
            first_s[key] = max(first_s[key], _not_negative(f.start_s - f.release_s))
        if changes_s:
            change_s[key] = changes_s
        if key in wire_end_s:
            arrival_s[key] = _not_negative(f.finish_s - wire_end_s[key])
            acknowledged_s[key] = _not_negative(read.acked_s.get(key, math.nan) - wire_end_s[key])
    return Settings(
        first_s,
        {key: statistics.median(values) for key, values in change_s.items()},
        statistics.median(first_s.values()) if first_s else 0.0,
        statistics.median([value for values in change_s.values() for value in values]) if change_s else 0.0,
        arrival_s,
        acknowledged_s,
        decided(record),
    )


def _may_go_at_once(flow: FlowRecord, marks: Sequence[Mark]) -> bool:
    """Whether a flow was told before its release to go, and had not to wait for its turn: then it goes as soon as its agent can."""
    before = [mark for mark in marks if mark.time_s <= flow.release_s]
    return not flow.held and bool(before) and before[-1].rate_Bps != 0


def _not_negative(value_s: float) -> float:
    return value_s if value_s > 0 else 0.0


class _Asked:
    """When the coordinator decided what, and what had happened by then."""

    def __init__(self, record: RunRecord, wire_end_s: Mapping[FlowKey, float]) -> None:
        self._events_s = _events_s(record, wire_end_s)
        self._decided_s: dict[tuple[object, ...], list[float]] = defaultdict(list)
        for decision in (d for d in record.decisions if not d.ahead):
            for job, iteration, flow, dscp, rate_Bps in decision.changed:
                self._decided_s[job, iteration, flow, dscp, rate_Bps].append(decision.time_s)

    def took_s(self, key: FlowKey, marks: Sequence[Mark]) -> tuple[float | None, list[float]]:
        """How long after the last event before its decision each setting of a flow was in force: the first, and changes.

        None for a first one that no decision after its release asked for: it was decided ahead. A change that its sender
        made before it was decided is a hand-over, at the moment at which the flow before had left: it took no time.
        """
        first_s: float | None = None
        changes_s: list[float] = []
        before_s = -math.inf
        for mark in marks:
            decided_s = self._asked_by_s(key, mark, before_s)
            took_s = None if decided_s is None else self._since_s(decided_s, mark)
            before_s = before_s if decided_s is None else decided_s
            if mark is marks[0]:
                first_s = took_s
            elif took_s is None:
                changes_s.append(0.0)
            elif 0 <= took_s <= MOST_CHANGE_S:
                changes_s.append(took_s)
        return first_s, changes_s

    def _asked_by_s(self, key: FlowKey, mark: Mark, after_s: float) -> float | None:
        """When a setting was decided, later than the one before it; None where it was in force before."""
        times_s = self._decided_s.get((*key, mark.dscp, mark.rate_Bps), [])
        place = bisect.bisect_right(times_s, mark.time_s)
        return times_s[place - 1] if place and times_s[place - 1] > after_s else None

    def _since_s(self, decided_s: float, mark: Mark) -> float:
        event = bisect.bisect_right(self._events_s, decided_s)
        since_s = mark.time_s - (self._events_s[event - 1] if event else decided_s)
        return since_s if since_s <= MOST_CHANGE_S else mark.time_s - decided_s


def _events_s(record: RunRecord, wire_end_s: Mapping[FlowKey, float]) -> list[float]:
    """When flows were released and ended: what decisions are made on."""
    found = [f.release_s for f in record.flows]
    for f in record.flows:
        end_s = wire_end_s.get((f.job, f.iteration, f.flow), f.finish_s)
        if not math.isnan(end_s):
            found.append(end_s)
    return sorted(found)


def carried_Bps(
    network: Network, attempt: CalibrationAttempt | None, waited: Sequence[WaitedFor]
) -> tuple[float, ...] | None:
    """What each link carried: as it was calibrated, unless flows waited for it and it was another; None where nothing tells.

    A link that took part in several measurements carries what the best of them says: another link held up the others.
    """
    shares = _calibrated_shares(network, attempt)
    for one in waited:
        calibrated = shares.get(one.link, 1.0)
        if calibrated - one.share > PASSING_TELLS_APART or one.share - calibrated > MORE_TELLS_APART:
            shares[one.link] = one.share
        elif calibrated < 1 and one.share > calibrated + HELD_UP_TELLS_APART:
            shares[one.link] = min(one.share, 1.0)
    if not shares:
        return None
    return tuple(
        rate_Bps * shares.get(link.name, 1.0)
        for link, rate_Bps in zip(network.links, network.capacity_Bps, strict=True)
    )


def _calibrated_shares(network: Network, attempt: CalibrationAttempt | None) -> dict[str, float]:
    found: dict[str, float] = {}
    if attempt is None:
        return found
    tells_apart = max(CALIBRATION_TELLS_APART, attempt.stolen_share)
    for measurement in attempt.links:
        if not (measurement.declared_Bps > 0 and 0 < measurement.measured_Bps < math.inf):
            continue
        # Records from before links were named say which kind they are of.
        names = measurement.links or tuple(link.name for link in network.links if link.kind == measurement.kind)
        for name in names:
            share = measurement.measured_Bps / measurement.declared_Bps
            share = share if abs(share - 1) > tells_apart else 1.0
            found[name] = max(share, found.get(name, 0.0))
    return found


def causes_of(run: RawRun, evidence: Evidence) -> Measured:
    """All causes of one run, by what it left."""
    network, calibration = run.context.manifest.network, run.context.calibration
    attempt = None if calibration is None else calibration.of_run(run.outcome.run_index)
    carried = None if network is None else carried_Bps(network, attempt, evidence.waited)
    share = 0.0 if network is None else acknowledgement_share(run.outcome, network.hosts)
    return measured(evidence.read, evidence.packets, evidence.jobs, carried, share, evidence.took_s)


def unhindered(causes: Measured, record: RunRecord, run: RunOutcome) -> Measured:
    """The same run if settings had come as usual in the spells in which others had the machine.

    As usual is as in the median of its other spells, or as its fastest quarter where there are hardly any.
    """
    settings, spells = causes.settings, taken_spells(run)
    if settings is None or not spells:
        return causes
    begins_s = {(f.job, f.iteration, f.flow): f.release_s for f in record.flows}
    ends_s = {(f.job, f.iteration, f.flow): f.finish_s for f in record.flows}

    def as_usual(times_s: Mapping[FlowKey, float], at_s: Mapping[FlowKey, float]) -> dict[FlowKey, float]:
        hit = {key for key in times_s if within_any(spells, at_s.get(key, math.nan))}
        free_s = [time_s for key, time_s in times_s.items() if key not in hit]
        if len(free_s) >= LEAST_FREE:
            usual_s = statistics.median(free_s)
        else:
            usual_s = quantile(list(times_s.values()), 0.25) or 0.0
        return {key: min(time_s, usual_s) if key in hit else time_s for key, time_s in times_s.items()}

    return dataclasses.replace(
        causes,
        settings=dataclasses.replace(
            settings,
            first_s=as_usual(settings.first_s, begins_s),
            change_s=as_usual(settings.change_s, begins_s),
            arrival_s=as_usual(settings.arrival_s, ends_s),
            acknowledged_s=as_usual(settings.acknowledged_s, ends_s),
        ),
    )
