"""An experiment file as written: the keys that may stand in it, their types and defaults."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from echelonflow.model.units import parse_duration_s
from simulator.realism import MAX_CLASSES, Realism

Enforcer = Literal["auto", "priority", "rate"]
MOST_FAULTS = 100


class NetworkSpec(BaseModel):
    """`topology` by name; further keys are that topology's options."""

    model_config = ConfigDict(extra="allow")
    topology: str


class ScalingSpec(BaseModel):
    """Similarity scaling: the link bandwidth divided by `bandwidth`, time stretched by `time`."""

    model_config = ConfigDict(extra="forbid")
    bandwidth: float = Field(gt=0)
    time: float = Field(gt=0)


class TraceSpec(BaseModel):
    """`format` by name and the `file`; further keys are that format's options."""

    model_config = ConfigDict(extra="allow")
    format: str
    file: str
    """Absolute, or relative to the experiment file; `~` and ${VARIABLES} are replaced."""
    coflows: int | None = Field(default=None, ge=1)
    """Only so many, the first to arrive."""
    speed_up: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    """Arrivals come so many times as fast; sizes stay."""
    epoch: str | None = None
    """Arrivals are brought forward to multiples of this, as simulators do that admit at intervals."""


class ImportSpec(BaseModel):
    """`format` by name and its `files`; further keys are that format's options."""

    model_config = ConfigDict(extra="allow")
    format: str
    files: list[str] = Field(min_length=1)
    """Absolute, or relative to the experiment file; `~` and ${VARIABLES} are replaced, and * stands for any characters."""


class JobSpec(BaseModel):
    """`paradigm` by name, further keys being that paradigm's options; or an `import`; or a `trace` and only the name."""

    model_config = ConfigDict(extra="allow")
    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    paradigm: str | None = None
    trace: TraceSpec | None = None
    import_: ImportSpec | None = Field(default=None, alias="import")
    profile: str | None = None
    iterations: int = Field(default=1, ge=1, le=1_000_000)
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)
    start: str = "0 s"
    placement: list[str] | None = None
    scaling: ScalingSpec | None = None


class EmulationSpec(BaseModel):
    """How the network is realised; none of it changes what is simulated."""

    model_config = ConfigDict(extra="forbid")
    datapath: Literal["auto", "kernel", "userspace"] = "auto"
    tso: bool | None = None
    congestion_control: str = "cubic"
    enforcer: Enforcer = "auto"
    framework: Literal["ryu", "os-ken"] = "ryu"
    progress_interval: str = "50 ms"
    limits: dict[str, float] = Field(default_factory=dict)


class FluidSpec(BaseModel):
    """How far a simulation departs from the ideal (`simulator.realism`): by default not at all."""

    model_config = ConfigDict(extra="forbid")
    classes: int | None = Field(default=None, ge=1, le=MAX_CLASSES)
    decision_latency: str = "0 s"
    enforcer: Enforcer = "auto"
    undecided: Literal["wait", "last-class"] = "wait"
    burst: str = "0 s"

    def realism(self) -> Realism:
        """The simulator's parameters; InputError for a latency or a burst that is none."""
        latency_s, burst_s = parse_duration_s(self.decision_latency), parse_duration_s(self.burst)
        return Realism(self.classes, latency_s, self.enforcer, self.undecided, burst_s=burst_s)


class FaultSpec(BaseModel):
    """A planned fault: its kind, what it strikes, `at` which time of the run and `for` how long (else to its end)."""

    model_config = ConfigDict(extra="forbid")
    fault: Literal["link-down", "link-rate", "slowdown", "crash", "controller-stop", "lost-messages"]
    at: str
    for_: str | None = Field(default=None, alias="for")
    link: list[str] | None = Field(default=None, min_length=2, max_length=2)
    """The two nodes that it joins."""
    rate: str | None = None
    """As a share, such as "40 %", or such as "10 Mbit/s"."""
    host: str | None = None
    factor: float | None = Field(default=None, allow_inf_nan=False)
    """How many times as long computations take."""
    share: str | None = None
    """Of messages that are lost, such as "20 %"."""


class ExperimentSpec(BaseModel):
    """One experiment file as written."""

    model_config = ConfigDict(extra="forbid")
    name: str = Field(pattern=r"^[A-Za-z0-9_.-]+$")
    title: str = ""
    time_unit: str | None = None
    network: NetworkSpec
    jobs: list[JobSpec] = Field(min_length=1)
    policies: list[str] = Field(min_length=1)
    repeats: int = Field(default=1, ge=1, le=10_000)
    seed: int = Field(default=0, ge=0)
    emulation: EmulationSpec = EmulationSpec()
    fluid: FluidSpec = FluidSpec()
    faults: list[FaultSpec] = Field(default_factory=list, max_length=MOST_FAULTS)
