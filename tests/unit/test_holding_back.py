"""Holding iterations back on packets: the coordinator's message, the agent that obeys it, and an analysis that calls nothing of it late."""

from __future__ import annotations

import itertools

import pytest

from controller.asking import ask
from controller.coordinator import START_DELAY_S, Coordinator
from controller.fabric import KnownFabric
from controller.instructions import AskPolicy, SendTo
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.measured import Measured
from echelonflow.model.slots import Slots
from echelonflow.records.agent_log import AgentLog, Held, read_agent_log
from echelonflow.records.events import RoundOver
from echelonflow.records.outcome import RunOutcome
from echelonflow.records.run_record import ComputeRecord, FlowRecord, RunRecord
from echelonflow.scheduling import policies
from echelonflow.wire.declare import declarations
from echelonflow.wire.messages import Begin, Finish, Hello, HoldBack, JobSlots, Ready, Release, decode, encode
from results.analysis.causes import measured
from results.analysis.contradictions import of_times
from results.analysis.read_run import ReadRun
from simulator.fluid import simulate
from tests.unit import coordinator_driver
from tests.unit.coordinator_driver import swap
from traffic.agent.log_lines import held_line
from traffic.agent.replay import Computed, HeldBack, Released, Replay

NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})
LINK_BPS = float(NETWORK.capacity_Bps[0])
RUNNER, A, B = 1, 2, 3
BEGUN_AT = 100.0
ZERO = BEGUN_AT + START_DELAY_S


def job(name, iterations=3):
    """Computes for a second, sends for a second."""
    steps = (Compute("c", 0, 1.0), Transfer("t", 0, 1, round(LINK_BPS), "t", ("c",)))
    dag = JobDag(2, steps, (Group("g", "test", ("t",), (0.0,)),), (("t", "c"),))
    return Job(name, dag, ("h1", "h2"), iterations)


@pytest.fixture
def coordinator():
    """In mid-run under `cassini`; agents A on h1 and B on h2 have declared two jobs."""
    made = Coordinator(KnownFabric(NETWORK), policies.load)
    coordinator_driver.connect_switches(made, NETWORK, BEGUN_AT)
    begin = Begin("run0", "cassini", "priority", 2, "/decisions")
    declared = [(A, group) for group in declarations([job("a"), job("b")], network=NETWORK)]
    hellos = [(RUNNER, Hello("runner", "")), (RUNNER, begin), (A, Hello("a", "h1")), (B, Hello("b", "h2"))]
    coordinator_driver.say(made, *hellos, *declared, (A, Ready()), (B, Ready()), now_s=BEGUN_AT)
    return made


def told(instructions):
    """{client: the slots that it was told}"""
    return {
        i.client: i.message.slots for i in instructions if isinstance(i, SendTo) and isinstance(i.message, HoldBack)
    }


def round_over(coordinator, now_s):
    """What the end of a round leads to, with the answer of the policy."""
    out = coordinator.handle(RoundOver(), now_s)
    answered = [coordinator.handle(ask(i.question), now_s) for i in out if isinstance(i, AskPolicy)]
    return [*out, *itertools.chain(*answered)]


def say(coordinator, message, at_s):
    client = A if isinstance(message, Release) else B
    out = coordinator_driver.say(coordinator, (client, message), now_s=ZERO + at_s)
    return told([*out, *round_over(coordinator, ZERO + at_s)])


def test_agents_are_told_when_jobs_come_and_go(coordinator):
    assert say(coordinator, Release("a", "t", 0, ZERO + 1.0), 1.0) == {A: (), B: ()}, "one job is not held back"
    found = say(coordinator, Release("b", "t", 0, ZERO + 1.2), 1.2)
    assert found.keys() == {A, B}
    first, second = found[A]
    assert (first.job, first.every_s, first.tolerance_s) == ("a", pytest.approx(2.0), pytest.approx(0.1))
    assert first.first_s == pytest.approx(0.0, abs=1e-6)
    assert second.first_s % 2.0 == pytest.approx(1.0, abs=2.0 / 72)
    assert say(coordinator, Finish("a", "t", 0, ZERO + 3.0), 3.0) == {}, "the same jobs are under way"
    for iteration in (1, 2):
        say(coordinator, Release("a", "t", iteration, ZERO + 3.0 + iteration), 3.0 + iteration)
        found = say(coordinator, Finish("a", "t", iteration, ZERO + 3.5 + iteration), 3.5 + iteration)
    assert found == {A: (), B: ()}, "the first job has ended"


def test_another_policy_takes_slots_back(coordinator):
    say(coordinator, Release("a", "t", 0, ZERO + 1.0), 1.0)
    say(coordinator, Release("b", "t", 0, ZERO + 1.2), 1.2)
    swap(coordinator, policies.load("fair"), "priority", ZERO + 2.0)
    assert told(round_over(coordinator, ZERO + 2.0)) == {A: (), B: ()}
    assert say(coordinator, Finish("a", "t", 0, ZERO + 3.0), 3.0) == {}


