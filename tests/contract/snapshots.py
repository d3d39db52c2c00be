"""Random snapshots, the same ones in other words, and the policies to try them on: found by name."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import typing

import numpy as np
from hypothesis import strategies as st

from echelonflow import plugins
from echelonflow.model import topologies
from echelonflow.scheduling import policies
from echelonflow.scheduling.snapshot import CoflowTable, GroupTable, JobTable, Snapshot
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowClock, FlowDeclaration, JobClock

NETWORK = topologies.build(
    "leaf-spine", {"leaves": 2, "spines": 1, "hosts_per_leaf": 3, "rate_bps": 8e6, "fabric_rate_bps": 16e6}
)
NUMBERS = (
    "aalo(first_bytes=100000,factor=2)",
    "aalo(queues=1)",
    "mltcp(steps=1)",
    "mltcp(steps=64,slope=9)",
    "random-order(seed=7)",
    "random-order(seed=-1)",
)
"""Options that are numbers: what the snapshots below would not reach by default."""


def module_of(text):
    return plugins.load(sys.modules["echelonflow.scheduling.policies"], plugins.parse_call(text)[0], "policy")


def words_of(name):
    """{option: words} of those options of a policy that are words."""
    hints = typing.get_type_hints(module_of(name).allocate)
    return {option: typing.get_args(hints[option]) for option in policies.options_of(name) if typing.get_args(hints[option])}  # fmt: skip


def _variants():
    """Every policy with its defaults, and with each word of each option."""
    for name in policies.names():
        yield name
        for option, words in words_of(name).items():
            default = inspect.signature(module_of(name).allocate).parameters[option].default
            yield from (f"{name}({option}={word})" for word in words if word != default)


VARIANTS = [*_variants(), *NUMBERS]


def load_scaled(text, by_bytes=1.0, by_s=1.0):
    """The policy with those of its numbers scaled whose names say that they are bytes or seconds."""
    name, given = plugins.parse_call(text)
    units = {"_bytes": by_bytes, "_s": by_s}
    for option, parameter in list(inspect.signature(module_of(text).allocate).parameters.items())[1:]:
        for unit, factor in units.items():
            if option.endswith(unit):
                given[option] = str(float(given.get(option, parameter.default)) * factor)
    inside = ",".join(f"{option}={value}" for option, value in given.items())
    return policies.load(f"{name}({inside})")


@st.composite
def snapshots(draw, max_groups=4, equal_offsets=False, network=NETWORK):
    """A random state of two jobs: groups of one to four flows, some partly sent, some finished, two iterations."""
    state = SchedulerState(network)
    hosts = st.sampled_from(network.hosts)
    compute_s = {job: draw(st.sampled_from([0.0, 0.5, 4.0])) for job in "ab"}
    seconds = st.sampled_from([0.0, 0.5, 2.0, 3.0])
    clocks = {job: draw(st.none() | st.builds(JobClock, seconds)) for job in "ab"}
    index = 0
    for g in range(draw(st.integers(1, max_groups))):
        job = draw(st.sampled_from("ab"))
        flows = []
        for _ in range(draw(st.integers(1, 4))):
            src, dst = draw(hosts), draw(hosts)
            if src == dst:
                dst = network.hosts[(network.hosts.index(src) + 1) % len(network.hosts)]
            offset = 0.0 if equal_offsets else draw(st.sampled_from([0.0, 0.5, 1.0, 2.0]))
            size = draw(st.integers(1, 10)) * 100_000
            coflow = f"g{g}" if equal_offsets else f"g{g}c{draw(st.integers(0, 2))}"
            clock = None
            if clocks[job] is not None:
                clock = FlowClock(*(draw(seconds) for _ in range(4)), draw(st.integers(0, 3)))
            flows.append(FlowDeclaration(f"f{index}", index, coflow, src, dst, size, offset, index, 5001, None, clock))
            index += 1
        weight = draw(st.sampled_from([1.0, 1.0, 2.0]))
        weight = 1.0 if equal_offsets else weight
        state.declare(Declare(job, f"g{g}", "test", weight, tuple(flows), compute_s[job], clocks[job]))
        iteration = draw(st.sampled_from([0, 0, 1]))
        released = []
        for flow in flows:
            if flow is flows[0] or draw(st.booleans()):
                key = (job, iteration, flow.flow)
                state.release(key, draw(st.sampled_from([0.0, 0.25, 1.0])))
                state.progress(key, flow.size_bytes * draw(st.sampled_from([0.0, 0.3, 0.9])))
                released.append(key)
        if len(released) > 1 and draw(st.booleans()):
            state.finish(released[0], 1.5)
    return state.snapshot(2.0)[0]


def on_paths(paths, capacity_Bps, groups=1):
    """Flows of a megabyte on the given paths (links in order), all of the first of `groups` groups of one job."""
    flows, ones, nobody = len(paths), np.ones(groups), np.zeros(0, np.int64)
    return Snapshot(
        now_s=2.0,
        flow_id=np.arange(flows),
        remaining_bytes=np.full(flows, 1e6),
        sent_bytes=np.zeros(flows),
        release_s=np.zeros(flows),
        ideal_finish_s=np.zeros(flows),
        group=np.zeros(flows, np.int64),
        coflow=np.zeros(flows, np.int64),
        path_start=np.cumsum([0, *map(len, paths)], dtype=np.int64),
        path_link=np.concatenate([*paths, nobody]).astype(np.int64),
        capacity_Bps=np.asarray(capacity_Bps, np.float64),
        groups=GroupTable(
            np.arange(groups), ones, ones, np.full(groups, -np.inf), np.zeros(groups, np.int64), ones, ones,
            np.zeros(groups + 1, np.int64), nobody, np.zeros(0),
        ),
        coflows=CoflowTable(np.arange(groups), ones, ones, ones),
        jobs=JobTable(np.zeros(1, np.int64), np.zeros(1), np.zeros(1)),
    )  # fmt: skip


def _ragged(start, values, rows):
    parts = [values[start[r] : start[r + 1]] for r in rows]
    return np.cumsum([0, *map(len, parts)]), np.concatenate(parts) if parts else values[:0]


def _permuted(table, order, special=()):
    """A table's rows in another order; columns in `special` are left to the caller."""
    columns = [f.name for f in dataclasses.fields(table) if f.name not in special]
    return dataclasses.replace(table, **{name: getattr(table, name)[order] for name in columns})


