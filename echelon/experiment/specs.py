"""An experiment file as written: the keys that may stand in it, their types, bounds and defaults.

Every field says in its `description` what its value is ("a whole number from 1 to 10,000"), and has an example. Messages
about a wrong value are made of these two (`echelon.experiment.wording`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from echelonflow.bounds import (
    LEAST_FACTOR,
    MOST_FACTOR,
    MOST_GPUS_PER_HOST,
    MOST_ITERATIONS,
    MOST_NAME,
    MOST_RANKS,
    MOST_REPEATS,
)
from echelonflow.errors import InputError, about
from echelonflow.model.draws import MOST_SLOWDOWN, Draws
from echelonflow.model.units import parse_duration_s, parse_share
from echelonflow.scheduling import folding
from echelonflow.spelling import shown
from echelonflow.wire.messages import Decisions
from simulator.realism import MAX_CLASSES, UNDECIDED_FLOWS, Realism, Undecided

Enforcer = Literal["auto", "priority", "rate", "weighted"]
EnforcerText = Annotated[
    str,
    Field(description="auto, or an enforcer, its options in brackets", examples=["priority(classes=3,folding=top)"]),
]
MOST_FAULTS = 100
MOST_JOBS = 10_000
MOST_BACKGROUNDS = 20
MOST_CUT = 1e9
MOST_WEIGHT = 1e9
MOST_STRETCH = 1000
MOST_SEED = (1 << 63) - 1


def said(what: str, example: Any, default: Any = ..., **constraints: Any) -> Any:
    """A field whose value is `what`, such as `example`; required unless it has a default."""
    return Field(default, description=what, examples=[example], **constraints)


FileName = Annotated[str, Field(description="the name of a file", examples=["job.json"])]
HostName = Annotated[str, Field(description="the name of a host or switch", examples=["h1"])]
PolicyText = Annotated[str, Field(description="a policy, its options in brackets", examples=["coflow(grouping=group)"])]
RateText = Annotated[str, Field(description="a rate", examples=["10 Mbit/s"])]
PointSpec = Annotated[
    dict[str, Any], Field(description="a mapping of paths to values", examples=[{"network.rate": "10 Mbit/s"}])
]
Rank = Annotated[int, Field(ge=0, description="a rank, counted from 0", examples=[0])]
Limit = Annotated[float, Field(ge=0, allow_inf_nan=False, description="a finite number of at least 0", examples=[0.05])]
NAME = "a name of letters, digits, '_', '.' and '-'" + f", {MOST_NAME} at most"
_NAME = {"pattern": r"^[A-Za-z0-9_.-]+$", "max_length": MOST_NAME}
_DURATION = "a duration with its unit"


def _placement(value: Any) -> Any:
    """A list of hosts, a text, or nothing; ValueError, in the words of a message, for anything else."""
    is_list = isinstance(value, list) and value and all(isinstance(host, str) for host in value)
    if not (is_list or isinstance(value, str) or value is None):
        raise ValueError(
            f"{shown(value)} is neither a list of hosts, one for each rank, nor a placement; "
            "write such as `placement: [h1, h2]` or `placement: packed`"
        )
    return value


Placement = Annotated[Any, AfterValidator(_placement)]
"""Hosts, one for each rank, or how they are found: a placement, its options in brackets."""


class _Spec(BaseModel):
    """Nothing is taken for what it is not: `true` is no number, and "5" is none either."""

    model_config = ConfigDict(extra="forbid", strict=True)


class NetworkSpec(_Spec):
    """`topology` by name; further keys are that topology's options."""

    model_config = ConfigDict(extra="allow")
    topology: str = said("the name of a topology", "single-switch")
    gpus_per_host: int | None = said(
        f"a whole number from 1 to {MOST_GPUS_PER_HOST:,}", 8, None, ge=1, le=MOST_GPUS_PER_HOST
    )
    """None: one, and jobs may share hosts all the same."""
    rates: dict[str, RateText] = said(
        "a mapping of hosts or cables to rates", {"h1": "10 Mbit/s"}, default_factory=dict
    )
    routing: str = said("one of destination, ecmp", "ecmp", "destination")


class ScalingSpec(_Spec):
    """Similarity scaling: the link bandwidth divided by `bandwidth`, time stretched by `time`."""

    bandwidth: float = said(
        f"a number from {LEAST_FACTOR:g} to {MOST_FACTOR:,.0f}", 12, ge=LEAST_FACTOR, le=MOST_FACTOR
    )
    time: float = said(f"a number from {LEAST_FACTOR:g} to {MOST_FACTOR:,.0f}", 1.2, ge=LEAST_FACTOR, le=MOST_FACTOR)


