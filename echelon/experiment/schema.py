"""Experiment files: YAML in, a checked `Experiment` out, every fault reported at once.

A fault is named by its line and its path in the file (`jobs.0.stages`), with what is wrong and what would be right.
Structure is checked by pydantic (`echelon.experiment.specs`, in the words of `echelon.experiment.wording`); options of
topologies and paradigms by `echelonflow.options`. What is beyond `echelonflow.bounds` is refused before it is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from controller.enforcers import load as load_enforcer
from echelon.experiment import swept, yaml_file
from echelon.experiment.arrivals import with_arrivals
from echelon.experiment.background import background_job
from echelon.experiment.extent import Extent
from echelon.experiment.fault_lines import LineOf, collect, no_line, refusal
from echelon.experiment.faults import build_fault, overlaps, unweighable
from echelon.experiment.following import jobs_after_others
from echelon.experiment.job_trace import Wanted, build_job_trace
from echelon.experiment.jobs import BuiltJob, build_job
from echelon.experiment.networks import build_network
from echelon.experiment.placing import Placing
from echelon.experiment.placing import check as check_placement
from echelon.experiment.policy_texts import enforcers_of
from echelon.experiment.queueing import check_room, queue_of
from echelon.experiment.scheduler_texts import with_schedulers
from echelon.experiment.settings import NOTHING_SET, Settings, covers, with_settings
from echelon.experiment.specs import EmulationSpec, ExperimentSpec, FaultSpec, JobSpec, JobTraceSpec, TraceSpec
from echelon.experiment.swept import Swept
from echelon.experiment.trace_jobs import build_trace
from echelon.experiment.window import counting_of
from echelon.experiment.wording import Place, structure
from echelonflow.bounds import BeyondBoundsError
from echelonflow.errors import InputError
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.model.counting import ALL, Counting
from echelonflow.model.dag import Job, JobDag
from echelonflow.model.faults import Fault
from echelonflow.model.network import Network
from echelonflow.model.tcp import congestion_control
from echelonflow.model.units import parse_duration_s
from echelonflow.records.manifest import JobNotes
from echelonflow.scheduling import policies
from echelonflow.spelling import unknown
from results.analysis.limits import Limits
from simulator.admission import Queue
from simulator.realism import EXACT, Realism

_BESIDE_JOB_TRACE = frozenset({"jitter", "job_trace", "name", "placement", "stragglers", "weight"})
LEAST_ITERATION_S = 1e-9
LEAST_PROGRESS_INTERVAL_S, MOST_PROGRESS_INTERVAL_S = 0.001, 10.0


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
    stretch: float = 1.0
    """How many times as long as the file says everything takes: `jobs`, `faults` and `time_unit_s` are stretched."""
    against: str | None = None
    """The policy that others are compared with; None for the first."""
    counting: Counting = ALL
    """Which iterations count."""
    sweep: Swept | None = None
    """What `echelon sweep` varies in it; everything else takes the experiment as it stands."""
    queue: Queue | None = None
    """Where jobs wait for GPUs that have no placement; None if all have one."""
    enforcers: Mapping[str, str] = field(default_factory=dict)
    """Policy to what enforces it by its own account. Asked once: a user's file takes a process to ask."""

    @property
    def runs_simulated(self) -> int:
        """How many simulations of each policy differ: as many as repeats where anything is drawn, and one elsewhere."""
        return self.repeats if self.is_drawn else 1

    @property
    def is_drawn(self) -> bool:
        """Whether computations of any job are drawn, so that repeats differ in simulation, too."""
        return any(job.draws is not None for job in self.jobs)

    def enforcer_of(self, policy: str) -> str:
        """The enforcer for a policy: the experiment's, or with `auto` the policy's own."""
        chosen = self.emulation.enforcer
        if chosen != "auto":
            return chosen
        return self.enforcers.get(policy) or policies.enforcer_of(policy)