def shuffled(snapshot, seed):
    """The same snapshot with flows, groups, Coflows and jobs in another order; and the order of the flows."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(snapshot.flows)
    groups, coflows, jobs = (rng.permutation(len(t.id)) for t in (snapshot.groups, snapshot.coflows, snapshot.jobs))
    path_start, path_link = _ragged(snapshot.path_start, snapshot.path_link, order)
    g = snapshot.groups
    pending_start, pending_link = _ragged(g.pending_start, g.pending_link, groups)
    table = _permuted(g, groups, special=("job", "pending_start", "pending_link", "pending_bytes"))
    return order, dataclasses.replace(
        snapshot,
        **{name: getattr(snapshot, name)[order] for name in ("flow_id", "remaining_bytes", "sent_bytes", "release_s", "ideal_finish_s")},
        group=np.argsort(groups)[snapshot.group][order],
        coflow=np.argsort(coflows)[snapshot.coflow][order],
        path_start=path_start,
        path_link=path_link,
        groups=dataclasses.replace(
            table, job=np.argsort(jobs)[g.job[groups]], pending_start=pending_start, pending_link=pending_link,
            pending_bytes=_ragged(g.pending_start, g.pending_bytes, groups)[1],
        ),
        coflows=_permuted(snapshot.coflows, coflows),
        jobs=_permuted(snapshot.jobs, jobs),
        clock=snapshot.clock and _permuted(snapshot.clock, order, special=("under_way",)),
        connections=snapshot.connections and _permuted_connections(snapshot.connections, order, rng),
    )  # fmt: skip


def _permuted_connections(table, order, rng):
    rows = rng.permutation(len(table.id))
    return dataclasses.replace(
        _permuted(table, rows, special=("of_flow",)), of_flow=np.argsort(rows)[table.of_flow][order]
    )


def scaled(snapshot, by_bytes=1.0, by_s=1.0):
    """The same problem with every size times `by_bytes` and every time times `by_s`, links as fast as that takes."""
    factor = {"bytes": by_bytes, "s": by_s, "Bps": by_bytes / by_s}

    def columns(table):
        names = [field.name for field in dataclasses.fields(table) if field.name.rpartition("_")[2] in factor]
        return {name: getattr(table, name) * factor[name.rpartition("_")[2]] for name in names}

    tables = {name: getattr(snapshot, name) for name in ("groups", "coflows", "jobs")}
    others = {name: dataclasses.replace(table, **columns(table)) for name, table in tables.items()}
    if snapshot.connections is not None:
        others["connections"] = dataclasses.replace(snapshot.connections, **columns(snapshot.connections))
    clock = snapshot.clock
    if clock is not None:
        under_way = dataclasses.replace(clock.under_way, **columns(clock.under_way))
        others["clock"] = dataclasses.replace(clock, **columns(clock), under_way=under_way)
    return dataclasses.replace(snapshot, **columns(snapshot), **others)


def arrays(snapshot):
    """Copies of all arrays of a snapshot and its tables."""
    clock = () if snapshot.clock is None else (snapshot.clock, snapshot.clock.under_way)
    connections = () if snapshot.connections is None else (snapshot.connections,)
    tables = (snapshot, snapshot.groups, snapshot.coflows, snapshot.jobs, *clock, *connections)
    every = [getattr(table, field.name) for table in tables for field in dataclasses.fields(table)]
    return [a.copy() for a in every if isinstance(a, np.ndarray)]


def link_load(snapshot, rates_Bps):
    """Bytes per second on each link."""
    return np.bincount(snapshot.path_link, weights=rates_Bps[snapshot.hop_flow()], minlength=snapshot.links)


def idle_share(snapshot, rates_Bps):
    """For each flow, the least share of capacity left over on any link of its path."""
    left = 1 - link_load(snapshot, rates_Bps) / snapshot.capacity_Bps
    least = np.full(snapshot.flows, np.inf)
    np.minimum.at(least, snapshot.hop_flow(), left[snapshot.path_link])
    return least
