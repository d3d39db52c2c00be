"""The scheduler's state: references, tardiness so far, and refusals that change nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.scheduling.state import SchedulerState, stable_id
from echelonflow.wire.messages import Declare, FlowDeclaration

NETWORK = topologies.build("single-switch", {"hosts": 3, "rate_bps": 8e6})


def flow(name, index, offset_s=0.0, size_bytes=1000, src="h1", dst="h2", coflow=None):
    return FlowDeclaration(name, index, coflow or name, src, dst, size_bytes, offset_s, index, 5001)


@pytest.fixture
def state():
    found = SchedulerState(NETWORK)
    found.declare(Declare("job", "g", "test", 1.0, (flow("a", 0), flow("b", 1, 2.0), flow("c", 2, 4.0))))
    return found


def ideals(state, now_s):
    snapshot, keys = state.snapshot(now_s)
    return {key[2]: d for key, d in zip(keys, snapshot.ideal_finish_s.tolist(), strict=True)}


def test_ideal_finish_times_follow_the_head(state):
    state.release(("job", 0, "a"), 10.0)
    state.release(("job", 0, "b"), 11.0)
    assert ideals(state, 11.0) == {"a": 10.0, "b": 12.0}


def test_the_reference_is_the_heads_even_if_another_flow_is_first(state):
    state.release(("job", 0, "b"), 10.0)
    assert ideals(state, 10.0) == {"b": 10.0}  # until the head is released: release less offset
    state.release(("job", 0, "a"), 11.0)
    assert ideals(state, 11.0) == {"a": 11.0, "b": 13.0}


def test_incurred_tardiness_is_the_worst_so_far(state):
    for name in "abc":
        state.release(("job", 0, name), 0.0)
    state.finish(("job", 0, "a"), 5.0)  # due 0
    state.finish(("job", 0, "b"), 4.0)  # due 2
    snapshot, _ = state.snapshot(6.0)
    assert snapshot.groups.incurred_tardiness_s.tolist() == [5.0]


def test_pending_bytes_are_those_declared_but_not_released(state):
    state.release(("job", 0, "a"), 0.0)
    snapshot, _ = state.snapshot(0.0)
    assert snapshot.groups.pending_bytes.tolist() == [2000.0, 2000.0]
    assert [snapshot.link_name(i) for i in snapshot.groups.pending_link] == ["h1->s1", "s1->h2"]


def test_iterations_are_separate_and_a_finished_group_leaves_nothing(state):
    for iteration in (0, 1):
        for name in "abc":
            state.release(("job", iteration, name), float(iteration))
    for name in "abc":
        state.finish(("job", 0, name), 3.0)
    snapshot, keys = state.snapshot(3.0)
    assert {key[1] for key in keys} == {1}
    assert snapshot.groups.incurred_tardiness_s.tolist() == [-math.inf]
    assert snapshot.coflows.arrival_s.tolist() == [1.0, 1.0, 1.0]


def test_progress_never_goes_back(state):
    state.release(("job", 0, "a"), 0.0)
    state.progress(("job", 0, "a"), 600)
    state.progress(("job", 0, "a"), 400)
    assert state.snapshot(0.0)[0].remaining_bytes.tolist() == [400.0]


def test_ids_do_not_depend_on_the_order_of_declaration():
    ids = []
    for order in (("x", "y"), ("y", "x")):
        state = SchedulerState(NETWORK)
        for job in order:
            state.declare(Declare(job, "g", "test", 1.0, (flow("a", 0), flow("b", 1))))
        for job in order:
            state.release((job, 0, "b"), 0.0)
        snapshot, keys = state.snapshot(0.0)
        ids.append(dict(zip(keys, snapshot.flow_id.tolist(), strict=True)))
    assert ids[0] == ids[1]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (flow("a", 5), "'a' of job 'job' is declared already"),
        (flow("z", 5, size_bytes=0), "0 bytes"),
        (flow("z", 5, offset_s=-1.0), "offset -1.0 s"),
        (flow("z", 5, dst="h9"), "host 'h9'"),
        (flow("z", 5, dst="h1"), "to itself"),
    ],
)
def test_bad_declarations_are_refused_and_change_nothing(state, bad, message):
    with pytest.raises(InputError, match=message):
        state.declare(Declare("job", "other", "test", 1.0, (bad,)))
    assert list(state.groups) == [("job", "g")]


def test_events_that_make_no_sense_are_refused(state):
    with pytest.raises(InputError, match="was not declared"):
        state.release(("job", 0, "nobody"), 0.0)
    with pytest.raises(InputError, match="not in flight"):
        state.finish(("job", 0, "a"), 0.0)
    state.release(("job", 0, "a"), 0.0)
    with pytest.raises(InputError, match="released already"):
        state.release(("job", 0, "a"), 0.0)


def test_a_withdrawn_job_is_forgotten(state):
    state.release(("job", 0, "a"), 0.0)
    state.withdraw("job")
    assert state.active == []
    assert not state.groups


def test_a_coflow_remembers_what_its_finished_flows_have_sent():
    state = SchedulerState(NETWORK)
    state.declare(Declare("job", "g", "test", 1.0, (flow("a", 0, coflow="c"), flow("b", 1, coflow="c"))))
    for name in "ab":
        state.release(("job", 0, name), 0.0)
    state.progress(("job", 0, "b"), 300.0)
    state.finish(("job", 0, "a"), 1.0)
    assert state.snapshot(1.0)[0].coflows.sent_bytes.tolist() == [1300.0]


def test_groups_and_jobs_say_how_long_they_would_take_alone():
    state = SchedulerState(NETWORK)  # 8 Mbit/s
    capacity_Bps = NETWORK.capacity_Bps[0]
    state.declare(Declare("job", "g", "test", 1.0, (flow("a", 0), flow("b", 1, 3.0, dst="h3")), compute_s=4.0))
    state.declare(Declare("job", "h", "test", 1.0, (flow("c", 2, 1.0, 500, dst="h3"),), compute_s=4.0))
    for name in "abc":
        state.release(("job", 0, name), 0.0)
    state.finish(("job", 0, "a"), 1.0)
    snapshot, _ = state.snapshot(1.0)
    assert snapshot.groups.span_s.tolist() == [3.0, 1.0]
    assert (snapshot.groups.alone_s * capacity_Bps).tolist() == pytest.approx([2000.0, 500.0])
    assert snapshot.groups.job.tolist() == [0, 0]
    assert (snapshot.jobs.alone_s * capacity_Bps).tolist() == pytest.approx([2500.0])
    assert snapshot.jobs.compute_s.tolist() == [4.0]


def test_rows_are_in_order_of_ids_whatever_came_first(state):
    state.declare(Declare("early", "g", "test", 1.0, (flow("x", 7),)))
    for key in (("job", 1, "b"), ("job", 0, "c"), ("early", 3, "x"), ("job", 0, "a")):
        state.release(key, 0.0)
    snapshot, keys = state.snapshot(0.0)
    assert keys == [("early", 3, "x"), ("job", 0, "a"), ("job", 0, "c"), ("job", 1, "b")]
    assert snapshot.flow_id.tolist() == sorted(snapshot.flow_id.tolist())
    assert snapshot.groups.job.tolist() == [0, 1, 1]


def test_a_snapshot_stays_as_it_was(state):
    for name in "abc":
        state.release(("job", 0, name), 0.0)
    snapshot, keys = state.snapshot(1.0)
    arrays = [value for value in vars(snapshot).values() if isinstance(value, np.ndarray)]
    before, known = [array.copy() for array in arrays], list(keys)
    state.progress(("job", 0, "b"), 500)
    state.finish(("job", 0, "a"), 2.0)
    state.release(("job", 1, "a"), 2.0)
    state.snapshot(2.0)
    state.withdraw("job")
    state.snapshot(3.0)
    assert all(np.array_equal(a, b) for a, b in zip(before, arrays, strict=True))
    assert keys == known


def test_progress_of_many_by_slot_is_progress_of_each(state):
    slots = {name: state.release(("job", 0, name), 0.0) for name in "abc"}
    state.progress(("job", 0, "a"), 700.0)
    state.progress_all(np.array([slots["c"], slots["a"]]), np.array([2000.0, 600.0]))
    snapshot, keys = state.snapshot(0.0)
    assert dict(zip([key[2] for key in keys], snapshot.sent_bytes.tolist(), strict=True)) == {
        "a": 700.0, "b": 0.0, "c": 1000.0,
    }  # fmt: skip
    assert state.slots.tolist() == [slots[key[2]] for key in keys]
    state.finish(("job", 0, "a"), 1.0)
    with pytest.raises(InputError, match="not in flight"):
        state.progress_all(np.array([slots["a"]]), np.array([1.0]))


@pytest.mark.parametrize("iteration", [-1, 1 << 20])
def test_an_iteration_that_has_no_id_is_refused(state, iteration):
    with pytest.raises(InputError, match=f"iteration {iteration}"):
        state.release(("job", iteration, "a"), 0.0)
    assert state.active == []


HOSTS = NETWORK.hosts
ROUTES = [(src, dst) for src in HOSTS for dst in HOSTS if src != dst]
flow_shapes = st.tuples(
    st.sampled_from(ROUTES), st.integers(1, 9), st.sampled_from([0.0, 0.5, 2.0]), st.sampled_from("pq")
)
group_shapes = st.lists(st.lists(flow_shapes, min_size=1, max_size=4), min_size=1, max_size=4)


def declared(shapes):
    """Groups of two jobs by turns, from random shapes."""
    index, found = 0, []
    for g, shape in enumerate(shapes):
        flows = []
        for (src, dst), size, offset_s, coflow in shape:
            flows.append(flow(f"f{index}", index, offset_s, size * 1000, src, dst, f"g{g}{coflow}"))
            index += 1
        found.append(Declare(f"job{(g + 1) % 2}", f"g{g}", "test", 1.0 + g, tuple(flows)))
    return found


def expected(groups, events, now_s):
    """What a snapshot says, worked out slowly from all that has happened: rows by key, groups, Coflows, pending."""
    jobs = sorted({group.job for group in groups})
    rows, tables, coflows = {}, {}, {}
    for group in groups:
        for iteration in {key[1] for key, *_ in events}:
            of = {f.flow: f for f in group.flows}
            mine = [e for e in events if e[0][0] == group.job and e[0][1] == iteration and e[0][2] in of]
            released = {key[2]: t for key, what, t in mine if what == "release"}
            finished = {key[2]: t for key, what, t in mine if what == "finish"}
            sent = {key[2]: t for key, what, t in mine if what == "progress"}
            if len(finished) == len(released):
                continue
            least = min(f.offset_s for f in group.flows)
            heads = [t - of[f].offset_s for f, t in released.items() if of[f].offset_s == least]
            reference_s = min(heads or [t - of[f].offset_s for f, t in released.items()])
            late = [t - of[f].offset_s for f, t in finished.items()]
            waiting = {}
            for f in group.flows:
                if f.flow not in released:
                    for link in NETWORK.path(f.src_host, f.dst_host):
                        waiting[link] = waiting.get(link, 0) + f.size_bytes
            place = jobs.index(group.job)
            identity = stable_id(place, iteration, min(f.index for f in group.flows))
            tables[identity] = (group.weight, reference_s, max(late, default=-math.inf) - reference_s, waiting)
            for name in released.keys() - finished.keys():
                f = of[name]
                mates = [m for m in group.flows if m.coflow == f.coflow]
                coflow = stable_id(place, iteration, min(m.index for m in mates))
                done = sum(m.size_bytes if m.flow in finished else sent.get(m.flow, 0.0) for m in mates)
                coflows[coflow] = (min(released[m.flow] for m in mates if m.flow in released), done)
                rows[group.job, iteration, name] = (
                    stable_id(place, iteration, f.index), f.size_bytes - sent.get(name, 0.0), released[name],
                    reference_s + f.offset_s, identity, coflow, NETWORK.path(f.src_host, f.dst_host),
                )  # fmt: skip
    return rows, tables, coflows


@settings(max_examples=200, deadline=None)
@given(shapes=group_shapes, data=st.data())
def test_a_snapshot_says_what_the_events_say(shapes, data):
    groups = declared(shapes)
    state, events = SchedulerState(NETWORK), []
    for group in groups:
        state.declare(group)
    unreleased = [(g.job, iteration, f.flow) for g in groups for f in g.flows for iteration in (0, 1)]
    for time in range(data.draw(st.integers(0, 25))):
        now_s = float(time)
        what = data.draw(st.sampled_from(["release", "release", "progress", "finish", "look"]))
        choices = unreleased if what == "release" else state.active
        if what == "look":
            state.snapshot(now_s)
        if not choices or what == "look":
            continue
        key = data.draw(st.sampled_from(choices))
        if what == "release":
            unreleased.remove(key)
            state.release(key, now_s)
            events.append((key, what, now_s))
        elif what == "progress":
            events.append((key, what, 10.0 * (time + 1)))
            state.progress(key, 10.0 * (time + 1))
        else:
            state.finish(key, now_s)
            events.append((key, what, now_s))
    if data.draw(st.booleans()):
        gone = groups[0].job
        state.withdraw(gone)
        groups = [group for group in groups if group.job != gone]
        events = [event for event in events if event[0][0] != gone]
    snapshot, keys = state.snapshot(99.0)
    rows, tables, coflows = expected(groups, events, 99.0)
    assert set(keys) == set(rows)
    g, c = snapshot.groups, snapshot.coflows
    for i, key in enumerate(keys):
        found = (
            snapshot.flow_id[i], snapshot.remaining_bytes[i], snapshot.release_s[i], snapshot.ideal_finish_s[i],
            g.id[snapshot.group[i]], c.id[snapshot.coflow[i]],
            tuple(snapshot.path_link[snapshot.path_start[i] : snapshot.path_start[i + 1]].tolist()),
        )  # fmt: skip
        assert found == rows[key]
    assert g.id.tolist() == sorted(tables)
    for i, identity in enumerate(g.id.tolist()):
        part = slice(g.pending_start[i], g.pending_start[i + 1])
        waiting = dict(zip(g.pending_link[part].tolist(), g.pending_bytes[part].tolist(), strict=True))
        assert (g.weight[i], g.reference_s[i], g.incurred_tardiness_s[i], waiting) == tables[identity]
    assert {identity: (c.arrival_s[i], c.sent_bytes[i]) for i, identity in enumerate(c.id.tolist())} == coflows
