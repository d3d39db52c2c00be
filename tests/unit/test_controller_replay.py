"""A run that was recorded and is replayed: every policy decides the same again, bit by bit."""

from __future__ import annotations

import dataclasses
import random
from types import SimpleNamespace

import numpy as np
import pytest
from typer.testing import CliRunner

from controller import app, replay_log
from controller.clients import Client
from controller.coordinator import Coordinator
from controller.fabric import KnownFabric
from controller.instructions import BeginWeighing, EndWeighing
from controller.learning import LearnedFabric
from echelon.cli.main import app as app_of_commands
from echelonflow.errors import InputError, PolicyError
from echelonflow.model import topologies
from echelonflow.records import events
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFiles
from echelonflow.scheduling import policies
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from echelonflow.wire.messages import Begin, End, Finish, Hello, Progress, Queues, Ready, Release, encode
from tests.unit.scripted_run import declared, steps

RUNNER = 1
MORE = ["coflow(grouping=group)", "echelonflow(reuse=iterations)"]


class FakeClock:
    """Time as a script says it is."""

    def __init__(self):
        self.now_s = 5000.0

    def monotonic(self):
        return self.now_s


class FakeFramework:
    """Green threads that run when the script lets them."""

    def __init__(self):
        self.spawned = []

    def spawn(self, function, *args):
        self.spawned.append(lambda: function(*args))

    def spawn_after(self, _delay_s, _function):
        return SimpleNamespace(cancel=lambda: None)

    def queue(self, _limit):
        return SimpleNamespace(put_nowait=lambda _line: None)


@pytest.fixture
def network():
    return topologies.build("leaf-spine", {"leaves": 2, "spines": 2, "hosts_per_leaf": 3, "rate_bps": 3e7})


@dataclasses.dataclass
class World:
    """A shell whose clients are a script."""

    shell: app.Shell
    clock: FakeClock
    rng: random.Random
    clients: dict = dataclasses.field(default_factory=dict)

    def client(self, number):
        """One that reads nothing."""
        return self.clients.setdefault(number, Client(number, None, SimpleNamespace(put_nowait=lambda _: None)))

    def say(self, client, *messages):
        for message in messages:
            self.shell.heard(self.client(client), encode(message).rstrip())

    def pass_time(self):
        self.clock.now_s += self.rng.random() * 0.05

    def let_run(self):
        spawned, self.shell.framework.spawned = self.shell.framework.spawned, []
        for function in spawned:
            function()


@pytest.fixture
def world(network, monkeypatch):
    return make_world(network, monkeypatch)


def make_world(network, monkeypatch, load=policies.load, fabric=None):
    clock = FakeClock()
    monkeypatch.setattr(app, "time", clock)
    shell = app.Shell(FakeFramework(), Coordinator(fabric or KnownFabric(network), load), load)
    for number in range(1, 1 + len(network.switches)):
        switch = SimpleNamespace(
            datapath_id=number, datapath=number, reset=lambda _rules: 7, install=lambda _add, _remove: None
        )
        shell.connected(switch)
        shell.confirmed(number, 7)
    return World(shell, clock, random.Random(11))


def run(world, network, folder, policy, enforcer, in_mid_run=lambda: None, iterations=3):
    """One run of three jobs, recorded in `folder`; `in_mid_run` is called once in the middle."""
    clients = {host: number for number, host in enumerate(network.hosts, start=10)}
    groups = declared(network.hosts)
    queues = Queues(12_500, 0.002)
    world.say(RUNNER, Begin("r", policy, enforcer, len(clients), str(folder / "decisions.jsonl"), queues=queues))
    for host, client in clients.items():
        world.say(client, Hello("agent", host), Ready())
    flow_of = {(group.job, flow.flow): flow for group in groups for flow in group.flows}
    for group in groups:
        world.say(10, group)
    world.clock.now_s += 0.5
    script = list(steps(groups, iterations, world.rng))
    for number, (what, (job, iteration, name)) in enumerate(script):
        flow = flow_of[job, name]
        sender, receiver = clients[flow.src_host], clients[flow.dst_host]
        if number == len(script) // 2:
            in_mid_run()
        world.pass_time()
        if what == "release":
            world.say(sender, Release(job, name, iteration, world.clock.now_s - 0.001))
        elif what == "progress":
            world.say(sender, Progress(job, name, iteration, world.rng.randrange(flow.size_bytes)))
        else:
            world.say(receiver, Finish(job, name, iteration, world.clock.now_s - 0.001))
            world.say(sender, Progress(job, name, iteration, flow.size_bytes))
        if world.rng.random() < 0.7:
            world.pass_time()
            world.let_run()
    world.let_run()
    world.say(RUNNER, End())
    for client in clients.values():
        world.shell.gone(world.clients.pop(client))


