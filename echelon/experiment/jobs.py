"""From a job's entry in an experiment file to its DAG: paradigm, profile, similarity scaling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from echelon.experiment.import_jobs import import_job
from echelon.experiment.specs import JobSpec
from echelonflow import plugins
from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag
from echelonflow.options import bind
from echelonflow.records.manifest import JobNotes
from traffic.workloads import paradigms, profile, scaling

PROFILES = Path(profile.__file__).parent / "profiles"


def build_dag(spec: JobSpec, link_Bps: float, folder: Path) -> tuple[JobDag, JobNotes]:
    """The DAG of one job and notes on it (InputError, one line per fault).

    `link_Bps` is the payload rate of the network's slowest link, bytes/s: what "of link" refers to. Files that are
    imported are named relative to `folder`.
    """
    account: tuple[str, ...] = ()
    if spec.import_ is not None:
        beside = [
            key for key in ("paradigm", "profile", *(spec.model_extra or {})) if getattr(spec, key, None) is not None
        ]
        if beside:
            raise InputError("\n".join(f"{key}: does not go with an import" for key in beside))
        try:
            imported = import_job(spec.import_, folder)
        except InputError as error:
            raise InputError("\n".join(f"import: {line}" for line in str(error).split("\n"))) from None
        dag, account = imported.dag, tuple(imported.report.lines())
    else:
        dag = _paradigm_dag(spec, link_Bps)
    original = dag
    if spec.scaling is not None:
        dag = scaling.scale(dag, bandwidth=spec.scaling.bandwidth, time=spec.scaling.time)
    time, bandwidth = (spec.scaling.time, spec.scaling.bandwidth) if spec.scaling else (1.0, 1.0)
    found = scaling.describe(original, dag, bandwidth=bandwidth, time=time, payload_Bps=link_Bps)
    return dag, JobNotes(spec.name, (*account, *found.facts), tuple(found.warnings))


def _paradigm_dag(spec: JobSpec, link_Bps: float) -> JobDag:
    options = dict(spec.model_extra or {})
    if spec.paradigm is None:
        raise InputError("names neither a paradigm nor a trace nor an import")
    module = plugins.load(paradigms, spec.paradigm, "paradigm")
    builder: Callable[..., JobDag] = module.build
    given: dict[str, Any] = {}
    if spec.profile is not None:
        if not hasattr(module, "from_profile"):
            raise InputError(f"profile: paradigm {spec.paradigm} cannot be built from a profile")
        builder = module.from_profile
        given = {"profile": profile.read(find_profile(spec.profile))}
    bound = bind(builder, options, given=given, link_Bps=link_Bps)
    return builder(**given, **bound)


def find_profile(name: str) -> Path:
    """The file of a profile: a path that exists, or the name of a committed one (InputError otherwise)."""
    for candidate in (Path(name), PROFILES / f"{name}.json"):
        if candidate.is_file():
            return candidate
    there = ", ".join(sorted(path.stem for path in PROFILES.glob("*.json"))) or "none"
    raise InputError(f"profile: there is no file {name!r} and no committed profile of that name; there is: {there}")
