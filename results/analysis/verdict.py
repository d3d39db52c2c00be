"""Whether a run may be believed: limits on its fidelity, and in words which of them it broke."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from echelonflow.records.calibration import Calibration, LinkMeasurement
from results.analysis.asked import named
from results.analysis.fidelity import Fidelity
from results.analysis.figures import JobFigures
from results.analysis.limits import Limits
from results.analysis.summary import PolicyPart

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class _Rule:
    """A measure, the limit it must not exceed, and what to say when it does."""

    measure: str
    limit: str
    text: str
    at_least: str = ""
    """A limit that this one is never below: who allows for it all the time allows for it some of the time."""
    by_effect: bool = False
    """Whether its effect is judged instead, where that is known."""
    of_one_end: bool = False
    """Whether it is about the end of a flow or two, so that it moves an iteration by no more than itself."""


_RULES = (
    _Rule(
        "cpu_busy",
        "max_cpu_busy",
        "the machine's processors were busy {value:.0%} of the time (limit {limit:.0%}): "
        "end other work, or scale the experiment down (lower rate, fewer hosts)",
        by_effect=True,
    ),
    _Rule(
        "switch_thread_busy",
        "max_switch_thread_busy",
        "Open vSwitch's busiest thread was busy {value:.0%} of the time (limit {limit:.0%}): "
        "lower the link rate, use larger segments (tso), or the kernel datapath",
        by_effect=True,
    ),
    _Rule(
        "cpu_busy_max",
        "max_cpu_busy_max",
        "all the machine's processors were busy {value:.0%} of two whole seconds (limit {limit:.0%}): "
        "end other work, or scale the experiment down (lower rate, fewer hosts)",
        at_least="max_cpu_busy",
        by_effect=True,
    ),
    _Rule(
        "switch_thread_busy_max",
        "max_switch_thread_busy_max",
        "Open vSwitch's busiest thread was busy {value:.0%} of two whole seconds (limit {limit:.0%}): "
        "lower the link rate, use larger segments (tso), or the kernel datapath",
        at_least="max_switch_thread_busy",
        by_effect=True,
    ),
    _Rule(
        "core_busy",
        "max_core_busy",
        "one processor was busy {value:.0%} of the time (limit {limit:.0%}): end what keeps it busy",
        at_least="max_cpu_busy",
        by_effect=True,
    ),
    _Rule(
        "late_p99_s",
        "max_late_p99_s",
        "one compute step in a hundred ended {value_ms:.1f} ms late or more (limit {limit_ms:.1f} ms): "
        "end other work, or stretch time (scaling)",
        by_effect=True,
    ),
    _Rule(
        "late_max_share",
        "max_late_share",
        "a compute step ended late by {value:.1%} of its rank's work per iteration (limit {limit:.1%}): "
        "end other work, or stretch time (scaling)",
        by_effect=True,
    ),
    _Rule(
        "queue_drop_share",
        "max_queue_drop_share",
        "queues dropped {value:.2%} of the packets (limit {limit:.2%}): "
        "use fewer connections per link or a higher link rate",
        by_effect=True,
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
        "disobedient_share",
        "max_disobedient_share",
        "{value:.1%} of the bytes arrived with another mark than was in force for their flow (limit {limit:.1%}): "
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
        of_one_end=True,
    ),
)


_SHARES = (
    "cpu_busy",
    "cpu_busy_max",
    "switch_thread_busy",
    "switch_thread_busy_max",
    "core_busy",
    "cpu_stolen",
    "cpu_others",
)


def judge(
    fidelity: Fidelity,
    limits: Limits,
    accounted_for: Collection[str] = (),
    *,
    explained: bool = False,
    no_matter_s: float = 0.0,
) -> list[str]:
    """Why a run is invalid: what was measured, the limit, and what to do. Empty if it is valid.

    Measures that planned faults account for have no limit. Nor have those whose effect is known, where the run's times are
    `explained`: `judge_effects` says what that is. A time of up to `no_matter_s` is not told from none in any iteration.
    """
    reasons = []
    if not fidelity.completed:
        reasons.append(f"the run did not end: {fidelity.failure or 'no reason was recorded'}; what it left is kept")
    for rule in _RULES:
        if explained and rule.by_effect:
            continue
        value = getattr(fidelity, rule.measure)
        limit = max(getattr(limits, name) for name in (rule.limit, rule.at_least) if name)
        if rule.of_one_end:
            limit = max(limit, no_matter_s)
        if value is not None and value > limit and rule.measure not in accounted_for:
            reasons.append(rule.text.format(value=value, limit=limit, value_ms=value * 1e3, limit_ms=limit * 1e3))
    carried = fidelity.link_carried_share
    if not explained and carried is not None and not abs(carried - 1) <= limits.max_carried_error:
        reasons.append(
            f"link {fidelity.link_waited_for} carried {carried:.0%} of what it declares while flows waited for it "
            f"(limit {limits.max_carried_error:.0%} off): it changed after it was calibrated, or was not; end other work"
        )
    for name in _SHARES:
        value = getattr(fidelity, name)
        if value is not None and not 0 <= value <= 1:
            reasons.append(f"{name} is {value:g}, which is no share: see run.json")
    return reasons + _counts(fidelity)


def _counts(f: Fidelity) -> list[str]:
    """Sums that must agree exactly."""
    reasons = [f"{wrong}: packets cannot be checked; see logs/" for wrong in f.captures_wrong]
    reasons += [f'{wrong}; see "classes" in run.json' for wrong in f.counters_wrong]
    if f.computes_missing:
        reasons.append(
            f"{f.computes_finished} of {f.computes_asked} computations finished (all must): there is no record of "
            f"{', '.join(f.computes_missing)}; see agents/*.jsonl"
        )
    if f.told_twice:
        reasons.append(f"logs tell twice of {named(f.told_twice)}: once is right; see agents/*.jsonl")
    if f.flows_finished < f.flows_asked:
        reasons.append(
            f"{f.flows_finished} of {f.flows_asked} flows finished (all must); see agents/*.jsonl and logs/agent-*.log"
        )
    if f.packets_early:
        told = "; ".join(f.packets_early)
        reasons.append(
            f"captures contradict logs or each other: {told}; the clock was set, or a capture is another run's"
        )
    if f.bytes_wrong:
        told = "; ".join(f.bytes_wrong)
        reasons.append(f"bytes do not agree (all must): {told}; see agents/*.jsonl and the captures")
    if f.cpu_busy is None or f.switch_thread_busy is None:
        reasons.append("load was not measured, so saturation cannot be ruled out; see logs/")
    return reasons


def judge_prediction(
    measured: Mapping[str, JobFigures], predicted: Mapping[str, JobFigures], limits: Limits
) -> list[str]:
    """Why a run is too far from the fluid simulation of its policy to be believed unexplained; empty if it is not."""
    reasons = []
    for job, found in measured.items():
        if job not in predicted:
            reasons.append(f"job {job} was not predicted: nothing says how long it should take; see prediction.json")
            continue
        expected_s = predicted[job].iteration_s
        off = found.iteration_s / expected_s - 1 if expected_s > 0 else math.inf
        if not abs(off) <= limits.max_prediction_error:
            reasons.append(
                f"iterations of job {job} took {found.iteration_s:.3f} s, {off:+.0%} off the {expected_s:.3f} s "
                f"predicted (limit {limits.max_prediction_error:.0%}): the network or the hosts were not what was "
                "declared, or the job stands on an edge (ARCHITECTURE.md, Comparisons)"
            )
    return reasons


def judge_swaps(parts: Sequence[PolicyPart]) -> list[str]:
    """That policies were swapped in mid-run, so that the run is nobody's; empty where none was."""
    if len(parts) < 2:
        return []
    told = ", ".join(f"{part.policy} at {part.since_s:.3f} s" for part in parts[1:])
    return [f"the policy was swapped in mid-run ({told}): it counts for neither; summary.json has both parts"]