def load(
    path: Path,
    override: dict[str, Any] | None = None,
    schedulers: Sequence[str] = (),
    settings: Settings = NOTHING_SET,
) -> Experiment:
    """Read and check an experiment file; `override` replaces top-level keys (from the command line).

    Where an override is a mapping, only the keys in it are replaced. `settings` replace values by their paths, before
    that; `schedulers` replace those of jobs, as `with_schedulers` has it. Raises InputError with one line per fault.
    """
    file = yaml_file.read(path)
    data, replaced = with_settings(file.data, settings)
    data = dict(data)
    for key, value in (override or {}).items():
        if not isinstance(value, dict):
            data[key] = value
            replaced.add(key)
        elif isinstance(data.get(key) or {}, dict):  # anything else is a fault of the file, which check() reports
            data[key] = {**(data.get(key) or {}), **value}

    if schedulers:
        data = with_schedulers(data, schedulers)

    def line_of(where: str) -> int | None:
        return None if covers(replaced, where) else file.line_of(where)

    return check(data, path, line_of, file.faults)


def check(data: dict[str, Any], path: Path, line_of: LineOf = no_line, known: Sequence[str] = ()) -> Experiment:
    """The Experiment that `data` (as read from `path`) describes; InputError listing every fault, `known` ones first."""
    found = structure(data)
    faults = [*known, *found.faults]
    if found.spec is None:
        raise refusal(path, faults, line_of)
    spec, at_fault = found.spec, found.at_fault
    network = None
    if ("network",) not in at_fault:
        network = collect(faults, "network", lambda: build_network(spec.network, path.parent))
    made = _jobs(spec, at_fault, path.parent, network, faults)
    faults += jobs_after_others(spec, made.jobs)
    enforcers, limits, unit_s, realism = _beside_jobs(spec, at_fault, faults)
    planned = _planned_faults(spec, network, made.jobs, faults)
    faults += unweighable([spec.emulation.enforcer, *enforcers.values()], planned)
    counting = _counting(spec, made, faults)
    jobs, queue = _arriving(spec, made, network, faults)
    sweep = spec.sweep
    asked = None if sweep is None else collect(faults, "sweep", lambda: swept.of_file(sweep.model_dump()))
    if faults or network is None or limits is None or realism is None or counting is None:
        raise refusal(path, faults, line_of)
    return Experiment(
        spec.name, spec.title or spec.name, path, network, tuple(jobs), tuple(spec.policies), spec.repeats,
        spec.seed, spec.emulation, limits, unit_s, tuple(made.notes), data,
        trace=made.traces[0] if made.traces else None, realism=realism, faults=planned, stretch=spec.stretch, against=spec.against,
        enforcers=enforcers, counting=counting, sweep=asked, queue=queue,
    )  # fmt: skip


def check_beside_jobs(data: dict[str, Any], path: Path, line_of: LineOf = no_line) -> None:
    """Raise InputError where `data` is wrong in what needs no jobs: policies, limits, and how they are enforced and simulated.

    For experiments whose jobs are learned first, which takes a while.
    """
    found = structure(data)
    faults = list(found.faults)
    if found.spec is not None:
        _beside_jobs(found.spec, found.at_fault, faults)
    if faults:
        raise refusal(path, faults, line_of)


class _BesideJobs(NamedTuple):
    """What an experiment says of policies and of both backends; None where that is at fault."""

    enforcers: dict[str, str]
    limits: Limits | None
    unit_s: float | None
    realism: Realism | None


def _beside_jobs(spec: ExperimentSpec, at_fault: Collection[Place], faults: list[str]) -> _BesideJobs:
    left_out = {place for key, *rest in at_fault if key == "policies" for place in rest if isinstance(place, int)}
    enforcers = enforcers_of(spec.policies, left_out, faults)
    if spec.against is not None and spec.against not in spec.policies:
        faults.append(f"against: {spec.against!r} is none of the policies{unknown(spec.against, spec.policies)}")
    limits = _limits(spec.emulation, faults)
    unit_s = collect(faults, "time_unit", lambda: _time_unit_s(spec.time_unit, spec.stretch))
    if spec.emulation.enforcer != "auto":
        collect(faults, "emulation.enforcer", lambda: load_enforcer(spec.emulation.enforcer))
    collect(faults, "emulation.congestion_control", lambda: congestion_control(spec.emulation.congestion_control))
    collect(faults, "emulation.progress_interval", lambda: _progress_interval_s(spec.emulation.progress_interval))
    realism = collect(faults, "fluid", spec.fluid.realism)
    return _BesideJobs(enforcers, limits, unit_s, realism)


