"""Experiments that stopped go on: what is finished stays, the rest is done, and another experiment is refused."""

from __future__ import annotations

import contextlib
import functools
import json
import shutil
from types import SimpleNamespace

import pytest

from echelon.experiment import schema
from echelon.running import resuming, runner, simulated, worlds
from echelon.running.patience import Patience
from echelonflow.errors import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_INVALID,
    EXIT_VALID,
    InputError,
    PolicyError,
    StorageError,
)
from echelonflow.records.agent_log import AgentLog
from echelonflow.records.assignment import read_assignment, write_assignment
from echelonflow.records.calibration import write_calibration
from echelonflow.records.decisions import DecisionLog
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest
from echelonflow.records.outcome import INTERRUPTED, CaptureCounts, RunOutcome, read_outcome, write_outcome
from echelonflow.records.plan import write_plan
from echelonflow.records.progress import Done, Interrupted, Warned
from results.analysis.contradictions import of_experiment
from results.analysis.summary import RunResult, lacking
from results.analysis.verdict import judge_completeness
from testbed import preflight, world
from testbed.moment import Moment
from tests.unit.synthetic_run import calibration
from tests.unit.test_experiments import GOOD, YAML
from traffic.agent.plan import make_plan

POLICIES = ["fair", "fifo", "echelonflow"]
TRACE = "4 3\n1 0 1 0 1 1:4\n2 100 1 0 1 2:1.5\n3 200 2 0 1 1 2:8\n"
DERIVED = ("iterations.csv", "groups.csv", "flows.csv", "coflows.csv", "summary.json", "runs.json", "prediction.json")


def quiet(_):
    pass


def derived(root):
    return {name: (root / name).read_bytes() for name in DERIVED if (root / name).exists()}


@pytest.fixture(params=["jobs", "coflows"])
def experiment(request, tmp_path):
    """An experiment of jobs, and one of a trace of Coflows, to be simulated under three policies."""
    if request.param == "jobs":
        data = {**GOOD, "policies": POLICIES}
    else:
        (tmp_path / "trace.txt").write_text(TRACE)
        network = {"topology": "big-switch", "ports": 4, "rate": "50 Mbit/s"}
        trace = {"name": "t", "trace": {"format": "coflow-benchmark", "file": "trace.txt"}}
        data = {"name": "e", "network": network, "jobs": [trace], "policies": ["fair", "fifo", "coflow"]}
    path = tmp_path / "e.yaml"
    YAML().dump(data, path)
    return schema.load(path)


def stopping(monkeypatch, name, after, error):
    """Has the part of `simulated` called so raise `error` once it has been called `after` times; returns the calls."""
    original, calls = getattr(simulated, name), []

    def play(experiment, *arguments):
        calls.append(arguments)
        if len(calls) > after:
            raise error
        return original(experiment, *arguments)

    monkeypatch.setattr(simulated, name, play)
    return calls


@pytest.mark.parametrize("finished", [1, 2])
def test_a_simulation_goes_on_where_it_stopped_and_ends_the_same(experiment, tmp_path, monkeypatch, finished):
    whole, out = tmp_path / "whole", tmp_path / "out"
    assert runner.run(experiment, whole, "fluid", quiet, pictures="none")[0] == EXIT_VALID
    part = "predict" if experiment.trace is None else "_simulated"
    with monkeypatch.context() as patched:
        stopping(patched, part, finished, KeyboardInterrupt())
        code, summary = runner.run(experiment, out, "fluid", quiet, pictures="none")
    assert code == EXIT_INTERRUPTED
    if experiment.trace is None:
        assert summary.reasons[0] == "the experiment failed: interrupted"
    calls = stopping(monkeypatch, part, 99, None)
    code, _ = runner.resume(resuming.begun(out), quiet, pictures="none")
    assert (code, len(calls)) == (EXIT_VALID, 3 - finished)
    assert derived(out) == derived(whole)
    assert not RunFolder(out).failure.exists()
    assert len(json.loads((out / "manifest.json").read_text())["resumed"]) == 1


