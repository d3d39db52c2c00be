"""What the agent in a PyTorch process saw of a training program (`echelon live`), one file per rank.

Two iterations or more in a row that are alike on all ranks are a *phase*. A program may change in mid-run, and then has several: the last four count.
The last phase is taken, or the one that is asked for, and of each computation the median. Ranks that call the same collectives and wait for the
same compute for the same time, the median over all of them: where they differed, others had the processor. A computation ends where the program called an operation, or
waited for one. Computations under 0.2 ms count with the next one. Flows are those of the process group's own algorithms: a ring,
a binomial tree up to 32 kB and for broadcasts, messages directly. They wait for the computation before the call, and those that
pass something on also for what they pass on. A program that waits for an operation waits for the flows that come to and leave from its
rank. It may do so in the next iteration: what a job scheduler puts in order crosses the barrier between iterations. Its units are the job's tasks
then, with its window.
"""

from __future__ import annotations

import itertools
import re
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag
from echelonflow.model.discipline import Discipline, TaskSpec, Window
from echelonflow.model.units import format_duration, parse_duration_s
from echelonflow.records.certainty import Certainty
from echelonflow.records.observed import Called, Observed, ObservedIteration, flow_of, read_observed, step_of
from echelonflow.records.phases import Phase
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.formats._account import Account
from traffic.workloads.formats._files import read_bytes
from traffic.workloads.formats._iteration import named, short
from traffic.workloads.formats._report import Imported, Report

_EVENTS = '[{"computed_s": 0.01, "call": 0}, {"computed_s": 0, "call": 1}, {"computed_s": 0, "waits": [0, 1]}]'


def _example(rank: int, sent_bytes: int, received_bytes: int) -> str:
    """The file of one of two ranks that send each other a message, twice."""
    other = 1 - rank
    sends = f'{{"name": "message {rank} to {other}", "sent": {{"{other}": {sent_bytes}}}, "received": {{}}}}'
    receives = f'{{"name": "message {other} to {rank}", "sent": {{}}, "received": {{"{other}": {received_bytes}}}}}'
    called = ", ".join(
        f'{{"kind": "{kind}", "ranks": [0, 1], "exchanges": [{exchange}]}}'
        for kind, exchange in (("send", sends), ("recv", receives))
    )
    iteration = f'{{"operations": [{called}], "events": {_EVENTS}, "rest_s": 0.02}}'
    head = f'{{"schema": "echelon-observed", "version": 1, "rank": {rank}, "ranks": 2'
    return f'{head}, "iterations": [{iteration}, {iteration}]}}'


EXAMPLE_FILES = {"rank0.json": _example(0, 5000, 7000), "rank1.json": _example(1, 7000, 5000)}
EXAMPLE = {"compute": "400 ms"}
SUMMARY = "what `echelon live` learned of a PyTorch program: one JSON file per rank"
LOOKS_LIKE = re.compile(rb'\s*\{\s*"schema"\s*:\s*"echelon-observed"')
LEAST_S = 0.0002
"""A computation that is shorter counts with the next one: there, programs do nothing but call."""
LEAST_ALIKE = 2
"""So many iterations must be alike, at least: DDP changes its buckets after the first one."""
MOST_PHASES = 4
"""Of a program that changes more often, what is before the last ones is warming up."""


class Stretch(NamedTuple):
    """Iterations of a program that are alike on all ranks: from `first` on, before `end`, counted from 0."""

    first: int
    end: int

    @property
    def iterations(self) -> int:
        return self.end - self.first


