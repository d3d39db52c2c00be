"""The shell with a fake framework: one decision a round, rules before settings, no fault unseen."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from controller.app import SPARE_S, Shell
from controller.clients import Client
from controller.coordinator import Coordinator
from controller.fabric import KnownFabric
from controller.instructions import AskPlanner, PreparePlanner
from controller.planner_process import PlannerError
from controller.replay_log import difference, replay
from echelonflow.errors import PolicyError
from echelonflow.model import topologies
from echelonflow.records.decisions import read_decisions
from echelonflow.records.events import PlannerFailed, PlannerPrepared, SwitchConnected
from echelonflow.records.rules import read_rules
from echelonflow.scheduling.policies import Policy
from echelonflow.wire.messages import (
    Before,
    Begin,
    Decide,
    Declare,
    Event,
    Fault,
    FlowDeclaration,
    Hello,
    Ready,
    Release,
    decode,
    encode,
)

RUNNER, AGENT = 1, 2


@dataclass
class FakeFramework:
    spawned: list = field(default_factory=list)
    alarms: list = field(default_factory=list)

    def spawn(self, function, *args):
        self.spawned.append(lambda: function(*args))

    def spawn_after(self, delay_s, function):
        self.alarms.append((delay_s, function))
        return FakeAlarm()


class FakeAlarm:
    def cancel(self):
        pass


@dataclass
class Recorded:
    """A switch and clients' queues that write what they are given into one list, in order."""

    datapath_id: int
    events: list
    alive: bool = True
    address: str = "127.0.0.1:1"

    def reset(self, rules):
        self.events.append(("reset", len(rules)))
        return 7

    def install(self, add, remove):
        self.events.append(("install", len(add), len(remove)))

    def install_confirmed(self, add, remove):
        self.install(add, remove)
        return 8


@dataclass
class FakeQueue:
    events: list

    def put_nowait(self, line):
        self.events.append(None if line is None else decode(line))


@pytest.fixture
def events():
    return []


@pytest.fixture
def shell(tmp_path, events):
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e8})
    shell = Shell(FakeFramework(), Coordinator(KnownFabric(network)))
    for number in (RUNNER, AGENT):
        shell.clients.by_number[number] = Client(number, None, FakeQueue(events))
    shell.connected(Recorded(1, events))
    assert events == [("reset", shell_rules(shell))]
    shell.confirmed(1, 7)
    begin = Begin("r", "echelonflow", "priority", 1, str(tmp_path / "decisions.jsonl"))
    hear(shell, RUNNER, Hello("runner", ""), begin)
    flows = tuple(FlowDeclaration(f"f{i}", i, f"f{i}", "h1", "h2", 10**6, 0.0, 10_000 + i, 5001) for i in range(2))
    hear(shell, AGENT, Hello("agent", "h1"), Declare("job", "g", "k", 1.0, flows), Ready())
    events.clear()
    yield shell
    shell.close()


def shell_rules(shell):
    return len(shell.coordinator.handle(SwitchConnected(1), 0.0)[0].rules)


def hear(shell, client, *messages):
    for message in messages:
        shell.heard(shell.clients.by_number[client], encode(message).rstrip(b"\n"))


def releases(shell):
    zero_s = shell.coordinator._run.session.zero_s
    return [Release("job", f"f{i}", 0, zero_s) for i in range(2)]


def test_messages_of_one_round_lead_to_one_decision_rules_first(shell, events, tmp_path):
    hear(shell, AGENT, *releases(shell))
    assert events == []
    (decide,) = shell.framework.spawned
    decide()
    assert events[0] == ("install", 2, 0)
    assert isinstance(events[1], Decide)
    assert {s.flow for s in events[1].settings} == {"f0", "f1"}
    assert len(events) == 2
    (decision,) = read_decisions(tmp_path / "decisions.jsonl")
    assert decision.flows == 2


