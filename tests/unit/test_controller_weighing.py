"""Runs under the enforcer `weighted`: who is told which weights, when, and what happens where that fails."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest

from controller import enforcers
from controller.instructions import BeginWeighing, ChangeWeights, CloseLog, EndWeighing, SendTo
from controller.weigher import Weigher
from echelonflow.errors import InputError
from echelonflow.records.events import StandingOrdered, WeighingFailed
from echelonflow.records.weights import read_weights
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.own_policy.child import wait_here
from echelonflow.scheduling.policies import Policy
from echelonflow.tc_batch import TcBatch
from echelonflow.wire.classes import class_of_dscp
from echelonflow.wire.egress import Egress
from echelonflow.wire.messages import (
    ClassShare,
    Decide,
    End,
    Event,
    Fault,
    Hello,
    Queues,
    Ready,
    Start,
    Weigh,
    decode,
    encode,
)
from tests.unit.coordinator_driver import decide, say, swap
from tests.unit.fake_tc import FakeTc
from tests.unit.test_controller_coordinator import (
    BEGIN,
    BEGUN_AT,
    NOW,
    POLICIES,
    RUNNER,
    A,
    B,
    connect_switches,
    finish,
    make,
    network,
    record,
    release,
    started,
)
from tests.unit.test_controller_shell import RUNNER as SHELLS_RUNNER
from tests.unit.test_controller_shell import FakeFramework, events, hear, shell

__all__ = ["events", "network", "shell"]

QUEUES = Queues(12_500, 0.002)
WEIGHTED = msgspec.structs.replace(BEGIN, policy="three-to-one", enforcer="weighted", queues=QUEUES)


def three_to_one(snapshot):
    """The first flow gets three times as much as any other."""
    share = np.where(snapshot.flow_id == snapshot.flow_id.min(), 3.0, 1.0)
    return Allocation(snapshot.capacity_Bps[0] * share / share.sum(), np.zeros(snapshot.flows, np.int64))


def load(text):
    functions = {**POLICIES, "three-to-one": three_to_one}
    return Policy(text, "priority", "", functions[text])


def running(network, begin=WEIGHTED):
    return started(network, begin, load=load)


def told(instructions, client=None):
    return [
        i.message
        for i in instructions
        if isinstance(i, SendTo) and isinstance(i.message, Weigh) and client in (None, i.client)
    ]


def test_a_run_begins_with_equal_weights_and_agents_hear_of_them_before_the_start(network):
    coordinator = make(network, load)
    begun = say(coordinator, (RUNNER, Hello("runner", "")), (RUNNER, WEIGHTED), now_s=BEGUN_AT)
    (begin,) = [i for i in begun if isinstance(i, BeginWeighing)]
    on_switches = {link.name for link in network.links if link.src in network.switches}
    assert {name for name, _ in begin.egress} == on_switches
    assert {egress.segment_bytes for _, egress in begin.egress} == {12_500}
    first = {}
    connect_switches(coordinator, network)
    say(coordinator, (A, Hello("a", "h1")), (B, Hello("b", "h3")), now_s=BEGUN_AT)
    for i in say(coordinator, (A, Ready()), (B, Ready()), now_s=BEGUN_AT):
        if isinstance(i, SendTo) and isinstance(i.message, Weigh | Start):
            first.setdefault(i.client, i.message)
    assert first == {A: Weigh(()), B: Weigh(())}


def test_a_decision_gives_classes_weights_where_flows_meet_and_is_logged_with_them(network):
    coordinator = running(network)
    say(coordinator, (A, release("x0")), (A, release("x1")), now_s=NOW)
    out = decide(coordinator, NOW)
    (settings,) = [i.message.settings for i in out if isinstance(i, SendTo) and isinstance(i.message, Decide)]
    class_of = {s.flow: class_of_dscp(s.dscp) for s in settings}
    assert {s.rate_Bps for s in settings} == {None}
    assert class_of["x0"] < class_of["x1"]
    (at_host,) = told(out)
    assert {one.traffic_class: one.share for one in at_host.shares} == {class_of["x0"]: 0.75, class_of["x1"]: 0.25}
    # Both come from one host: its own link is the only one on which they can queue.
    assert not [i for i in out if isinstance(i, ChangeWeights)]
    assert record(out).weights == ((network.links[0].name, ((1, 0.75), (3, 0.25))),)
    assert isinstance(out[0].message, Weigh)


def test_what_stays_as_it_is_is_not_told_again(network):
    coordinator = running(network)
    say(coordinator, (A, release("x0")), (A, release("x1")), now_s=NOW)
    decide(coordinator, NOW)
    say(coordinator, (B, finish("x0", NOW + 1)), now_s=NOW + 1)
    out = decide(coordinator, NOW + 1)
    assert told(out) == []
    assert record(out).weights == ()
    # From now on x1 is the first flow: it keeps its class, and that has the larger weight.
    for iteration, changes in ((1, 1), (2, 0)):
        say(coordinator, (A, release("x0", NOW + 2 * iteration, iteration)), now_s=NOW + 2 * iteration)
        assert len(told(decide(coordinator, NOW + 2 * iteration))) == changes
        say(coordinator, (B, finish("x0", NOW + 2 * iteration + 1, iteration)), now_s=NOW + 2 * iteration + 1)
        decide(coordinator, NOW + 2 * iteration + 1)


def test_the_end_of_the_run_takes_weights_back_before_its_log_is_closed(network):
    coordinator = running(network)
    out = say(coordinator, (RUNNER, End()), now_s=NOW)
    assert [type(i) for i in out if isinstance(i, EndWeighing | CloseLog)] == [EndWeighing, CloseLog]


def test_a_swap_begins_and_ends_it(network):
    coordinator = running(network, msgspec.structs.replace(WEIGHTED, enforcer="priority"))
    policy = load("three-to-one")
    there = swap(coordinator, policy, "weighted", NOW)
    assert [type(i) for i in there if isinstance(i, BeginWeighing | EndWeighing)] == [BeginWeighing]
    assert told(there) == [Weigh(()), Weigh(())]
    assert swap(coordinator, policy, "weighted(classes=3)", NOW) is not None
    back = swap(coordinator, policy, "rate", NOW)
    assert [type(i) for i in back if isinstance(i, BeginWeighing | EndWeighing)] == [EndWeighing]
    assert told(back) == [Weigh(None), Weigh(None)]


def test_without_known_queues_it_is_refused(network):
    blind = msgspec.structs.replace(WEIGHTED, queues=None)
    coordinator = make(network, load)
    out = say(coordinator, (RUNNER, Hello("runner", "")), (RUNNER, blind), now_s=BEGUN_AT)
    (fault,) = [i.message for i in out if isinstance(i, SendTo) and isinstance(i.message, Fault)]
    assert "weighted needs the queues of an emulated network" in fault.reason
    coordinator = running(network, msgspec.structs.replace(blind, enforcer="priority"))
    with pytest.raises(InputError, match="weighted needs the queues"):
        swap(coordinator, load("three-to-one"), "weighted", NOW)
    mine = dataclasses.replace(load("three-to-one"), enforcer="weighted")
    with pytest.raises(InputError, match="weighted needs the queues"):
        make(network, load).handle(StandingOrdered("three-to-one"), NOW, mine)


def test_a_failure_fails_the_run_and_says_why(network):
    coordinator = running(network)
    out = coordinator.handle(WeighingFailed("tc failed: no such class"), NOW)
    assert [i.message for i in out] == [Event("fault", "tc failed: no such class")]
    say(coordinator, (A, release("x0")), now_s=NOW)
    assert decide(coordinator, NOW) == []


@pytest.mark.parametrize("wrong", ["weighted(classes=0)", "weighted(classes=8)", "weighted(folding=top)"])
def test_options_that_make_no_sense(wrong):
    with pytest.raises(InputError):
        enforcers.load(wrong)


def test_its_options_are_known():
    assert enforcers.folded_by("weighted(classes=3)")[0] == 3
    assert enforcers.folded_by("rate")[0] == 7
    enforcers.load("weighted(classes=3)")


@pytest.mark.parametrize(
    "message", [Weigh(), Weigh(None), Weigh((ClassShare(1, 0.75),)), WEIGHTED], ids=lambda one: type(one).__name__
)
def test_messages_over_the_wire(message):
    assert decode(encode(message)) == message


@pytest.mark.parametrize("shares", [[[0, 0.5]], [[8, 0.5]], [[1, 0.0]], [[1, -1.0]], [[1]]])
def test_shares_that_are_none_are_refused(shares):
    with pytest.raises(InputError):
        decode(msgspec.json.encode({"type": "weigh", "shares": shares}))


class _LaterError(Exception):
    """There is nothing to be read now."""


EGRESS = Egress("s1-eth1", 100e6, 1514, 12_500, 0.004)
LINK = "s1->h1"


def weigher(tmp_path, failures, bad="nothing is called so"):
    fake = FakeTc(tmp_path, bad)
    return Weigher(FakeFramework(), failures.append, fake), fake


def test_the_weigher_tells_tc_what_it_is_told(tmp_path):
    failures, noted = [], []
    told_by, fake = weigher(tmp_path, failures)
    told_by.enact(BeginWeighing(((LINK, EGRESS),)), noted.append)
    told_by.enact(ChangeWeights(((LINK, (ClassShare(1, 0.75), ClassShare(4, 0.25))),)), noted.append)
    told_by.enact(EndWeighing(), noted.append)
    told_by._tc.close()
    assert fake.told == [*EGRESS.equal(), *EGRESS.weighted({1: 0.75, 4: 0.25}), *EGRESS.in_order()]
    assert failures == []


def test_it_notes_what_tc_has_carried_out_and_tells_once_how_it_fails(tmp_path):
    failures, noted = [], []
    told_by, _ = weigher(tmp_path, failures, bad="quantum 37500")
    told_by.enact(BeginWeighing(((LINK, EGRESS),)), noted.append)
    told_by.enact(ChangeWeights(((LINK, (ClassShare(1, 0.75), ClassShare(4, 0.25))),)), noted.append)
    told_by._framework.wait = _waits
    (listen,) = told_by._framework.spawned
    listen()
    assert noted == [7]
    assert len(failures) == 1
    assert failures[0].startswith("weights of classes cannot be changed: tc failed: Error: no such class")
    told_by.enact(EndWeighing(), noted.append)
    assert len(failures) == 1


def _waits(descriptor, *, write, limit_s):
    return wait_here(descriptor, write=write, limit_s=20)


def test_a_tc_that_there_is_not_fails_the_run(tmp_path):
    failures = []
    told_by = Weigher(FakeFramework(), failures.append, lambda: TcBatch(("no-such-tc",)))
    told_by.enact(BeginWeighing(((LINK, EGRESS),)), lambda _: None)
    assert failures == ["weights of classes cannot be changed: no-such-tc cannot be started: No such file or directory"]


def test_the_shell_weighs_and_writes_down_when_it_was_done(shell, events, tmp_path):
    shell._weigher._start = FakeTc(tmp_path)
    folder = tmp_path / "weighed"
    folder.mkdir()
    begin = msgspec.structs.replace(BEGIN, policy="weighted", enforcer="weighted", agents=1, queues=QUEUES,
                                    decisions_path=str(folder / "decisions.jsonl"))  # fmt: skip
    hear(shell, SHELLS_RUNNER, begin)
    (listen,) = shell.framework.spawned
    noted = []

    def waits_once(descriptor, *, write, limit_s):
        if noted:
            raise _LaterError
        noted.append(_waits(descriptor, write=write, limit_s=limit_s))
        return True

    shell.framework.wait = waits_once
    with pytest.raises(_LaterError):
        listen()
    (given,) = read_weights(folder / "weights.jsonl")
    assert given.classes == 14
    assert given.sent_s <= given.confirmed_s
    assert given.decisions == 0