class TraceSpec(_Spec):
    """`format` by name and the `file`; further keys are that format's options."""

    model_config = ConfigDict(extra="allow")
    format: str = said("the name of a trace format", "coflow-benchmark")
    file: str = said("the name of a file", "trace.txt")
    """Absolute, or relative to the experiment file; `~` and ${VARIABLES} are replaced."""
    coflows: int | None = said("a whole number of at least 1", 100, None, ge=1)
    """Only so many, the first to arrive."""
    speed_up: float = said(
        f"a number from {LEAST_FACTOR:g} to {MOST_FACTOR:,.0f}", 2, 1.0, ge=LEAST_FACTOR, le=MOST_FACTOR
    )
    """Arrivals come so many times as fast; sizes stay."""
    epoch: str | None = said(_DURATION, "10 ms", None)
    """Arrivals are brought forward to multiples of this, as simulators do that admit at intervals."""


class ImportSpec(_Spec):
    """`format` by name and its `files`; further keys are that format's options."""

    model_config = ConfigDict(extra="allow")
    format: str = said("the name of a format", "job")
    files: list[FileName] = said("a list of at least one file", ["job.json"], min_length=1)
    """Absolute, or relative to the experiment file; `~` and ${VARIABLES} are replaced, and * stands for any characters."""


class JobTraceSpec(_Spec):
    """`format` by name and the `file`; further keys are that format's options."""

    model_config = ConfigDict(extra="allow")
    format: str = said("the name of a job trace format", "muri")
    file: str = said("the name of a file", "trace1.csv")
    """Absolute, or relative to the experiment file; `~` and ${VARIABLES} are replaced."""
    rate: str = said("a rate", "100 Gbit/s")
    """Of links on which communication takes the time that the trace says, if alone."""
    pattern: str = said("one of ring, all-to-all, parameter-server", "ring", "ring")
    jobs: int | None = said("a whole number of at least 1", 100, None, ge=1)
    """Only so many, the first to arrive."""
    cut: float = said(f"a number from 1 to {MOST_CUT:,.0f}", 1000, 1.0, ge=1, le=MOST_CUT)
    """Iterations are divided by it, and arrivals come together to match: the load stays."""
    most_iterations: int | None = said("a whole number of at least 1", 100, None, ge=1)
    """Of a job; arrivals come together to match."""
    speed_up: float = said(
        f"a number from {LEAST_FACTOR:g} to {MOST_FACTOR:,.0f}", 2, 1.0, ge=LEAST_FACTOR, le=MOST_FACTOR
    )
    """Arrivals come so many times as fast; the load grows."""


class ArrivalsSpec(_Spec):
    """When jobs arrive that say no `start`: by a `process`, on average one `every` so long."""

    process: Literal["poisson", "even"] = said("one of poisson, even", "poisson")
    every: str = said(_DURATION, "30 s")
    seed: int | None = said("a whole number from 0 on, of 63 bits at most", 7, None, ge=0, le=MOST_SEED)
    """None: that of the experiment."""


class BackgroundSpec(_Spec):
    """Traffic of no job: from each of `hosts` (default: all) flows to others, a share `load` of its link, `for` so long."""

    name: str = said(NAME, "background", "background", **_NAME)
    load: str = said("a share", "10 %")
    size: str = said("a size", "1 MB")
    """Of a flow, on average."""
    sizes: str = said("one of fixed, heavy-tailed", "fixed", "fixed")
    for_: str = said(_DURATION, "60 s", alias="for")
    hosts: list[HostName] | None = said("a list of hosts", ["h1", "h2"], None, min_length=2)
    seed: int | None = said("a whole number from 0 on, of 63 bits at most", 7, None, ge=0, le=MOST_SEED)
    """None: that of the experiment."""


class StragglersSpec(_Spec):
    """Ranks that are slow: a `count` of them, drawn in every repeat, or `ranks` by number; by how much says `slowdown`."""

    count: int | None = said(f"a whole number from 1 to {MOST_RANKS:,}", 1, None, ge=1, le=MOST_RANKS)
    ranks: list[Rank] | None = said("a list of ranks", [0, 2], None, min_length=1)
    slowdown: float = said(f"a number above 1, {MOST_SLOWDOWN:g} at most", 1.3, gt=1, le=MOST_SLOWDOWN)
    """How many times as long computations take there."""