def replayed(folder):
    return replay_log.replay(RunFiles(folder).events)


def check(folder, at_least=60):
    was = read_decisions(RunFiles(folder).decisions)
    assert len(was) >= at_least
    assert any(decision.changed for decision in was)
    assert replay_log.difference(was, replayed(folder)) is None
    return was


@pytest.mark.parametrize("policy", [*policies.deciding_alone(), *MORE])
def test_every_policy_decides_the_same_again(world, network, tmp_path, policy):
    world.say(RUNNER, Hello("runner", ""))
    run(world, network, tmp_path, policy, policies.load(policy).enforcer)
    check(tmp_path)


@pytest.mark.parametrize("policy", ["echelonflow", "coflow", "weighted(per=job)", "aalo"])
def test_weights_are_the_same_again(world, network, tmp_path, monkeypatch, policy):
    changed = []
    monkeypatch.setattr(world.shell, "_weigh", changed.append)
    world.say(RUNNER, Hello("runner", ""))
    run(world, network, tmp_path, policy, "weighted")
    assert any(decision.weights for decision in check(tmp_path))
    assert [type(one) for one in changed[:1] + changed[-1:]] == [BeginWeighing, EndWeighing]


def test_a_run_in_which_everything_happens_is_replayed(world, network, tmp_path):
    """Another policy, a switch that comes back, lines that are no messages, messages that do not fit."""

    def in_mid_run():
        with pytest.raises(InputError, match="unknown enforcer"):
            world.shell.order(events.PolicyOrdered("edf", "magic"))
        world.shell.order(events.PolicyOrdered("coflow(grouping=group)", "rate"))
        world.shell.heard(world.client(10), b"nonsense")
        world.say(10, Release("job0", "nonsense", 0, 1.0))
        switch = (
            world.shell._switches["leaf1"]
            if "leaf1" in world.shell._switches
            else next(iter(world.shell._switches.values()))
        )
        world.shell.lost(switch)
        world.shell.connected(switch)
        world.shell.confirmed(switch.datapath_id, 7)
        world.shell.seen(switch.datapath_id, 1, "02:00:00:00:00:09")
        world.shell.error(switch.datapath_id, "OpenFlow error type 5 code 1")

    world.say(RUNNER, Hello("runner", ""))
    run(world, network, tmp_path, "echelonflow", "priority", in_mid_run)
    was = check(tmp_path)
    assert any(decision.trigger.startswith("policy") or "policy" in decision.trigger for decision in was)
    kinds = {type(logged.event) for logged in events.read(RunFiles(tmp_path).events)[1]}
    assert {events.LineRefused, events.PacketShown, events.SwitchRefused, events.PolicyOrdered} <= kinds


def test_runs_one_after_the_other_are_replayed_each_from_its_own_log(world, network, tmp_path):
    world.say(RUNNER, Hello("runner", ""))
    for policy in ("aalo", "fair"):
        (tmp_path / policy).mkdir()
        run(world, network, tmp_path / policy, policy, "rate", iterations=1)
    for policy in ("aalo", "fair"):
        check(tmp_path / policy, at_least=20)
    assert (
        replay_log.difference(read_decisions(RunFiles(tmp_path / "aalo").decisions), replayed(tmp_path / "fair"))
        is not None
    )


def test_answers_of_policies_elsewhere_are_given_from_the_log(network, tmp_path, monkeypatch):
    """A user's file may have changed since, and its answers depend on anything."""
    noise = np.random.default_rng(3)

    def erratic(snapshot):
        return Allocation(noise.random(snapshot.flows), noise.permutation(snapshot.flows))

    def load(text):
        return Policy(text, "rate", "", erratic, isolated=True) if text == "./erratic.py" else policies.load(text)

    world = make_world(network, monkeypatch, load)
    world.say(RUNNER, Hello("runner", ""))
    run(world, network, tmp_path, "./erratic.py", "rate")
    check(tmp_path)


