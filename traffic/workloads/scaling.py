"""Similarity scaling: a fast cluster's job on a slow emulated network, every ratio kept.

With bandwidth divided by b and time stretched by s, computations take s times as long and flows carry s/b times the
bytes. So every flow takes s times as long too (docs/design.md, "Similarity scaling"). What does not scale (round trips,
segments, decision latency) is why a job is described in both clocks.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass

from echelonflow.bounds import LEAST_FACTOR, MOST_FACTOR
from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, JobDag, Step, Transfer, iteration_times_without_network
from echelonflow.model.discipline import Discipline
from echelonflow.model.units import format_duration, format_size

SHORT_FLOW_S = 0.05
"""Flows that take less than this on the emulated link are shorter than what decisions and TCP need."""
SEGMENT_BYTES = 1460


@dataclass(frozen=True)
class Description:
    """What to tell a reader of results: facts, and warnings that limit what they show."""

    facts: tuple[str, ...]
    warnings: tuple[str, ...]


def scale(job_dag: JobDag, *, bandwidth: float, time: float) -> JobDag:
    """`job_dag` for links `bandwidth` times slower and a clock stretched by `time` (InputError beyond the bounds of factors).

    Sizes are rounded to whole bytes, at least one.
    """
    for name, value in (("bandwidth", bandwidth), ("time", time)):
        if not LEAST_FACTOR <= value <= MOST_FACTOR:
            raise InputError(f"scaling.{name}: {value:g} is not a number from {LEAST_FACTOR:g} to {MOST_FACTOR:,.0f}")

    def scaled(step: Step) -> Step:
        if isinstance(step, Compute):
            return Compute(step.name, step.rank, step.duration_s * time, step.after, step.kind)
        size_bytes = max(round(step.size_bytes * time / bandwidth), 1)
        return Transfer(step.name, step.src_rank, step.dst_rank, size_bytes, step.coflow, step.after)

    return job_dag.with_values(
        tuple(scaled(step) for step in job_dag.steps),
        tuple(
            dataclasses.replace(group, offsets_s=tuple(offset * time for offset in group.offsets_s))
            for group in job_dag.groups
        ),
        {**job_dag.parameters, "scaling": {"bandwidth": bandwidth, "time": time}},
    )


def scale_discipline(discipline: Discipline, *, bandwidth: float, time: float) -> Discipline:
    """The same discipline for a job that `scale` made smaller: bytes of tasks and of the window, at least one."""

    def scaled(size_bytes: int) -> int:
        return max(round(size_bytes * time / bandwidth), 1)

    window, credit_bytes = discipline.window, discipline.window.credit_bytes
    if credit_bytes is not None:
        window = dataclasses.replace(window, credit_bytes=scaled(credit_bytes))
    tasks = tuple(dataclasses.replace(task, size_bytes=scaled(task.size_bytes)) for task in discipline.tasks)
    return dataclasses.replace(discipline, window=window, tasks=tasks)


def describe(
    original: JobDag,
    scaled: JobDag,
    *,
    bandwidth: float,
    time: float,
    payload_Bps: float,
    round_trip_s: float = 0.001,
    original_round_trip_s: float = 0.00002,
) -> Description:
    """Flow sizes in segments and round trips, and times, of a job in both clocks.

    `payload_Bps` is the emulated link's payload rate; the original's is `bandwidth` times as much. Round trips
    are assumptions of either network without load, in seconds, and are named as such.
    """
    emulated = _clock("emulated clock", scaled, payload_Bps, round_trip_s)
    facts = [emulated]
    if (bandwidth, time) != (1, 1):
        what = f"similarity scaling: bandwidth divided by {bandwidth:g}, time stretched by {time:g}"
        effect = f"computations x {time:g}, bytes x {time / bandwidth:g}"
        before = _clock("original clock", original, payload_Bps * bandwidth, original_round_trip_s)
        facts = [f"{what}; {effect}", emulated, before]
    short = [t for t in scaled.transfers if t.size_bytes / payload_Bps < SHORT_FLOW_S]
    warnings = []
    if short:
        least = min(short, key=lambda t: t.size_bytes)
        warnings.append(
            f"{len(short)} of {len(scaled.transfers)} flows take less than {format_duration(SHORT_FLOW_S)} on the link, "
            f"the least ({least.name}) {format_duration(least.size_bytes / payload_Bps)}: what a decision and TCP's start "
            f"cost weighs more than it would in the original; stretch time more"
        )
    return Description(tuple(facts), tuple(warnings))


def _clock(title: str, job_dag: JobDag, payload_Bps: float, round_trip_s: float) -> str:
    alone = f"iteration without network {format_duration(iteration_times_without_network(job_dag, 1)[0])}"
    if not job_dag.transfers:
        return f"{title}: no flows; {alone}"
    sizes = [t.size_bytes for t in job_dag.transfers]
    low, high = min(sizes), max(sizes)

    def between(what: str, a: str, b: str) -> str:
        return f"{a}{what}" if a == b else f"{a} to {b}{what}"

    return f"{title}: {len(sizes)} flows per iteration of " + ", ".join(
        [
            between("", format_size(low), format_size(high)),
            between(" segments", *(f"{math.ceil(s / SEGMENT_BYTES):,}" for s in (low, high))),
            between(" on an idle link", *(format_duration(s / payload_Bps) for s in (low, high))),
            between(
                f" round trips of {format_duration(round_trip_s)} (assumed)",
                *(f"{s / payload_Bps / round_trip_s:,.0f}" for s in (low, high)),
            ),
            alone,
        ]
    )