def read(paths: Sequence[Path], *, compute: str | None = None, phase: int | None = None) -> Imported:
    """The iteration that a program repeats, of the files `paths`: in its last phase, or in the one of number `phase`, counted from 1.

    With `compute`, a duration, times of computation are stretched so that the busiest rank computes for so long in an iteration: as on a
    GPU whose speed is known. Where there is a `phase`, they are stretched as those of the first one have to be for that, so that phases keep their
    ratio. Raises InputError naming the file.
    """
    ranks = _ranked(paths)
    source = str(ranks[0][0])
    stretches = _phases(ranks)
    if phase is not None and not 1 <= phase <= len(stretches):
        raise InputError(f"{source}: phase is {phase}; the program has {len(stretches)}, counted from 1")
    taken = stretches[-1 if phase is None else phase - 1]
    found = [observed.iterations[taken.first : taken.end] for _, observed in ranks]
    times_s = _medians(found)
    factor = 1.0
    if compute is not None:
        first = taken if phase is None else stretches[0]
        factor = _factor(compute, [observed.iterations[first.first : first.end] for _, observed in ranks], source)
        times_s = [[time_s * factor for time_s in times] for times in times_s]
    account = Account()
    with named(source):
        dag = _dag([each[-1] for each in found], times_s, account, {"imported": "live", "ranks": len(ranks)})
    kinds = _kinds(found[0][-1].operations)
    read_lines = [
        f"{len(ranks)} files: {_certainty(ranks) if phase is None else _certainty_of(ranks, {f'phase {phase}': taken})}",
        f"rank 0: {kinds or 'no operations'}",
        f"the busiest rank computes {format_duration(_busiest_s(times_s) / factor)} in an iteration (median)",
    ]
    assumed = ["a rank's next iteration begins when its last has ended"]
    if factor != 1.0:
        assumed.insert(0, f"computation takes {factor:.4g} times what it took where it was seen (compute)")
    with named(source):
        discipline = _discipline([(observed, each[-1]) for (_, observed), each in zip(ranks, found, strict=True)])
    return Imported(dag, Report.of(account, dag, source=source, read=read_lines, assumed=assumed), discipline)


def _busiest_s(times_s: Sequence[Sequence[float]]) -> float:
    return max(sum(times) for times in times_s)


def _factor(compute: str, ranks: Sequence[Sequence[ObservedIteration]], source: str) -> float:
    """By how much computation is stretched so that the busiest rank computes for so long in these iterations."""
    wanted_s, busiest_s = parse_duration_s(compute), _busiest_s(_medians(ranks))
    if not busiest_s:
        raise InputError(f"{source}: nothing is computed there that could be stretched to {compute}")
    return wanted_s / busiest_s


def phases(paths: Sequence[Path]) -> list[Stretch]:
    """The phases of a program, in order (InputError as for `read`)."""
    return _phases(_ranked(paths))


def _phases(ranks: Sequence[tuple[Path, Observed]]) -> list[Stretch]:
    """The first iteration of all is of none, but where all are alike: then it is for who runs the program to leave it out."""
    last = min(_alike(path, observed) for path, observed in ranks)
    iterations = len(ranks[0][1].iterations)
    structures = [tuple(observed.iterations[number].structure for _, observed in ranks) for number in range(iterations)]
    changes = [number for number in range(1, iterations) if structures[number] != structures[number - 1]]
    found = [Stretch(max(first, 1), end) for first, end in itertools.pairwise([0, *changes, iterations])]
    earlier = [each for each in found[:-1] if each.iterations >= LEAST_ALIKE]
    return [*earlier[1 - MOST_PHASES :], Stretch(iterations - last, iterations)]


def certainty(paths: Sequence[Path], jobs: Sequence[str] = ()) -> Certainty:
    """How far what is in the files repeats itself (InputError as for `read`): in all phases, where each is one of several `jobs`."""
    ranks = _ranked(paths)
    return _certainty_of(ranks, dict(zip(jobs, _phases(ranks), strict=True))) if jobs else _certainty(ranks)


def _certainty_of(ranks: Sequence[tuple[Path, Observed]], stretches: Mapping[str, Stretch]) -> Certainty:
    """The same of some stretches, by their names."""
    named_phases = tuple(Phase(name, each.first, each.iterations) for name, each in stretches.items())
    return msgspec.structs.replace(
        _certainty(ranks), spread=max(_spread(ranks, each) for each in stretches.values()), phases=named_phases
    )


def _certainty(ranks: Sequence[tuple[Path, Observed]]) -> Certainty:
    """Of the last phase."""
    last = _phases(ranks)[-1]
    return Certainty(last.end, last.iterations, _spread(ranks, last))


def _spread(ranks: Sequence[tuple[Path, Observed]], stretch: Stretch) -> float:
    spreads = []
    for _, observed in ranks:
        totals_s = [
            sum(event.computed_s for event in each.events) + each.rest_s
            for each in observed.iterations[stretch.first : stretch.end]
        ]
        low_s, median_s, high_s = statistics.quantiles(totals_s, n=4, method="inclusive")
        spreads.append((high_s - low_s) / 2 / median_s if median_s else 0.0)
    return max(spreads)