def test_a_simulation_in_which_nothing_was_finished_leaves_no_folder(experiment, tmp_path, monkeypatch):
    stopping(monkeypatch, "predict" if experiment.trace is None else "_simulated", 0, KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        runner.run(experiment, tmp_path / "out", "fluid", quiet, pictures="none")
    assert not (tmp_path / "out").exists()


def test_a_policy_that_fails_does_not_take_the_others_with_it(experiment, tmp_path, monkeypatch):
    part = "predict" if experiment.trace is None else "_simulated"
    stopping(monkeypatch, part, 2, PolicyError("policy echelonflow: raised ZeroDivisionError"))
    code, _ = runner.run(experiment, tmp_path / "out", "fluid", quiet, pictures="none")
    assert code == EXIT_FAILED
    assert RunFolder(tmp_path / "out").failure.read_text() == "policy echelonflow: raised ZeroDivisionError\n"
    assert (tmp_path / "out" / "report.html").exists()


def test_runs_that_cannot_be_read_are_made_again(experiment, tmp_path):
    out = tmp_path / "out"
    runner.run(experiment, out, "fluid", quiet, pictures="none")
    before = derived(out)
    for name in ("runs.json", "coflow-runs.json"):
        if (out / name).exists():
            (out / name).write_bytes((out / name).read_bytes()[:100])
    runner.resume(resuming.begun(out), quiet, pictures="none")
    assert derived(out) == before


@pytest.mark.parametrize(
    ("change", "named"),
    [({"repeats": 7}, "repeats"), ({"policies": ["fair"]}, "policies"), ({"fluid": {"burst": "9 ms"}}, "experiment")],
)
def test_another_experiment_is_refused_by_what_differs(tmp_path, change, named):
    path = tmp_path / "e.yaml"
    YAML().dump({**GOOD, "policies": POLICIES}, path)
    runner.run(schema.load(path), tmp_path / "out", "fluid", quiet, pictures="none")
    resuming.begun(tmp_path / "out", schema.load(path))
    with pytest.raises(InputError, match=rf"begun with another experiment: .*{named}.* differ from the file given"):
        resuming.begun(tmp_path / "out", schema.load(path, change))


def test_a_folder_in_which_nothing_was_begun_is_refused(tmp_path):
    with pytest.raises(InputError, match="no experiment was begun there"):
        resuming.begun(tmp_path)


def test_a_folder_goes_on_without_its_file_and_says_what_has_changed(tmp_path, monkeypatch):
    path = tmp_path / "e.yaml"
    YAML().dump({**GOOD, "policies": POLICIES}, path)
    runner.run(schema.load(path), tmp_path / "out", "fluid", quiet, pictures="none")
    path.unlink()
    begun = resuming.begun(tmp_path / "out")
    assert resuming.changes(begun.manifest) is None
    monkeypatch.setattr(resuming, "git_revision", lambda: "0ther")
    told = []
    runner.resume(begun, told.append, pictures="none")
    assert [type(report) for report in told if "now 0ther" in getattr(report, "reason", "")] == [Warned]


class Played:
    """Emulations in which each run leaves what a finished one leaves, until one is interrupted or fails."""

    def __init__(self, monkeypatch):
        monkeypatch.setattr(worlds, "in_world", self)
        monkeypatch.setattr(preflight, "require", lambda: None)
        monkeypatch.setattr(preflight, "machine_facts", dict)
        monkeypatch.setattr(world, "machine_lock", contextlib.nullcontext)
        self.ends = []
        self.made = []
        self.warned = []
        self.invalid = set()
        """Labels of runs that do not count, though they ended well."""
        self.rounds = []
        """How many runs each world was to make, and how many it was told are done."""

    def judged(self, root):
        """What an analysis would find: runs count unless they failed or are among `invalid`."""
        folder = RunFolder(root)
        manifest = read_manifest(folder.manifest)
        runs = [read_outcome(run.outcome) for run in folder.runs()]
        results = [
            RunResult(
                o.label,
                o.policy,
                o.repeat,
                () if o.completed and o.label not in self.invalid else ("it is slow",),
                {},
                None,
            )
            for o in runs
        ]
        reasons = judge_completeness([(r.policy, r.repeat) for r in results], manifest.runs_given())
        assignment = read_assignment(folder.assignment) if folder.assignment.exists() else None
        if assignment is not None:
            reasons += of_experiment(manifest, assignment)
        short = lacking(results, manifest.policies, manifest.repeats)
        summary = SimpleNamespace(runs=results, valid=not short and not reasons, reasons=reasons, lacking=short)
        return SimpleNamespace(summary=summary, write=lambda **_: summary)

    def hear(self, report):
        self.warned += [report.reason] if isinstance(report, Warned) else []

    def __call__(self, assignment, folder, report):
        write_assignment(folder.assignment, assignment)
        self.rounds.append((len(assignment.runs), assignment.before))
        if not folder.calibration.exists():
            write_calibration(folder.calibration, calibration(0.0))
        for run in assignment.runs:
            end = self.ends.pop(0) if self.ends else None
            if end is Interrupted:
                return Interrupted()
            self._leave(assignment, folder, run, end)
            self.made.append((run.label, run.run_index))
        return Done()

    @staticmethod
    def _leave(assignment, folder, run, failure):
        files = folder.run(run.label)
        files.agents.mkdir(parents=True)
        jobs = tuple(placed.job() for placed in assignment.jobs)
        write_plan(files.plan, make_plan(jobs, assignment.network, run.run_index))
        DecisionLog(files.decisions).close()
        captures = {}
        for host in assignment.network.hosts:
            AgentLog(files.agent(host)).close()
            folder.capture(run.label, host).write_bytes(b"")
            captures[host] = CaptureCounts(f"{run.label}-{host}.pcap", 0, 0)
        outcome = RunOutcome(
            policy=run.policy, repeat=run.repeat, run_index=run.run_index, label=run.label, enforcer=run.enforcer,
            completed=failure is None, failure=failure, captures=captures,
        )  # fmt: skip
        write_outcome(files.outcome, outcome)


@pytest.fixture
def emulated(tmp_path, monkeypatch):
    """A short experiment on played emulations, without an analysis; the emulations, and a function that runs it."""
    played = Played(monkeypatch)
    monkeypatch.setattr(runner, "read", played.judged)
    path = tmp_path / "e.yaml"
    YAML().dump({**GOOD, "policies": ["fair", "fifo"], "repeats": 3}, path)
    experiment, out = schema.load(path), tmp_path / "out"

    def go(again=False, more=0, patience_s=None):
        if again:
            code, played.found = runner.resume(resuming.begun(out), quiet, again=more)
        else:
            told = played.hear
            code, played.found = runner.run(experiment, out, "emulation", told, again=more, patience_s=patience_s)
        return code

    return played, go, RunFolder(out)


def labels(experiment_runs):
    return sorted(label for label, _ in experiment_runs)


ALL = [f"{policy}-r{repeat}" for policy in ("fair", "fifo") for repeat in range(3)]


def test_an_emulation_goes_on_where_it_was_interrupted(emulated):
    played, go, folder = emulated
    played.ends = [None, None, Interrupted]
    assert go() == EXIT_INTERRUPTED
    first = list(played.made)
    kept = {label: (folder.raw / label / "run.json").read_bytes() for label, _ in first}
    assert go(again=True) == EXIT_VALID
    assert labels(played.made) == ALL
    assert kept == {label: (folder.raw / label / "run.json").read_bytes() for label in kept}
    assert [index for _, index in played.made] == list(range(6))


def test_what_failed_or_is_broken_is_done_again_under_a_number_of_its_own(emulated):
    played, go, folder = emulated
    played.ends = [None, "the agent on h1 died", None, None, None, None]
    assert go() == EXIT_FAILED
    failed, broken, cut, lost = (played.made[number][0] for number in (1, 2, 3, 4))
    agent = next((folder.raw / broken / "agents").iterdir())
    agent.write_bytes(agent.read_bytes() + b"\x00\xff\n")
    (folder.raw / cut / "run.json").write_bytes(b'{"schema": "echelon-run"')
    next(folder.pcap.glob(f"{lost}-*.pcap")).unlink()
    done, played.made = played.made, []
    assert go(again=True) == EXIT_VALID
    assert labels(played.made) == sorted([failed, broken, cut, lost])
    assert min(index for _, index in played.made) > done[5][1]
    assert {read_outcome(run.outcome).completed for run in folder.runs()} == {True}


def test_an_emulation_that_is_complete_needs_no_world(emulated):
    played, go, _ = emulated
    go()
    played.made.clear()
    go(again=True)
    assert played.made == []


def test_without_what_speaks_for_its_links_everything_is_made_again(emulated):
    played, go, folder = emulated
    go()
    played.made.clear()
    folder.calibration.write_text("{")
    go(again=True)
    assert labels(played.made) == ALL


def test_an_emulation_that_is_refused_leaves_no_folder(emulated, monkeypatch):
    _, go, folder = emulated

    def refuse():
        raise InputError("this machine cannot emulate")

    monkeypatch.setattr(preflight, "require", refuse)
    with pytest.raises(InputError, match="cannot emulate"):
        go()
    assert not folder.root.exists()


def test_a_disk_that_no_run_fits_on_is_found_out_before(emulated, monkeypatch):
    _, go, folder = emulated
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 10, 1000))
    with pytest.raises(InputError, match=r"1 kB are free, and one run may take .*; free some space"):
        go()
    assert not folder.root.exists()


