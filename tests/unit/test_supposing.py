"""What would be if flows were released: exact, and gone without a trace afterwards."""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy as np
import pytest

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.scheduling.state import SchedulerState
from tests.unit.scripted_run import declared, steps

NETWORK = topologies.build("leaf-spine", {"leaves": 2, "spines": 2, "hosts_per_leaf": 3, "rate_bps": 3e7})


def columns(snapshot):
    for table in (snapshot, snapshot.groups, snapshot.coflows, snapshot.jobs):
        for column in dataclasses.fields(table):
            value = getattr(table, column.name)
            if isinstance(value, np.ndarray):
                yield f"{type(table).__name__}.{column.name}", value


def assert_same(found, wanted):
    for (name, left), (_, right) in zip(columns(found), columns(wanted), strict=True):
        assert left.dtype == right.dtype, name
        np.testing.assert_array_equal(left, right, err_msg=name)


def inside(state):
    """All that a state holds, but for what is in rows that nobody uses."""
    tables = {}
    for name, in_use in (
        ("_flow_table", sorted(state._key_of)),
        ("_run_table", sorted(run.slot for run in state._runs.values())),
        ("_coflow_table", sorted(coflow.slot for coflow in state._coflows.values())),
    ):
        table = getattr(state, name)
        tables[name] = {c: values[in_use].tolist() for c, values in table._columns.items()}, sorted(table._free)[:40]
    pending = {
        key: state._pending.size_bytes[run.pending : run.pending + len(run.group.links)].tolist()
        for key, run in state._runs.items()
    }
    runs = {
        key: (run.slot, bytes(run.released), run.unreleased, run.unfinished, dict(run.coflows))
        for key, run in state._runs.items()
    }
    coflows = {key: (coflow.slot, coflow.groups) for key, coflow in state._coflows.items()}
    return tables, pending, runs, coflows, dict(state._slot_of), list(state._keys), state._in_order.tolist()


def driven(seed):
    """States in the middle of random events, each with flows that are not released yet."""
    groups, rng = declared(NETWORK.hosts, seed=seed), random.Random(seed)
    state, now_s, released = SchedulerState(NETWORK), 0.0, set()
    for group in groups:
        state.declare(group)
    every = [(group.job, k, flow.flow) for group in groups for flow in group.flows for k in range(3)]
    for what, key in steps(groups, 3, rng):
        now_s += rng.random() * 0.05
        if what == "release":
            state.release(key, now_s)
            released.add(key)
        elif what == "finish":
            state.finish(key, now_s)
        left = [key for key in every if key not in released]
        if what != "progress" and left:
            yield state, now_s, rng.sample(left, min(len(left), rng.randint(1, 6)))


@pytest.mark.parametrize("seed", range(4))
def test_a_state_is_afterwards_what_it_was(seed):
    compared = 0
    for state, now_s, keys in driven(seed):
        before, seen = state.snapshot(now_s)[0], inside(state)
        with state.supposing(keys, now_s):
            supposed, rows = state.snapshot(now_s)
        assert set(keys) <= set(rows)
        assert supposed.flows == before.flows + len(keys)
        assert inside(state) == seen
        assert_same(state.snapshot(now_s)[0], before)
        compared += 1
    assert compared > 50


@pytest.mark.parametrize("seed", range(2))
def test_what_is_supposed_is_what_is_seen_when_it_happens(seed):
    compared = 0
    for place, (seen, now_s, keys) in enumerate(driven(seed)):
        with seen.supposing(keys, now_s):
            supposed, _ = seen.snapshot(now_s)
        if place % 10 == 0:
            twin, at_s, _ = next(itertools.islice(driven(seed), place, None))  # it has come the same way
            assert at_s == now_s
            for key in keys:
                twin.release(key, now_s)
            assert_same(supposed, twin.snapshot(now_s)[0])
            compared += 1
    assert compared > 5


def test_a_flow_that_is_released_already_is_refused_and_leaves_nothing():
    state, now_s, keys = next(driven(0))
    active = state.active[0]
    state.snapshot(now_s)
    seen = inside(state)
    with pytest.raises(InputError, match="released already"), state.supposing([keys[0], active], now_s):
        pass
    state.snapshot(now_s)
    assert inside(state) == seen


@pytest.mark.parametrize("seed", range(2))
def test_a_snapshot_of_some_flows_is_that_of_a_state_that_has_no_others(seed):
    compared = 0
    for state, now_s, keys in driven(seed):
        before, _ = state.snapshot(now_s)
        with state.supposing(keys, now_s):
            supposed, rows = state.snapshot(now_s)
        kept = supposed.only(np.array([key not in keys for key in rows]))
        # What was supposed to be released has gone from what is pending, and may have moved its group's reference.
        for name, column in columns(kept):
            if name.startswith("Snapshot.") and "ideal" not in name:
                np.testing.assert_array_equal(column, dict(columns(before))[name], err_msg=name)
        np.testing.assert_array_equal(kept.groups.id, before.groups.id)
        np.testing.assert_array_equal(kept.coflows.id, before.coflows.id)
        np.testing.assert_array_equal(kept.jobs.alone_s, before.jobs.alone_s)
        for group in range(len(kept.groups.id)):
            row = slice(*kept.groups.pending_start[group : group + 2])
            at = int(np.flatnonzero(supposed.groups.id == kept.groups.id[group])[0])
            whole = slice(*supposed.groups.pending_start[at : at + 2])
            np.testing.assert_array_equal(kept.groups.pending_bytes[row], supposed.groups.pending_bytes[whole])
        compared += 1
    assert compared > 50