def test_the_message_is_the_same_after_its_way():
    message = HoldBack((JobSlots("a", -1.5, 2.0, 0.1),))
    assert decode(encode(message)) == message


def held_replay(one, slots):
    replay = Replay([one], "h1")
    replay.begin(ZERO)
    replay.hold_back({one.name: slots})
    return replay


def test_an_agent_begins_an_iteration_in_its_slot_by_the_clock():
    replay = held_replay(job("a"), Slots(0.0, 2.5, 0.1))
    assert [type(action) for action in replay.advance(ZERO + 1.0)] == [Computed, Released]
    (held,) = replay.acknowledged("a", 0, "t", ZERO + 2.0)
    assert held == HeldBack("a", 1, ZERO + 2.0, ZERO + 2.5)
    assert replay.next_due_s == ZERO + 3.5
    computed, _ = replay.advance(ZERO + 3.6)
    assert (computed.start_s, computed.due_s) == (ZERO + 2.5, ZERO + 3.5), "held back is not late"
    replay.hold_back({})
    assert replay.acknowledged("a", 1, "t", ZERO + 4.6) == []
    assert replay.next_due_s == ZERO + 5.6


def test_a_transfer_with_which_an_iteration_begins_is_held_back_as_well():
    steps = (Transfer("t", 0, 1, 1000, "t"), Compute("c", 0, 1.0, ("t",)))
    one = Job("a", JobDag(2, steps, (Group("g", "test", ("t",), (0.0,)),), (("c", "t"),)), ("h1", "h2"), 2)
    replay = held_replay(one, Slots(0.0, 3.0))
    assert replay.advance(ZERO) == [Released("a", 0, "t", ZERO)]
    replay.acknowledged("a", 0, "t", ZERO + 0.5)
    computed, held = replay.advance(ZERO + 1.5)
    assert (computed.due_s, held) == (ZERO + 1.5, HeldBack("a", 1, ZERO + 1.5, ZERO + 3.0))
    assert replay.advance(ZERO + 3.001) == [Released("a", 1, "t", ZERO + 3.001)]


def test_what_is_held_back_is_logged(tmp_path):
    log = AgentLog(tmp_path / "h1.jsonl")
    log.write(held_line(HeldBack("a", 1, ZERO + 2.0, ZERO + 2.5), ZERO))
    log.close()
    assert list(read_agent_log(tmp_path / "h1.jsonl")) == [Held("a", 1, 2.0, 2.5)]


def record_of(begin_s):
    """The second iteration could begin at 2 s, when the sender had all acknowledged, and began at `begin_s`."""
    computes = [ComputeRecord("a", k, "c", "", 0, "h1", at_s, at_s + 1.0) for k, at_s in ((0, 0.0), (1, begin_s))]
    flow = FlowRecord("a", 0, "t", "g", "test", "t", "h1", "h2", 1, 2, 1000, 0.0, 1.0, 1.0, 2.0, 1000, 1000)
    return RunRecord("cassini", 0, computes, [flow])


@pytest.mark.parametrize(("begin_s", "held_s", "wrong"), [(2.5, 2.5, False), (2.5, None, True), (2.0, 2.5, True)])
def test_an_iteration_that_was_held_back_contradicts_nothing(begin_s, held_s, wrong):
    outcome = RunOutcome(policy="cassini", repeat=0, run_index=0, label="cassini-r0", enforcer="priority")
    held = {} if held_s is None else {("a", 1, "h1"): held_s}
    found = of_times(record_of(begin_s), {("a", 0, "t"): 2.0}, outcome, [job("a", 2)], held_s=held)
    assert bool(found) == wrong


def test_a_transfer_that_was_held_back_with_its_iteration_was_not_late():
    steps = (Transfer("t", 0, 1, 1000, "t"),)
    one = Job("a", JobDag(2, steps, (Group("g", "test", ("t",), (0.0,)),), (("t", "t"),)), ("h1", "h2"), 2)
    flows = [
        FlowRecord("a", k, "t", "g", "test", "t", "h1", "h2", 1, 2, 1000, 0.0, at_s, at_s, at_s + 1.0, 1000, 1000)
        for k, at_s in ((0, 0.0), (1, 2.501))
    ]
    read = ReadRun(RunRecord("cassini", 0, [], flows), acked_s={("a", 0, "t"): 1.0}, held_s={("a", 1, "h1"): 2.5})
    found = measured(read, {}, [one], None)
    assert found.release_s == {("a", 1, "t"): pytest.approx(0.001)}
    assert found.held_s == {("a", 1, "h1"): 2.5}


def test_a_simulation_of_a_run_begins_iterations_when_they_began():
    jobs = [job("a"), job("b")]
    causes = Measured(held_s={("a", 1, "h1"): 7.0})
    record = simulate(jobs, NETWORK, policies.load("cassini"), measured=causes)
    begins_s = {(c.job, c.iteration): c.start_s for c in record.computes}
    assert begins_s["a", 1] == pytest.approx(7.0)
    assert begins_s["b", 1] < 4.5