def test_why_it_ended_is_said_where_even_that_cannot_be_written(emulated, monkeypatch):
    played, go, folder = emulated
    played.ends = [None, Interrupted]
    whole = runner.write_whole

    def full(path, content):
        if path == folder.failure:
            raise StorageError("cannot be written: No space left on device", path)
        whole(path, content)

    monkeypatch.setattr(runner, "write_whole", full)
    go()
    assert not folder.failure.exists()
    assert any(f"No space left on device (it was to say: {INTERRUPTED})" in reason for reason in played.warned)


def test_runs_that_were_changed_since_they_ended_are_made_again(emulated):
    played, go, folder = emulated
    go()
    (first, _), (second, _) = played.made[:2]
    played.made.clear()
    (folder.raw / first / "decisions.jsonl").write_bytes(b"")
    next(folder.pcap.glob(f"{second}-*.pcap")).write_bytes(b"other packets")
    go(again=True)
    assert labels(played.made) == sorted([first, second])


def test_a_run_that_does_not_count_is_made_again_beside_it(emulated):
    played, go, folder = emulated
    played.invalid = {"fair-r1"}
    assert go(more=2) == EXIT_VALID
    assert labels(played.made) == sorted([*ALL, "fair-r3"])
    assert played.made[-1] == ("fair-r3", 6)
    assert played.rounds == [(6, 0), (1, 6)]
    assert read_outcome(folder.run("fair-r1").outcome).completed
    assert read_manifest(folder.manifest).attempts == {"fair": 4, "fifo": 3}