def test_rules_are_confirmed_where_that_is_asked_for_and_their_times_written_down(shell, events, tmp_path):
    again = tmp_path / "again"
    again.mkdir()
    shell.confirm_rules = True
    hear(shell, RUNNER, Begin("r", "echelonflow", "priority", 1, str(again / "decisions.jsonl")))
    flows = tuple(FlowDeclaration(f"f{i}", i, f"f{i}", "h1", "h2", 10**6, 0.0, 10_000 + i, 5001) for i in range(2))
    hear(shell, AGENT, Declare("job", "g", "k", 1.0, flows), Ready())
    hear(shell, AGENT, *releases(shell))
    events.clear()
    shell.framework.spawned.pop()()
    assert events[0] == ("install", 2, 0)
    shell.confirmed(1, 99)  # of something else
    assert read_rules(again / "rules.jsonl") == []
    shell.confirmed(1, 8)
    (given,) = read_rules(again / "rules.jsonl")
    assert (given.switch, given.rules, given.decisions) == ("s1", 2, 0)
    assert given.sent_s <= given.confirmed_s
    assert not (tmp_path / "rules.jsonl").exists()  # of the run before, which did not ask


def test_a_fault_of_the_coordinator_itself_is_told_to_the_runner(shell, events, monkeypatch):
    def stumble(_policy, _now_s):
        raise KeyError("stumbled")

    hear(shell, AGENT, *releases(shell))
    monkeypatch.setattr(shell.coordinator._run.decisions, "ask", stumble)
    shell.framework.spawned[0]()
    (told,) = events
    assert told.what == "fault"
    assert "stumbled" in told.detail
    assert len(shell.framework.spawned) == 1  # and it is not tried again


def test_what_happens_while_a_policy_is_loaded_comes_before_the_begin(shell, events, tmp_path):
    """Starting a process lets other green threads run: the coordinator must not be in the middle of something."""
    load, inside = shell.load, []

    def slow(text):
        hear(shell, AGENT, *releases(shell))
        inside.append(list(events))
        return load(text)

    shell.load = slow
    hear(shell, RUNNER, Begin("second", "fair", "rate", 1, str(tmp_path / "second.jsonl")))
    assert inside == [[]]  # the first run's, and nothing wrong with them
    assert [(e.what, e.detail) for e in events if isinstance(e, Event)] == [("begun", "second")]


def test_a_policy_that_cannot_be_loaded_is_refused_and_the_run_goes_on(shell, events):
    def fail(text):
        raise PolicyError(f"policy {text} had not loaded after 10 s")

    shell.load = fail
    hear(shell, RUNNER, Begin("second", "./slow.py", "rate", 1, "/nowhere"))
    assert events == [Fault("policy ./slow.py had not loaded after 10 s")]
    assert shell.coordinator.status(0.0).run.name == "r"


def test_a_policy_that_was_loaded_in_vain_is_closed(shell, events):
    closed = []
    shell.load = lambda text: Policy(text, "rate", "", None, isolated=True, close=lambda: closed.append(text))
    hear(shell, RUNNER, Begin("mine", "./mine.py", "magic", 1, "/nowhere"))
    assert closed == ["./mine.py"]
    assert isinstance(events[0], Fault)


def test_a_policy_is_loaded_for_the_runner_alone(shell, events):
    """A policy file is code: whoever else names one is refused before it is touched."""
    loaded = []
    shell.load = loaded.append
    hear(shell, AGENT, Begin("mine", "./mine.py", "rate", 1, "/nowhere"))
    assert loaded == []
    fault, closed, told_runner = events
    assert fault.reason == "Begin is for the runner to say, not for agent on h1"
    assert closed is None
    assert told_runner.what == "fault"  # it was an agent of the run


def test_an_allocation_that_expires_sets_an_alarm(shell, monkeypatch):
    monkeypatch.setattr(type(shell.coordinator), "wake_s", property(lambda _: 1e12))
    hear(shell, AGENT, Ready())
    delay_s, function = shell.framework.alarms[-1]
    assert delay_s > 1e6
    assert function == shell._schedule


def test_a_switch_that_is_connected_is_not_replaced(shell, events):
    """Who comes second may be anybody: it got the rules, and the first got none."""
    first = shell._switches["s1"]
    assert not shell.connected(Recorded(1, events, address="127.0.0.1:2"))
    assert shell._switches["s1"] is first
    (told,) = events
    assert told.what == "refused"  # which fails no run
    assert (
        told.detail == "a switch of datapath id 1, from 127.0.0.1:2: switch s1 is connected already, from 127.0.0.1:1"
    )


def test_a_switch_that_the_network_does_not_have_is_refused(shell, events):
    assert not shell.connected(Recorded(99, events))
    assert [told.what for told in events] == ["refused"]


