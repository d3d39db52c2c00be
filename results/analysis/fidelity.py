"""How faithful one emulated run was, in numbers: load, lateness, losses, and every sum counted twice.

Only measures; what is too much is `results.analysis.verdict`'s to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from echelonflow.model.dag import Job
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.run_record import FlowRecord, RunRecord
from echelonflow.wire.classes import CONTROL_CLASS, DEFAULT_CLASS, class_of_dscp
from results.analysis.asked import NAMED_AT_MOST, Asked, first_of, missing_computes, words_of
from results.analysis.packets import FlowPackets
from results.analysis.passing import WaitedFor
from results.analysis.planned import jobs_ended
from results.analysis.spells import taken_while_late
from results.analysis.statistics import quantile

CLOCKS_AGREE_S = 0.002
"""Captures and logs have clocks whose readings differ by less."""

ACKNOWLEDGED_BYTES = 1 << 17
"""What one acknowledgement speaks for at most: two super-segments of 64 KiB. It is some 4 kB on most machines."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """Fidelity of one run; None where it could not be measured. Shares are 0 .. 1."""

    completed: bool
    """Whether the run came to its end. From run.json."""
    failure: str | None
    """Why it did not; null if it did. From run.json."""
    cpu_busy: float | None
    """Share of time (0 to 1) in which the machine's processors were busy, mean over the run. From the load sampler."""
    cpu_busy_max: float | None
    """The busiest two seconds of it. From the load sampler."""
    switch_thread_busy: float | None
    """Share of time (0 to 1) in which Open vSwitch's busiest thread was busy, mean over the run. From the load sampler."""
    switch_thread_busy_max: float | None
    """The busiest two seconds of it. From the load sampler."""
    core_busy: float | None
    """Share of time (0 to 1) in which the busiest core was busy with what does not give way, mean over the run; null in
    older runs. From the load sampler."""
    late_p99_s: float | None
    """How late compute steps ended: 99th percentile. From the agents' logs."""
    late_max_s: float | None
    """How late the latest compute step ended. From the agents' logs."""
    late_max_share: float | None
    """That as a share of what its job's busiest rank computes in an iteration. Computed."""
    queue_drops: int
    """Packets that queues of hosts and switches dropped. From the queues' counters."""
    queue_drop_share: float
    """That as a share of all packets that reached a queue. Computed."""
    capture_packets: int
    """Packets that the captures of all hosts hold. From the capturing programs."""
    capture_drops: int
    """Packets that they missed. From the capturing programs."""
    captures_wrong: tuple[str, ...]
    """Captures that are missing, end in mid-packet, or hold other counts than were captured, in words. From the packets."""
    counters_wrong: tuple[str, ...]
    """Interfaces whose queues counted less than flows carried through them, or nothing, or too few acknowledgements in the
    control class, in words. From the queues' counters."""
    computes_asked: int
    """Computations in all iterations; of a job that a planned crash ended, those that it had finished. From the jobs."""
    computes_finished: int
    """Computations that ended. From the agents' logs."""
    computes_missing: tuple[str, ...]
    """The first of those that did not, in words. Computed."""
    told_twice: tuple[str, ...]
    """Steps of which the agents' logs tell more than once, in words. From the agents' logs."""
    flows_asked: int
    """Flows that cross the network in all iterations; of a job that a planned crash ended, those that it had finished.
    From the jobs."""
    flows_finished: int
    """Flows that ended. From the agents' logs."""
    bytes_asked: int
    """Bytes of all flows that were released. From the jobs."""
    bytes_sent: int
    """Bytes that senders handed to TCP. From the agents' logs."""
    bytes_received: int
    """Bytes that receivers read. From the agents' logs."""
    bytes_pcap: int | None
    """Payload that the receivers' captures hold, each byte counted once; null without packets. From the packets."""
    bytes_wrong: tuple[str, ...]
    """Flows whose counts differ, at both ends by log and by packets, in words. Computed."""
    packets_early: tuple[str, ...]
    """Flows whose packets left before the flow was released, or came before they had left, in words. From the packets."""
    link_waited_for: str | None
    """Of the links for which flows waited, the one that was farthest off its declaration; null where none was waited for
    long enough, or faults were planned. From the packets."""
    link_carried_share: float | None
    """What it carried then, over what it declares: the median over tenths of a second. Computed."""
    retransmitted_bytes: int
    """Payload that was sent again. From the packets."""
    stray_dscp_bytes: int
    """Payload that arrived with a mark never decided for its flow. From the packets."""
    stray_dscp_share: float
    """That as a share of all payload that arrived. Computed."""
    disobedient_bytes: int
    """Payload that arrived with another mark than was in force for its flow when it left. From the packets."""
    disobedient_share: float
    """That as a share of all payload that arrived. Computed."""
    stray_class_bytes: int
    """Bytes in queues of data classes to which no flow was ever assigned. From the queues' counters."""
    stray_class_share: float
    """That as a share of all bytes in queues. Computed."""
    stray_class_packet_share: float
    """The same of packets: acknowledgements are many packets of few bytes. Computed."""
    log_pcap_median_s: float | None
    """Distance between a flow's end by the receiver's log and by the packets: median. Computed."""
    log_pcap_p99_s: float | None
    """The same: 99th percentile. Computed."""
    start_lag_median_s: float | None
    """Time from a flow's release to its first packet: median. Computed."""
    decisions: int
    """Decisions of the coordinator on flows in flight. From decisions.jsonl."""
    decision_ms_median: float | None
    """Time that a decision took: median. From decisions.jsonl."""
    decision_ms_max: float | None
    """Time that the longest decision took. From decisions.jsonl."""
    ahead_share: float | None = None
    """Flows that were decided on before their release, as a share of all that were released. From the agents' logs."""
    ahead_later_share: float | None = None
    """The same from the second iteration on; null if there is none. From the agents' logs."""
    corrected_share: float | None = None
    """Of those decided ahead, the share for which the decision at their release said something else. From decisions.jsonl."""
    corrected_median_s: float | None = None
    """How long after the release that was in force: median. Computed."""
    start_lag_ahead_median_s: float | None = None
    """Time from a flow's release until its first byte was handed to TCP, of flows that were decided ahead, and not to wait:
    median. From the agents' logs."""
    start_lag_ahead_p95_s: float | None = None
    """The same: 95th percentile. From the agents' logs."""
    clock_drift: float = field(default=0.0)
    """Seconds that the captures' clock gained on the run's clock per second. From run.json."""
    cpu_stolen: float | None = None
    """Share of time (0 to 1) in which the host had taken processors away, mean over the run. From the load sampler."""
    cpu_others: float | None = None
    """Share of time (0 to 1) in which other programs than the run's had processors, mean over the run; null in older runs.
    From the load sampler."""
    late_stolen: float | None = None
    """The same of stolen processors while computations were late, by their lateness; null in older runs. Computed."""
    late_others: float | None = None
    """The same of other programs. Computed."""


