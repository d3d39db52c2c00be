"""Planned faults of an emulated run: carried out in time and in order, undone at the end, and read again."""

from __future__ import annotations

import dataclasses
import time
from types import SimpleNamespace

import pytest

from echelon.experiment.schema import check
from echelon.running.outages import too_late, with_real_outages
from echelon.running.planned_faults import FaultInjector
from echelon.running.runner import predict
from echelon.running.struck_run import StruckRun
from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.model.faults import ControllerStop, Crash, Fault, LinkDown, LinkRate, LostMessages, Slowdown
from echelonflow.records.agent_log import Mark, Sent
from echelonflow.records.assignment import AssignedRun
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import FaultDone, RunOutcome, read_outcome, write_outcome
from echelonflow.records.run_record import DecisionRecord
from echelonflow.wire.messages import HostDown
from results.analysis.fidelity import measure
from results.analysis.limits import Limits
from results.analysis.planned import (
    ALONE,
    accounted_for,
    alone,
    beyond_simulation,
    faults_done,
    faults_simulated,
)
from results.analysis.read_run import RunRecord
from results.analysis.verdict import judge
from testbed import faults as links
from tests.unit.synthetic_run import paper_job, paper_network
from tests.waiting import wait_until

NETWORK = topologies.build("single-switch", {"hosts": 3, "rate_bps": 1e7})
DOWN = LinkDown(at_s=0.02, for_s=0.05, ends=("h1", "s1"))


class Target:
    """Notes what is asked of it."""

    def __init__(self, fails: str = "") -> None:
        self.asked: list[tuple] = []
        self._fails = fails

    def _note(self, *what) -> None:
        if what[0] == self._fails:
            raise RunError("tc failed")
        self.asked.append(what)

    def set_share(self, links, share):
        self._note("share", [link.name for link in links], share)

    def set_up(self, links, *, up):
        self._note("up" if up else "down", [link.name for link in links])

    def crash(self, host):
        self._note("crash", host)

    def stop_controller(self):
        self._note("stop")

    def restart_controller(self):
        self._note("restart")


def injected(*faults: Fault, target: Target, until: int) -> list[FaultDone]:
    """Faults from now on, ended when `until` things were asked."""
    injector = FaultInjector(faults, NETWORK, target, time.monotonic())
    injector.start()
    wait_until(lambda: len(target.asked) >= until, what="faults")
    return injector.end()


class TestInjector:
    def test_each_is_carried_out_in_its_time_and_noted(self):
        target = Target()
        done = injected(
            ControllerStop(at_s=0.04, for_s=0.08),
            DOWN,
            LinkRate(at_s=0.06, for_s=0.03, ends=("s1", "h2"), share=0.4),
            target=target,
            until=6,
        )
        both = ["h1->s1", "s1->h1"]
        other = ["h2->s1", "s1->h2"]
        assert target.asked == [
            ("down", both), ("stop",), ("share", other, 0.4), ("up", both), ("share", other, 1.0), ("restart",),
        ]  # fmt: skip
        assert [d.fault.at_s for d in done] == [0.04, 0.02, 0.06]
        for fault in done:
            assert fault.fault.at_s <= fault.begin_s < fault.fault.at_s + 1
            assert fault.fault.until_s <= fault.end_s < fault.fault.until_s + 1

    def test_what_is_in_force_at_the_end_is_undone_but_nobody_needs_a_controller_then(self):
        target = Target()
        done = injected(
            LinkRate(at_s=0.0, ends=("h1", "s1"), share=0.5),
            Crash(at_s=0.01, host="h3"),
            ControllerStop(at_s=0.02, for_s=50.0),
            LinkDown(at_s=60.0, for_s=1.0, ends=("h2", "s1")),
            target=target,
            until=3,
        )
        assert [what for what, *_ in target.asked] == ["share", "crash", "stop", "share", "up"]
        assert target.asked[-1] == ("up", ["h3->s1", "s1->h3"])
        assert [d.end_s for d in done] == [None, None, None]  # and the last one never began

    def test_agents_carry_out_their_own_but_they_are_noted(self):
        target = Target()
        slow = Slowdown(at_s=0.0, for_s=0.02, host="h1", factor=2.0)
        lost = LostMessages(at_s=0.01, host="h1", share=0.2)
        done = injected(slow, lost, DOWN, target=target, until=2)
        assert [d.fault for d in done] == [slow, lost, DOWN]
        assert [what for what, *_ in target.asked] == ["down", "up"]

    def test_no_fault_waits_for_a_controller_to_come_up(self):
        target = Target()
        target.restart_controller = lambda: (time.sleep(0.4), target._note("restart"))
        done = injected(
            ControllerStop(at_s=0.0, for_s=0.01), DOWN, ControllerStop(at_s=0.1, for_s=0.01), target=target, until=6
        )
        assert [what for what, *_ in target.asked] == ["stop", "down", "up", "restart", "stop", "restart"]
        first, down, second = done
        assert down.end_s < first.end_s
        assert second.begin_s >= first.end_s

    def test_one_that_cannot_be_carried_out_fails_the_run(self):
        target = Target(fails="down")
        injector = FaultInjector([DOWN], NETWORK, target, time.monotonic())
        injector.check()
        injector.start()

        def failed() -> bool:
            try:
                injector.check()
            except RunError as error:
                assert str(error) == "a planned fault could not be carried out: tc failed"  # noqa: PT017
                return True
            return False

        wait_until(failed, what="its failure")
        assert injector.end() == []