class JobSpec(_Spec):
    """`paradigm` by name, further keys being that paradigm's options; or an `import`; or a `trace` and only the name."""

    model_config = ConfigDict(extra="allow")
    name: str = said(NAME, "gpt2", **_NAME)
    paradigm: str | None = said("the name of a paradigm", "gpipe", None)
    trace: TraceSpec | None = said(
        "a mapping of format and file", {"format": "coflow-benchmark", "file": "trace.txt"}, None
    )
    import_: ImportSpec | None = said(
        "a mapping of format and files", {"format": "job", "files": ["job.json"]}, None, alias="import"
    )
    scheduler: str | None = said(
        "a job scheduler, its options in brackets", "bytescheduler(partition=4 MB, credit=16 MB)", None
    )
    """In what order the job's own tensors go to the network; None: each as soon as it is ready."""
    profile: str | None = said("the name of a profile", "gpt2-small-cpu", None)
    iterations: int = said(f"a whole number from 1 to {MOST_ITERATIONS:,}", 3, 1, ge=1, le=MOST_ITERATIONS)
    weight: float = said(f"a number above 0, {MOST_WEIGHT:,.0f} at most", 2, 1.0, gt=0, le=MOST_WEIGHT)
    start: str = said(_DURATION, "2 s", "0 s")
    after: str | None = said("the name of another job", "gpt2", None)
    """It begins, on each rank, when that rank has ended the other job, which is on the same hosts."""
    placement: Placement = said("a list of hosts, one for each rank, or a placement", ["h1", "h2"], None)
    scaling: ScalingSpec | None = said("a mapping of time and bandwidth", {"time": 1.2, "bandwidth": 12}, None)
    job_trace: JobTraceSpec | None = said(
        "a mapping of format, file and rate", {"format": "muri", "file": "trace1.csv", "rate": "100 Gbit/s"}, None
    )
    """Jobs out of a file, in the place of this one."""
    count: int = said(f"a whole number from 1 to {MOST_JOBS:,}", 20, 1, ge=1, le=MOST_JOBS)
    """So many jobs like this, whose names are this one's with numbers."""
    jitter: str | None = said("a share", "5 %", None)
    """Coefficient of variation of what computations take, each drawn anew in every iteration and repeat."""
    stragglers: StragglersSpec | None = said(
        "a mapping of count or ranks, and slowdown", {"count": 1, "slowdown": 1.3}, None
    )

    def draws(self, seed: int) -> Draws | None:
        """How its computations vary; None where they do not. InputError, one line per fault."""
        if self.jitter is None and self.stragglers is None:
            return None
        text, slow = self.jitter, self.stragglers
        jitter = 0.0 if text is None else about("jitter", lambda: parse_share(text))
        if slow is None:
            return about("jitter", lambda: Draws(seed, jitter))
        if (slow.count is None) == (slow.ranks is None):
            raise InputError("stragglers: name either a `count` of ranks to be drawn, or `ranks`")
        return about("jitter", lambda: Draws(seed, jitter, slow.slowdown, tuple(slow.ranks or ()), slow.count or 0))


class EmulationSpec(_Spec):
    """How the network is realised; none of it changes what is simulated."""

    datapath: Literal["auto", "kernel", "userspace"] = said("one of auto, kernel, userspace", "auto", "auto")
    tso: bool | None = said("true or false", example=False, default=None)
    congestion_control: str = said("the name of a congestion control", "cubic", "cubic")
    enforcer: EnforcerText = said("auto, or an enforcer, its options in brackets", "priority(classes=3)", "auto")
    framework: Literal["ryu", "os-ken"] = said("one of ryu, os-ken", "ryu", "ryu")
    decisions: Decisions = said("one of wait, ahead", "wait", "ahead")
    """Whether flows wait for a decision at their release, or one may be made before."""
    progress_interval: str = said("a duration from 1 ms to 10 s", "50 ms", "50 ms")
    confirm_rules: bool = said("true or false", example=True, default=False)
    """Whether switches confirm every change of rules, and rules.jsonl says when: it costs a message each."""
    limits: dict[str, Limit] = said(
        "a mapping of limits to numbers", {"max_moved_iteration": 0.05}, default_factory=dict
    )


class FluidSpec(_Spec):
    """How far a simulation departs from the ideal (`simulator.realism`): by default not at all."""

    classes: int | None = said(f"a whole number from 1 to {MAX_CLASSES}", 7, None, ge=1, le=MAX_CLASSES)
    decision_latency: str = said(_DURATION, "5 ms", "0 s")
    enforcer: Enforcer = said("one of auto, priority, rate, weighted", "auto", "auto")
    folding: str = said("the name of a folding", "top", "links")
    """How an order is folded into the classes."""
    undecided: Undecided = said(f"one of {', '.join(UNDECIDED_FLOWS)}", "wait", "wait")
    burst: str = said(_DURATION, "2 ms", "0 s")

    def realism(self) -> Realism:
        """The simulator's parameters; InputError for a latency or a burst that is none."""
        latency_s = about("decision_latency", lambda: parse_duration_s(self.decision_latency))
        burst_s = about("burst", lambda: parse_duration_s(self.burst))
        about("folding", lambda: folding.load(self.folding))
        return Realism(self.classes, latency_s, self.enforcer, self.undecided, burst_s=burst_s, folding=self.folding)