def measure(
    run: RunOutcome,
    record: RunRecord,
    packets: Mapping[FlowKey, FlowPackets],
    jobs: Sequence[Job],
    *,
    captures_wrong: Sequence[str] = (),
    clock_drift: float = 0.0,
    told_twice: Sequence[str] = (),
    farthest: WaitedFor | None = None,
    unscheduled: bool = False,
) -> Fidelity:
    """Measure a run from its run.json, its records, and what the captures saw of its flows.

    Where programs send something `unscheduled`, it is in the last class, whether or not that was decided for any flow.
    """
    late = [c.late_s for c in record.computes]
    drops, handled = _queue_drops(run)
    captures = run.captures.values()
    stray, arrived = _stray_marks(record, packets)
    stray_class, stray_class_share = _stray_classes(run, record, "bytes", unscheduled)
    _, stray_class_packet_share = _stray_classes(run, record, "packets", unscheduled)
    finished = [f for f in record.flows if not math.isnan(f.finish_s)]
    seen = [(f, packets[key]) for f in finished if (key := (f.job, f.iteration, f.flow)) in packets]
    differences = [abs(p.finish_s - f.finish_s) for f, p in seen if p.finish_s is not None]
    lags = [p.start_s - f.release_s for f, p in seen if p.start_s is not None]
    ahead = [bool(f.ahead) for f in record.flows]
    lags_ahead = [f.start_s - f.release_s for f in record.flows if f.ahead and not f.held]
    decision_ms = [d.total_ms for d in record.decisions if not d.ahead]
    ended = jobs_ended(run.faults, jobs)  # of these only what was finished counts
    living = Asked(tuple(job for job in jobs if job.name not in ended))
    missing = missing_computes(record, living)
    counted = [f for f in record.flows if f.job not in ended or not math.isnan(f.finish_s)]
    taken = taken_while_late(run, ((c.finish_s, c.late_s) for c in record.computes))
    disobedient = sum(p.disobedient_bytes for p in packets.values())
    return Fidelity(
        completed=run.completed,
        failure=run.failure,
        cpu_busy=None if run.load is None else run.load.cpu_busy,
        cpu_busy_max=None if run.load is None else run.load.cpu_busy_max,
        switch_thread_busy=None if run.load is None else run.load.switch_thread_busy,
        switch_thread_busy_max=None if run.load is None else run.load.switch_thread_busy_max,
        core_busy=None if run.load is None else run.load.core_busy,
        late_p99_s=quantile(late, 0.99),
        late_max_s=max(late, default=None),
        late_max_share=_late_share(record, jobs),
        queue_drops=drops,
        queue_drop_share=drops / handled if handled else 0.0,
        capture_packets=sum(c.received for c in captures),
        capture_drops=sum(c.dropped for c in captures),
        captures_wrong=tuple(captures_wrong),
        counters_wrong=(*_wrong_counters(run, record), *_unacknowledged(run, record)),
        computes_asked=living.computes_asked + sum(c.job in ended for c in record.computes),
        computes_finished=len(record.computes),
        computes_missing=tuple(missing[:NAMED_AT_MOST]),
        told_twice=tuple(told_twice),
        flows_asked=living.flows_asked + sum(f.job in ended for f in finished),
        flows_finished=len(finished),
        bytes_asked=sum(f.size_bytes for f in record.flows),
        bytes_sent=sum(f.sent_bytes for f in record.flows),
        bytes_received=sum(f.received_bytes for f in record.flows),
        bytes_pcap=sum(p.unique_bytes for p in packets.values()) if packets else None,
        bytes_wrong=tuple(_wrong_bytes(counted, packets)),
        packets_early=tuple(_early(record.flows, packets)),
        link_waited_for=None if farthest is None else farthest.link,
        link_carried_share=None if farthest is None else farthest.share,
        retransmitted_bytes=sum(p.retransmitted_bytes for p in packets.values()),
        stray_dscp_bytes=stray,
        stray_dscp_share=stray / arrived if arrived else 0.0,
        disobedient_bytes=disobedient,
        disobedient_share=disobedient / arrived if arrived else 0.0,
        stray_class_bytes=stray_class,
        stray_class_share=stray_class_share,
        stray_class_packet_share=stray_class_packet_share,
        log_pcap_median_s=quantile(differences, 0.5),
        log_pcap_p99_s=quantile(differences, 0.99),
        start_lag_median_s=quantile(lags, 0.5),
        decisions=len(decision_ms),
        decision_ms_median=quantile(decision_ms, 0.5),
        decision_ms_max=max(decision_ms, default=None),
        ahead_share=_share(ahead),
        ahead_later_share=_share([bool(f.ahead) for f in record.flows if f.iteration > 0]),
        corrected_share=_share([f.corrected_s is not None for f in record.flows if f.ahead]),
        corrected_median_s=quantile([f.corrected_s for f in record.flows if f.corrected_s is not None], 0.5),
        start_lag_ahead_median_s=quantile(lags_ahead, 0.5),
        start_lag_ahead_p95_s=quantile(lags_ahead, 0.95),
        clock_drift=clock_drift,
        cpu_stolen=None if run.load is None else run.load.cpu_stolen,
        cpu_others=None if run.load is None else run.load.cpu_others,
        late_stolen=None if taken is None else taken.stolen,
        late_others=None if taken is None else taken.others,
    )