class TestAnalysis:
    stop = FaultDone(ControllerStop(at_s=1.0, for_s=1.0), 1.0, 3.0)

    def sent(self, *marks: Mark) -> Sent:
        return Sent(
            job="j", iteration=0, flow="x", release_s=0.0, start_s=0.0, acked_s=9.0, sent_bytes=1, retransmissions=0,
            marks=marks,
        )  # fmt: skip

    def test_marks_of_an_outage_are_nobodys_decision_but_no_strays(self):
        decided = DecisionRecord(0.5, "release", 1, 1, "", 0.0, 0.0, (("j", 0, "x", 48, None),))
        marks = (Mark(0.5, 48, None), Mark(2.0, 48, None), Mark(2.5, 0, None), Mark(4.0, 8, None))
        (found,) = alone([self.stop], {("j", 0, "x"): self.sent(*marks)}, [decided])
        assert (found.trigger, found.changed) == (ALONE, (("j", 0, "x", 0, None),))
        assert alone([], {("j", 0, "x"): self.sent(*marks)}, [decided]) == []

    def test_without_a_restart_it_lasts_to_the_end(self):
        forever = FaultDone(ControllerStop(at_s=1.0), 1.0, None)
        (found,) = alone([forever], {("j", 0, "x"): self.sent(Mark(1e3, 8, None))}, [])
        assert found.changed == (("j", 0, "x", 8, None),)

    def test_only_what_happened_is_shown(self):
        (shown,) = faults_done([self.stop])
        assert (shown.what, shown.planned_s, shown.begin_s, shown.end_s) == ("no controller", 1.0, 1.0, 3.0)
        planned = [DOWN, Crash(at_s=2.0, host="h1"), Crash(at_s=9.0, host="h2")]
        assert [(f.what, f.end_s) for f in faults_simulated(planned, 5.0)] == [
            ("link h1-s1 down", pytest.approx(0.07)), ("h1 crashes", None),
        ]  # fmt: skip

    def test_a_job_that_ended_as_planned_is_asked_for_no_flows_but_those_it_finished(self):
        network = paper_network()
        job = paper_job(network)
        outcome = RunOutcome(policy="fair", repeat=0, run_index=0, label="fair-r0", enforcer="priority", completed=True)
        record = RunRecord("fair", 0)
        assert measure(outcome, record, {}, [job]).flows_asked > 0
        outcome.faults = [FaultDone(Crash(at_s=1.0, host=job.placement[0]), 1.0)]
        assert measure(outcome, record, {}, [job]).flows_asked == 0


class TestVerdict:
    def test_only_what_was_planned_is_not_judged(self):
        limits = Limits()
        busy = measure(
            RunOutcome(policy="fair", repeat=0, run_index=0, label="r", enforcer="priority", completed=True),
            RunRecord("fair", 0), {}, [],
        )  # fmt: skip
        busy = dataclasses.replace(busy, cpu_busy=0.99, cpu_busy_max=1.0)
        restarted = FaultDone(ControllerStop(at_s=1.0, for_s=1.0), 1.0, 3.0)
        assert len([r for r in judge(busy, limits) if "processors were busy" in r]) == 2
        (left,) = [r for r in judge(busy, limits, accounted_for([restarted])) if "processors were busy" in r]
        assert "99% of the time" in left
        assert not accounted_for([FaultDone(ControllerStop(at_s=1.0), 1.0), FaultDone(DOWN, 0.0, 1.0)])

    def test_what_the_simulation_knows_all_of_is_held_against_it(self):
        known = [Slowdown(at_s=1.0, host="h1", factor=2.0), LinkRate(at_s=1.0, ends=("h1", "s1"), share=0.5)]
        assert not beyond_simulation([FaultDone(fault, 1.0) for fault in known])
        for fault in (DOWN, Crash(at_s=1.0, host="h1"), LostMessages(at_s=1.0, host="h1", share=0.2)):
            assert beyond_simulation([*(FaultDone(f, 1.0) for f in known), FaultDone(fault, 1.0)])


