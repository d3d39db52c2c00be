"""A run that fails is recorded with its reason, and the next one is tried; who is named when parts die."""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import signal
from types import SimpleNamespace

import pytest

from echelon.running import emulator, one_run
from echelon.running.one_run import OneRun
from echelon.running.standing import Standing, WorldError
from echelonflow.errors import RunError
from echelonflow.records.assignment import AssignedRun, Assignment
from echelonflow.records.folder import RunFolder
from echelonflow.records.live_part import LivePart
from echelonflow.records.outcome import INTERRUPTED, Load, read_outcome
from echelonflow.records.progress import RunFailed, Running, Warned, parse_progress
from tests.unit.synthetic_run import paper_network

KILLED = -signal.SIGKILL


ALL_HOSTS = SimpleNamespace(check=lambda: None)


class Process:
    """A process that is seen to have ended with the next of `codes` at every look; the last one stays."""

    def __init__(self, *codes: int | None) -> None:
        self._codes = itertools.chain(codes, itertools.repeat(codes[-1]))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        self.returncode = next(self._codes)
        return self.returncode


def parts(tmp_path, controller=None, switches=None, runs=(), net=None, **changes) -> Standing:
    switches = switches or Process(None)
    ovs = SimpleNamespace(alive=lambda: switches.poll() is None)
    assignment = Assignment(network=paper_network(), runs=tuple(runs), calibrate=False, **changes)
    return Standing(RunFolder(tmp_path), assignment, (), ovs, net or ALL_HOSTS, controller or Process(None), None, {})


def watched(tmp_path, controller, switches, **agents) -> OneRun:
    run = OneRun(parts(tmp_path, controller, switches), assigned(0), None, None)
    run.agents.update(agents)
    return run


def assigned(number) -> AssignedRun:
    return AssignedRun(number, "fair", f"fair-r{number}", number, "priority", 1.0)


@pytest.mark.parametrize(
    ("controller", "switches", "agents", "named"),
    [
        (Process(None, None, None, KILLED), Process(None), {"h1": Process(1), "h2": Process(1)}, "the controller died"),
        (Process(None), Process(None, None, KILLED), {"h1": Process(1)}, "Open vSwitch died"),
        (Process(None), Process(None), {"h1": Process(1), "h2": Process(None, None, KILLED)}, "the agent on h2 died"),
        (Process(None), Process(None), {"h1": Process(None), "h2": Process(KILLED)}, "the agent on h2 died"),
    ],
    ids=["controller, seen late", "switches, seen late", "another agent, seen late", "seen at once"],
)
def test_the_part_that_was_killed_is_named_not_those_that_lost_it(tmp_path, controller, switches, agents, named):
    with pytest.raises(RunError, match=named):
        watched(tmp_path, controller, switches, **agents).check()


def test_an_agent_that_fails_by_itself_is_named_in_the_end(tmp_path, monkeypatch):
    monkeypatch.setattr(one_run, "CAUSE_SEEN_S", 0.05)
    with pytest.raises(RunError, match=r"the agent on h1 died \(exit 1\); see logs/agent-h1.log"):
        watched(tmp_path, Process(None), Process(None), h1=Process(1), h2=Process(0)).check()


def test_a_program_that_fails_is_named_by_job_and_rank_with_what_it_said_last(tmp_path, monkeypatch):
    monkeypatch.setattr(one_run, "CAUSE_SEEN_S", 0.05)
    output = tmp_path / "raw" / "fair-r0" / "live" / "gpt-rank1.txt"
    output.parent.mkdir(parents=True)
    output.write_text("step 0 loss 2.5\nValueError: its own\n\n")
    part = LivePart(job="gpt", rank=1, ranks=2, host="h2", address="10.0.0.2", store="s", program="train.py")
    run = watched(tmp_path, Process(None), Process(None), h1=Process(None), h2=Process(1))
    run.programs["h2"] = part, output
    said = r"rank 1 of 'gpt' on h2 died \(exit 1\); see raw/fair-r0/live/gpt-rank1.txt: ValueError: its own$"
    with pytest.raises(RunError, match=said):
        run.check()


def test_nothing_is_wrong_while_all_live_or_have_ended_well(tmp_path):
    watched(tmp_path, Process(None), Process(None), h1=Process(None), h2=Process(0)).check()


def test_a_capture_that_ends_in_mid_run_fails_it_at_once(tmp_path):
    run = watched(tmp_path, Process(None), Process(None), h1=Process(None))

    def ended():
        raise RunError("the capture on h1 ended early (exit -9): it says nothing")

    run.capture = SimpleNamespace(check=ended)
    with pytest.raises(RunError, match="capture on h1 ended early"):
        run.check()


