"""A training job as a DAG of compute and transfer steps, and what it would do without a network.

One `JobDag` is one iteration; `next_iteration` edges tie it to the following one. All steps that share a GPU are
chained by the generator in the order in which the GPU runs them. So a step may start as soon as the steps it names have
finished: nothing else is implied.
"""

from __future__ import annotations

import copy
import dataclasses
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from echelonflow.bounds import MOST_BYTES
from echelonflow.errors import InputError, about
from echelonflow.model.discipline import Discipline
from echelonflow.model.draws import Draws, Durations
from echelonflow.model.iterations import durations_s, ends_s

if TYPE_CHECKING:
    from echelonflow.model.edges import Edges

SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Compute:
    """`duration_s` seconds of computation on one rank, after the steps named in `after`."""

    name: str
    rank: int
    duration_s: float
    after: tuple[str, ...] = ()
    kind: str = "compute"
    """What the computation is, e.g. "forward", "backward", "update": names its colour in pictures."""


@dataclass(frozen=True, slots=True)
class Transfer:
    """`size_bytes` payload bytes from one rank to another, released once `after` has finished."""

    name: str
    src_rank: int
    dst_rank: int
    size_bytes: int
    coflow: str
    """The Coflow this flow belongs to under `grouping=collective`. Its EchelonFlow is the `Group` that lists it."""
    after: tuple[str, ...] = ()


Step = Compute | Transfer


def rank_of(step: Step) -> int:
    """The rank that begins a step: on which it computes, or from which it leaves."""
    return step.rank if isinstance(step, Compute) else step.src_rank


@dataclass(frozen=True, slots=True)
class Group:
    """An EchelonFlow: transfers whose ideal finish times are r + offset (docs/design.md, "The mathematics").

    `transfers` and `offsets_s` have one entry per flow, in the order in which they are consumed.
    """

    name: str
    kind: str
    transfers: tuple[str, ...]
    offsets_s: tuple[float, ...]
    weight: float = 1.0


_FIELDS = ("ranks", "steps", "groups", "next_iteration", "parameters")
_OF_ORDER = ("order", "place", "places_before", "places_in_order", "followers", "next_followers", "previous", "edges")
"""Properties of a `JobDag` that times and sizes leave as they are."""


