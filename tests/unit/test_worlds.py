"""As many worlds as it takes: what breaks costs the run under way. The worlds are played."""

from __future__ import annotations

import pytest

from echelon.running import worlds
from echelonflow.records.assignment import AssignedRun, Assignment, read_assignment
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import INTERRUPTED, RunOutcome, read_outcome, write_outcome
from echelonflow.records.progress import Broke, Done, Failed, Interrupted, RunFailed, Running, progress_line
from tests.unit.synthetic_run import paper_network

RUNS = tuple(AssignedRun(n, "fair", f"fair-r{n}", n, "priority", 1.0) for n in range(4))


class Emulator:
    """An emulator that has said something and ended."""

    stdin = None
    returncode = -9

    def __init__(self, lines):
        self.stdout = Lines(lines)

    def poll(self):
        return self.returncode

    def wait(self, _=None):
        return self.returncode


class Lines(list):
    def close(self):
        pass


@pytest.fixture
def emulated(tmp_path, monkeypatch):
    """Has worlds end one after the other, each after so many finished runs; why all ended, what was said and recorded."""

    def play(*plays):
        folder, said, left, given = RunFolder(tmp_path), [], list(plays), []

        def spawn(argv, log):
            finished, end = left.pop(0)
            now = read_assignment(folder.assignment)
            given.append([run.repeat for run in now.runs])
            lines = []
            for number, run in enumerate(now.runs[: finished + (not isinstance(end, Done))]):
                lines.append(progress_line(Running(now.before + number, 4, run.policy, run.repeat, 1.0)))
                if number < finished:
                    path = folder.run(run.label).outcome
                    path.parent.mkdir(parents=True)
                    write_outcome(path, outcome(run))
            return Emulator([*lines, *([] if end is None else [progress_line(end)])])

        monkeypatch.setattr("testbed.world.spawn", spawn)
        why = worlds.emulate(Assignment(network=paper_network(), runs=RUNS), folder, said.append)
        outcomes = [read_outcome(run.outcome) for run in folder.runs()]
        return why, said, given, [(o.repeat, o.completed, o.failure) for o in outcomes]

    return play


def outcome(run):
    return RunOutcome(
        policy=run.policy, repeat=run.repeat, run_index=run.run_index, label=run.label, enforcer="", completed=True
    )


WELL = [(n, True, None) for n in range(4)]


def test_one_world_that_lasts_is_enough(emulated):
    assert emulated((4, Done()))[0::3] == (None, WELL)


def test_a_world_that_breaks_costs_the_run_under_way_and_a_fresh_one_does_the_rest(emulated):
    why, said, given, outcomes = emulated((1, Broke("the controller died")), (2, Done()))
    assert why is None
    assert given == [[0, 1, 2, 3], [2, 3]]
    assert outcomes == [WELL[0], (1, False, "the controller died"), *WELL[2:]]
    assert RunFailed("fair", 1, "the controller died") in said


def test_an_emulator_that_was_killed_is_named_in_the_run_it_was_at(emulated):
    why, _, _, outcomes = emulated((0, None), (3, Done()))
    assert why is None
    assert outcomes[0] == (0, False, "the emulation ended without saying why (exit -9); see logs/emulator.log")
    assert outcomes[1:] == WELL[1:]


def test_three_worlds_in_a_row_without_a_finished_run_are_enough(emulated):
    why, _, given, _ = emulated((0, Broke("x")), (0, Broke("x")), (0, Broke("it is broken")))
    assert why == "3 emulated networks in a row broke before a run was finished; the last: it is broken"
    assert len(given) == 3


def test_a_failure_of_the_whole_ends_it_with_its_reason(emulated):
    why, _, given, outcomes = emulated((1, Failed("the disk is full")))
    assert (why, len(given)) == ("the disk is full", 1)
    assert outcomes == [WELL[0], (1, False, "the disk is full")]


def test_an_interrupt_ends_it_and_the_run_under_way_says_so(emulated):
    why, _, _, outcomes = emulated((2, Interrupted()))
    assert why == INTERRUPTED
    assert outcomes == [*WELL[:2], (2, False, INTERRUPTED)]


def test_a_machine_that_can_start_no_process_is_said_in_one_line(tmp_path, monkeypatch):
    def spawn(argv, log):
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr("testbed.world.spawn", spawn)
    why = worlds.emulate(Assignment(network=paper_network(), runs=RUNS), RunFolder(tmp_path), lambda _: None)
    assert why.startswith("the emulation could not be started: Resource temporarily unavailable; end other programs")
