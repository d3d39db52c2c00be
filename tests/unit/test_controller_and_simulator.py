"""The same events give the same snapshots in the simulator and in the coordinator, array by array.

Policies then decide the same in both, so that what differs between simulation and emulation is enforcement.
"""

from __future__ import annotations

import dataclasses
import math
import random

import numpy as np
import pytest

from controller.asking import ask
from controller.coordinator import START_DELAY_S, Coordinator
from controller.fabric import KnownFabric
from controller.instructions import AskPolicy, SendTo
from echelon.cases import random_jobs
from echelonflow.model import topologies
from echelonflow.records.events import PolicyAnswered, RoundOver, SwitchReady
from echelonflow.scheduling import policies
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.declare import declarations
from echelonflow.wire.messages import Begin, Fault, Finish, Hello, Progress, Ready, Release
from simulator.fluid import simulate
from tests.unit.coordinator_driver import say
from tests.unit.scripted_run import declared, steps

RUNNER = 1
POLICIES = ["fair", "echelonflow", "aalo", "sincronia"]


class Controlled:
    """A coordinator in mid-run whose zero is 0.0, with an agent on every host."""

    def __init__(self, network, groups, policy):
        self.coordinator = Coordinator(KnownFabric(network))
        self._agents = {host: number for number, host in enumerate(network.hosts, start=10)}
        self._flows = {(group.job, flow.flow): flow for group in groups for flow in group.flows}
        for switch in network.switches:
            self.coordinator.handle(SwitchReady(switch), -1.0)
        begin = Begin("r", policy, "rate", len(self._agents), "/d")
        agents = self._agents.items()
        for message in [(RUNNER, Hello("runner", "")), (RUNNER, begin), *((c, Hello("a", h)) for h, c in agents)]:
            self._say(*message, -START_DELAY_S)
        for message in [*((10, group) for group in groups), *((client, Ready()) for client in self._agents.values())]:
            self._say(*message, -START_DELAY_S)
        assert self.coordinator._run.session.zero_s == 0.0

    def _say(self, client, message, now_s):
        for told in say(self.coordinator, (client, message), now_s=now_s):
            assert not (isinstance(told, SendTo) and isinstance(told.message, Fault)), told

    def release(self, key, now_s):
        job, iteration, name = key
        self._say(self._agents[self._flows[job, name].src_host], Release(job, name, iteration, now_s), now_s)

    def progress(self, key, sent_bytes, now_s):
        job, iteration, name = key
        self._say(self._agents[self._flows[job, name].src_host], Progress(job, name, iteration, sent_bytes), now_s)

    def finish(self, key, finish_s, now_s):
        job, iteration, name = key
        self._say(self._agents[self._flows[job, name].dst_host], Finish(job, name, iteration, finish_s), now_s)

    def question(self, now_s):
        """What the policy is asked at the end of the round; None if nothing."""
        asked = self.coordinator.handle(RoundOver(), now_s)
        assert all(isinstance(i, AskPolicy) for i in asked)
        return asked[0].question if asked else None


def columns(snapshot):
    """Every array and number of a snapshot, by name."""
    for table in (snapshot, snapshot.groups, snapshot.coflows, snapshot.jobs):
        for column in dataclasses.fields(table):
            value = getattr(table, column.name)
            if isinstance(value, np.ndarray | float | tuple):
                yield f"{type(table).__name__}.{column.name}", value


def assert_equal(seen, expected, tolerance_bytes=0.0):
    """Same columns, same types, same values; bytes sent may differ by the rounding of what flows carried."""
    for (name, found), (_, wanted) in zip(columns(seen), columns(expected), strict=True):
        if tolerance_bytes and name.endswith(("sent_bytes", "remaining_bytes")):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=tolerance_bytes, err_msg=name)
        elif isinstance(wanted, np.ndarray):
            assert found.dtype == wanted.dtype, name
            np.testing.assert_array_equal(found, wanted, err_msg=name)
        else:
            assert found == wanted, name


# Any order of events, as the state has it: bit by bit