@dataclass(frozen=True)
class _Made:
    """What was made of the entries of `jobs`, with time `stretch` times as long as they say; `placing` gives them hosts."""

    stretch: float
    placing: Placing | None
    seed: int
    extent: Extent
    is_queued: bool
    """Whether jobs that list no hosts are placed when there is room for them."""
    placed_by: dict[str, str] = field(default_factory=dict)
    """How each of those is placed."""
    with_start: set[str] = field(default_factory=set)
    """Jobs that say when they start."""
    jobs: list[Job] = field(default_factory=list)
    traces: list[CoflowTrace] = field(default_factory=list)
    notes: list[JobNotes] = field(default_factory=list)


def _jobs(
    spec: ExperimentSpec, at_fault: Collection[Place], folder: Path, network: Network | None, faults: list[str]
) -> _Made:
    """Every job that can be made; none after one that is too large, so that a file cannot ask for many of those."""
    extent = Extent()
    made = _Made(spec.stretch, _placing(spec, network, faults), spec.seed, extent, _is_queued(spec))
    for i, job in enumerate(spec.jobs):
        if ("jobs", i) in at_fault or extent.exceeded:
            continue
        if job.trace is not None:
            _add_trace(i, job, job.trace, folder, network, made, faults)
        elif job.job_trace is not None:
            _add_job_trace(i, job, job.job_trace, folder, network, made, extent, faults)
        else:
            _add_job(i, job, folder, network, made, extent, faults)
    if spec.stretch != 1 and any(job.trace is not None for job in spec.jobs):
        faults.append("stretch: does not go with a trace of Coflows; a simulation needs no stretching")
    if spec.placement is not None and any(job.trace is not None for job in spec.jobs):
        faults.append("placement: does not go with a trace of Coflows; its flows name their ports")
    if len(spec.jobs) > 1 and any(job.trace is not None for job in spec.jobs):
        faults.append("jobs: a trace is simulated by itself; put the other jobs into an experiment of their own")
    places: dict[str, list[int]] = {}
    for i, job in enumerate(spec.jobs):
        places.setdefault(job.name, []).append(i)
    for name, (first, *others) in places.items():
        faults += [f"jobs.{i}.name: two jobs are called {name!r} (the other is jobs.{first})" for i in others]
    return made


def _time_unit_s(text: str | None, stretch: float) -> float | None:
    if text is None:
        return None
    unit_s = parse_duration_s(text)
    if not unit_s > 0:
        raise InputError(f"{text!r} must be greater than 0")
    return unit_s * stretch


def _progress_interval_s(text: str) -> float:
    interval_s = parse_duration_s(text)
    if not LEAST_PROGRESS_INTERVAL_S <= interval_s <= MOST_PROGRESS_INTERVAL_S:
        raise InputError(f"{text!r} is not a duration from 1 ms to 10 s")
    return interval_s


def _counting(spec: ExperimentSpec, made: _Made, faults: list[str]) -> Counting | None:
    if made.traces and (spec.window, spec.warm_up) != ("all", None):
        faults.append("window: does not go with a trace of Coflows, which has no iterations; leave it away")
    try:
        return counting_of(spec.window, spec.warm_up, made.jobs, spec.stretch)
    except InputError as error:  # which names its key itself
        faults.append(str(error))
        return None


def _limits(spec: EmulationSpec, faults: list[str]) -> Limits | None:
    names = [each.name for each in fields(Limits)]
    others = [name for name in spec.limits if name not in names]
    faults += [f"emulation.limits.{name}: there is no limit {name!r}{unknown(name, names)}" for name in others]
    given = {name: value for name, value in spec.limits.items() if name in names}
    return collect(faults, "emulation.limits", lambda: Limits.with_changes(given))


def _placing(spec: ExperimentSpec, network: Network | None, faults: list[str]) -> Placing | None:
    """Who places the jobs on `network`, if there is one; a placement for all of them that is none is added to `faults`."""
    default, known = spec.placement, len(faults)
    if default is not None:
        collect(faults, "placement", partial(check_placement, default))
    if network is None:
        return None
    if len(faults) > known:
        default = None
    listed = [job.placement for job in spec.jobs if isinstance(job.placement, list)]
    return Placing(network, listed, default, gpus_are_counted=spec.network.gpus_per_host is not None)


