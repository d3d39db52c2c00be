"""The JSON form of our own jobs as a schema: what every importer writes and every backend reads.

`docs/job.schema.json` is made from it. What a schema cannot say (names that exist, no cycles, groups that list their flows)
`echelonflow.model.dag.JobDag` checks.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, TypeAdapter

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Weight = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Rank = Annotated[int, Field(ge=0, lt=1_000_000)]
Name = Annotated[str, Field(min_length=1)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class ComputeStep(_Strict):
    """`duration_s` seconds of computation on rank `compute`, once the steps in `after` have finished."""

    name: Name
    compute: Rank
    duration_s: Seconds
    kind: str
    after: list[str]


class TransferStep(_Strict):
    """`size_bytes` of payload from the first to the second rank of `transfer`, once the steps in `after` have finished."""

    name: Name
    transfer: Annotated[list[Rank], Field(min_length=2, max_length=2)]
    size_bytes: Annotated[int, Field(ge=1, lt=1 << 63)]
    group: str
    coflow: str
    after: list[str]


class EchelonFlowGroup(_Strict):
    """An EchelonFlow: its transfers in the order in which they are consumed, and their offsets in seconds."""

    name: str
    kind: str
    weight: Weight
    transfers: Annotated[list[str], Field(min_length=1)]
    offsets_s: Annotated[list[Seconds], Field(min_length=1)]


def _which(value: Any) -> str | None:
    if isinstance(value, dict):
        return next((tag for tag in ("compute", "transfer") if tag in value), None)
    return "compute" if isinstance(value, ComputeStep) else "transfer"


AnyStep = Annotated[
    Annotated[ComputeStep, Tag("compute")] | Annotated[TransferStep, Tag("transfer")], Discriminator(_which)
]


class EchelonJob(_Strict):
    """One iteration of a job on ranks 0 to `ranks` - 1; `next_iteration` has (earlier step, later step of the next one)."""

    schema_: Literal["echelon-job"] = Field(alias="schema")
    version: Literal[1]
    ranks: Annotated[int, Field(ge=1, le=1_000_000)]
    steps: Annotated[list[AnyStep], Field(min_length=1)]
    groups: list[EchelonFlowGroup]
    next_iteration: list[Annotated[list[str], Field(min_length=2, max_length=2)]]
    parameters: dict[str, Any] = {}


class SchedulerWindow(_Strict):
    """How many tasks, or bytes of them, one rank has under way at most; null: no bound."""

    credit_bytes: Annotated[int, Field(ge=1, lt=1 << 63)] | None
    slots: Annotated[int, Field(ge=1)] | None
    overdraw: bool


class SchedulerTask(_Strict):
    """Transfers that `rank` holds until it starts them together; `ends` are those whose ends give its credit back."""

    name: str
    rank: Rank
    size_bytes: Annotated[int, Field(ge=1, lt=1 << 63)]
    priority: int
    transfers: Annotated[list[str], Field(min_length=1)]
    ends: list[str]
    first_priority: int | None


class SchedulerDiscipline(_Strict):
    """What a job scheduler has decided: in what order, and how many at a time, a job's transfers go to the network."""

    scheduler: str
    window: SchedulerWindow
    tasks: list[SchedulerTask]


class DrawnComputations(_Strict):
    """How computations vary: times a lognormal draw of this coefficient of variation, and `slowdown` times as long on stragglers."""

    seed: int
    jitter: Annotated[float, Field(ge=0)]
    slowdown: Annotated[float, Field(ge=1)]
    slow_ranks: list[Annotated[int, Field(ge=0)]]
    slow_count: Annotated[int, Field(ge=0)]


class PlacedJob(_Strict):
    """A job on hosts: rank i runs on `placement[i]`, `iterations` times from `start_s` on."""

    name: Name
    dag: EchelonJob
    placement: list[str]
    iterations: Annotated[int, Field(ge=1)]
    weight: Weight
    start_s: Seconds
    discipline: SchedulerDiscipline | None = None
    draws: DrawnComputations | None = None
    is_background: bool = False
    after: Name | None = None


def job_schema() -> dict[str, Any]:
    """The JSON schema of a job file: a job, or one placed on hosts."""
    found: dict[str, Any] = TypeAdapter(EchelonJob | PlacedJob).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Echelon testbed job, version 1",
        **found,
    }