class FaultSpec(_Spec):
    """A planned fault: its kind, what it strikes, `at` which time of the run and `for` how long (else to its end)."""

    fault: Literal["link-down", "link-rate", "slowdown", "crash", "controller-stop", "lost-messages"] = said(
        "one of link-down, link-rate, slowdown, crash, controller-stop, lost-messages", "link-down"
    )
    at: str = said(_DURATION, "2 s")
    for_: str | None = said(_DURATION, "500 ms", None, alias="for")
    link: list[HostName] | None = said(
        "a list of the two nodes that it joins", ["h1", "s1"], None, min_length=2, max_length=2
    )
    """The two nodes that it joins."""
    rate: str | None = said("a share or a rate", "40 %", None)
    """As a share, such as "40 %", or such as "10 Mbit/s"."""
    host: str | None = said("the name of a host", "h1", None)
    factor: float | None = said("a number above 1", 3, None, allow_inf_nan=False)
    """How many times as long computations take."""
    share: str | None = said("a share", "20 %", None)
    """Of messages that are lost, such as "20 %"."""


class SweepSpec(_Spec):
    """What `echelon sweep` varies: every combination of `over`, for each of `points` where there are any."""

    over: dict[str, Any] = said(
        "a mapping of paths to lists of values", {"network.rate": ["10 Mbit/s", "20 Mbit/s"]}, default_factory=dict
    )
    points: list[PointSpec] = said(
        "a list of points, each a mapping of paths to values", [{"network.rate": "10 Mbit/s"}], default_factory=list
    )


class ExperimentSpec(_Spec):
    """One experiment file as written."""

    name: str = said(NAME, "pipeline", **_NAME)
    title: str = said("text", "Two stages, one link", "")
    time_unit: str | None = said(_DURATION, "1 s", None)
    network: NetworkSpec = said(
        "a mapping of topology and its options", {"topology": "single-switch", "hosts": 2, "rate": "100 Mbit/s"}
    )
    jobs: list[JobSpec] = said("a list of at least one job", [{"name": "gpt2", "paradigm": "gpipe"}], min_length=1)
    policies: list[PolicyText] = said("a list of at least one policy", ["fair", "echelonflow"], min_length=1)
    against: PolicyText | None = said("one of the policies", "fair", None)
    """Others are compared with it; with the first where none is named."""
    repeats: int = said(f"a whole number from 1 to {MOST_REPEATS:,}", 5, 1, ge=1, le=MOST_REPEATS)
    placement: str | None = said("a placement, its options in brackets", "packed", None)
    """Of all jobs that have none of their own."""
    arrivals: ArrivalsSpec | None = said(
        "a mapping of process and every", {"process": "poisson", "every": "30 s"}, None
    )
    background: list[BackgroundSpec] = said(
        "a list of kinds of traffic",
        [{"load": "10 %", "size": "1 MB", "for": "60 s"}],
        default_factory=list,
        max_length=MOST_BACKGROUNDS,
    )
    queue: Literal["fifo", "backfill"] | None = said("one of fifo, backfill", "fifo", None)
    """How jobs that list no hosts wait for GPUs; None: all of them are placed before the run."""
    stretch: float = said(f"a number from 1 to {MOST_STRETCH:,}", 2, 1.0, ge=1, le=MOST_STRETCH)
    """All jobs' times and sizes, and the times of faults, are so many times what the file says; rates are what it says."""
    seed: int = said("a whole number from 0 on, of 63 bits at most", 7, 0, ge=0, le=MOST_SEED)
    window: str = said("steady, all, or two moments with `to` between them", "steady", "all")
    """Which iterations count: `all`, `steady` (while all jobs run and have warmed up), or such as "5 s to 20 s"."""
    warm_up: int | None = said(f"a whole number from 0 to {MOST_ITERATIONS:,}", 2, None, ge=0, le=MOST_ITERATIONS)
    """First iterations of each job that do not count in steady state."""
    emulation: EmulationSpec = said("a mapping of settings", {"datapath": "kernel"}, EmulationSpec())
    fluid: FluidSpec = said("a mapping of settings", {"classes": 7}, FluidSpec())
    faults: list[FaultSpec] = said(
        f"a list of planned faults, {MOST_FAULTS} at most",
        [{"fault": "crash", "at": "2 s", "host": "h1"}],
        default_factory=list,
        max_length=MOST_FAULTS,
    )
    sweep: SweepSpec | None = said(
        "a mapping of what `echelon sweep` varies", {"over": {"network.rate": ["10 Mbit/s", "20 Mbit/s"]}}, None
    )