class Calibrator:
    def __init__(self):
        self.asked = []

    def before_run(self, run_index):
        self.asked.append(run_index)

    def after_run(self, run_index, cpu_stolen):
        pass


@pytest.fixture
def carried_out(tmp_path, monkeypatch, capsysbinary):
    """Has runs end as told (None: well), with all around them real; what was said, and the runs' outcomes."""

    def carry_out(*ends, raises=None, stolen=(), **changes):
        left, stolen_left = iter(ends), iter(stolen)

        def replay(self):
            self.outcome.load = Load(cpu_stolen=next(stolen_left, 0.0))
            if (error := next(left)) is not None:
                raise error

        monkeypatch.setattr(OneRun, "replay", replay)
        standing = parts(tmp_path, runs=[assigned(number) for number in range(len(ends))], **changes)
        with contextlib.nullcontext() if raises is None else pytest.raises(raises[0], match=raises[1]):
            emulator.carry_out_all(standing, Calibrator())
        said = [parse_progress(line) for line in capsysbinary.readouterr().out.splitlines()]
        outcomes = [read_outcome(run.outcome) for run in RunFolder(tmp_path).runs()]
        return said, [(outcome.repeat, outcome.completed, outcome.failure) for outcome in outcomes]

    return carry_out


def test_a_run_that_fails_is_recorded_and_the_next_one_is_tried(carried_out):
    said, outcomes = carried_out(None, RunError("the capture on h2 ended early"), None)
    assert outcomes == [(0, True, None), (1, False, "the capture on h2 ended early"), (2, True, None)]
    assert [type(report) for report in said] == [Running, Running, RunFailed, Running]
    assert said[2] == RunFailed("fair", 1, "the capture on h2 ended early")


def test_what_the_machine_refuses_fails_the_run_in_one_line(carried_out):
    refused = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    _, outcomes = carried_out(refused, None)
    assert outcomes[0] == (0, False, "Too many open files; allow a process more open files (ulimit -n)")
    assert outcomes[1][1]


def test_a_fault_of_ours_fails_the_run_and_not_the_experiment(carried_out):
    said, outcomes = carried_out(ZeroDivisionError("division by zero"), None)
    assert [completed for _, completed, _ in outcomes] == [False, True]
    assert said[1].reason == "the emulator failed: ZeroDivisionError: division by zero; see logs/emulator.log"


def test_three_failures_in_a_row_end_the_experiment(carried_out):
    why = RunError("it is broken")
    ends = (why, why, None, why, why, why, None)
    _, outcomes = carried_out(*ends, raises=(RunError, "3 runs in a row failed; the last: it is broken"))
    assert [completed for _, completed, _ in outcomes] == [False, False, True, False, False, False]


def test_nothing_goes_on_in_a_world_that_has_lost_its_controller(carried_out):
    _, outcomes = carried_out(None, WorldError("the controller died"), None, raises=(WorldError, "controller died"))
    assert outcomes == [(0, True, None), (1, False, "the controller died")]


def test_an_interrupt_ends_the_run_and_says_so(carried_out):
    _, outcomes = carried_out(None, KeyboardInterrupt(), None, raises=(KeyboardInterrupt, None))
    assert outcomes == [(0, True, None), (1, False, INTERRUPTED)]


def test_no_run_is_begun_that_the_disk_has_no_room_for(carried_out):
    _, outcomes = carried_out(
        None, run_bytes=1 << 62, raises=(RunError, r"are free, and a run takes up to .* free some")
    )
    assert outcomes == []


def test_runs_of_earlier_worlds_count_in_what_is_said(carried_out):
    said, _ = carried_out(None, None, before=4)
    assert [(report.run, report.of) for report in said] == [(4, 6), (5, 6)]


def test_a_spell_of_stolen_time_is_said_when_it_comes_and_when_it_gets_worse(carried_out):
    said, _ = carried_out(*[None] * 5, stolen=(0.03, 0.12, 0.14, 0.02, 0.30))
    assert [report.reason.partition(" away")[0] for report in said if isinstance(report, Warned)] == [
        "the host took 12% of the processors",
        "the host took 30% of the processors",
    ]


def test_what_an_earlier_try_left_is_gone(tmp_path, carried_out):
    old = RunFolder(tmp_path).run("fair-r0").agent("h9")
    old.parent.mkdir(parents=True)
    old.write_text("of another try")
    carried_out(None)
    assert not old.exists()


def test_a_host_that_has_died_takes_the_world_with_it(tmp_path):
    def gone():
        raise RunError("the shell of host h1 died (exit -9), and with it the host")

    with pytest.raises(WorldError, match="the shell of host h1 died"):
        parts(tmp_path, net=SimpleNamespace(check=gone)).check()
