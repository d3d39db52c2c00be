"""Counts of what the controller does, and their text form for Prometheus.

Text exposition format 0.0.4: `# HELP`, `# TYPE`, then `name{label="value"} number`, one a line.

Written by hand: prometheus_client takes three times as long per request (170 against 50 us), on the thread that decides,
and 70 ms of CPU at the start. Its parser reads this text in a test.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from echelonflow.records.run_record import DecisionRecord
from echelonflow.wire.live import JobLive
from echelonflow.wire.rest import Status

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
DECISION_BUCKETS_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)


@dataclass
class Counters:
    """What has happened since the controller started; numbers only go up."""

    messages: int = 0
    refused: int = 0
    rules: int = 0
    swaps: int = 0
    swaps_refused: int = 0
    fallbacks: int = 0
    plans: int = 0
    decisions: int = 0
    decision_s: float = 0.0
    decisions_ahead: int = 0
    corrected: int = 0
    """Flows that were decided ahead, and differently at their release."""
    requests: dict[int, int] = field(default_factory=dict)
    """REST requests by status code."""
    _buckets: list[int] = field(default_factory=lambda: [0] * (len(DECISION_BUCKETS_S) + 1))

    def decision(self, record: DecisionRecord) -> None:
        """Count a decision: one ahead of time apart, as nobody waited for it."""
        if record.ahead:
            self.decisions_ahead += 1
            return
        self.corrected += len(record.corrected)
        total_s = record.total_ms / 1e3
        self.decisions += 1
        self.decision_s += total_s
        self._buckets[bisect.bisect_left(DECISION_BUCKETS_S, total_s)] += 1

    def request(self, status: int) -> None:
        """Count a REST request that was answered with `status`."""
        self.requests[status] = self.requests.get(status, 0) + 1

    def cumulative(self) -> list[tuple[str, int]]:
        """(upper bound in seconds, decisions that took no longer) of every bucket, as Prometheus wants them."""
        found, total = [], 0
        for bound, count in zip((*map(str, DECISION_BUCKETS_S), "+Inf"), self._buckets, strict=True):
            total += count
            found.append((bound, total))
        return found


def exposition(counters: Counters, status: Status, jobs: Sequence[JobLive] = ()) -> str:
    """All metrics as text; `status` is the coordinator's, and `jobs` are those of its run."""
    text: list[str] = []

    def metric(name: str, kind: str, words: str, *samples: tuple[str, float]) -> None:
        text.extend((f"# HELP echelon_{name} {words}", f"# TYPE echelon_{name} {kind}"))
        text.extend(f"echelon_{name}{labels} {value:.10g}" for labels, value in samples)

    run = status.run
    metric("messages_total", "counter", "Messages from agents, clients and the runner.", ("", counters.messages))
    metric("messages_refused_total", "counter", "Messages that were refused.", ("", counters.refused))
    metric("rules_total", "counter", "Flow rules sent to switches.", ("", counters.rules))
    metric(
        "decisions_ahead_total",
        "counter",
        "Decisions ahead of releases that were told.",
        ("", counters.decisions_ahead),
    )
    metric("corrected_total", "counter", "Flows decided ahead, and differently at release.", ("", counters.corrected))
    metric("policy_swaps_total", "counter", "Policies swapped in while running.", ("", counters.swaps))
    metric("plans_total", "counter", "Plans of a policy that looks ahead that were put in force.", ("", counters.plans))
    metric("policy_swaps_refused_total", "counter", "Policies that were not swapped in.", ("", counters.swaps_refused))
    metric("policy_fallbacks_total", "counter", "Policies that failed and gave way.", ("", counters.fallbacks))
    requests = [(_labels(code=str(code)), count) for code, count in sorted(counters.requests.items())]
    metric("http_requests_total", "counter", "REST requests by status code.", *requests)
    metric("clients", "gauge", "Connected agents, clients and runners.", ("", status.clients))
    switches = status.switches
    metric("switches_connected", "gauge", "Connected switches.", ("", len(switches.connected)))
    metric("switches_ready", "gauge", "Connected switches that have confirmed their rules.", ("", len(switches.ready)))
    metric("run_active", "gauge", "1 while a run is in progress.", ("", float(run is not None)))
    metric("groups", "gauge", "Groups (EchelonFlows) declared in the run.", ("", 0 if run is None else run.groups))
    metric(
        "flows_in_flight", "gauge", "Flows released and not finished.", ("", 0 if run is None else run.flows_in_flight)
    )
    if run is not None:
        labels = _labels(policy=run.policy, enforcer=run.enforcer)
        metric("policy_info", "gauge", "The policy in force, as labels.", (labels, 1))
    for name, kind, help_words, value_of in _OF_JOBS if jobs else ():
        metric(name, kind, help_words, *((_labels(job=job.job), value_of(job)) for job in jobs))
    words = "Seconds from the first event to the settings that it led to."
    buckets = [(f"_bucket{_labels(le=bound)}", count) for bound, count in counters.cumulative()]
    metric(
        "decision_seconds", "histogram", words, *buckets, ("_sum", counters.decision_s), ("_count", counters.decisions)
    )
    return "\n".join(text) + "\n"


_OF_JOBS: Sequence[tuple[str, str, str, Callable[[JobLive], float]]] = (
    ("job_iteration", "gauge", "The latest iteration of which a flow was released.", lambda job: job.iteration),
    ("job_flows_in_flight", "gauge", "Flows of a job that are in flight.", lambda job: job.flows_in_flight),
    (
        "job_late_seconds",
        "gauge",
        "The most that a flow in flight is past its ideal finish.",
        lambda job: job.late_s or 0.0,
    ),
    ("job_groups_ended_total", "counter", "Groups whose flows have all ended.", lambda job: job.ended_groups),
    ("job_tardiness_seconds_total", "counter", "Tardiness of groups that have ended.", lambda job: job.tardiness_s),
)


def _labels(**labels: str) -> str:
    escaped = (
        f'{name}="{value}"'
        for name, value in (
            (name, value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n"))
            for name, value in labels.items()
        )
    )
    return "{" + ",".join(escaped) + "}"