class TestPrediction:
    @staticmethod
    def experiment(path, **fault):
        return check(
            {
                "name": "x",
                "network": {"topology": "single-switch", "hosts": 2, "rate": "10 Mbit/s"},
                "jobs": [
                    {
                        "name": "p", "paradigm": "pipeline", "stages": 2, "micro_batches": 1, "forward": "1 s",
                        "activation": "1 s of link",
                    }
                ],
                "policies": ["fair"],
                "faults": [fault],
            },
            path,
        )  # fmt: skip

    def test_outages_are_predicted_as_long_as_they_were(self, tmp_path):
        planned = self.experiment(tmp_path, fault="controller-stop", at="1 s", **{"for": "1 s"})
        folder = RunFolder(tmp_path)
        assert with_real_outages(planned, folder) is planned
        for repeat, end_s in enumerate((4.0, 4.5, 9.0)):
            outcome = RunOutcome(
                policy="fair", repeat=repeat, run_index=repeat, label=f"r{repeat}", enforcer="priority"
            )
            outcome.faults = [FaultDone(planned.faults[0], 1.0, end_s)]
            folder.run(f"r{repeat}").root.mkdir(parents=True)
            write_outcome(folder.run(f"r{repeat}").outcome, outcome)
            assert read_outcome(folder.run(f"r{repeat}").outcome).faults == outcome.faults
        assert with_real_outages(planned, folder).faults == (ControllerStop(at_s=1.0, for_s=3.5),)

    def test_a_fault_after_the_end_is_warned_about(self, tmp_path):
        late = self.experiment(tmp_path, fault="crash", host="h1", at="3.5 s")
        (words,) = too_late(late.faults, {"fair": predict(late, "fair")})
        assert words == "planned at 3.5 s: h1 crashes; by then fair will have ended"
        early = self.experiment(tmp_path, fault="crash", host="h1", at="0.5 s")
        assert (
            too_late(
                early.faults, {"fair": predict(self.experiment(tmp_path, fault="crash", host="h1", at="9 s"), "fair")}
            )
            == []
        )


class Agent:
    """A process that can be killed."""

    def __init__(self, asked: list, host: str) -> None:
        self._asked, self._host = asked, host

    def poll(self):
        return -9 if ("kill", self._host) in self._asked else None

    def kill(self):
        self._asked.append(("kill", self._host))

    def wait(self):
        return self.poll()


class TestStruckRun:
    @pytest.fixture
    def struck(self, tmp_path, monkeypatch):
        asked: list[tuple] = []
        job = paper_job(paper_network())
        host = job.placement[0]
        parts = SimpleNamespace(
            controller_away=False,
            jobs=(job,),
            assignment=SimpleNamespace(faults=(Crash(at_s=1.0, host=host),), decisions="wait"),
            net=SimpleNamespace(network=paper_network(), queue_sizes=None),
            line=SimpleNamespace(send=lambda message: asked.append(("say", message))),
            kill_controller=lambda: asked.append(("kill", "controller")),
            start_controller=lambda _limit_s, begin: asked.append(("start", begin)),
        )
        monkeypatch.setattr(
            links, "set_up", lambda _net, of, *, up: asked.append(("up" if up else "down", [link.name for link in of]))
        )
        agents = {host: Agent(asked, host) for host in job.placement}
        assigned = AssignedRun(0, "fair", "fair-r0", 0, "priority", 9.0)
        run = StruckRun(parts, assigned, RunFolder(tmp_path).run("fair-r0"), 77.0, agents)
        return run, asked, job, host

    def test_the_coordinator_hears_of_a_death_before_it(self, struck):
        run, asked, job, host = struck
        run.crash(host)
        assert asked[0] == ("say", HostDown(host, (job.name,)))
        assert [what for what, _ in asked] == ["say", "down", "kill"]
        assert all(host in name for name in asked[1][1])
        assert run.crashed == {host}

    def test_nobody_is_told_where_there_is_no_controller(self, struck):
        run, asked, _, host = struck
        run.parts.controller_away = True
        run.crash(host)
        assert [what for what, _ in asked] == ["down", "kill"]

    def test_each_controller_is_told_the_zero_and_writes_its_own_logs(self, struck):
        run, asked, _, host = struck
        run.agents[host].kill()
        run.stop_controller()
        run.restart_controller()
        run.restart_controller()
        begins = [begin for what, begin in asked if what == "start"]
        assert [(begin.zero_s, begin.agents, begin.policy) for begin in begins] == [(77.0, 1, "fair")] * 2
        assert not [message for what, message in asked if what == "say"]
        run.crashed.add(host)
        run.restart_controller()
        assert isinstance(asked[-1][1], HostDown)  # the new one has not heard of the death
        assert [begin.decisions_path for begin in begins] == [
            str(run.files.root / f"restart-{n}" / "decisions.jsonl") for n in (1, 2)
        ]
        assert [part.root.name for part in run.files.restarts()] == ["restart-1", "restart-2", "restart-3"]