def test_a_policy_that_took_too_long_then_has_failed_in_the_replay(network, tmp_path, monkeypatch):
    hung = []

    def load(text):
        policy = policies.load(text)

        def late(snapshot):
            hung.append(snapshot)
            raise PolicyError("policy edf had not decided after 1 s")

        return policy.deciding(late) if text == "edf" and not hung else policy

    world = make_world(network, monkeypatch, load)
    world.say(RUNNER, Hello("runner", ""))
    run(world, network, tmp_path, "fair", "rate", lambda: world.shell.order(events.PolicyOrdered("edf", "priority")))
    assert hung
    was = check(tmp_path)
    assert any("fallback" in decision.trigger for decision in was)


def test_a_log_of_a_learned_network_is_replayed(tmp_path, monkeypatch):
    network = topologies.build("single-switch", {"hosts": 4, "rate_bps": 3e7})
    addresses = {host: f"10.0.0.{i}" for i, host in enumerate(network.hosts, start=1)}
    world = make_world(network, monkeypatch, fabric=LearnedFabric(network, addresses))
    world.say(RUNNER, Hello("runner", ""))
    run(world, network, tmp_path, "echelonflow", "priority")
    check(tmp_path)


def test_the_command_says_equal_or_where_it_differs(world, network, tmp_path):
    raw = tmp_path / "raw" / "fair-r0"
    raw.mkdir(parents=True)
    world.say(RUNNER, Hello("runner", ""))
    run(world, network, raw, "fair", "rate", iterations=1)
    runner = CliRunner()
    done = runner.invoke(app_of_commands, ["replay", str(tmp_path)])
    assert (done.exit_code, done.output) == (
        0,
        f"fair-r0: {len(read_decisions(RunFiles(raw).decisions))} decisions, all equal\n",
    )
    lines = (raw / "decisions.jsonl").read_text().splitlines(keepends=True)
    (raw / "decisions.jsonl").write_text("".join(lines[:-1]))
    done = runner.invoke(app_of_commands, ["replay", str(raw)])
    assert (done.exit_code, done.output.split(":")[:2]) == (1, ["fair-r0", " differs"])
    with pytest.raises(InputError, match=r"holds no events\.jsonl"):
        runner.invoke(app_of_commands, ["replay", str(tmp_path / "nothing")], catch_exceptions=False)


def test_a_difference_is_named(world, network, tmp_path):
    world.say(RUNNER, Hello("runner", ""))
    run(world, network, tmp_path, "echelonflow", "priority", iterations=1)
    was = read_decisions(RunFiles(tmp_path).decisions)
    slower = [dataclasses.replace(decision, policy_ms=1e9, total_ms=0.0) for decision in was]
    assert replay_log.difference(was, slower) is None
    other = [*was[:3], dataclasses.replace(was[3], digest="00"), *was[4:]]
    assert replay_log.difference(was, other) == (
        f"decision 4 at {was[3].time_s:.6f} s: digest was {was[3].digest}, is 00 when replayed"
    )
    assert replay_log.difference(was, was[:-1]) == f"{len(was)} decisions were recorded, {len(was) - 1} replayed"


def test_what_a_killed_controller_had_written_is_compared_as_far_as_it_goes(world, network, tmp_path):
    folder = tmp_path / "killed"
    folder.mkdir()
    world.say(RUNNER, Hello("runner", ""))
    run(world, network, folder, "echelonflow", "priority")
    events = RunFiles(folder).events
    whole = replay_log.replay_all(events)
    assert whole.complete
    content = events.read_bytes()
    events.write_bytes(content[: len(content) * 2 // 3])  # in the middle of a line
    cut, was = replay_log.replay_all(events), read_decisions(RunFiles(folder).decisions)
    assert not cut.complete
    assert 10 < len(cut.decisions) < len(was)
    assert replay_log.difference(cut.of_these(was), cut.decisions) is None


def test_events_do_not_wait_long_for_the_disk(world, network, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    world.say(RUNNER, Hello("runner", ""))
    seen = []
    run(
        world, network, folder, "fair", "priority",
        in_mid_run=lambda: seen.append(len(replay_log.replay_all(RunFiles(folder).events).decisions)),
    )  # fmt: skip
    assert seen[0] > 5