def test_a_run_that_failed_is_made_again_and_the_experiment_is_valid(emulated):
    played, go, folder = emulated
    played.ends = ["the agent on h1 died"]
    assert go(more=2) == EXIT_VALID
    first = played.made[0][0]
    assert not read_outcome(folder.run(first).outcome).completed
    assert len(played.made) == 7


def test_policies_take_turns_in_what_is_made_again(emulated):
    played, go, _ = emulated
    played.invalid = {"fair-r0", "fair-r1", "fifo-r0", "fifo-r1"}
    assert go(more=2) == EXIT_VALID
    again = [label for label, _ in played.made[6:]]
    assert [sorted(again[:2]), sorted(again[2:])] == [["fair-r3", "fifo-r3"], ["fair-r4", "fifo-r4"]]


def test_no_more_is_made_again_than_may_be(emulated):
    played, go, _ = emulated
    played.invalid = {"fair-r0", "fair-r1", "fair-r3", "fair-r4"}
    assert go(more=2) == EXIT_INVALID
    assert labels(played.made) == sorted([*ALL, "fair-r3", "fair-r4"])
    assert played.found.lacking == {"fair": 2}
    played.made.clear()
    assert go(again=True, more=2) == EXIT_VALID
    assert played.made == [("fair-r5", 8), ("fair-r6", 9)]
    assert played.found.reasons == []