@dataclass(frozen=True)
class JobDag:
    """One iteration of a job on ranks 0 .. `ranks` - 1.

    `next_iteration` holds (earlier, later) pairs: step `later` of iteration k + 1 waits for step
    `earlier` of iteration k. Raises InputError, naming the step or group, for duplicate or unknown names, cycles
    (within one iteration), and ranks out of range. It also does for sizes and times that are not positive and finite,
    and for transfers that are not in exactly one group.
    """

    ranks: int
    steps: tuple[Step, ...]
    groups: tuple[Group, ...] = ()
    next_iteration: tuple[tuple[str, str], ...] = ()
    parameters: dict[str, Any] = field(default_factory=dict, compare=False)
    """What the generator was asked for; kept for reports only."""

    def __post_init__(self) -> None:
        _check_steps(self)
        _check_groups(self)
        _ = self.places_in_order  # raises on a cycle

    def with_values(self, steps: tuple[Step, ...], groups: tuple[Group, ...], parameters: dict[str, Any]) -> JobDag:
        """The same DAG with other times and sizes (InputError as above); what was found out about its order is kept.

        `steps` have the names of those that are here, wait for the same, and are on the same ranks.
        """
        other = JobDag.__new__(JobDag)
        other.__dict__.update({name: self.__dict__[name] for name in _OF_ORDER if name in self.__dict__})
        values = (self.ranks, steps, groups, self.next_iteration, parameters)
        other.__dict__.update(zip(_FIELDS, values, strict=True))
        other.__post_init__()
        return other

    def with_groups(self, groups: Iterable[Group]) -> JobDag:
        """The same steps in other groups (InputError as above); what was found out about the steps is kept."""
        other = copy.copy(self)
        object.__setattr__(other, "groups", tuple(groups))
        for name in ("offset_s", "group_of"):
            other.__dict__.pop(name, None)
        _check_groups(other)
        return other

    @cached_property
    def by_name(self) -> dict[str, Step]:
        return {step.name: step for step in self.steps}

    @cached_property
    def transfers(self) -> tuple[Transfer, ...]:
        """All transfers in the order of `steps`; their position is the flow's index in the job."""
        return tuple(step for step in self.steps if isinstance(step, Transfer))

    @cached_property
    def computes(self) -> tuple[Compute, ...]:
        return tuple(step for step in self.steps if isinstance(step, Compute))

    @cached_property
    def offset_s(self) -> dict[str, float]:
        """Offset of every transfer within its EchelonFlow, in seconds."""
        return {
            name: offset for group in self.groups for name, offset in zip(group.transfers, group.offsets_s, strict=True)
        }

    @cached_property
    def group_of(self) -> dict[str, Group]:
        """The EchelonFlow of every transfer."""
        return {name: group for group in self.groups for name in group.transfers}

    @cached_property
    def order(self) -> tuple[str, ...]:
        """Step names in a topological order (stable with respect to `steps`)."""
        return tuple(self.steps[place].name for place in self.places_in_order)

    @cached_property
    def place(self) -> dict[str, int]:
        """Where in `steps` each step is."""
        return {step.name: place for place, step in enumerate(self.steps)}

    @cached_property
    def places_before(self) -> list[tuple[int, ...]]:
        """For each of `steps`, the places of the steps of the same iteration that it waits for."""
        place = self.place.__getitem__
        return [tuple(map(place, step.after)) for step in self.steps]

    @cached_property
    def places_in_order(self) -> list[int]:
        """Places of the steps in a topological order (stable with respect to `steps`)."""
        waiting = [len(before) for before in self.places_before]
        behind: list[list[int]] = [[] for _ in self.steps]
        for later, before in enumerate(self.places_before):
            for earlier in before:
                behind[earlier].append(later)
        found = [later for later, count in enumerate(waiting) if count == 0]
        for earlier in found:  # which grows meanwhile
            for later in behind[earlier]:
                waiting[later] -= 1
                if waiting[later] == 0:
                    found.append(later)
        if len(found) != len(self.steps):
            stuck = sorted(step.name for step, count in zip(self.steps, waiting, strict=True) if count > 0)
            named = (name if name.isprintable() else repr(name) for name in stuck[:5])
            raise InputError(f"job has a cycle through {', '.join(named)}; a DAG has none")
        return found

    @cached_property
    def followers(self) -> dict[str, tuple[str, ...]]:
        """For each step, the steps of the same iteration that wait for it."""
        found: dict[str, list[str]] = {step.name: [] for step in self.steps}
        for step in self.steps:
            for name in step.after:
                found[name].append(step.name)
        return {name: tuple(after) for name, after in found.items()}

    @cached_property
    def next_followers(self) -> dict[str, tuple[str, ...]]:
        """For each step, the steps of the *next* iteration that wait for it."""
        found: dict[str, list[str]] = {step.name: [] for step in self.steps}
        for earlier, later in self.next_iteration:
            found[earlier].append(later)
        return {name: tuple(after) for name, after in found.items()}

    @cached_property
    def previous(self) -> dict[str, tuple[str, ...]]:
        """For each step, the steps of the *previous* iteration that it waits for."""
        found: dict[str, list[str]] = {step.name: [] for step in self.steps}
        for earlier, later in self.next_iteration:
            found[later].append(earlier)
        return {name: tuple(before) for name, before in found.items()}

    @cached_property
    def edges(self) -> Edges:
        """The same three and `places_before` as arrays."""
        from echelonflow.model.edges import edges_of  # which loads numpy: nothing else here does

        return edges_of(self)