def _planned_faults(
    spec: ExperimentSpec, network: Network | None, jobs: Sequence[Job], faults: list[str]
) -> tuple[Fault, ...]:
    """What `faults:` plans; mistakes in it are added to `faults`."""
    if spec.faults and any(job.trace is not None for job in spec.jobs):
        faults.append("faults: do not go with a trace of Coflows; describe the jobs behind it by a paradigm")
    if spec.faults and _is_queued(spec):
        faults.append("faults: do not go with a queue: on which hosts its jobs will run, nobody knows before")
        return ()
    if network is None or len(jobs) < len(spec.jobs):  # hosts and links of what is at fault itself cannot be checked
        return ()

    def build(fault: FaultSpec) -> Fault:
        found = build_fault(fault, network, jobs)
        for_s = None if found.for_s is None else found.for_s * spec.stretch
        return msgspec.structs.replace(found, at_s=found.at_s * spec.stretch, for_s=for_s)

    tried = [collect(faults, f"faults.{i}", partial(build, fault)) for i, fault in enumerate(spec.faults)]
    built = [fault for fault in tried if fault is not None]
    if len(built) == len(tried):
        faults += overlaps(built)
    return tuple(sorted(built, key=lambda fault: fault.at_s))


def _add_job(
    index: int, spec: JobSpec, folder: Path, network: Network | None, made: _Made, extent: Extent, faults: list[str]
) -> None:
    where = f"jobs.{index}"
    start_s = collect(faults, f"{where}.start", lambda: parse_duration_s(spec.start))
    draws = collect(faults, where, lambda: (spec.draws(made.seed),))
    # A job of a network that is at fault is checked all the same, on a link that stands for it.
    link_Bps = min(network.capacity_Bps) if network is not None else 1e6
    built = collect(faults, where, lambda: _built(spec, link_Bps, folder, extent, made.stretch))
    placing, written = made.placing, spec.placement
    where_placed = where if written is None else f"{where}.placement"
    if (built is None or placing is None) and isinstance(written, str):
        collect(faults, where_placed, lambda: check_placement(written))
    if built is None or start_s is None or placing is None or draws is None:
        return
    dag, waits = built.dag, made.is_queued and not isinstance(written, list)
    if waits and isinstance(written, str):
        known = len(faults)
        collect(faults, where_placed, lambda: check_placement(written))
        if len(faults) > known:
            return

    names = [spec.name] if spec.count == 1 else [f"{spec.name}-{number + 1}" for number in range(spec.count)]
    hosts = collect(
        faults, where_placed, lambda: [() if waits else placing.place(name, dag, written) for name in names]
    )
    if hosts is None:
        return

    def one(name: str, placement: tuple[str, ...]) -> Job:
        """One of the jobs of this entry; it is counted."""
        if not _takes_time(dag, placement):
            raise InputError("nothing in it takes any time: it computes for 0 s, and sends nothing from host to host")
        discipline = built.discipline
        job = Job(
            name, dag, placement, spec.iterations, spec.weight, start_s * made.stretch, discipline, draws[0], after=spec.after
        )  # fmt: skip
        return _counted(extent, job)

    jobs = collect(faults, where, lambda: list(map(one, names, hosts)))
    if jobs is None:
        return
    made.jobs.extend(jobs)
    if waits and isinstance(written, str):
        made.placed_by.update(dict.fromkeys(names, written))
    if "start" in spec.model_fields_set or spec.after is not None:
        made.with_start.update(names)
    made.notes.append(built.notes)


def _is_queued(spec: ExperimentSpec) -> bool:
    """Whether jobs wait for GPUs; those of a job trace always do."""
    return spec.queue is not None or any(job.job_trace is not None for job in spec.jobs)