def test_a_switch_whose_connection_has_ended_may_come_back_at_once(shell, events):
    old, new = shell._switches["s1"], Recorded(1, events)
    old.datapath, new.datapath = object(), object()
    old.alive = False
    assert shell.connected(new)
    assert [(e.what, e.detail) for e in events if isinstance(e, Event)] == [("lost", "switch s1")]
    events.clear()
    shell.lost(old)  # which is heard of a second time
    assert events == []
    shell.lost(new)
    assert [(e.what, e.detail) for e in events] == [("lost", "switch s1")]


class TestSpareTime:
    """In the fixture's run nothing comes before its flows, but that is not said; here it is, in another job."""

    @pytest.fixture
    def spare(self, shell, events):
        flow = FlowDeclaration("s0", 0, "s0", "h1", "h2", 10**6, 0.0, 20_000, 5001, Before())
        hear(shell, AGENT, Declare("spare", "g", "k", 1.0, (flow,)))
        shell.coordinator._run.books.ahead.note_decision()
        shell.framework.alarms.clear()
        shell._spare = None
        shell.enact([])
        assert events == []
        return shell

    def alarm(self, shell):
        (delay_s, function), *more = [each for each in shell.framework.alarms if each[0] == SPARE_S]
        assert (delay_s, more) == (SPARE_S, [])
        shell.framework.alarms.clear()
        return function

    def test_it_is_used_when_nothing_has_come_for_a_while(self, spare, events):
        self.alarm(spare)()
        install, decide = events
        assert install[0] == "install"
        assert [s.flow for s in decide.settings] == ["s0"]

    def test_a_decision_that_is_due_goes_first(self, spare, events):
        spare_time = self.alarm(spare)
        hear(spare, AGENT, Release("job", "f0", 0, 0.0 + spare.coordinator._run.session.zero_s))
        spare_time()
        assert events == []
        spare.framework.spawned.pop()()
        assert [s.flow for s in events[-1].settings] == ["f0"]
        events.clear()
        self.alarm(spare)()
        assert [s.flow for s in events[-1].settings] == ["s0"]

    def test_what_it_leads_to_is_replayed(self, spare, tmp_path):
        self.alarm(spare)()
        spare.close()
        recorded = read_decisions(tmp_path / "decisions.jsonl")
        assert [decision.ahead for decision in recorded] == [True]
        assert difference(recorded, replay(tmp_path / "events.jsonl")) is None


# A planner beside it


@dataclass
class FakePlanner:
    """Answers what it is asked, or fails; `meanwhile` happens while it plans."""

    answers: list
    asked: list = field(default_factory=list)
    meanwhile: object = None

    def prepare(self):
        self.asked.append("prepared")

    def ask(self, asked, jobs, network):
        self.asked.append(asked)
        if self.meanwhile is not None:
            meanwhile, self.meanwhile = self.meanwhile, None
            meanwhile()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
def told(shell, monkeypatch):
    """What the coordinator is told of plans."""
    found = []
    monkeypatch.setattr(shell, "handle", lambda event, *_, **__: found.append(event))
    return found


def test_what_the_planner_finds_is_told_and_what_it_finds_to_an_earlier_question_is_not(shell, told):
    shell.planner = planner = FakePlanner(["first", "second"])
    one, other = (AskPlanner(name, (), shell.coordinator.network) for name in ("one", "other"))
    planner.meanwhile = lambda: shell.enact([other])
    shell.enact([one])
    assert planner.asked == [], "it plans in a green thread of its own"
    shell.framework.spawned.pop()()
    assert planner.asked == ["one", "other"]
    assert [event.made for event in told] == ["second"]


def test_a_planner_that_has_loaded_is_told(shell, told):
    shell.planner = planner = FakePlanner([])
    shell.enact([PreparePlanner()])
    assert (planner.asked, told) == ([], [])
    shell.framework.spawned.pop()()
    assert (planner.asked, told) == (["prepared"], [PlannerPrepared()])


def test_a_planner_that_fails_is_told_once_and_the_run_goes_on(shell, told, caplog):
    shell.planner = FakePlanner([PlannerError("it hangs")])
    shell.enact([AskPlanner("one", (), shell.coordinator.network)])
    shell.framework.spawned.pop()()
    assert told == [PlannerFailed("it hangs")]
    assert [record.message for record in caplog.records] == [
        "it hangs; the order in force stays so for the rest of this run"
    ]


def test_without_a_planner_nobody_looks_ahead(shell, told):
    shell.enact([PreparePlanner()])
    shell.framework.spawned.pop()()
    assert told == [PlannerFailed("this controller has no planner")]