class Fluid:
    """What the simulator does with the state: every flow moves at its rate, all are reported, then a snapshot."""

    def __init__(self, network, groups):
        self.state = SchedulerState(network)
        for group in groups:
            self.state.declare(group)
        self._rate_Bps, self._slot, self._now_s = {}, {}, 0.0
        self.sent_bytes = {}

    def move_to(self, now_s):
        for key, rate_Bps in self._rate_Bps.items():
            self.sent_bytes[key] += rate_Bps * (now_s - self._now_s)
        self._now_s = now_s

    def release(self, key, now_s):
        self._slot[key] = self.state.release(key, now_s)
        self._rate_Bps[key] = self.sent_bytes[key] = 0.0

    def progress(self, key, sent_bytes):
        self.sent_bytes[key] = float(sent_bytes)

    def finish(self, key, now_s):
        self.state.finish(key, now_s)
        del self._slot[key], self._rate_Bps[key], self.sent_bytes[key]

    def snapshot(self, now_s):
        sent = np.array([self.sent_bytes[key] for key in self._slot])
        self.state.progress_all(np.array(list(self._slot.values()), np.int64), sent)
        snapshot, self._keys = self.state.snapshot(now_s)
        self.sent_bytes.update(zip(self._keys, snapshot.sent_bytes.tolist(), strict=True))
        return snapshot

    def allow(self, rates_Bps):
        self._rate_Bps = dict(zip(self._keys, rates_Bps.tolist(), strict=True))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("policy", POLICIES)
def test_random_events_give_equal_snapshots(policy, seed):
    network = topologies.build("leaf-spine", {"leaves": 2, "spines": 2, "hosts_per_leaf": 3, "rate_bps": 3e7})
    groups, rng = declared(network.hosts, seed=seed), random.Random(seed)
    controlled, fluid, now_s, compared = Controlled(network, groups, policy), Fluid(network, groups), 0.0, 0
    before = ""
    for what, key in steps(groups, 3, rng):
        # Reports come together with what is decided on next: so both move every flow by the same steps.
        now_s += 0.0 if before == "progress" else rng.random() * 0.05
        before = what
        fluid.move_to(now_s)
        if what == "release":
            fluid.release(key, now_s)
            controlled.release(key, now_s)
        elif what == "finish":
            fluid.finish(key, now_s)
            controlled.finish(key, now_s, now_s)
        else:
            report = math.ceil(fluid.sent_bytes[key])
            fluid.progress(key, report)
            controlled.progress(key, report, now_s)
            assert controlled.question(now_s) is None
            continue
        if not fluid.sent_bytes:
            assert controlled.question(now_s) is None
            continue
        expected, question = fluid.snapshot(now_s), controlled.question(now_s)
        assert_equal(question.snapshot, expected)
        answer = ask(question)
        assert isinstance(answer, PolicyAnswered), answer
        controlled.coordinator.handle(answer, now_s)
        fluid.allow(answer.rates_Bps)
        compared += 1
    assert compared > 100


# The simulator itself


def simulated(case, policy):
    """(snapshot, allocation) of every decision in a simulation, and the flows as they went."""
    seen = []
    named = policies.load(policy)

    def spy(snapshot):
        allocation = named(snapshot)
        seen.append((snapshot, allocation))
        return allocation

    record = simulate(case.jobs, case.network, named.deciding(spy))
    return seen, record.flows


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("topology", random_jobs.TOPOLOGIES)
@pytest.mark.parametrize("policy", POLICIES)
def test_what_a_simulation_saw_the_coordinator_sees(policy, topology, seed):
    case = random_jobs.draw(random.Random(seed), topology)
    seen, flows = simulated(case, policy)
    controlled = Controlled(case.network, declarations(case.jobs), policy)
    keys = [(flow.job, flow.iteration, flow.flow) for flow in flows]
    releases = [(flow.release_s, 1, key) for flow, key in zip(flows, keys, strict=True)]
    finishes = [(flow.finish_s, 0, key) for flow, key in zip(flows, keys, strict=True)]
    todo = iter(sorted([*releases, *finishes]))
    event = next(todo)
    for snapshot, allocation in seen:
        now_s = snapshot.now_s
        while event is not None and event[0] <= now_s:
            at_s, is_release, key = event
            controlled.release(key, now_s) if is_release else controlled.finish(key, at_s, now_s)
            event = next(todo, None)
        question = controlled.question(now_s)
        assert question is not None, f"nothing is asked at {now_s}"
        assert_equal(question.snapshot, snapshot, tolerance_bytes=1e-3)
        controlled.coordinator.handle(PolicyAnswered.of(question.number, allocation), now_s)
    assert len(seen) > 20
    # After the last decision flows end, and nothing is in flight to decide on.
    assert not any(is_release for _, is_release, _ in ([] if event is None else [event, *todo]))
