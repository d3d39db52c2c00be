"""Whether a run may be believed: limits on its fidelity, and in words which of them it broke."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from echelonflow.errors import InputError
from echelonflow.records.calibration import Calibration
from results.analysis.fidelity import Fidelity


@dataclass(frozen=True, slots=True)
class Limits:
    """What a valid run keeps; an experiment may change each (`emulation.limits`). Shares are 0 .. 1."""

    max_link_error: float = 0.03
    """Calibrated payload rate off its declaration: beyond this every transfer time is wrong by as much, which is
    the accuracy that results are to have."""
    max_cpu_busy: float = 0.95
    """Mean over the run, all cores. Above this, agents and switch wait for each other's turns."""
    max_switch_thread_busy: float = 0.90
    """Mean over the run of Open vSwitch's busiest thread. A saturated switch forwards slower than its queues say,
    and idle cores beside it hide that."""
    max_late_p99_s: float = 0.005
    """Compute steps end late by less, 99 of 100: a tenth of the shortest flow that is not warned about (50 ms)."""
    max_late_share: float = 0.02
    """The latest compute step, as a share of its rank's work per iteration: it delays the iteration by as much."""
    max_queue_drop_share: float = 0.02
    """Packets that queues dropped. TCP fills a queue until it drops, so drops are normal; beyond this share
    it is in recovery for much of the time and rates are no longer the network's."""
    max_capture_drops: float = 0.0
    """Packets that a capture missed: with any, bytes cannot be counted."""
    max_stray_share: float = 0.01
    """Bytes in a class that nobody decided (in packets, and in queue counters). A flow's first segments can pass
    while its first rule is on the way to the switch; more means that decisions are not what was measured."""
    max_stray_packet_share: float = 0.05
    """Packets, of any size, in a data class that nobody decided. Acknowledgements that are not in the control class are
    10 to 20 % of all packets and few of the bytes. Behind all data they starve, and with them the flows that they
    acknowledge."""
    max_log_pcap_median_s: float = 0.002
    """Flow finish by the agent's log and by packets, median: both are used, so both must tell the same story."""
    max_log_pcap_p99_s: float = 0.010
    """The same, 99th percentile."""

    @staticmethod
    def with_changes(changes: Mapping[str, float]) -> Limits:
        """The default limits with some changed (InputError for an unknown name or an impossible value)."""
        known = [field.name for field in dataclasses.fields(Limits)]
        for name, value in changes.items():
            if name not in known:
                raise InputError(f"there is no limit {name!r}; there is: {', '.join(known)}")
            if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isnan(value) or value < 0:
                raise InputError(f"limit {name} is {value!r}; a limit is a number that is not negative")
        return Limits(**{name: float(value) for name, value in changes.items()})

    def to_dict(self) -> dict[str, float]:
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class _Rule:
    """A measure, the limit it must not exceed, and what to say when it does."""

    measure: str
    limit: str
    text: str


