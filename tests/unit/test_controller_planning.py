"""The coordinator looks ahead in the background: when it asks, what it puts in force, and that nothing stands or falls with it."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest

from controller import planner_process
from controller.asking import ask
from controller.coordinator import START_DELAY_S, Coordinator
from controller.fabric import KnownFabric
from controller.instructions import AskPlanner, LogDecision, PreparePlanner, SendTo
from controller.planner_process import PlannerError, PlannerProcess
from controller.planning import SETTLE_S
from echelonflow.records.events import Planned, PlannerFailed, PlannerPrepared, SwitchReady
from echelonflow.scheduling import kernels, policies
from echelonflow.scheduling.own_policy import child
from echelonflow.scheduling.own_policy.child import TimeLimit, wait_here
from echelonflow.scheduling.own_policy.pipe import HEADER
from echelonflow.scheduling.planning import Foreseen, Moves, PlanMade, decode_answer, frame, no_moves
from echelonflow.wire.declare import declarations
from echelonflow.wire.graph import graph_of
from echelonflow.wire.messages import Begin, Event, Fault, Finish, GraphStep, Hello, JobGraph, Ready, Release, Start
from simulator.fluid import simulate
from tests.unit.coordinator_driver import decide, say, swap
from tests.unit.looking_ahead import drawn, stopped

RUNNER = 1
REPOSITORY = Path(__file__).resolve().parents[2]


class Controlled:
    """A coordinator in mid-run under a policy, whose zero is 0, and its jobs as `clock` simulates them."""

    def __init__(self, case, policy, graphs=True, prepared=True):
        self.case = case
        self.coordinator = Coordinator(KnownFabric(case.network))
        self.agents = {host: number for number, host in enumerate(case.network.hosts, start=10)}
        groups = declarations(case.jobs, network=case.network)
        self.flows = {(group.job, flow.flow): flow for group in groups for flow in group.flows}
        for switch in case.network.switches:
            self.coordinator.handle(SwitchReady(switch), -1.0)
        self.begun = self.say(RUNNER, Hello("runner", "")) + self.say(
            RUNNER, Begin("r", policy, "priority", len(self.agents), "/d")
        )
        if prepared and any(isinstance(each, PreparePlanner) for each in self.begun):
            self.coordinator.handle(PlannerPrepared(), -START_DELAY_S)
        for host, client in self.agents.items():
            self.say(client, Hello("a", host))
        for group in groups:
            self.say(self.agents[group.flows[0].src_host], group)
        for job in case.jobs if graphs else ():
            self.say(self.agents[job.placement[0]], graph_of(job))
        for client in self.agents.values():
            self.started = self.say(client, Ready())
        record = simulate(case.jobs, case.network, policies.load("clock"))
        self.events = [(f.release_s, 0, f) for f in record.flows] + [(f.finish_s, 1, f) for f in record.flows]
        self.events.sort(key=lambda event: event[:2])

    def say(self, client, message, now_s=-START_DELAY_S):
        told = say(self.coordinator, (client, message), now_s=now_s)
        assert not any(isinstance(each, SendTo) and isinstance(each.message, Fault) for each in told), told
        return told

    def until(self, end_s):
        """Let happen what happens up to a time; everything that is decided."""
        found = []
        while self.events and self.events[0][0] <= end_s:
            now_s, ends, f = self.events.pop(0)
            flow = self.flows[f.job, f.flow]
            kind, host = (Finish, flow.dst_host) if ends else (Release, flow.src_host)
            self.say(self.agents[host], kind(f.job, f.flow, f.iteration, now_s), now_s)
            found += self.decided(now_s)
        return found

    def until_asked(self, jobs=1):
        """Go on until the planner is asked about so many jobs: the question."""
        while True:
            asked = [each for each in asked_of(self.until(self.events[0][0])) if len(each.jobs) >= jobs]
            if asked:
                return asked[-1]

    def decided(self, now_s):
        out = decide(self.coordinator, now_s)
        asked = [each for each in out if isinstance(each, AskPlanner)]
        if len(out) > 1 and asked:  # the driver answers policies that are asked alone
            question = out[0].question
            out = [*self.coordinator.handle(ask(question), now_s), *asked]
        return out


def told(instructions, kind):
    messages = [each.message for each in instructions if isinstance(each, SendTo)]
    return [message for message in messages if isinstance(message, kind)]


def asked_of(instructions):
    return [each for each in instructions if isinstance(each, AskPlanner)]


@pytest.fixture
def case():
    return drawn("controlled", jobs=2, iterations=12)


def made(asked, chosen="fifo", until_s=1e9, ends_s=(), moves=None):
    foreseen = tuple(Foreseen(job.job, 0, np.array(ends_s, float)) for job in asked.jobs)
    return PlanMade(asked.number, chosen, moves or no_moves(), foreseen, until_s, 10, 3, 0.1)


def test_nobody_looks_ahead_for_other_policies(case):
    run = Controlled(case, "clock")
    assert not any(isinstance(each, PreparePlanner) for each in run.begun)
    assert asked_of(run.until(1e9)) == []


@pytest.mark.parametrize("then", [PlannerPrepared(), PlannerFailed("it cannot load")])
def test_a_run_that_looks_ahead_starts_when_its_planner_is_ready_or_there_is_none(case, then):
    run = Controlled(case, "lookahead", prepared=False)
    assert not told(run.begun + run.started, Start)
    assert [event.what for event in told(run.begun, Event)] == ["switches"]
    begun = run.coordinator.handle(then, -START_DELAY_S)
    assert [event.what for event in told(begun, Event)] == ["begun", "ready"]
    assert len(told(begun, Start)) == len(run.agents)
    assert run.coordinator.handle(then, 0.0) == [], "it is told once"


def test_a_run_that_goes_on_does_not_wait_for_a_planner(case):
    coordinator = Coordinator(KnownFabric(case.network))
    say(coordinator, (RUNNER, Hello("runner", "")), now_s=5.0)
    begun = say(coordinator, (RUNNER, Begin("r", "lookahead", "priority", 0, "/d", zero_s=1.0)), now_s=5.0)
    assert any(isinstance(each, PreparePlanner) for each in begun)
    assert "begun" in [event.what for event in told(begun, Event)]


def test_the_planner_is_asked_once_jobs_have_come_and_is_told_where_they_are(case):
    run = Controlled(case, "lookahead(tries=3,budget=0.5)")
    assert any(isinstance(each, PreparePlanner) for each in run.begun)
    asked = asked_of(run.until(1e9))
    first = next(each for each in asked if len(each.jobs) == 2)
    assert first.asked.now_s >= SETTLE_S
    assert [job.job for job in first.asked.jobs] == sorted(job.name for job in case.jobs)
    assert {job.graph.job for job in first.jobs} == {job.name for job in case.jobs}
    assert (first.asked.tries, first.asked.budget_s, first.asked.chosen) == (3, 0.5, "clock")
    assert "weighted(per=job)" not in first.asked.candidates, "its rates cannot be enforced by priorities"


def test_what_was_found_is_in_force_from_then_on_and_decided_by(case):
    run = Controlled(case, "lookahead")
    asked = run.until_asked()
    now_s = asked.asked.now_s + 0.01
    name = asked.asked.jobs[0].job
    moves = Moves((name,), np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([0.5]))
    run.coordinator.handle(Planned(made(asked.asked, "clock(pace=alone)", moves=moves)), now_s)
    memory = run.coordinator._run.session.policy.memory
    assert memory.chosen.name == "clock(pace=alone)"
    assert memory.earlier_s.tolist() == [0.5]
    assert [each.at_s for each in memory.history] == [now_s]
    triggers = [each.record.trigger for each in run.decided(now_s) if isinstance(each, LogDecision)]
    assert [words for trigger in triggers for words in trigger.split(", ") if words == "plan"] == ["plan"]


def test_what_was_found_to_an_earlier_question_counts_for_nothing(case):
    run = Controlled(case, "lookahead")
    asked = run.until_asked()
    run.coordinator.handle(Planned(PlanMade(10**6, "fifo", no_moves(), (), 1e9, 1, 1, 0.1)), asked.asked.now_s)
    assert run.coordinator._run.session.policy.memory.plans == 0
    run.coordinator.handle(Planned(made(asked.asked)), asked.asked.now_s)
    assert run.coordinator._run.session.policy.memory.plans == 1


def test_it_is_asked_again_when_its_horizon_has_passed_and_when_jobs_drift():
    run = Controlled(drawn("controlled", jobs=2, iterations=60), "lookahead(drift=0.5)")
    asked = run.until_asked(jobs=2).asked
    assert asked_of(run.until(asked.now_s + 0.2)) == [], "one question at a time"
    now_s = asked.now_s + 0.2
    run.coordinator.handle(Planned(made(asked, until_s=now_s + 0.3)), now_s)
    assert asked_of(run.until(now_s + 0.29)) == []
    again = asked_of(run.until(now_s + 1.0))
    assert len(again) == 1
    # Every iteration was to end at once: all jobs are behind. The planner rests for three times as long as it took.
    now_s = again[0].asked.now_s + 0.1
    run.coordinator.handle(Planned(made(again[0].asked, ends_s=np.linspace(0.0, 0.6, 60))), now_s)
    assert asked_of(run.until(now_s + 0.29)) == []
    assert len(asked_of(run.until(now_s + 1.5))) == 1


def test_a_planner_that_has_failed_is_not_asked_again_and_the_order_stays(case):
    run = Controlled(case, "lookahead")
    asked = run.until_asked().asked
    assert run.coordinator.handle(PlannerFailed("it died"), asked.now_s) == []
    out = run.until(1e9)
    assert asked_of(out) == []
    assert any(isinstance(each, LogDecision) for each in out)
    assert run.coordinator._run.session.policy.memory.chosen.name == "clock"


def test_jobs_that_told_no_graph_are_not_looked_ahead_for(case):
    run = Controlled(case, "lookahead", graphs=False)
    assert asked_of(run.until(1e9)) == []


def test_a_graph_that_makes_no_sense_costs_its_sender_the_connection(case):
    run = Controlled(case, "lookahead", graphs=False)
    told = say(run.coordinator, (10, JobGraph("j", 1, (GraphStep(0, 0.0, (7,)),))), now_s=0.0)
    assert any(isinstance(each, SendTo) and isinstance(each.message, Fault) for each in told)


def test_one_that_is_swapped_in_looks_ahead_from_then_on(case):
    run = Controlled(case, "fair")
    run.until(1.0)
    out = swap(run.coordinator, policies.load("lookahead"), None, 1.0)
    assert any(isinstance(each, PreparePlanner) for each in out)
    assert asked_of(run.until(1e9))


# The process


@pytest.fixture
def question():
    case = drawn("process")
    end_s = max(flow.finish_s for flow in simulate(case.jobs, case.network, policies.load("fair")).flows)
    known = stopped(case, "fair", 0.5 * end_s)
    return known.question, tuple(known.known), case.network


@pytest.mark.skipif(not kernels.can_compile(), reason="looking ahead needs compiled loops (numba)")
def test_a_process_plans_and_goes_on_planning(question):
    ask, jobs, network = question
    planner = PlannerProcess(wait_here)
    try:
        planner.prepare()
        first = planner.ask(ask(number=1), jobs, network)
        again = planner.ask(ask(number=2), jobs, network)
    finally:
        planner.close()
    assert (first.number, again.number) == (1, 2)
    assert first.judged >= 3
    assert {each.job for each in first.foreseen} <= {job.graph.job for job in jobs}
    assert decode_answer(frame(first)[HEADER.size :]).chosen == first.chosen


STANDS_FOR_THE_PLANNER = """
import os, sys, time
sys.path.insert(0, {place!r})
from echelonflow.scheduling.planning import PlannerReady, frame