def _late_share(record: RunRecord, jobs: Sequence[Job]) -> float | None:
    """Worst lateness of any compute step, as a share of all the work of its job's busiest rank in an iteration."""
    work_s: dict[str, float] = {}
    for job in jobs:
        per_rank = [0.0] * job.dag.ranks
        for compute in job.dag.computes:
            per_rank[compute.rank] += compute.duration_s
        work_s[job.name] = max(per_rank)
    shares = [c.late_s / work_s[c.job] for c in record.computes if work_s.get(c.job)]
    return max(shares, default=None)


def _queue_drops(run: RunOutcome) -> tuple[int, int]:
    """Packets that queues dropped, and all that reached one."""
    counters = [c for classes in run.classes.values() for c in classes.values()]
    drops = sum(c.drops for c in counters)
    return drops, drops + sum(c.packets for c in counters)


def _wrong_counters(run: RunOutcome, record: RunRecord) -> list[str]:
    """In words, the hosts through whose queue less went than they sent; or that nothing was counted at all.

    Every flow goes through its source's own queue. Older runs counted the switches' alone.
    """
    if not any(counters.bytes for classes in run.classes.values() for counters in classes.values()):
        return ["queues counted no bytes"]
    if any(min(c.bytes, c.packets, c.drops) < 0 for classes in run.classes.values() for c in classes.values()):
        return ["queues counted less after the run than before it"]
    sent: dict[str, int] = {}
    for f in record.flows:
        sent[f.src_host] = sent.get(f.src_host, 0) + f.sent_bytes
    wrong = []
    for host, sent_bytes in sorted(sent.items()):
        classes = run.classes.get(f"{host}-eth0")
        counted = None if classes is None else sum(counters.bytes for counters in classes.values())
        if counted is not None and counted < sent_bytes:
            wrong.append(f"the queue of {host} counted {counted} bytes, of {sent_bytes} that were sent")
    if wrong or not any(f"{host}-eth0" in run.classes for host in sent):
        return wrong
    return [f"the queue of {host} was not counted" for host in sorted(sent) if f"{host}-eth0" not in run.classes]