_RULES = (
    _Rule(
        "cpu_busy",
        "max_cpu_busy",
        "the machine's processors were busy {value:.0%} of the time (limit {limit:.0%}): "
        "end other work, or scale the experiment down (lower rate, fewer hosts)",
    ),
    _Rule(
        "switch_thread_busy",
        "max_switch_thread_busy",
        "Open vSwitch's busiest thread was busy {value:.0%} of the time (limit {limit:.0%}): "
        "lower the link rate, use larger segments (tso), or the kernel datapath",
    ),
    _Rule(
        "late_p99_s",
        "max_late_p99_s",
        "one compute step in a hundred ended {value_ms:.1f} ms late or more (limit {limit_ms:.1f} ms): "
        "end other work, or stretch time (scaling)",
    ),
    _Rule(
        "late_max_share",
        "max_late_share",
        "a compute step ended late by {value:.1%} of its rank's work per iteration (limit {limit:.1%}): "
        "end other work, or stretch time (scaling)",
    ),
    _Rule(
        "queue_drop_share",
        "max_queue_drop_share",
        "queues dropped {value:.2%} of the packets (limit {limit:.2%}): "
        "use fewer connections per link or a higher link rate",
    ),
    _Rule(
        "capture_drops",
        "max_capture_drops",
        "captures missed {value:.0f} packets (limit {limit:.0f}): lower the link rate or use larger segments (tso)",
    ),
    _Rule(
        "stray_dscp_share",
        "max_stray_share",
        "{value:.1%} of the bytes arrived with a mark that was never decided for their flow (limit {limit:.1%}): "
        "see decisions.jsonl and logs/controller.log",
    ),
    _Rule(
        "stray_class_share",
        "max_stray_share",
        "{value:.1%} of the bytes in queues were in a class that was never decided (limit {limit:.1%}): "
        'see "classes" in run.json and logs/controller.log',
    ),
    _Rule(
        "stray_class_packet_share",
        "max_stray_packet_share",
        "{value:.0%} of the packets in queues were in a data class that was never decided (limit {limit:.0%}): "
        'acknowledgements in such a class starve; see "classes" in run.json',
    ),
    _Rule(
        "log_pcap_median_s",
        "max_log_pcap_median_s",
        "flows ended {value_ms:.2f} ms apart by log and by packets in the median (limit {limit_ms:.2f} ms): "
        "the machine is too busy, or its clock was set during the run",
    ),
    _Rule(
        "log_pcap_p99_s",
        "max_log_pcap_p99_s",
        "one flow in a hundred ended {value_ms:.2f} ms or more apart by log and by packets "
        "(limit {limit_ms:.2f} ms): the machine is too busy, or its clock was set during the run",
    ),
)


def judge(fidelity: Fidelity, limits: Limits) -> list[str]:
    """Why a run is invalid: what was measured, the limit, and what to do. Empty if it is valid."""
    reasons = []
    if not fidelity.completed:
        reasons.append(f"the run did not end: {fidelity.failure or 'no reason was recorded'}; what it left is kept")
    for rule in _RULES:
        value, limit = getattr(fidelity, rule.measure), getattr(limits, rule.limit)
        if value is not None and value > limit:
            reasons.append(rule.text.format(value=value, limit=limit, value_ms=value * 1e3, limit_ms=limit * 1e3))
    return reasons + _counts(fidelity)


def _counts(f: Fidelity) -> list[str]:
    """Sums that must agree exactly."""
    reasons = [f"{wrong}: packets cannot be checked; see logs/" for wrong in f.captures_wrong]
    if f.flows_finished < f.flows_asked:
        reasons.append(
            f"{f.flows_finished} of {f.flows_asked} flows finished (all must); see agents/*.jsonl and logs/agent-*.log"
        )
    if f.bytes_wrong:
        told = "; ".join(f.bytes_wrong)
        reasons.append(f"bytes do not agree (all must): {told}; see agents/*.jsonl and the captures")
    if f.cpu_busy is None or f.switch_thread_busy is None:
        reasons.append("load was not measured, so saturation cannot be ruled out; see logs/")
    return reasons


def judge_calibration(calibration: Calibration | None, run_index: int, limits: Limits) -> list[str]:
    """Why the network of a run was not the one declared (calibration.json); empty if it was."""
    if calibration is None:
        return ["links were not calibrated: nothing says that the network is what was declared; see logs/"]
    return [
        f"{link.kind} links ({link.path}) carried {link.error:+.1%} of what they declare "
        f"(limit {limits.max_link_error:.0%}): end other work or lower the link rate; see calibration.json"
        for link in calibration.of_run(run_index).off(limits.max_link_error)
    ]


def judge_completeness(found: Sequence[tuple[str, int]], policies: Sequence[str], repeats: int) -> list[str]:
    """Why the runs found, as (policy, repeat), are not all that were asked for."""
    missing = [f"{p} repeat {r}" for r in range(repeats) for p in policies if (p, r) not in set(found)]
    if not missing:
        return []
    named = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
    return [f"{len(missing)} of {len(policies) * repeats} runs are missing: {named}"]
