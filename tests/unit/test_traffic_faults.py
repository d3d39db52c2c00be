"""Agents under planned faults: real agents on loopback addresses, a coordinator of the test's own."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.model.faults import ControllerStop, Crash, Fault, Slowdown, Slowdowns
from echelonflow.records.plan import write_plan
from echelonflow.wire.classes import DEFAULT_CLASS, dscp_of_class
from echelonflow.wire.messages import Finish, FlowDeclaration, Release, Setting
from tests.unit.traffic_fakes import AnswerRelease, FakeCoordinator, end_agent, start_agent, unlimited
from tests.waiting import end_of
from traffic.agent.plan import make_plan
from traffic.agent.replay import Computed, Replay
from traffic.agent.sender import OutgoingFlow
from traffic.workloads.paradigms import pipeline

ADDRESSES = {"h1": "127.0.0.1", "h2": "127.0.0.2", "h3": "127.0.0.3"}
LOWEST = dscp_of_class(DEFAULT_CLASS)


class Run:
    """Agents that replay `jobs`, each a forward pipeline from the first of its hosts to the second."""

    def __init__(
        self, folder: Path, jobs: dict[str, tuple[str, str]], faults: tuple[Fault, ...], run_index: int
    ) -> None:
        self.folder = folder
        dag = pipeline.build(stages=2, micro_batches=4, forward_s=0.1, activation_bytes=200_000)
        placed = [Job(name, dag, hosts, iterations=2) for name, hosts in jobs.items()]
        network = topologies.build("single-switch", {"hosts": 3, "rate_bps": 1e9})
        plan = make_plan(placed, network, run_index, addresses=ADDRESSES, faults=faults)
        write_plan(folder / "plan.json", plan)
        self.hosts = sorted({host for hosts in jobs.values() for host in hosts})
        self.agents: dict[str, subprocess.Popen[str]] = {}
        self.coordinator: FakeCoordinator | None = None

    def start(self, answer: AnswerRelease = unlimited) -> FakeCoordinator:
        self.coordinator = FakeCoordinator(self.folder / "control.sock", agents=len(self.hosts), answer=answer)
        for host in self.hosts:
            records = self.folder / "agents" / f"{host}.jsonl"
            self.agents[host] = start_agent(self.folder / "plan.json", host, self.folder / "control.sock", records)
        return self.coordinator

    def read(self, host: str, kind: str) -> list[dict]:
        text = (self.folder / "agents" / f"{host}.jsonl").read_text()
        return [line for line in map(json.loads, text.splitlines()) if line.get("type") == kind]

    def close(self) -> None:
        for agent in self.agents.values():
            end_agent(agent)
        if self.coordinator is not None:
            self.coordinator.close()


@pytest.fixture
def make(tmp_path, request) -> Iterator:
    runs: list[Run] = []

    def build(jobs: dict[str, tuple[str, str]], *faults: Fault) -> Run:
        index = 300 + sorted(name for name in globals() if name.startswith("test_")).index(request.function.__name__)
        runs.append(Run(tmp_path, jobs, faults, index))
        return runs[-1]

    yield build
    for run in runs:
        run.close()


def test_a_job_goes_on_to_its_end_when_the_coordinator_has_gone(make):
    run = make({"j": ("h1", "h2")}, ControllerStop(at_s=0.2))
    paused: list[Release] = []

    def hesitate(message: Release) -> Setting:
        """The first flow gets a class, the second one waits for ever."""
        paused.append(message)
        return Setting(message.job, message.flow, message.iteration, 48, None if len(paused) == 1 else 0.0)

    coordinator = run.start(hesitate)
    coordinator.wait_for(lambda: len(coordinator.of(Release)) == 2)
    coordinator.close()
    for agent in run.agents.values():
        code, _, errors = end_of(agent, 30)
        assert (code, errors) == (0, "")
    sent = run.read("h1", "sent")
    assert len(sent) == len(run.read("h2", "received")) == 8
    # What was told keeps its class; of what nothing was told, packets are in the class of all that is unknown.
    assert sorted(line["marks"][-1][1] for line in sent)[:2] == [LOWEST, LOWEST]
    assert {line["marks"][-1][1] for line in sent if line["iteration"] == 0 and line["flow"].endswith("m0")} == {48}
    assert all(line["marks"][-1][2] is None for line in sent)


def test_a_host_that_crashes_as_planned_ends_its_job_and_no_other(make):
    run = make({"dies": ("h1", "h2"), "lives": ("h3", "h1")}, Crash(at_s=0.5, host="h2"))
    coordinator = run.start()
    coordinator.wait_for(lambda: len(coordinator.of(Finish)) > 0)
    time.sleep(0.3)
    run.agents["h2"].kill()
    for host in ("h1", "h3"):
        code, _, errors = end_of(run.agents[host], 30)
        assert (code, errors) == (0, "")
    assert len([line for line in run.read("h1", "received") if line["job"] == "lives"]) == 8
    assert len([line for line in run.read("h1", "sent") if line["job"] == "dies"]) < 8
    assert len([line for line in run.read("h1", "compute") if line["job"] == "dies"]) < 8


def test_a_straggler_computes_longer_and_is_not_late():
    dag = pipeline.build(stages=2, micro_batches=3, forward_s=1.0, activation_bytes=1000)
    slow = Slowdowns((Slowdown(at_s=1.5, for_s=2.0, host="h1", factor=4.0),), "h1")
    replay = Replay([Job("j", dag, ("h1", "h2"))], "h1", slow)
    replay.begin(100.0)
    done = [action for action in replay.advance(200.0) if isinstance(action, Computed)]
    # Half a second at full speed, then half a second of work in two; the third begins when it is over.
    assert [action.due_s for action in done] == pytest.approx([101.0, 103.5, 104.5])


def test_a_job_that_has_ended_is_waited_for_no_more():
    dag = pipeline.build(stages=2, micro_batches=3, forward_s=1.0, activation_bytes=1000)
    replay = Replay([Job("a", dag, ("h1", "h2")), Job("b", dag, ("h1", "h2"))], "h1")
    replay.begin(100.0)
    replay.advance(101.0)
    replay.end_job("a")
    assert {action.job for action in replay.advance(200.0)} == {"b"}
    for step in dag.transfers:
        replay.acknowledged("b", 0, step.name, 200.0)
    assert replay.done


def test_without_a_coordinator_nothing_waits_and_nothing_is_paced(socket_pair):
    ours, _ = socket_pair
    declaration = FlowDeclaration("x", 0, "x", "h1", "h2", 1000, 0.0, 10_000, 5001)
    flow = OutgoingFlow("j", declaration, ours, send_buffer_bytes=65536, on_acknowledged=lambda *_: None)
    flow.release(0, 1.0)
    flow.apply(Setting("j", "x", 0, 40, 5e5), 1.0)
    flow.release(1, 2.0)
    flow.go_on_alone(3.0)
    assert flow.state_of(0) == (0, 40)
    assert flow.state_of(1) == (0, 40)  # the mark that the flow had last
    assert flow.active.marks == [(1.0, 40, 5e5), (3.0, 40, None)]
    assert flow.state_of(7) == (1000, None)
    flow.go_on_alone(4.0)
    assert len(flow.active.marks) == 2


@pytest.fixture
def socket_pair():
    with socket.create_server(("127.0.0.1", 0)) as server:
        ours = socket.create_connection(server.getsockname())
        theirs, _ = server.accept()
        yield ours, theirs
        ours.close()
        theirs.close()