def _arriving(
    spec: ExperimentSpec, made: _Made, network: Network | None, faults: list[str]
) -> tuple[Sequence[Job], Queue | None]:
    """The jobs, each with its arrival, and the queue in which they wait, if they do."""
    jobs, arrivals = list(made.jobs), spec.arrivals
    if arrivals is not None:
        found = collect(
            faults, "arrivals", lambda: with_arrivals(jobs, made.with_start, arrivals, spec.seed, spec.stretch)
        )
        jobs = jobs if found is None else found
    for place, each in enumerate(spec.background if network is not None else ()):
        where = f"background.{place}"
        assert network is not None, "without one nothing is looped over"
        traffic = collect(faults, where, partial(background_job, each, network, spec.seed, spec.stretch))
        if traffic is not None and collect(faults, where, partial(_counted, made.extent, traffic[0])) is not None:
            jobs.append(traffic[0])
            made.notes.append(traffic[1])
    faults += _same_names(spec, jobs)
    if network is None or not made.is_queued:
        return jobs, None
    collect(faults, "jobs", lambda: check_room(network, jobs))
    placed_by = made.placed_by
    if spec.placement is not None:
        placed_by = {**{job.name: spec.placement for job in jobs}, **placed_by}
    return jobs, queue_of(network, spec.queue or "fifo", placed_by)


def _same_names(spec: ExperimentSpec, jobs: Sequence[Job]) -> Iterator[str]:
    """What is wrong with names that were made with numbers, or of traffic; those that are written twice were told already."""
    written = Counter(job.name for job in spec.jobs)
    traffic = [each.name for each in spec.background]
    for i, name in enumerate(traffic):
        if name in written or name in traffic[:i]:
            yield f"background.{i}.name: a job is called {name!r}, too"
    for name, count in Counter(job.name for job in jobs).items():
        if count > 1 and written[name] < 2 and name not in traffic:
            yield f"jobs: two jobs are called {name!r}: one has a name of its own, and one a number"


def _takes_time(dag: JobDag, placement: Sequence[str]) -> bool:
    """Whether an iteration can be told from nothing; without a placement, each rank has a host of its own."""
    computes_s = sum(step.duration_s for step in dag.computes)
    hosts = placement or range(dag.ranks)
    return computes_s > LEAST_ITERATION_S or any(hosts[each.src_rank] != hosts[each.dst_rank] for each in dag.transfers)


def _built(spec: JobSpec, link_Bps: float, folder: Path, extent: Extent, stretch: float) -> BuiltJob:
    try:
        return build_job(spec, link_Bps, folder, stretch)
    except BeyondBoundsError:
        extent.exceeded = True
        raise


def _counted(extent: Extent, job: Job) -> Job:
    extent.add(job)
    return job


def _add_job_trace(
    index: int, job: JobSpec, spec: JobTraceSpec, folder: Path, network: Network | None, made: _Made, extent: Extent,
    faults: list[str],
) -> None:  # fmt: skip
    """The jobs of a trace, which wait for GPUs; they have weight, jitter and stragglers of this entry."""
    where = f"jobs.{index}"
    beside = sorted((job.model_fields_set | set(job.model_extra or {})) - _BESIDE_JOB_TRACE)
    faults += [f"{where}.{key.rstrip('_')}: does not go with a job trace" for key in beside]
    draws = collect(faults, where, lambda: (job.draws(made.seed),))
    if made.stretch != 1:
        faults.append("stretch: does not go with a job trace; a simulation needs no stretching")
    if network is None or draws is None:
        return
    wanted = Wanted(job.name, job.weight, draws[0])
    found = collect(faults, f"{where}.job_trace", lambda: build_job_trace(wanted, spec, folder, network))
    if found is None:
        return
    jobs, notes = found
    if collect(faults, where, lambda: [_counted(extent, each) for each in jobs]) is None:
        return
    made.jobs.extend(jobs)
    made.with_start.update(each.name for each in jobs)
    if isinstance(job.placement, str):
        made.placed_by.update(dict.fromkeys((each.name for each in jobs), job.placement))
    made.notes.append(notes)


def _add_trace(
    index: int, job: JobSpec, spec: TraceSpec, folder: Path, network: Network | None, made: _Made, faults: list[str]
) -> None:
    where = f"jobs.{index}"
    beside = sorted((job.model_fields_set | set(job.model_extra or {})) - {"name", "trace"})
    faults += [f"{where}.{key.rstrip('_')}: does not go with a trace" for key in beside]
    if network is None:
        return
    built = collect(faults, f"{where}.trace", lambda: build_trace(job.name, spec, folder, network))
    if built is not None:
        made.traces.append(built[0])
        made.notes.append(built[1])
