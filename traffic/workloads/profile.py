"""Measured profiles of models: the file format, a table to read, and the split into pipeline stages.

A profile is a JSON file with its provenance: on what, with what and how it was measured. Times are
seconds per micro-batch, sizes bytes per micro-batch. Layers that are alike may have been measured once: the file
holds them once, with `repeats`. Files of version 1 (no repeats, no gradient bytes, tokens only) are read as well.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from echelonflow.bounds import MOST_CUTS, check_most
from echelonflow.errors import InputError, StorageError
from echelonflow.files import write_whole
from echelonflow.model.units import format_duration, format_size
from echelonflow.tables import text_table
from traffic.workloads.schema_faults import in_a_line

SCHEMA: Final = "echelon-profile"
VERSION: Final = 2

MOST_FILE_BYTES: Final = 16 << 20
MOST_REPEATS: Final = 1000
"""Far more alike layers than any model has; bounds what a bad file can make of memory."""

Seconds = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Bytes = Annotated[int, Field(ge=0)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Provenance(_Strict):
    """Where the figures come from. `date` is ISO 8601; `threads` are those that computed.

    A sample is `seq` tokens or an image of `image` × `image` pixels. `dtype` is that of parameters, gradients and
    activations. `transformers` is None where that library was not used. `tries` steps were run for the `repeats` that
    count; while those ran, other processes took at most `others_share` of the CPUs (None: not known).
    """

    device: Literal["cpu", "cuda"]
    device_name: str
    platform: str
    python: str
    torch: str
    transformers: str | None = None
    date: str
    batch: int = Field(ge=1)
    seq: int | None = Field(default=None, ge=1)
    image: int | None = Field(default=None, ge=1)
    dtype: str
    optimizer: str = "AdamW"
    threads: int = Field(ge=1)
    warmup: int = Field(ge=0)
    repeats: int = Field(ge=1)
    tries: int | None = Field(default=None, ge=1)
    others_share: float | None = Field(default=None, ge=0, le=1)
    note: str = ""

    @model_validator(mode="after")
    def _one_kind_of_sample(self) -> Provenance:
        if (self.seq is None) == (self.image is None):
            raise ValueError("give either seq (tokens per sample) or image (pixels per side)")
        return self

    @property
    def sample(self) -> str:
        """What one sample is, in words."""
        return f"{self.seq} tokens" if self.image is None else f"images of {self.image} x {self.image}"


class Timing(_Strict):
    """Median and quartiles of repeated measurements, seconds."""

    median_s: Seconds
    p25_s: Seconds
    p75_s: Seconds

    @model_validator(mode="after")
    def _ordered(self) -> Timing:
        if not self.p25_s <= self.median_s <= self.p75_s:
            raise ValueError("the median does not lie between the quartiles")
        return self


class Layer(_Strict):
    """One layer, or `repeats` layers in a row that are alike, each with these figures.

    `activation_bytes` is its output, which is also the size of the gradient that comes back. `gradient_bytes` is what
    the backward pass leaves for its parameters; as many as those have unless given.
    """

    name: str
    kind: str
    repeats: int = Field(default=1, ge=1, le=MOST_REPEATS)
    forward: Timing
    backward: Timing
    update: Timing
    parameter_bytes: Bytes
    gradient_bytes: Bytes = 0  # never left at 0: see below
    activation_bytes: Bytes

    @model_validator(mode="before")
    @classmethod
    def _gradients_as_parameters(cls, given: Any) -> Any:
        if isinstance(given, dict) and "parameter_bytes" in given:
            return {"gradient_bytes": given["parameter_bytes"], **given}
        return given

    @property
    def forward_s(self) -> float:
        return self.forward.median_s

    @property
    def backward_s(self) -> float:
        return self.backward.median_s

    @property
    def update_s(self) -> float:
        """The optimiser's step over this layer's parameters."""
        return self.update.median_s

    def each(self) -> list[Layer]:
        """The layers that this stands for, one by one: block0, block1, ... where there are several."""
        if self.repeats == 1:
            return [self]
        return [self.model_copy(update={"name": f"{self.name}{i}", "repeats": 1}) for i in range(self.repeats)]


class Profile(_Strict):
    """A model's layers in the order in which a sample passes them.

    `measured` is what the file holds (its key is "layers"), `layers` the whole model, layers that are alike one by one.
    """

    schema_: Literal["echelon-profile"] = Field(default=SCHEMA, alias="schema")
    version: Literal[2] = VERSION
    model: str
    provenance: Provenance
    measured: tuple[Layer, ...] = Field(alias="layers", min_length=1)

    @model_validator(mode="before")
    @classmethod
    def _from_version_1(cls, given: Any) -> Any:
        return {**given, "version": VERSION} if isinstance(given, dict) and given.get("version") == 1 else given

    @model_validator(mode="after")
    def _names_differ(self) -> Profile:
        seen: set[str] = set()
        for layer in self.layers:
            if layer.name in seen:
                raise ValueError(f"layers: two are called {layer.name!r}")
            seen.add(layer.name)
        return self

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(layer for entry in self.measured for layer in entry.each())


@dataclass(frozen=True, slots=True)
class CutModel:
    """A model cut into contiguous pipeline stages: one entry per stage, `activation_bytes` one per boundary."""

    layers: tuple[tuple[str, ...], ...]
    forward_s: tuple[float, ...]
    backward_s: tuple[float, ...]
    update_s: tuple[float, ...]
    parameter_bytes: tuple[int, ...]
    activation_bytes: tuple[int, ...]


def read(path: Path) -> Profile:
    """The profile in the file at `path`; InputError naming file, key and fault if it is none."""
    try:
        with path.open("rb") as file:
            text = file.read(MOST_FILE_BYTES + 1).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InputError(f"profile {path} cannot be read: {reason}; `echelon profile MODEL` makes one") from None
    if len(text) > MOST_FILE_BYTES:
        raise InputError(f"profile {path} is longer than {MOST_FILE_BYTES >> 20} MiB, which no profile is")
    try:
        return Profile.model_validate_json(text)
    except ValidationError as error:
        raise InputError(f"profile {path} is not an {SCHEMA} of version {VERSION}: {in_a_line(error)}") from None


def write(path: Path, profile: Profile) -> None:
    """Write `profile` to `path` as JSON; InputError if the file cannot be written."""
    try:
        write_whole(path, profile.model_dump_json(indent=1, by_alias=True) + "\n")
    except StorageError as error:
        raise InputError(f"profile {error}; name another file with --out") from None


def show(profile: Profile) -> str:
    """The profile as a table of text, provenance first; spread is the distance between the quartiles.

    Layers that were measured once for several are one row, with their number; the last row is the whole model.
    """
    p = profile.provenance
    libraries = [f"torch {p.torch}", *([f"transformers {p.transformers}"] if p.transformers else [])]
    head = [
        f"{profile.model}: batch {p.batch}, {p.sample}, {p.dtype}; medians of {p.repeats} after {p.warmup} warm-ups",
        f"{p.device} {p.device_name}, {p.threads} threads; {', '.join(libraries)}; {p.optimizer}; {p.date}",
        *([f"others took at most {p.others_share:.1%} of the CPUs"] if p.others_share is not None else []),
        *([p.note] if p.note else []),
        "",
    ]
    columns = (
        "layer", "kind", "layers", "forward", "spread", "backward", "spread", "update", "spread",
        "parameters", "gradients", "output",
    )  # fmt: skip
    rows = [
        (
            layer.name, layer.kind, str(layer.repeats),
            format_duration(layer.forward_s), _spread(layer.forward),
            format_duration(layer.backward_s), _spread(layer.backward),
            format_duration(layer.update_s), _spread(layer.update),
            format_size(layer.parameter_bytes), format_size(layer.gradient_bytes),
            format_size(layer.activation_bytes),
        )
        for layer in profile.measured
    ]  # fmt: skip
    layers = profile.layers
    total = (
        "total", "", str(len(layers)),
        format_duration(sum(layer.forward_s for layer in layers)), "",
        format_duration(sum(layer.backward_s for layer in layers)), "",
        format_duration(sum(layer.update_s for layer in layers)), "",
        format_size(sum(layer.parameter_bytes for layer in layers)),
        format_size(sum(layer.gradient_bytes for layer in layers)), "",
    )  # fmt: skip
    return "\n".join([*head, text_table(columns, [*rows, total], align="ll")])


def split_into_stages(profile: Profile, stages: int) -> CutModel:
    """Cut the layers into `stages` contiguous stages so that the slowest takes the least time.

    A stage's time is the forward and backward time of its layers. Exact (dynamic programme over the
    place of the last cut). Raises InputError if there are fewer layers than stages.
    """
    layers = profile.layers
    if not 1 <= stages <= len(layers):
        raise InputError(
            f"profile {profile.model} has {len(layers)} layers; it cannot be cut into {stages} stages, but into 1 to {len(layers)}"
        )
    cuts = balanced_cuts([layer.forward_s + layer.backward_s for layer in layers], stages)
    parts = [layers[a:b] for a, b in itertools.pairwise(cuts)]
    return CutModel(
        layers=tuple(tuple(layer.name for layer in part) for part in parts),
        forward_s=tuple(sum(layer.forward_s for layer in part) for part in parts),
        backward_s=tuple(sum(layer.backward_s for layer in part) for part in parts),
        update_s=tuple(sum(layer.update_s for layer in part) for part in parts),
        parameter_bytes=tuple(sum(layer.parameter_bytes for layer in part) for part in parts),
        activation_bytes=tuple(part[-1].activation_bytes for part in parts[:-1]),
    )


def balanced_cuts(times_s: Sequence[float], parts: int) -> list[int]:
    """Indices 0 = c_0 < c_1 < .. < c_parts = n that minimise the largest sum of times_s[c_i:c_i+1]."""
    n = len(times_s)
    check_most("ways to cut layers into stages", parts * n * n // 2, MOST_CUTS, {"layers": n, "stages": parts})
    before = [0.0]
    for time_s in times_s:
        before.append(before[-1] + time_s)
    # best[b]: least possible largest part when the first b layers form the parts so far, and its cuts.
    best: list[tuple[float, list[int]] | None] = [(before[b], [0, b]) if b else None for b in range(n + 1)]
    for part in range(2, parts + 1):
        step: list[tuple[float, list[int]] | None] = [None] * (n + 1)
        for b in range(part, n + 1):
            slowest_s, cuts = min(
                (max(found[0], before[b] - before[a]), found[1])
                for a in range(part - 1, b)
                if (found := best[a]) is not None
            )
            step[b] = (slowest_s, [*cuts, b])
        best = step
    chosen = best[n]
    assert chosen is not None  # parts <= n, so the last layer can end the last part
    return chosen[1]


def _spread(timing: Timing) -> str:
    if timing.median_s == 0:
        return "-"
    return f"{(timing.p75_s - timing.p25_s) / timing.median_s:.1%}"
