"""Cases of jobs in steady state: mixed ones, ones of each pattern, ones of a given load; and what they are run under.

All policies see the same cases. Sizes are perturbed, so that nothing hangs on a tie.
"""

from __future__ import annotations

import dataclasses
import random
import statistics
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from echelon.cases import patterns, random_jobs
from echelon.cases.random_jobs import Case
from echelon.study import steady
from echelon.study.contenders import BY_DUE, BY_JOB, COLLECTIVE, FAIR, GROUP, LITERAL
from echelon.study.section import Scores, Section, count

MIXED = "steady state, mixed jobs"
"""Drawn anew when `lookahead` got another candidate: what it was changed by is not what it is judged by."""
PARTS = "steady state, parts of lookahead"
AALO = "aalo, scaled"
"""Aalo whose first queue holds a tenth of the bytes of the case's median Coflow; its own 10 MB are FIFO here."""
CLOCK = "clock"
CLOCK_ALONE, CLOCK_OWN = "clock(pace=alone)", "clock(until=own)"
LOOKAHEAD = "lookahead"
LOOKAHEAD_PARTS = ("lookahead(tries=0)", "lookahead(candidates=few)")
BOUND, ALONE = "bound", "alone"
"""Names under which a case's scores hold no policy's: iteration times of least sum, and those of each job alone."""
LOADS = (0.3, 0.6, 1.0, 1.5, 2.0)
"""What jobs ask of the busiest link at the pace that each has alone, over what it has."""
HOSTS = {16: 20, 64: 20, 256: 20, 512: 4}
"""Hosts of fabrics, and how many cases there are of each: one of the largest takes four minutes. There is a job for every four hosts."""
CLOSE = 1e-3
"""Relative: a load this close to what is wanted is that."""


def policies_compared() -> list[str]:
    """Policies and the ablations of `clock`; the paper's literal order and both that may be the default under their full names."""
    return [
        FAIR, "fifo", COLLECTIVE, GROUP, LITERAL, BY_DUE, BY_JOB, "coflow(grouping=collective,order=job)", "weighted(per=job)",
        "layer-priority", "srpt", "edf", "sincronia", "crux", "crux(correction=pairs)", "mltcp", "cassini", AALO,
        CLOCK, CLOCK_ALONE, CLOCK_OWN,
    ]  # fmt: skip


def sections(scale: float) -> Iterator[Section]:
    """Mixed jobs; each pattern beside its like; mixed jobs by load."""
    yield Section(MIXED, count(100, scale), Drawer(MIXED), measure_mixed)
    yield Section(PARTS, count(20, scale), Drawer(PARTS), measure_parts)
    for pattern in random_jobs.PATTERNS:
        name = family(pattern)
        yield Section(name, count(20, scale), Drawer(name, (pattern,), 2), measure)
    for load in LOADS:
        name = at_load(load)
        yield Section(name, count(20, scale), Drawer(name, load=load), measure)
    for hosts, cases in HOSTS.items():
        name = on_fabric(hosts)
        yield Section(
            name,
            count(cases, scale),
            Drawer(name, jobs=hosts // 4, topology=f"{random_jobs.FABRIC}{hosts}"),
            measure_few,
        )


def policies_on_fabrics() -> list[str]:
    """Those that are compared on large networks too."""
    return [FAIR, "fifo", COLLECTIVE, LITERAL, BY_DUE, BY_JOB, "weighted(per=job)", CLOCK]


def on_fabric(hosts: int) -> str:
    """The section of a fabric of so many hosts."""
    return f"steady state, {hosts} hosts"


def family(pattern: str) -> str:
    """The section of two jobs of a pattern."""
    return f"steady state, {pattern}"


def at_load(load: float) -> str:
    """The section of mixed jobs of a load."""
    return f"steady state, load {load:g}"


@dataclass(frozen=True)
class Drawer:
    """Draws a section's cases from its name and a number alone; a class, so that it can be sent to another process."""

    name: str
    patterns: tuple[str, ...] = ()
    jobs: int = 0
    load: float | None = None
    topology: str | None = None
    """None: one link and a small leaf-spine by turns."""

    def __call__(self, number: int) -> Case:
        rng = random.Random(f"study/{self.name}/{number}")
        topology = self.topology or random_jobs.TOPOLOGIES[number % 2]
        case = steady.bounded(random_jobs.draw(rng, topology, self.patterns, self.jobs))
        return steady.perturbed(case if self.load is None else loaded(case, self.load), rng)


def loaded(case: Case, load: float) -> Case:
    """The same case with all sizes made larger or smaller by one factor, so that the busiest link has `load`."""
    low, high = 1e-3, 1e3
    while high / low > 1 + CLOSE:
        factor = (low * high) ** 0.5
        low, high = (factor, high) if load_of(_resized(case, factor)) < load else (low, factor)
    return _resized(case, high)


def _resized(case: Case, factor: float) -> Case:
    jobs = tuple(dataclasses.replace(job, dag=patterns.resized(job.dag, factor)) for job in case.jobs)
    return dataclasses.replace(case, jobs=jobs)


def load_of(case: Case) -> float:
    """The load of the busiest link."""
    return float(steady.load_by_link(case.jobs, case.network).max())


def measure(case: Case) -> Scores:
    """Of every policy the iteration times of all jobs, and how many iterations of the job with fewest of them count."""
    return _measured(case, policies_compared())


def measure_mixed(case: Case) -> Scores:
    """The same, and of `lookahead`."""
    return _measured(case, [*policies_compared(), LOOKAHEAD])


def measure_parts(case: Case) -> Scores:
    """The same of `lookahead` and its ablations."""
    return _measured(case, [LOOKAHEAD, *LOOKAHEAD_PARTS])


def measure_few(case: Case) -> Scores:
    """The same of those that are compared on large networks."""
    return _measured(case, policies_on_fabrics())


def _measured(case: Case, names: Sequence[str]) -> Scores:
    found: Scores = {}
    for name in names:
        counted = steady.measure(case, text_of(name, case))
        found[name] = [*(float(f"{time_s:.9g}") for time_s in counted.iteration_s), counted.fewest]
    loads = steady.loads_of(case.jobs, case.network)
    found[BOUND] = loads.together_s.tolist()
    found[ALONE] = loads.iteration_s.tolist()
    return found


def text_of(name: str, case: Case) -> str:
    """A policy as `policies.load` takes it."""
    if name != AALO:
        return name
    coflow_bytes: dict[tuple[str, str], int] = defaultdict(int)
    for job in case.jobs:
        for transfer in job.dag.transfers:
            coflow_bytes[job.name, transfer.coflow] += transfer.size_bytes
    return f"aalo(first_bytes={max(round(statistics.median(coflow_bytes.values()) / 10), 2)})"
