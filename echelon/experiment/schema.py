"""Experiment files: YAML in, a checked `Experiment` out, every fault reported at once.

A fault is named by its path in the file (`jobs.0.stages`), with what is wrong and what would be right.
Structure is checked by pydantic (`echelon.experiment.specs`); options of topologies and paradigms by
`echelonflow.options`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from echelon.experiment.faults import build_fault, overlaps
from echelon.experiment.jobs import build_dag
from echelon.experiment.specs import EmulationSpec, ExperimentSpec, JobSpec, TraceSpec
from echelon.experiment.trace_jobs import build_trace
from echelon.experiment.yaml_file import read_mapping
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.model.dag import Job
from echelonflow.model.faults import Fault
from echelonflow.model.network import Network
from echelonflow.model.tcp import congestion_control
from echelonflow.model.units import parse_duration_s
from echelonflow.options import bind
from echelonflow.records.manifest import JobNotes
from echelonflow.scheduling import policies
from results.analysis.verdict import Limits
from simulator.realism import EXACT, Realism


@dataclass(frozen=True)
class Experiment:
    """A checked experiment: everything in it can be run."""

    name: str
    title: str
    path: Path
    network: Network
    jobs: tuple[Job, ...]
    policies: tuple[str, ...]
    repeats: int
    seed: int
    emulation: EmulationSpec
    limits: Limits
    time_unit_s: float | None
    """What the experiment calls one unit of time; results can be shown in it."""
    notes: tuple[JobNotes, ...]
    source: dict[str, Any] = field(repr=False)
    trace: CoflowTrace | None = field(default=None, repr=False)
    """The Coflows to simulate; there are no `jobs` then."""
    realism: Realism = EXACT
    """What every simulation of this experiment takes into account."""
    faults: tuple[Fault, ...] = ()
    """What is planned to go wrong in every run, in order of time."""
    enforcers: Mapping[str, str] = field(default_factory=dict)
    """Policy to what enforces it by its own account. Asked once: a user's file takes a process to ask."""

    def enforcer_of(self, policy: str) -> str:
        """The enforcer for a policy: the experiment's, or with `auto` the policy's own."""
        chosen = self.emulation.enforcer
        if chosen != "auto":
            return chosen
        return self.enforcers.get(policy) or policies.enforcer_of(policy)


def load(path: Path, override: dict[str, Any] | None = None) -> Experiment:
    """Read and check an experiment file; `override` replaces top-level keys (from the command line).

    Where an override is a mapping, only the keys in it are replaced. Raises InputError with one line per fault.
    """
    data = read_mapping(path)
    for key, value in (override or {}).items():
        if not isinstance(value, dict):
            data[key] = value
        elif isinstance(data.setdefault(key, {}), dict):  # anything else is a fault of the file, which check() reports
            data[key].update(value)
    return check(data, path)


def check(data: dict[str, Any], path: Path) -> Experiment:
    """The Experiment that `data` (as read from `path`) describes; InputError listing every fault."""
    try:
        spec = ExperimentSpec.model_validate(data)
    except ValidationError as error:
        raise InputError(_listing(path, [_fault_text(e) for e in error.errors()])) from None
    faults: list[str] = []
    network = _network(spec, faults)
    jobs: list[Job] = []
    notes: list[JobNotes] = []
    traces: list[CoflowTrace] = []
    for i, job_spec in enumerate(spec.jobs):
        if job_spec.trace is not None:
            _add_trace(i, job_spec, job_spec.trace, path.parent, network, traces, notes, faults)
        else:
            _add_job(i, job_spec, path.parent, network, jobs, notes, faults)
    if len(spec.jobs) > 1 and any(job.trace is not None for job in spec.jobs):
        faults.append("jobs: a trace is simulated by itself; put the other jobs into an experiment of their own")
    names = [job.name for job in spec.jobs]
    faults += [f"jobs: two jobs are called {n!r}" for n in sorted({n for n in names if names.count(n) > 1})]
    enforcers = {
        text: _collect(faults, f"policies.{i}", lambda text=text: policies.enforcer_of(text))
        for i, text in enumerate(spec.policies)
    }
    if len(set(spec.policies)) != len(spec.policies):
        faults.append("policies: one is listed twice")
    limits = _collect(faults, "emulation.limits", lambda: Limits.with_changes(spec.emulation.limits))
    unit_s = _collect(faults, "time_unit", lambda: parse_duration_s(spec.time_unit) if spec.time_unit else None)
    _collect(faults, "emulation.congestion_control", lambda: congestion_control(spec.emulation.congestion_control))
    _collect(faults, "emulation.progress_interval", lambda: parse_duration_s(spec.emulation.progress_interval))
    realism = _collect(faults, "fluid", spec.fluid.realism)
    planned = _planned_faults(spec, network, jobs, faults)
    if faults or network is None or limits is None:
        raise InputError(_listing(path, faults))
    return Experiment(
        spec.name, spec.title or spec.name, path, network, tuple(jobs), tuple(spec.policies), spec.repeats,
        spec.seed, spec.emulation, limits, unit_s, tuple(notes), data,
        trace=traces[0] if traces else None, realism=realism, faults=planned, enforcers=enforcers,
    )  # fmt: skip