@dataclass(frozen=True)
class Job:
    """A DAG placed on hosts: rank i runs on `placement[i]`; `iterations` passes from `start_s` on.

    One that is placed when it is admitted has no `placement` before, and arrives at `start_s`. One that comes `after` another
    begins rank by rank (`echelonflow.model.following`); its `start_s` says when, where it has run.
    """

    name: str
    dag: JobDag
    placement: tuple[str, ...]
    iterations: int = 1
    weight: float = 1.0
    start_s: float = 0.0
    discipline: Discipline | None = None
    """In what order its own transfers go to the network; None: each as soon as it is ready."""
    draws: Draws | None = None
    """How its computations vary; None: each takes what the DAG says."""
    is_background: bool = False
    """Whether it stands for traffic of no job: it needs no GPU, and is not measured."""
    after: str | None = None
    """The job on the same hosts that must have ended; None: it waits for none."""

    def __post_init__(self) -> None:
        if self.is_placed and len(self.placement) != self.dag.ranks:
            raise InputError(
                f"job {self.name}: {self.dag.ranks} ranks but {len(self.placement)} hosts in its placement"
            )
        if self.iterations < 1:
            raise InputError(f"job {self.name}: iterations is {self.iterations}; at least 1 is needed")
        if not self.start_s >= 0:
            raise InputError(f"job {self.name}: start is {self.start_s} s; it cannot lie before 0")
        discipline = self.discipline
        if discipline is not None:
            about(f"job {self.name}", lambda: discipline.check(self.dag))
        draws = self.draws
        if draws is not None:
            about(f"job {self.name}", lambda: draws.check(self.dag.ranks))

    @cached_property
    def first_steps(self) -> frozenset[str]:
        """The steps with which an iteration begins on a rank: they wait for none of its own steps in that iteration.

        Where the job comes after no other, those that wait for nothing at all, as then nothing else is asked of them.
        """
        if self.after is None:
            return frozenset(step.name for step in self.dag.steps if not step.after)
        by_name = self.dag.by_name
        return frozenset(
            step.name
            for step in self.dag.steps
            if not any(rank_of(by_name[before]) == rank_of(step) for before in step.after)
        )

    @property
    def earliest_s(self) -> float:
        """No step of it begins before; one that comes after another begins on each rank by itself."""
        return self.start_s if self.after is None else 0.0

    @property
    def is_placed(self) -> bool:
        """Whether it is known on which hosts it runs."""
        return len(self.placement) > 0

    def hosts_of(self, transfer: Transfer) -> tuple[str, str]:
        """Source and destination host of a transfer; equal where both ranks share a host (no flow)."""
        return self.placement[transfer.src_rank], self.placement[transfer.dst_rank]

    def is_local(self, transfer: Transfer) -> bool:
        src, dst = self.hosts_of(transfer)
        return src == dst


def as_declared(jobs: Iterable[Job]) -> tuple[Job, ...]:
    """The jobs without draws: each computation takes what the DAG says."""
    return tuple(job if job.draws is None else dataclasses.replace(job, draws=None) for job in jobs)


def run_without_network(job_dag: JobDag, iterations: int = 1) -> list[dict[str, tuple[float, float]]]:
    """Start and finish of every step, per iteration, if every transfer took no time at all.

    Returns one dict per iteration, step name to (start_s, finish_s), the first step starting at 0.
    """
    names = [step.name for step in job_dag.steps]
    return [
        dict(zip(names, zip(start_s, finish_s, strict=True), strict=True))
        for start_s, finish_s in _times_without_network(job_dag, iterations)
    ]


def _times_without_network(
    job_dag: JobDag, iterations: int, drawn: Durations | None = None
) -> list[tuple[list[float], list[float]]]:
    """The same, one (starts, finishes) per iteration, by the steps' places; computations take what is `drawn`, if anything is."""
    runs: list[tuple[list[float], list[float]]] = []
    places_before = job_dag.places_before
    duration_s = [step.duration_s if isinstance(step, Compute) else 0.0 for step in job_dag.steps]
    earliest_s = [0.0] * len(duration_s)
    for iteration in range(iterations):
        if drawn is not None:
            duration_s = [drawn.of(iteration, step) if isinstance(step, Compute) else 0.0 for step in job_dag.steps]
        start_s, finish_s = earliest_s.copy(), [0.0] * len(duration_s)
        for step in job_dag.places_in_order:
            begin_s = start_s[step]
            for before in places_before[step]:
                begin_s = max(begin_s, finish_s[before])
            start_s[step] = begin_s
            finish_s[step] = begin_s + duration_s[step]
        runs.append((start_s, finish_s))
        earliest_s = [0.0] * len(duration_s)
        for earlier, later in job_dag.next_iteration:
            step = job_dag.place[later]
            earliest_s[step] = max(earliest_s[step], finish_s[job_dag.place[earlier]])
    return runs


