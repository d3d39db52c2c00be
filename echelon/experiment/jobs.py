"""From a job's entry in an experiment file to its DAG: paradigm, profile, similarity scaling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from echelon.experiment.import_jobs import import_job
from echelon.experiment.specs import JobSpec
from echelonflow.bounds import BeyondBoundsError, leading
from echelonflow.errors import InputError, about
from echelonflow.files import is_file
from echelonflow.model.dag import JobDag
from echelonflow.model.discipline import Discipline
from echelonflow.model.units import format_size
from echelonflow.options import bind, options_of
from echelonflow.records.manifest import JobNotes
from echelonflow.spelling import shown, unknown
from traffic.workloads import job_schedulers, paradigms, profile, scaling
from traffic.workloads.formats import Report

Made = TypeVar("Made")
_MOST_SIZES = 12
"""Of tasks that are listed one by one."""

BESIDE = (
    "after", "count", "iterations", "jitter", "job_trace", "placement", "profile", "scaling", "scheduler", "start", "stragglers", "weight",
)  # fmt: skip
"""Keys of every job, beside the options of its paradigm."""
PROFILES = Path(profile.__file__).parent / "profiles"


@dataclass(frozen=True, slots=True)
class BuiltJob:
    """What was made of a job's entry."""

    dag: JobDag
    discipline: Discipline | None
    """Of its job scheduler, if it has one."""
    notes: JobNotes


def build_job(spec: JobSpec, link_Bps: float, folder: Path, stretch: float = 1.0) -> BuiltJob:
    """The DAG of one job, its discipline and notes on it (InputError, one line per fault).

    `link_Bps` is the payload rate of the network's slowest link, bytes/s: what "of link" refers to. Files that are
    imported are named relative to `folder`. Time is `stretch` times as long as `spec` says.
    """
    if "program" in (spec.model_extra or {}):
        raise InputError(
            "program: a job that is a training program is run by `echelon live`, which learns what it does"
        )
    discipline: Discipline | None = None
    report: Report | None = None
    time, bandwidth = (spec.scaling.time, spec.scaling.bandwidth) if spec.scaling else (1.0, 1.0)
    if spec.import_ is not None:
        beside = [
            key
            for key in ("paradigm", "profile", "scheduler", *(spec.model_extra or {}))
            if getattr(spec, key, None) is not None
        ]
        if beside:
            raise InputError("\n".join(f"{key}: does not go with an import" for key in beside))
        entry = spec.import_
        imported = about("import", lambda: import_job(entry, folder))
        dag, report, discipline = imported.dag, imported.report, imported.discipline
    elif spec.scheduler is not None:
        dag, discipline = bound_scheduler(spec, spec.scheduler, link_Bps, link_Bps * bandwidth).job()
    else:
        dag = bound_paradigm(spec, link_Bps).dag()
    original = dag
    time *= stretch
    if (time, bandwidth) != (1, 1):
        dag = scaling.scale(dag, bandwidth=bandwidth, time=time)
        if discipline is not None:
            discipline = scaling.scale_discipline(discipline, bandwidth=bandwidth, time=time)
    found = scaling.describe(original, dag, bandwidth=bandwidth, time=time, payload_Bps=link_Bps)
    order = () if discipline is None else (_in_words(discipline),)
    imported_lines, dropped = ((), ()) if report is None else (tuple(report.lines()), report.dropped)
    notes = JobNotes(spec.name, (*order, *found.facts), tuple(found.warnings), imported_lines, dropped)
    return BuiltJob(dag, discipline, notes)


def _in_words(discipline: Discipline) -> str:
    """What a job scheduler made of the job, for a reader of results."""
    mine = [task for task in discipline.tasks if task.rank == 0]
    window = discipline.window
    bounds = [f"{window.slots} at a time"] if window.slots is not None else []
    bounds += [f"{format_size(window.credit_bytes)} of credit"] if window.credit_bytes is not None else []
    count = f"{len(mine)} tasks on rank 0"
    sizes_bytes = [task.size_bytes for task in mine]
    if 0 < len(mine) <= _MOST_SIZES:
        count += f" ({', '.join(map(format_size, sizes_bytes))})"
    elif mine:
        count += f" of {format_size(min(sizes_bytes))} to {format_size(max(sizes_bytes))}"
    return f"job scheduler {discipline.scheduler}: {', '.join([count, *bounds])}; sizes before scaling"


