"""Two real agents on loopback addresses, real TCP, and a coordinator of the test's own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from echelonflow.errors import EXIT_BAD_INPUT, EXIT_FAILED
from echelonflow.model import topologies
from echelonflow.model.dag import Job, JobDag
from echelonflow.model.discipline import Discipline, TaskSpec, Window
from echelonflow.records.agent_log import AgentLog
from echelonflow.records.plan import read_plan, write_plan
from echelonflow.wire.declare import declarations
from echelonflow.wire.messages import Declare, Done, Finish, Hello, Progress, Release, Setting
from tests.unit.gated_jobs import gradients_job
from tests.unit.traffic_fakes import AnswerRelease, FakeCoordinator, end_agent, start_agent, unlimited
from tests.waiting import end_of, ending, wait_until
from traffic.agent.agent import Agent
from traffic.agent.plan import make_plan
from traffic.agent.sender import SentFlow
from traffic.workloads.paradigms import gpipe, pipeline

ADDRESSES = {"h1": "127.0.0.1", "h2": "127.0.0.2"}


class Run:
    """Two agents that replay one job."""

    def __init__(self, folder: Path, job: Job, run_index: int, answer: AnswerRelease) -> None:
        self.folder = folder
        self.network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e9})
        write_plan(folder / "plan.json", make_plan([job], self.network, run_index, addresses=ADDRESSES))
        self.coordinator = FakeCoordinator(folder / "control.sock", agents=2, answer=answer)
        self.agents = {
            host: start_agent(folder / "plan.json", host, folder / "control.sock", self.records(host))
            for host in ADDRESSES
        }
        self.coordinator.watched += self.agents.values()

    def records(self, host: str) -> Path:
        return self.folder / "agents" / f"{host}.jsonl"

    def read(self, host: str, kind: str) -> list[dict]:
        lines = map(json.loads, self.records(host).read_text().splitlines())
        return [line for line in lines if line.get("type") == kind]

    def finish(self) -> dict[str, tuple[int, str]]:
        ends = {}
        for host, agent in self.agents.items():
            code, _, errors = end_of(agent, 60)
            ends[host] = (code, errors)
        return ends

    def close(self) -> None:
        for agent in self.agents.values():
            end_agent(agent)
        self.coordinator.close()


@pytest.fixture
def start(tmp_path, request) -> Iterator[Callable[..., Run]]:
    runs = []

    def begin(dag: JobDag | Job, iterations: int = 1, answer: AnswerRelease = unlimited) -> Run:
        # A port of its own for every test: connections of the last one may still be fading away.
        index = 200 + sorted(name for name in globals() if name.startswith("test_")).index(request.function.__name__)
        job = dag if isinstance(dag, Job) else Job("j", dag, ("h1", "h2"), iterations)
        runs.append(Run(tmp_path, job, index, answer))
        return runs[-1]

    yield begin
    for run in runs:
        run.close()


def test_a_job_is_replayed_and_recorded(start):
    size = 300_000
    dag = gpipe.build(stages=2, micro_batches=3, forward_s=0.01, backward_s=0.02, activation_bytes=size, update_s=0.005)
    run = start(dag, iterations=2)
    assert run.finish() == {"h1": (0, ""), "h2": (0, "")}
    computed = [c for host in ADDRESSES for c in run.read(host, "compute")]
    assert len(computed) == 2 * len(dag.computes)
    for c in computed:
        step = dag.by_name[c["step"]]
        assert c["rank"] == step.rank
        assert c["kind"] == step.kind
        assert c["finish_s"] - c["start_s"] == pytest.approx(step.duration_s + c["late_s"], abs=1e-8)
        assert c["late_s"] >= 0
    sent = {(s["flow"], s["iteration"]): s for host in ADDRESSES for s in run.read(host, "sent")}
    received = {(r["flow"], r["iteration"]): r for host in ADDRESSES for r in run.read(host, "received")}
    assert set(sent) == set(received) == {(t.name, k) for t in dag.transfers for k in range(2)}
    for key, s in sent.items():
        assert s["sent_bytes"] == received[key]["received_bytes"] == size
        assert s["release_s"] <= s["start_s"] <= received[key]["first_s"] <= received[key]["finish_s"]
        assert s["start_s"] < s["acked_s"]  # the kernel may acknowledge before the receiver has read
        assert [m[1:] for m in s["marks"]] == [[48, None]]
    finish = {(c["step"], c["iteration"]): c["finish_s"] for c in computed}
    for c in computed:
        for before in dag.by_name[c["step"]].after:
            ready = (before, c["iteration"])
            # A computation goes on from when its input was due, which is no later than when that was noticed.
            moment = finish.get(ready) or received[ready]["finish_s"]
            assert c["start_s"] >= moment - 0.05


def test_what_a_job_holds_back_is_released_when_its_turn_comes(start):
    job = gradients_job(Window(slots=1), size_bytes=300_000, backward_s=0.004, iterations=2)

    def answer(message: Release) -> Setting | None:
        return None if (message.flow, message.iteration) == ("push 3", 0) else unlimited(message)

    run = start(job, answer=answer)
    told = run.coordinator
    told.wait_for(lambda: bool(told.of(Release)))
    wait_until(lambda: len(run.read("h1", "compute")) == 8, what="the first pass", process=run.agents["h1"])
    (first,) = told.of(Release)  # though all gradients are there
    assert run.read("h2", "sent") == []
    told.tell(first.flow, unlimited(first))
    assert run.finish() == {"h1": (0, ""), "h2": (0, "")}
    pushes = [line for line in run.read("h1", "sent") if line["flow"].startswith("push")]
    assert [line["flow"] for line in pushes if line["iteration"] == 0] == ["push 3", "push 0", "push 1", "push 2"]
    for before, after in pairwise(pushes):
        assert after["release_s"] >= before["acked_s"]
    computed_s = {(line["step"], line["iteration"]): line["finish_s"] for line in run.read("h1", "compute")}
    assert "ready_s" not in pushes[0] or pushes[0]["ready_s"] is None
    for line in pushes[1:4]:
        ended_s = computed_s[line["flow"].replace("push", "backward"), 0]
        assert line["ready_s"] == pytest.approx(ended_s, abs=1e-6)
        assert line["ready_s"] < line["release_s"]
    assert not any(line.get("ready_s") for line in run.read("h2", "sent"))


def test_the_coordinator_is_told_everything_once(start):
    dag = gpipe.build(stages=2, micro_batches=2, forward_s=0.01, backward_s=0.01, activation_bytes=1000)
    run = start(dag)
    run.finish()
    told = run.coordinator
    told.wait_for(lambda: len(told.of(Done)) == 2)  # the agents have ended; what they said last may still be under way
    assert {(c, m.host) for c, m in told.messages if isinstance(m, Hello)} == {("agent-h1", "h1"), ("agent-h2", "h2")}
    declared = {m.group: c for c, m in told.messages if isinstance(m, Declare)}
    assert declared == {"pp-forward 0->1": "agent-h1", "pp-backward 1->0": "agent-h2"}
    flows = {t.name for t in dag.transfers}
    assert sorted(m.flow for m in told.of(Release)) == sorted(flows)
    assert sorted(m.flow for m in told.of(Finish)) == sorted(flows)
    by = {m.flow: (c, m.time_s) for c, m in told.messages if isinstance(m, Finish)}
    for client, message in told.messages:
        if isinstance(message, Release):
            assert client != by[message.flow][0]  # the source releases, the destination finishes
            assert message.time_s < by[message.flow][1]
    assert len(told.of(Done)) == 2


def test_nothing_is_sent_before_the_first_setting(start):
    run = start(pipeline.build(stages=2, micro_batches=1, forward_s=0.0, activation_bytes=1000), answer=lambda _: None)
    run.coordinator.wait_for(lambda: bool(run.coordinator.of(Release)))
    (release,) = run.coordinator.of(Release)
    with pytest.raises(AssertionError, match="in vain"):
        run.coordinator.wait_for(lambda: bool(run.coordinator.of(Finish)), timeout_s=0.3)
    run.coordinator.tell(release.flow, unlimited(release))
    assert run.finish() == {"h1": (0, ""), "h2": (0, "")}


def test_a_rate_is_kept_and_a_pause_holds_until_it_is_lifted(start):
    size, rate_Bps = 4_000_000, 8e6
    dag = pipeline.build(stages=2, micro_batches=1, forward_s=0.0, activation_bytes=size)
    run = start(dag, answer=lambda m: Setting(m.job, m.flow, m.iteration, 40, rate_Bps))
    (flow,) = (t.name for t in dag.transfers)
    told = run.coordinator

    def sent_bytes() -> int:
        return max((p.sent_bytes for p in told.of(Progress)), default=0)

    told.wait_for(lambda: sent_bytes() > size // 4)
    told.tell(flow, Setting("j", flow, 0, 40, 0.0))
    reports = len(told.of(Progress))
    told.wait_for(lambda: len(told.of(Progress)) >= reports + 4)
    paused_bytes = sent_bytes()
    reports = len(told.of(Progress))
    told.wait_for(lambda: len(told.of(Progress)) >= reports + 4)
    assert sent_bytes() == paused_bytes < size
    told.tell(flow, Setting("j", flow, 0, 48, rate_Bps))
    assert run.finish() == {"h1": (0, ""), "h2": (0, "")}
    (sent,) = run.read("h1", "sent")
    assert [m[1:] for m in sent["marks"]] == [[40, rate_Bps], [40, 0.0], [48, rate_Bps]]
    (_, pause_s), (_, resume_s) = ((m[1], m[0]) for m in sent["marks"][1:])
    moving_s = sent["acked_s"] - sent["start_s"] - (resume_s - pause_s)
    # Segments of 64 kB over loopback make pacing coarse, and the buffer drains into the pause.
    assert size / moving_s == pytest.approx(rate_Bps, rel=0.25)


def test_a_setting_that_follows_another_flow_holds_from_that_ones_end_on(start):
    dag = pipeline.build(stages=2, micro_batches=2, forward_s=0.0, activation_bytes=1_000_000)
    first, second = (t.name for t in dag.transfers)
    rates = {first: 4e6, second: 0.0}
    run = start(dag, answer=lambda m: Setting(m.job, m.flow, m.iteration, 40, rates[m.flow], 1))
    told = run.coordinator
    told.wait_for(lambda: len(told.of(Release)) == 2)
    told.tell(second, Setting("j", second, 0, 40, 8e6, 2, ("j", 0, first)))
    assert run.finish() == {"h1": (0, ""), "h2": (0, "")}
    ends = {line["flow"]: line for line in run.read("h1", "sent")}
    (began_s, *_) = ends[second]["marks"][-1]
    assert ends[second]["marks"][-1][1:] == [40, 8e6]
    assert abs(began_s - ends[first]["acked_s"]) < 0.05  # all of the first has left then; its acknowledgement follows


def test_progress_is_fresh_for_a_decision_but_not_reported_again_at_once(tmp_path):
    class Active:
        """An outgoing flow in flight."""

        active = SentFlow(0, 0.0, start_s=0.0)

        def acknowledged_bytes(self):
            return 1000

    time_s = [0.0]
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e9})
    job = Job(
        "j",
        gpipe.build(stages=2, micro_batches=1, forward_s=0.01, backward_s=0.01, activation_bytes=1000),
        ("h1", "h2"),
    )
    write_plan(tmp_path / "plan.json", make_plan([job], network, 0, addresses=ADDRESSES))
    coordinator = FakeCoordinator(tmp_path / "control.sock", agents=1)
    told = Agent(
        read_plan(tmp_path / "plan.json"),
        "h1",
        tmp_path / "control.sock",
        AgentLog(tmp_path / "h1.jsonl"),
        lambda: time_s[0],
    )
    told._active = {("j", f"f{i}"): Active() for i in range(3)}
    for time_s[0] in (1.0, 1.0005, 1.0019, 1.0021):
        told._refresh_progress()
    told._client.flush()
    coordinator.wait_for(lambda: len(coordinator.of(Progress)) >= 6)
    assert [message.flow for message in coordinator.of(Progress)] == ["f0", "f1", "f2"] * 2
    told.close()
    coordinator.close()


def test_a_lost_peer_ends_the_run_and_keeps_the_records(start):
    dag = pipeline.build(stages=2, micro_batches=2, forward_s=0.01, activation_bytes=3_000_000)
    run = start(dag, answer=lambda m: Setting(m.job, m.flow, m.iteration, 48, None if m.flow.endswith("m0") else 1e6))
    run.coordinator.wait_for(lambda: bool(run.coordinator.of(Finish)) and len(run.coordinator.of(Release)) == 2)
    # Told first, then recorded.
    wait_until(lambda: run.read("h2", "received"), what="a record", process=run.agents["h2"])
    run.agents["h2"].kill()
    ends = run.finish()
    code, errors = ends["h1"]
    assert code == EXIT_FAILED
    assert errors.count("\n") == 1
    assert "to h2: connection lost" in errors
    assert [r["flow"] for r in run.read("h2", "received")] == ["pp-forward 0->1 m0"]
    assert len(run.read("h1", "compute")) == 2


def test_a_lost_coordinator_ends_the_run(start):
    run = start(pipeline.build(stages=2, micro_batches=1, forward_s=0.0, activation_bytes=1000), answer=lambda _: None)
    run.coordinator.wait_for(lambda: bool(run.coordinator.of(Release)))
    run.coordinator.close()
    for code, errors in run.finish().values():
        assert code == EXIT_FAILED
        assert errors.count("\n") == 1
        assert "coordinator" in errors


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not JSON"),
        ('{"schema": "echelon-plan", "version": 1, "run_index": 0}', "missing field"),
        (None, "No such file"),
    ],
)
def test_a_bad_plan_is_bad_input(tmp_path, text, words):
    plan = tmp_path / "plan.json"
    if text is not None:
        plan.write_text(text)
    with ending(start_agent(plan, "h1", tmp_path / "c.sock", tmp_path / "h1.jsonl")) as agent:
        code, _, errors = end_of(agent, 60)
    assert code == EXIT_BAD_INPUT
    assert errors.startswith(f"agent h1: {plan}: ")
    assert words in errors


def test_a_plan_survives_the_file(tmp_path):
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 1e9})
    dag = gpipe.build(stages=2, micro_batches=3, forward_s=0.01, backward_s=0.02, activation_bytes=1000)
    ring = Discipline(
        "by hand", Window(4096, 2, overdraw=False),
        (TaskSpec("t", 0, 1000, 3, (dag.transfers[0].name,), ("pp-backward 1->0 m0",), first_priority=1),),
    )  # fmt: skip
    job = Job("j", dag, ("h2", "h1"), 3, 2.0, 1.5, ring)
    write_plan(tmp_path / "plan.json", make_plan([job], network, 4, 0.1))
    plan = read_plan(tmp_path / "plan.json")
    assert plan.jobs == (job,)
    assert plan.addresses == {"h1": "10.0.0.1", "h2": "10.0.0.2"}
    assert (plan.run_index, plan.progress_interval_s) == (4, 0.1)


def test_an_agent_declares_all_that_the_simulator_declares(start):
    """`crux` decides by the computation declared: agents once dropped it, and its order was another one on packets."""
    dag = gpipe.build(stages=2, micro_batches=2, forward_s=0.01, backward_s=0.02, activation_bytes=10_000)
    run = start(dag)
    assert run.finish() == {"h1": (0, ""), "h2": (0, "")}
    job = read_plan(run.folder / "plan.json").jobs[0]
    declared = sorted(run.coordinator.of(Declare), key=lambda group: group.group)
    index = read_plan(run.folder / "plan.json").run_index
    assert declared == sorted(declarations([job], index, network=run.network), key=lambda group: group.group)
    assert declared[0].compute_s == pytest.approx(2 * 2 * 0.03)