def iteration_times_without_network(job_dag: JobDag, iterations: int, drawn: Durations | None = None) -> list[float]:
    """Duration of each iteration in seconds if transfers took no time: the part nobody can schedule away.

    What an iteration is says `echelonflow.model.iterations`; the first one begins at 0. Computations take what is `drawn`
    for them, or what the DAG says.
    """
    last_s = (max(finish_s) for _, finish_s in _times_without_network(job_dag, iterations, drawn))
    return durations_s(ends_s(last_s))


def derived_offsets(job_dag: JobDag) -> dict[str, float]:
    """Offsets of all transfers "from the DAG": when each is first consumed in a run without a network.

    A transfer's value is the start of its earliest consumer less the least such start in its group
    (docs/design.md, "Arrangement functions"). A consumer may belong to the next iteration. A transfer that nobody waits for
    is taken to be consumed when it is released. Seconds, per transfer name.
    """
    (first_s, _), (second_s, _) = _times_without_network(job_dag, 2)
    consumed_s = [math.inf] * len(job_dag.steps)
    for later, before in enumerate(job_dag.places_before):
        for earlier in before:
            consumed_s[earlier] = min(consumed_s[earlier], first_s[later])
    for name, later_name in job_dag.next_iteration:
        earlier, later = job_dag.place[name], job_dag.place[later_name]
        consumed_s[earlier] = min(consumed_s[earlier], second_s[later])
    group_of = job_dag.group_of
    head_s: dict[str, float] = {}
    for place, step in enumerate(job_dag.steps):
        if isinstance(step, Transfer):
            if math.isinf(consumed_s[place]):
                consumed_s[place] = first_s[place]
            group = group_of[step.name].name
            head_s[group] = min(head_s.get(group, math.inf), consumed_s[place])
    return {
        step.name: at_s - head_s[group_of[step.name].name]
        for step, at_s in zip(job_dag.steps, consumed_s, strict=True)
        if isinstance(step, Transfer)
    }


def to_dict(job_dag: JobDag) -> dict[str, Any]:
    """The JSON form of a DAG (schema version 1); `from_dict` reads it back unchanged."""

    def plain(step: Step) -> dict[str, Any]:
        common = {"name": step.name, "after": list(step.after)}
        if isinstance(step, Compute):
            return {"compute": step.rank, "duration_s": step.duration_s, "kind": step.kind, **common}
        return {
            "transfer": [step.src_rank, step.dst_rank],
            "size_bytes": step.size_bytes,
            "group": job_dag.group_of[step.name].name,
            "coflow": step.coflow,
            **common,
        }

    return {
        "schema": "echelon-job",
        "version": SCHEMA_VERSION,
        "ranks": job_dag.ranks,
        "steps": [plain(step) for step in job_dag.steps],
        "groups": [
            {
                "name": group.name,
                "kind": group.kind,
                "weight": group.weight,
                "transfers": list(group.transfers),
                "offsets_s": list(group.offsets_s),
            }
            for group in job_dag.groups
        ],
        "next_iteration": [list(pair) for pair in job_dag.next_iteration],
        "parameters": job_dag.parameters,
    }


def from_dict(data: Mapping[str, Any]) -> JobDag:
    """Read the JSON form of a DAG; InputError where it is not one of a version known here."""
    if data.get("schema") != "echelon-job" or data.get("version") != SCHEMA_VERSION:
        raise InputError(
            f"not an echelon-job of version {SCHEMA_VERSION}: "
            f"schema is {data.get('schema')!r}, version {data.get('version')!r}"
        )

    def step(entry: Mapping[str, Any]) -> Step:
        after = tuple(entry["after"])
        if "compute" in entry:
            return Compute(entry["name"], entry["compute"], entry["duration_s"], after, entry["kind"])
        src, dst = entry["transfer"]
        return Transfer(entry["name"], src, dst, entry["size_bytes"], entry["coflow"], after)

    try:
        job_dag = JobDag(
            ranks=data["ranks"],
            steps=tuple(step(entry) for entry in data["steps"]),
            groups=tuple(
                Group(g["name"], g["kind"], tuple(g["transfers"]), tuple(g["offsets_s"]), g["weight"])
                for g in data["groups"]
            ),
            next_iteration=tuple((a, b) for a, b in data["next_iteration"]),
            parameters=dict(data.get("parameters", {})),
        )
        check_members(job_dag, {entry["name"]: entry["group"] for entry in data["steps"] if "transfer" in entry})
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"echelon-job is incomplete or malformed: {error!r}") from error
    return job_dag