def test_a_policy_of_which_nothing_counts_is_tried_once_more_and_no_oftener(emulated):
    played, go, _ = emulated
    played.invalid = {f"fair-r{repeat}" for repeat in range(9)}
    assert go(more=6) == EXIT_INVALID
    assert labels(played.made) == sorted([*ALL, "fair-r3"])


def test_a_policy_whose_one_more_try_counts_gets_the_others_too(emulated):
    played, go, _ = emulated
    played.invalid = {f"fair-r{repeat}" for repeat in range(3)}
    assert go(more=3) == EXIT_VALID
    assert played.rounds == [(6, 0), (1, 6), (2, 7)]


def test_an_interrupt_while_runs_are_made_again_leaves_what_resumes(emulated):
    played, go, folder = emulated
    played.invalid = {"fair-r0", "fifo-r0"}
    played.ends = [None] * 7 + [Interrupted]
    assert go(more=2) == EXIT_INTERRUPTED
    assert len(played.made) == 7
    assert played.found.reasons == [
        f"1 of 8 runs are missing: {'fair' if 'fifo' in played.made[-1][0] else 'fifo'} repeat 3"
    ]
    assert go(again=True) == EXIT_VALID
    assert (len(played.made), len(folder.runs())) == (8, 8)
    assert played.found.reasons == []


def test_a_full_disk_between_rounds_costs_no_results(emulated, monkeypatch):
    played, go, folder = emulated
    played.invalid = {"fair-r0"}

    def full(path, _):
        raise StorageError("cannot be written: No space left on device", path)

    monkeypatch.setattr(runner, "_note_given", lambda folder, _: full(folder.manifest, _))
    assert go(more=2) == EXIT_INVALID
    assert any("no run is made again" in reason for reason in played.warned)
    assert folder.seal.exists()


TROUBLED = Moment(0.05, 0.01, 0.2, 0.3, 0.0, None)


def test_the_machine_is_looked_at_before_each_round_and_what_it_was_like_is_kept(emulated, monkeypatch):
    played, go, folder = emulated
    quiet_now = Moment(0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    seen = [TROUBLED, quiet_now, quiet_now]
    patient = functools.partial(Patience, look=lambda: seen.pop(0), sleep=lambda _: None)
    monkeypatch.setattr("echelon.running.patience.Patience", patient)
    played.invalid = {"fair-r0"}
    assert go(more=1, patience_s=600.0) == EXIT_VALID
    assert seen == []
    assert "iteration times to" in played.warned[0]
    assert "0% of the processors stolen" in read_manifest(folder.manifest).machine["looked at before the first run"]


def test_who_has_no_patience_has_the_machine_not_looked_at(emulated, monkeypatch):
    _, go, _ = emulated
    monkeypatch.setattr("echelon.running.patience.Patience", None)
    assert go() == EXIT_VALID


def test_who_loses_patience_leaves_no_folder(emulated, monkeypatch):
    _, go, folder = emulated

    def interrupted(_):
        raise KeyboardInterrupt

    patient = functools.partial(Patience, look=lambda: TROUBLED, sleep=interrupted)
    monkeypatch.setattr("echelon.running.patience.Patience", patient)
    with pytest.raises(KeyboardInterrupt):
        go(patience_s=600.0)
    assert not folder.root.exists()