def _ranked(paths: Sequence[Path]) -> list[tuple[Path, Observed]]:
    """What is in the files, in the order of ranks (InputError where one is missing or there twice, or they do not belong together)."""
    if not paths:
        raise InputError("no files were given; name one for each rank")
    for each in paths:
        read_bytes(each)  # which waits for no pipe, and reads no file that is too large
    files = [(each, read_observed(each)) for each in paths]
    path, first = files[0]
    found: dict[int, tuple[Path, Observed]] = {}
    for each, observed in files:
        if observed.ranks != first.ranks:
            raise InputError(f"{each}: is of {observed.ranks} ranks; {path} is of {first.ranks}")
        if len(observed.iterations) != len(first.iterations):
            raise InputError(
                f"{each}: has {len(observed.iterations)} iterations; {path} has {len(first.iterations)}. An iteration ends where "
                "an optimizer makes its step, on every rank"
            )
        if observed.rank in found:
            raise InputError(f"{each}: is of rank {observed.rank}, as is {found[observed.rank][0]}")
        found[observed.rank] = (each, observed)
    missing = next((rank for rank in range(first.ranks) if rank not in found), None)
    if missing is not None:
        raise InputError(f"{path}: the file of rank {missing} is missing ({first.ranks} ranks, {len(found)} files)")
    return [found[rank] for rank in range(first.ranks)]


def _alike(path: Path, observed: Observed) -> int:
    """How many of the last iterations do the same (InputError where they are too few)."""
    count = 0
    for iteration in reversed(observed.iterations):
        if iteration.structure != observed.iterations[-1].structure:
            break
        count += 1
    if count < LEAST_ALIKE:
        raise InputError(
            f"{path}: {len(observed.iterations)} iterations, of which no {LEAST_ALIKE} at the end are alike; let the program make "
            "more steps of its optimizer, or make all of them do the same"
        )
    return count


def _medians(ranks: Sequence[Sequence[ObservedIteration]]) -> list[list[float]]:
    """What each rank computes before each event, and before the end; the same for ranks that do the same."""
    courses = [_course(rank, iterations[-1]) for rank, iterations in enumerate(ranks)]
    alike: dict[tuple[object, ...], list[ObservedIteration]] = {}
    for course, iterations in zip(courses, ranks, strict=True):
        alike.setdefault(course, []).extend(iterations)
    medians = {course: _median(iterations) for course, iterations in alike.items()}
    return [medians[course] for course in courses]


def _median(iterations: Sequence[ObservedIteration]) -> list[float]:
    columns = zip(*([*(event.computed_s for event in each.events), each.rest_s] for each in iterations), strict=True)
    return [statistics.median(column) for column in columns]


def _course(rank: int, iteration: ObservedIteration) -> tuple[object, ...]:
    """What an iteration calls and waits for, whichever rank it is of; where there are messages, of that `rank` alone.

    Ranks that send messages may be stages of a pipeline, which compute different things.
    """
    called = tuple((each.kind, each.ranks, len(each.exchanges), each.unit) for each in iteration.operations)
    whose = rank if any(_kind(each) == "message" for each in iteration.operations) else None
    return whose, called, tuple((event.call, event.waits, event.carried) for event in iteration.events)


def _kinds(operations: Sequence[Called]) -> str:
    counts: dict[str, int] = {}
    for each in operations:
        counts[each.kind] = counts.get(each.kind, 0) + 1
    return ", ".join(f"{count} {kind}" for kind, count in counts.items())


def _dag(
    iterations: Sequence[ObservedIteration],
    times_s: Sequence[Sequence[float]],
    account: Account,
    parameters: dict[str, object],
) -> JobDag:
    builder = DagBuilder(len(iterations))
    groups: set[str] = set()
    coflows: set[str] = set()
    iterations = _from_somebody(iterations)
    for rank, (iteration, times) in enumerate(zip(iterations, times_s, strict=True)):
        account.found(compute_s=sum(times))
        _add_rank(builder, rank, iteration, times, groups, coflows, account)
    account.found(communications=len(coflows))
    return builder.dag(parameters)