def check_members(job_dag: JobDag, named: Mapping[str, str]) -> None:
    """InputError unless every transfer is in the group that `named` says: files say it at both."""
    for transfer, name in named.items():
        group = job_dag.group_of[transfer].name
        if group != name:
            raise InputError(f"transfer {transfer!r} names group {name!r}, but is listed by group {group!r}")


def _check_steps(job_dag: JobDag) -> None:
    known = job_dag.place.keys()
    if len(known) != len(job_dag.steps):
        twice = Counter(step.name for step in job_dag.steps).most_common(1)[0][0]
        raise InputError(f"job has two steps called {twice!r}")
    if not job_dag.steps:
        raise InputError("job has no steps")
    for step in job_dag.steps:
        distinct = set(step.after)
        if not distinct <= known:
            before = next(name for name in step.after if name not in known)
            raise InputError(f"step {step.name!r} waits for unknown step {before!r}")
        if len(distinct) != len(step.after):
            raise InputError(f"step {step.name!r} names a step twice in its 'after'")
        ranks = (step.rank,) if isinstance(step, Compute) else (step.src_rank, step.dst_rank)
        for rank in ranks:
            if not 0 <= rank < job_dag.ranks:
                raise InputError(f"step {step.name!r} is on rank {rank}; there are ranks 0 to {job_dag.ranks - 1}")
        if isinstance(step, Compute):
            if not (step.duration_s >= 0 and math.isfinite(step.duration_s)):
                raise InputError(
                    f"compute {step.name!r} lasts {step.duration_s} s; a duration is finite and not negative"
                )
        elif not step.size_bytes > 0:
            raise InputError(f"transfer {step.name!r} has {step.size_bytes} bytes; a size must be positive")
        elif not step.size_bytes < MOST_BYTES:
            raise InputError(f"transfer {step.name!r} has {step.size_bytes} bytes; a size has 63 bits at most")
        elif step.src_rank == step.dst_rank:
            raise InputError(f"transfer {step.name!r} goes from rank {step.src_rank} to itself")
    for earlier, later in job_dag.next_iteration:
        for name in (earlier, later):
            if name not in known:
                raise InputError(f"next_iteration names unknown step {name!r}")


def _check_groups(job_dag: JobDag) -> None:
    if len({group.name for group in job_dag.groups}) != len(job_dag.groups):
        raise InputError("job has two groups of the same name")
    transfers = {transfer.name for transfer in job_dag.transfers}
    listed: dict[str, str] = {}
    for group in job_dag.groups:
        _check_group(group)
        for name in group.transfers:
            if name not in transfers:
                raise InputError(f"group {group.name!r} lists {name!r}, which is no transfer of the job")
            if name in listed:
                raise InputError(f"transfer {name!r} is listed by group {listed[name]!r} and again by {group.name!r}")
            listed[name] = group.name
    alone = next((transfer.name for transfer in job_dag.transfers if transfer.name not in listed), None)
    if alone is not None:
        raise InputError(f"transfer {alone!r} is in no group; list it in one")


def _check_group(group: Group) -> None:
    if not group.transfers:
        raise InputError(f"group {group.name!r} has no flows")
    if len(group.offsets_s) != len(group.transfers):
        raise InputError(f"group {group.name!r}: {len(group.transfers)} flows but {len(group.offsets_s)} offsets")
    if any(not (offset >= 0 and math.isfinite(offset)) for offset in group.offsets_s):
        raise InputError(f"group {group.name!r}: an offset is negative or not finite")
    if not (group.weight > 0 and math.isfinite(group.weight)):
        raise InputError(f"group {group.name!r} has weight {group.weight}; a weight must be positive")