{first}
{then}
"""


@pytest.fixture
def standing_in(tmp_path, monkeypatch):
    """A planner that says that it is ready, and then does something else."""
    monkeypatch.setattr(
        child, "module_argv", lambda module, *rest, unbuffered: unbuffered and [sys.executable, module, *rest]
    )

    def made(then, first="os.write(int(sys.argv[2]), frame(PlannerReady()))"):
        path = tmp_path / "planner.py"
        path.write_text(STANDS_FOR_THE_PLANNER.format(place=str(REPOSITORY), first=first, then=then))
        return PlannerProcess(wait_here, str(path))

    return made


def test_a_planner_that_does_not_load_is_told_and_ended(standing_in, monkeypatch):
    monkeypatch.setattr(planner_process, "START", TimeLimit(math.inf, 0.3))
    planner = standing_in("", first="time.sleep(60)")
    with pytest.raises(PlannerError, match=r"did not answer within 0\.3 s"):
        planner.prepare()


def test_a_planner_that_hangs_is_told_and_ended(question, standing_in, monkeypatch):
    ask, jobs, network = question
    monkeypatch.setattr(planner_process, "BEYOND_BUDGET_S", 0.2)
    planner = standing_in("time.sleep(60)")
    planner.prepare()
    process = planner._child.process
    with pytest.raises(PlannerError, match=r"did not answer within 0\.3 s"):
        planner.ask(ask(budget_s=0.1), jobs, network)
    assert process.wait(5) != 0


@pytest.mark.parametrize(
    ("then", "words"),
    [
        ("os.read(int(sys.argv[1]), 1); sys.exit(3)", r"ended before it answered \(exit code 3"),
        ("os.write(int(sys.argv[2]), b'x' * 8); time.sleep(60)", "ended before it answered"),
        (
            "os.write(int(sys.argv[2]), frame(PlannerReady())); time.sleep(60)",
            "said PlannerReady; PlanMade was expected",
        ),
    ],
)
def test_a_planner_that_dies_or_talks_nonsense_is_told(question, standing_in, then, words):
    ask, jobs, network = question
    with pytest.raises(PlannerError, match=words):
        standing_in(then).ask(ask(), jobs, network)


@pytest.mark.skipif(not kernels.can_compile(), reason="looking ahead needs compiled loops (numba)")
def test_what_it_cannot_do_is_said(question):
    ask, jobs, network = question
    planner = PlannerProcess(wait_here)
    try:
        with pytest.raises(PlannerError, match=r"the planner gave up: .* is asked about, but was not told"):
            planner.ask(ask(), jobs[:0], network)
    finally:
        planner.close()