@dataclass(frozen=True, slots=True)
class BoundParadigm:
    """A paradigm with all that it is built of."""

    module: ModuleType
    builder: Callable[..., JobDag]
    profile: profile.Profile | None
    options: Mapping[str, Any]
    """Of `builder`, those that were written."""

    def dag(self) -> JobDag:
        """One iteration of the job (InputError, one line per fault)."""
        return _within_bounds(self.options, lambda: self.builder(**self._given, **self.options))

    def sent_bytes(self) -> Sequence[float] | None:
        """What every rank sends in an iteration by the paradigm's own formula; None if it has none for this."""
        formula: Callable[..., Sequence[float] | None] | None = getattr(self.module, "sent_bytes", None)
        if formula is None or (self.profile is None and hasattr(self.module, "from_profile")):
            return None
        whole = {option.parameter: option.default for option in options_of(self.builder, given=("profile",))}
        return formula(**self._given, **whole | dict(self.options))

    @property
    def _given(self) -> dict[str, Any]:
        return {} if self.profile is None else {"profile": self.profile}


@dataclass(frozen=True, slots=True)
class BoundScheduler:
    """A job scheduler, and the paradigm whose tensors it puts in order, with all that the job is built of."""

    builder: Callable[..., tuple[JobDag, Discipline]]
    given: Mapping[str, Any]
    options: Mapping[str, Any]
    """Of `builder`, those that were written."""

    def job(self) -> tuple[JobDag, Discipline]:
        """One iteration of the job, and its discipline (InputError, one line per fault)."""
        return _within_bounds(self.options, lambda: self.builder(**self.given, **self.options))


def bound_scheduler(spec: JobSpec, text: str, link_Bps: float, rate_Bps: float) -> BoundScheduler:
    """The job scheduler `text` on the paradigm that `spec` names (InputError, one line per fault).

    `link_Bps` is what "of link" refers to. `rate_Bps` is what a link carries of the job as it is before it is scaled.
    """
    module = _module(spec)
    if not hasattr(module, "scheduled"):
        taking = " and ".join(paradigms.taking_schedulers())
        raise InputError(f"scheduler: paradigm {spec.paradigm} takes none; {taking} do, or leave it away")
    if text.count("(") > text.count(")"):
        raise InputError(f"scheduler: YAML ends a text at a comma between brackets; put it in quotes: '{text}, ...)'")
    scheduler = about("scheduler", lambda: job_schedulers.load(text))
    given: dict[str, Any] = {"scheduler": scheduler, "rate_Bps": rate_Bps}
    builder, own = module.scheduled, module.build
    if spec.profile is not None:
        builder, own = module.scheduled_from_profile, module.from_profile
        given["profile"] = profile.read(find_profile(spec.profile))
    written = spec.model_extra or {}
    there = {option.key for option in options_of(builder, given=given)}
    ruled_out = {option.key for option in options_of(own, given=given)} - there
    faults = [
        f"{key}: does not go with a scheduler, which decides it; leave it away, or give the scheduler options such as "
        f"ddp(bucket=25 MB)"
        for key in written
        if key in ruled_out
    ]
    options = {key: value for key, value in written.items() if key not in ruled_out}
    bound: dict[str, Any] = {}
    try:
        bound = bind(builder, options, given=given, link_Bps=link_Bps, beside=BESIDE)
    except InputError as error:
        faults += str(error).split("\n")
    if faults:
        raise InputError("\n".join(faults))
    return BoundScheduler(builder, given, bound)


def _within_bounds(options: Mapping[str, Any], build: Callable[[], Made]) -> Made:
    """What `build` returns; if it is too much, the message names the largest of the options that were counts."""
    try:
        return build()
    except BeyondBoundsError as error:
        counts = {key: value for key, value in options.items() if type(value) is int and not key.endswith("_bytes")}
        raise BeyondBoundsError(leading(counts) + str(error)) from None


def bound_paradigm(spec: JobSpec, link_Bps: float) -> BoundParadigm:
    """The paradigm that `spec` names, its options bound (InputError, one line per fault)."""
    module = _module(spec)
    builder: Callable[..., JobDag] = module.build
    measured = None
    if spec.profile is not None:
        if not hasattr(module, "from_profile"):
            raise InputError(f"profile: paradigm {spec.paradigm} cannot be built from a profile")
        builder = module.from_profile
        measured = profile.read(find_profile(spec.profile))
    given = () if measured is None else ("profile",)
    return BoundParadigm(
        module, builder, measured, bind(builder, spec.model_extra or {}, given=given, link_Bps=link_Bps, beside=BESIDE)
    )


def _module(spec: JobSpec) -> ModuleType:
    """The paradigm that `spec` names (InputError if it names none)."""
    name = spec.paradigm
    if name is None:
        raise InputError("names neither a paradigm nor a trace nor an import; write such as `paradigm: gpipe`")
    return about("paradigm", lambda: paradigms.load(name))


def find_profile(name: str) -> Path:
    """The file of a profile: a path that exists, or the name of a committed one (InputError otherwise)."""
    for candidate in (Path(name), PROFILES / f"{name}.json"):
        if is_file(candidate):
            return candidate
    there = sorted(path.stem for path in PROFILES.glob("*.json"))
    raise InputError(
        f"profile: there is no file {shown(name)} and no committed profile of that name{unknown(name, there)}"
    )