def _from_somebody(iterations: Sequence[ObservedIteration]) -> list[ObservedIteration]:
    """Iterations without messages that were received from whoever sent first: nobody can say whose they will be."""
    dropped = {
        exchange.name
        for each in iterations
        for called in each.operations
        if called.from_any
        for exchange in called.exchanges
    }
    return [
        msgspec.structs.replace(
            each,
            operations=tuple(
                msgspec.structs.replace(
                    called, exchanges=tuple(one for one in called.exchanges if one.name not in dropped)
                )
                for called in each.operations
            ),
        )
        for each in iterations
    ]


def _add_rank(
    builder: DagBuilder,
    rank: int,
    iteration: ObservedIteration,
    times_s: Sequence[float],
    groups: set[str],
    coflows: set[str],
    account: Account,
) -> None:
    last, pending_s, held = "", 0.0, False
    carried: list[str] = []
    """Flows of the iteration before that the next computation waits for."""

    def compute(name: str) -> str:
        nonlocal pending_s, held
        builder.compute(rank, name, pending_s)
        for flow in carried:
            builder.next_iteration(flow, name)
        carried.clear()
        pending_s, held = 0.0, False
        return name

    for number, event in enumerate(iteration.events):
        pending_s += times_s[number]
        if pending_s >= LEAST_S or not last or (held and event.call is not None):
            last = compute(step_of(rank, number))
        if event.call is not None:
            _add_flows(builder, rank, iteration.operations[event.call], last, groups, coflows, account)
        else:
            flows = [name for each in event.waits for name in _flows_at(rank, iteration.operations[each])]
            builder.hold(rank, flows)
            carried += [name for each in event.carried for name in _flows_at(rank, iteration.operations[each])]
            held = held or bool(flows) or bool(carried)
    pending_s += times_s[-1]
    if held or pending_s or not last:
        compute(step_of(rank, None))


def _add_flows(
    builder: DagBuilder, rank: int, called: Called, last: str, groups: set[str], coflows: set[str], account: Account
) -> None:
    for exchange in called.exchanges:
        for dst, size_bytes in exchange.sent.items():
            group = _group(called, exchange.name, rank, dst)
            if group not in groups:
                builder.group(group, _kind(called), "derived")
                groups.add(group)
            coflows.add(exchange.name)
            before = [flow_of(exchange.name, src, rank) for src in exchange.follows.get(dst, ())]
            flow = flow_of(exchange.name, rank, dst)
            builder.transfer(flow, rank, dst, size_bytes, group, exchange.name, [last, *before])
            account.found(size_bytes=size_bytes)


def _flows_at(rank: int, called: Called) -> list[str]:
    """All flows of an operation that come to a rank, or leave from it."""
    return [
        *(flow_of(each.name, src, rank) for each in called.exchanges for src in each.received),
        *(flow_of(each.name, rank, dst) for each in called.exchanges for dst in each.sent),
    ]


def _discipline(ranks: Sequence[tuple[Observed, ObservedIteration]]) -> Discipline | None:
    """What the job scheduler of a program decided; None where there was none."""
    ordered = ranks[0][0].ordered
    if ordered is None:
        return None
    tasks = []
    for rank, (_, iteration) in enumerate(ranks):
        for called in iteration.operations:
            sent = [flow_of(each.name, rank, dst) for each in called.exchanges for dst in each.sent]
            if called.unit is not None and sent:
                ends = tuple(_flows_at(rank, called)) if ordered.whole else ()
                unit = called.unit
                tasks.append(TaskSpec(f"{unit.name} r{rank}", rank, unit.size_bytes, unit.priority, tuple(sent), ends))
    window = Window(ordered.credit_bytes, ordered.slots, ordered.overdraw)
    return Discipline(ordered.scheduler, window, tuple(tasks))


def _kind(called: Called) -> str:
    return "message" if called.kind in ("send", "recv") else called.kind


def _group(called: Called, exchange: str, src: int, dst: int) -> str:
    """The EchelonFlow of a flow: all-gathers among the same ranks are one, messages from one rank to another are one.

    So are the units of a job scheduler: the next iteration consumes them layer by layer.
    """
    if called.unit is not None:
        return f"units of {short(called.ranks)}"
    if called.kind == "all-gather":
        return f"all-gathers of {short(called.ranks)}"
    return f"messages {src}->{dst}" if _kind(called) == "message" else exchange