def judge_calibration(
    calibration: Calibration | None,
    run_index: int,
    limits: Limits,
    hosts: Collection[str] = (),
    *,
    explained: bool = False,
) -> list[str]:
    """Why the network of a run was not the one declared (calibration.json); empty if it was.

    `hosts` are those that take part: where it is known which links were measured, theirs must be among them. Where the
    run's times are `explained`, links that are off count by their effect.
    """
    attempt = None if calibration is None else calibration.of_run(run_index)
    if attempt is None or not attempt.links:
        return ["links were not calibrated: nothing says that the network is what was declared; see logs/"]
    reasons = [
        f"{link.kind} links ({link.path}) carried {link.error:+.1%} of what they declare "
        f"(limit {limits.max_link_error:.0%}): end other work or lower the link rate; see calibration.json"
        for link in ([] if explained else attempt.off(limits.max_link_error))
    ]
    told = [link for link in attempt.links if not _adds_up(link)]
    reasons += [f"calibration.json contradicts itself on {link.path}" for link in told]
    measured = {name for link in attempt.links for name in link.links}
    ends = {end for name in measured for end in name.partition("#")[0].split("->")}
    unmeasured = sorted(set(hosts) - ends) if measured else []
    if unmeasured:
        reasons.append(f"the links of {named(unmeasured)} were not calibrated; see calibration.json")
    return reasons


def _adds_up(link: LinkMeasurement) -> bool:
    """Whether the error of a measurement is that of its rates."""
    return link.declared_Bps > 0 and abs(link.measured_Bps / link.declared_Bps - 1 - link.error) < _ROUNDING


def judge_completeness(found: Sequence[tuple[str, int]], given: Mapping[str, int]) -> list[str]:
    """Why the runs found, as (policy, repeat), are not those that were to be made: so many of each policy as `given`."""
    there, asked = set(found), sum(given.values())
    strange = sorted({f"{p} repeat {r}" for p, r in there if not 0 <= r < given.get(p, 0)})
    reasons = [f"nobody asked for {named(strange)}"] if strange else []
    if len(there) < len(found):
        reasons.append("a run is there twice")
    number = asked - (len(there) - len(strange))
    if number > 0:
        repeats = range(max(given.values()))
        absent = (f"{p} repeat {r}" for r in repeats for p in given if r < given[p] and (p, r) not in there)
        first = ", ".join(itertools.islice(absent, 5)) + (f" and {number - 5} more" if number > 5 else "")
        reasons.append(f"{number} of {asked} runs are missing: {first}")
    return reasons
