"""From a `job_trace` entry in an experiment file to the jobs that it names, which arrive as in the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from echelon.experiment.files import find_file
from echelon.experiment.specs import JobTraceSpec
from echelonflow.errors import InputError, about
from echelonflow.model.dag import Job, JobDag
from echelonflow.model.draws import Draws
from echelonflow.model.network import Network
from echelonflow.model.units import format_duration, format_rate, parse_rate_bps, payload_rate_Bps
from echelonflow.options import bind
from echelonflow.records.manifest import JobNotes
from traffic.workloads import job_traces
from traffic.workloads.job_patterns import dag_of
from traffic.workloads.job_traces import JobTrace, TracedJob
from traffic.workloads.trace_cut import cut, load

BESIDE = ("cut", "format", "file", "jobs", "most_iterations", "pattern", "rate", "speed_up")


@dataclass(frozen=True)
class Wanted:
    """What is the same of all jobs of a trace."""

    name: str
    weight: float
    draws: Draws | None


def build_job_trace(wanted: Wanted, spec: JobTraceSpec, folder: Path, network: Network) -> tuple[list[Job], JobNotes]:
    """The jobs that `spec` asks for, without placements, and notes on them; a file's name is relative to `folder`.

    Raises InputError, one line per fault: an option that is wrong, a file that is not there, a bad line in it.
    """
    module = about("format", lambda: job_traces.load(spec.format))
    options = bind(module.read, dict(spec.model_extra or {}), given=("path",), beside=BESIDE)
    line_bps = about("rate", lambda: parse_rate_bps(spec.rate))
    rate_Bps = payload_rate_Bps(line_bps, network.mtu_bytes)
    if not rate_Bps > 0:
        raise InputError(f"rate: {spec.rate!r} must be greater than 0")
    try:
        path = find_file(spec.file, folder)
    except InputError as error:
        raise InputError(f"{error}; {module.SOURCE}") from None
    trace = job_traces.read(spec.format, path, options)
    chosen, dropped = cut(
        trace.jobs,
        most_jobs=spec.jobs,
        cut=spec.cut,
        most_iterations=spec.most_iterations,
        speed_up=spec.speed_up,
    )
    jobs = _made(wanted, chosen, spec.pattern, rate_Bps)
    how = (
        f"ranks communicate by {spec.pattern}, in the trace's network time if alone on links of {format_rate(line_bps)}"
    )
    return jobs, _notes(wanted.name, trace, chosen, dropped, how)


def _made(wanted: Wanted, chosen: Sequence[TracedJob], pattern: str, rate_Bps: float) -> list[Job]:
    dags: dict[tuple[str, int, float, float], JobDag] = {}
    found = []
    for job in chosen:
        kind = (job.model, job.gpus, job.iteration_s, job.network_s)
        if kind not in dags:
            dags[kind] = dag_of(job, pattern, rate_Bps)
        found.append(
            Job(
                f"{wanted.name}-{job.name}", dags[kind], (), job.iterations, wanted.weight, job.arrival_s,
                draws=wanted.draws,
            )
        )  # fmt: skip
    return found


def _notes(name: str, trace: JobTrace, chosen: Sequence[TracedJob], dropped: Sequence[str], how: str) -> JobNotes:
    several = sum(job.gpus > 1 for job in chosen)
    span_s = chosen[-1].arrival_s - chosen[0].arrival_s
    kept, before = load(chosen), load(trace.jobs)
    facts = (
        f"{len(chosen):,} jobs of {trace.name}, {several:,} of them with more than one GPU, in {format_duration(span_s)}",
        f"{sum(job.iterations for job in chosen):,} iterations in all, {sum(job.work_s for job in chosen):.4g} GPU seconds",
    )
    account = (
        "all arrive at once"
        if kept is None or before is None
        else f"load {before:.4g} GPUs in the trace, {kept:.4g} here"
    )
    lines = [
        *_listed("read", facts),
        *_listed("dropped", dropped or ("nothing",)),
        *_listed("assumed", (*trace.assumed, how)),
        *_listed("account", (account,)),
    ]
    return JobNotes(name, imported=tuple(lines), dropped=tuple(dropped))


def _listed(title: str, entries: Sequence[str]) -> list[str]:
    return [f"{title if place == 0 else '':9}{entry}" for place, entry in enumerate(entries)]