def _unacknowledged(run: RunOutcome, record: RunRecord) -> list[str]:
    """In words, the receiving hosts in whose own queue acknowledgements were not in the control class.

    Classes that are decided for data hide them otherwise. Older runs counted the switches' queues alone.
    """
    came: dict[str, int] = {}
    for f in record.flows:
        came[f.dst_host] = came.get(f.dst_host, 0) + f.received_bytes
    wrong = []
    for host, came_bytes in sorted(came.items()):
        classes = run.classes.get(f"{host}-eth0")
        counters = None if classes is None else classes.get(CONTROL_CLASS)
        packets = 0 if counters is None else counters.packets
        if classes is not None and packets < came_bytes // ACKNOWLEDGED_BYTES:
            wrong.append(
                f"the queue of {host} counted {packets} packets in the control class, though {came_bytes} bytes came, "
                "so that its acknowledgements were in another class"
            )
    return wrong


def _share(true: Sequence[bool]) -> float | None:
    return sum(true) / len(true) if true else None


def _stray_marks(record: RunRecord, packets: Mapping[FlowKey, FlowPackets]) -> tuple[int, int]:
    """Bytes that arrived with a mark never decided for their flow, and all bytes that arrived."""
    decided: dict[FlowKey, set[int]] = {}
    for decision in record.decisions:
        for key, dscp in decision.marks:
            decided.setdefault(key, set()).add(dscp)
    stray = arrived = 0
    for key, seen in packets.items():
        for dscp, size in seen.dscp.items():
            arrived += size
            stray += 0 if dscp in decided.get(key, ()) else size
    return stray, arrived


def _stray_classes(
    run: RunOutcome, record: RunRecord, unit: Literal["bytes", "packets"], unscheduled: bool
) -> tuple[int, float]:
    """Bytes or packets (`unit`) in data classes that no decision ever named, and their share of all classes'."""
    decided = {CONTROL_CLASS} | {class_of_dscp(dscp) for d in record.decisions for _, dscp in d.marks}
    decided |= {DEFAULT_CLASS} if unscheduled else set()
    stray = counted = 0
    for classes in run.classes.values():
        for number, counters in classes.items():
            count = getattr(counters, unit)
            counted += count
            stray += 0 if number in decided else count
    return stray, stray / counted if counted else 0.0


def _early(flows: Sequence[FlowRecord], packets: Mapping[FlowKey, FlowPackets]) -> list[str]:
    """In words, the first flows whose packets were where they could not be yet."""
    wrong = []
    for f in flows:
        seen = packets.get((f.job, f.iteration, f.flow))
        if seen is None or seen.start_s is None:
            continue
        name = words_of((f.job, f.iteration, f.flow))
        if seen.start_s < f.release_s - CLOCKS_AGREE_S:
            wrong.append(f"{name} left {f.release_s - seen.start_s:.3f} s before it was released")
        elif seen.came_s is not None and seen.came_s < seen.start_s - CLOCKS_AGREE_S:
            wrong.append(f"{name} came {seen.start_s - seen.came_s:.3f} s before it had left")
    return first_of(wrong)


def _wrong_bytes(flows: Sequence[FlowRecord], packets: Mapping[FlowKey, FlowPackets]) -> list[str]:
    """In words, the first flows whose bytes asked for, sent, received and seen in packets are not all equal."""
    wrong = []
    for f in flows:
        seen = packets.get((f.job, f.iteration, f.flow))
        counts = {"sent": f.sent_bytes, "received": f.received_bytes}
        if seen is not None:
            counts["in packets"] = seen.unique_bytes
            if seen.source_bytes is not None:
                counts["in packets at the source"] = seen.source_bytes
        if any(count != f.size_bytes for count in counts.values()):
            told = ", ".join(f"{count} {what}" for what, count in counts.items())
            wrong.append(f"{words_of((f.job, f.iteration, f.flow))}: {f.size_bytes} bytes asked for, {told}")
    return first_of(wrong)