def _network(spec: ExperimentSpec, faults: list[str]) -> Network | None:
    name, options = spec.network.topology, spec.network.model_extra or {}

    def build() -> Network:
        return topologies.build(name, bind(topologies.load(name).build, options))

    network: Network | None = _collect(faults, "network", build)
    return network


def _planned_faults(
    spec: ExperimentSpec, network: Network | None, jobs: Sequence[Job], faults: list[str]
) -> tuple[Fault, ...]:
    """What `faults:` plans; mistakes in it are added to `faults`."""
    if spec.faults and any(job.trace is not None for job in spec.jobs):
        faults.append("faults: do not go with a trace of Coflows; describe the jobs behind it by a paradigm")
    if network is None or faults:  # hosts and links of what is at fault itself cannot be checked
        return ()
    built = [
        _collect(faults, f"faults.{i}", lambda f=f: build_fault(f, network, jobs)) for i, f in enumerate(spec.faults)
    ]
    if any(fault is None for fault in built):
        return ()
    faults += overlaps(built)
    return tuple(sorted(built, key=lambda fault: fault.at_s))


def _add_job(
    index: int,
    spec: JobSpec,
    folder: Path,
    network: Network | None,
    jobs: list[Job],
    notes: list[JobNotes],
    faults: list[str],
) -> None:
    where = f"jobs.{index}"
    start_s = _collect(faults, f"{where}.start", lambda: parse_duration_s(spec.start))
    # A job of a network that is at fault is checked all the same, on a link that stands for it.
    link_Bps = min(network.capacity_Bps) if network is not None else 1e6
    built = _collect(faults, where, lambda: build_dag(spec, link_Bps, folder))
    if built is None or start_s is None or network is None:
        return
    dag, note = built
    placement = spec.placement or [network.hosts[rank % len(network.hosts)] for rank in range(dag.ranks)]
    unknown = [host for host in placement if host not in network.hosts]
    if unknown:
        faults.append(f"{where}.placement: unknown host {unknown[0]!r}; there is: {', '.join(network.hosts)}")
        return
    job = _collect(faults, where, lambda: Job(spec.name, dag, tuple(placement), spec.iterations, spec.weight, start_s))
    if job is not None:
        jobs.append(job)
        notes.append(note)


def _add_trace(
    index: int,
    job: JobSpec,
    spec: TraceSpec,
    folder: Path,
    network: Network | None,
    traces: list[CoflowTrace],
    notes: list[JobNotes],
    faults: list[str],
) -> None:
    where = f"jobs.{index}"
    beside = sorted((job.model_fields_set | set(job.model_extra or {})) - {"name", "trace"})
    faults += [f"{where}.{key.rstrip('_')}: does not go with a trace" for key in beside]
    if network is None:
        return
    built = _collect(faults, f"{where}.trace", lambda: build_trace(job.name, spec, folder, network))
    if built is not None:
        traces.append(built[0])
        notes.append(built[1])


def _collect(faults: list[str], where: str, action: Any) -> Any:
    """What `action` returns, or None after adding its InputError to `faults`, one entry per line of it."""
    try:
        return action()
    except InputError as error:
        for line in str(error).split("\n"):
            key, colon, rest = line.partition(": ")
            faults.append(f"{where}.{key}: {rest}" if colon and key.isidentifier() else f"{where}: {line}")
        return None


def _fault_text(error: Any) -> str:
    where = ".".join(map(str, error["loc"])) or "file"
    if error["type"] == "extra_forbidden":
        return f"{where}: unknown key"
    if error["type"] == "missing":
        return f"{where}: missing"
    return f"{where}: {error['msg']} (got {error['input']!r})"


def _listing(path: Path, faults: Sequence[str]) -> str:
    return "\n".join([f"{path}: {len(faults)} fault{'s' if len(faults) != 1 else ''}", *(f"  {f}" for f in faults)])
