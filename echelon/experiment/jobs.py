"""From a job's entry in an experiment file to its DAG: paradigm, profile, similarity scaling."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from echelon.experiment.import_jobs import import_job
from echelon.experiment.specs import JobSpec
from echelonflow.bounds import BeyondBoundsError, leading
from echelonflow.errors import InputError, about
from echelonflow.files import is_file
from echelonflow.model.dag import JobDag
from echelonflow.options import bind, options_of
from echelonflow.records.manifest import JobNotes
from echelonflow.spelling import shown, unknown
from traffic.workloads import paradigms, profile, scaling

BESIDE = ("iterations", "profile", "placement", "scaling", "start", "weight")
"""Keys of every job, beside the options of its paradigm."""
PROFILES = Path(profile.__file__).parent / "profiles"


def build_dag(spec: JobSpec, link_Bps: float, folder: Path, stretch: float = 1.0) -> tuple[JobDag, JobNotes]:
    """The DAG of one job and notes on it (InputError, one line per fault).

    `link_Bps` is the payload rate of the network's slowest link, bytes/s: what "of link" refers to. Files that are
    imported are named relative to `folder`. Time is `stretch` times as long as `spec` says.
    """
    account: tuple[str, ...] = ()
    if spec.import_ is not None:
        beside = [
            key for key in ("paradigm", "profile", *(spec.model_extra or {})) if getattr(spec, key, None) is not None
        ]
        if beside:
            raise InputError("\n".join(f"{key}: does not go with an import" for key in beside))
        entry = spec.import_
        imported = about("import", lambda: import_job(entry, folder))
        dag, account = imported.dag, tuple(imported.report.lines())
    else:
        dag = bound_paradigm(spec, link_Bps).dag()
    original = dag
    time, bandwidth = (spec.scaling.time, spec.scaling.bandwidth) if spec.scaling else (1.0, 1.0)
    time *= stretch
    if (time, bandwidth) != (1, 1):
        dag = scaling.scale(dag, bandwidth=bandwidth, time=time)
    found = scaling.describe(original, dag, bandwidth=bandwidth, time=time, payload_Bps=link_Bps)
    return dag, JobNotes(spec.name, (*account, *found.facts), tuple(found.warnings))


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
        try:
            return self.builder(**self._given, **self.options)
        except BeyondBoundsError as error:
            counts = {
                key: value for key, value in self.options.items() if type(value) is int and not key.endswith("_bytes")
            }
            raise BeyondBoundsError(leading(counts) + str(error)) from None

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


def bound_paradigm(spec: JobSpec, link_Bps: float) -> BoundParadigm:
    """The paradigm that `spec` names, its options bound (InputError, one line per fault)."""
    if spec.paradigm is None:
        raise InputError("names neither a paradigm nor a trace nor an import; write such as `paradigm: gpipe`")
    name = spec.paradigm
    module = about("paradigm", lambda: paradigms.load(name))
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


def find_profile(name: str) -> Path:
    """The file of a profile: a path that exists, or the name of a committed one (InputError otherwise)."""
    for candidate in (Path(name), PROFILES / f"{name}.json"):
        if is_file(candidate):
            return candidate
    there = sorted(path.stem for path in PROFILES.glob("*.json"))
    raise InputError(
        f"profile: there is no file {shown(name)} and no committed profile of that name{unknown(name, there)}"
    )
