"""The benchmark of the verdict: what it counts as caught and as a false alarm, and that forged records are found out."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.benchmarks import _forgery, _kept_runs, _sabotage, verdict
from echelon.benchmarks.verdict import CLEAN, FAULTS, POLICY, Usual, figures
from echelon.running.manifest import manifest
from echelonflow.errors import EXIT_INTERRUPTED, EXIT_VALID, InputError, RunError
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest, write_manifest
from echelonflow.records.progress import IterationBegun, Running
from echelonflow.records.seal import write_seal
from results.analysis.figures import JobFigures
from results.analysis.summary import RunResult, read_summary
from results.folder import analyse
from tests.unit.synthetic_run import synthetic_run, write_experiment


def run_of(iteration_s, *reasons, exposed_s=1.0, policy=POLICY):
    jobs = {"job": JobFigures(iteration_s, exposed_s, None)} if iteration_s else {}
    return RunResult(f"{policy}-r0", policy, 0, reasons, jobs, None)


USUAL = Usual.of([run_of(2.0), run_of(2.01), run_of(1.99), run_of(3.0, exposed_s=2.0, policy="fair")])


def test_what_clean_runs_take_is_told_times_s():
    assert USUAL.times_s == {(POLICY, "job"): (2.0, 1.0), ("fair", "job"): (3.0, 2.0)}
    assert USUAL.moved(run_of(3.3, exposed_s=1.8, policy="fair")) == pytest.approx((0.1, -0.1))
    assert USUAL.moved(run_of(1.0, policy="aalo")) is None


@pytest.mark.parametrize(
    ("run", "too_far"),
    [
        (run_of(2.03), False), (run_of(2.05), True), (run_of(1.95), True), (run_of(2.0, exposed_s=1.04), True),
        (run_of(None), True),
    ],
)  # fmt: skip
def test_a_run_is_moved_by_either_time_and_either_way(run, too_far):
    assert USUAL.too_far(run) is too_far


def named(found, words):
    (figure,) = [figure for figure in found if figure.what.startswith(words)]
    return figure


def test_a_fault_must_be_caught_by_a_reason_of_its_kind():
    slow = [run_of(2.2, "link s1->h2 carried 90 %"), run_of(2.2, "a computation ended 9 ms late"), run_of(2.2)]
    found = figures({"slow-link-after": slow}, USUAL)
    assert named(found, "slow-link-after").ok is False
    assert named(found, "slow-link-after").measured.startswith("1 of 3 (iterations +10.0%, exposed +0.0% in the median")
    assert named(figures({"slow-link-after": slow[:1]}, USUAL), "injected faults").ok is True
    assert named(figures({"slow-link-after": []}, USUAL), "slow-link-after").ok is False


MOVED = "the machine moved iterations of job job by 4.0% (limit 2%): {}; {}; end other work"
LINKS, LATE = "link rates +80.0 ms (link s1->h2 carried 90%)", "late computations +1.0 ms (5.0 ms late or more)"


@pytest.mark.parametrize(("causes", "fits"), [((LINKS, LATE), True), ((LATE, LINKS), False)])
def test_of_the_causes_that_moved_a_run_the_largest_counts(causes, fits):
    found = figures({"slow-link-after": [run_of(2.2, MOVED.format(*causes))]}, USUAL)
    assert named(found, "slow-link-after").ok is fits


def test_what_moved_a_run_and_is_not_explained_is_caught():
    unexplained = "iterations of job job took 2.200 s, +10.0% off the 2.000 s that the measured causes explain"
    assert figures({"marks-stripped": [run_of(2.2, unexplained)]}, USUAL)[0].ok is True
    assert figures({"marks-stripped": [run_of(2.0, unexplained)]}, USUAL)[0].ok is False


def test_what_need_not_harm_must_be_caught_where_it_did():
    loops = [run_of(2.0), run_of(2.2, "the processors were busy"), run_of(2.0, "the processors were busy")]
    (busy, _) = figures({"busy-loop": loops}, USUAL)
    assert (busy.measured[:18], busy.ok) == ("1 of 1 (3 runs; it", True)
    assert figures({"busy-loop": [*loops, run_of(2.2)]}, USUAL)[0].ok is False
    (harmless,) = figures({"busy-loop": loops[:1]}, USUAL)
    assert (harmless.measured[:6], harmless.ok) == ("0 of 0", None)


def test_a_clean_run_that_nothing_moved_must_be_valid():
    false, moved = figures({CLEAN: [run_of(2.0), run_of(2.2), run_of(2.2, "late"), run_of(2.0, "a mark")]}, USUAL)
    assert (false.what, false.measured, false.ok) == (
        "false alarms in 2 clean runs that nothing moved", "1; a mark", False,
    )  # fmt: skip
    assert (moved.measured, moved.ok) == ("2, 1 of them invalid", None)
    assert figures({CLEAN: [run_of(2.0)]}, USUAL)[0].ok is True


@pytest.fixture(scope="module")
def clean(tmp_path_factory):
    """A run folder of the benchmark's own experiment, made up, and valid."""
    root = tmp_path_factory.mktemp("verdict") / "clean"
    experiment = verdict._experiment(CLEAN, 1)
    run = synthetic_run(experiment.jobs, experiment.network, POLICY, 0, 0)
    write_experiment(root, experiment.network, experiment.jobs, (POLICY,), [run])
    _without_limits_on_links(root)
    assert analyse(root, pictures="none").reasons == ()
    return root


def _without_limits_on_links(root):
    """Made-up flows are sent at their mean rate, so that links carry more than they can for a while."""
    folder = RunFolder(root)
    manifest = read_manifest(folder.manifest)
    manifest.limits["max_carried_error"] = 1.0
    write_manifest(folder.manifest, manifest)
    write_seal(folder)


@pytest.mark.parametrize("name", [name for name, fault in FAULTS.items() if fault.forge is not None])
def test_a_fault_that_is_forged_into_the_records_is_found(clean, name):
    runs = verdict._forged(name, clean, lambda _: None)
    (figure, _) = figures({name: runs}, Usual.of(read_summary(clean / "summary.json").runs))
    assert (len(runs), figure.ok) == (1, True), figure


def test_packets_that_are_read_and_written_again_are_the_same(clean, tmp_path):
    (capture, *_) = sorted(RunFolder(clean).pcap.iterdir())
    copy = tmp_path / "copy.pcap"
    copy.write_bytes(capture.read_bytes())
    _forgery._write_packets(copy, list(_forgery._packets(copy)))
    assert copy.read_bytes() == capture.read_bytes()


class Noted(_sabotage.World):
    """A world that notes what would be done in it."""

    def __init__(self):
        super().__init__(Path(), verdict._experiment("x", 1).network)
        self.done = []

    def switches(self, script):
        self.done.append(script)

    def host(self, host, script):
        self.done.append((host, script))


RUNNING = Running(0, 1, POLICY, 0, 1.0)


def test_a_link_is_made_slow_where_it_begins():
    world = Noted()
    _sabotage.SlowLink(verdict.SLOW, before_calibration=False).hear(RUNNING, world)
    (command,) = world.done
    assert command.startswith("tc class change dev s1-eth2 parent 1: classid 1:1 htb rate 36000000bit ")


def test_marks_are_cleared_when_they_should_be_and_then_given_back():
    world = Noted()
    later = _sabotage.MarksStripped(mid_run=True)
    for progress in (RUNNING, IterationBegun(0), IterationBegun(1)):
        later.hear(progress, world)
    taken_back, cleared = world.done
    assert taken_back == "ovs-ofctl -O OpenFlow13 del-flows s1 cookie=0xbad/-1"
    assert "tcp_dst=5001,actions=set_field:0->ip_dscp,goto_table:1\n" in cleared
    at_once = Noted()
    _sabotage.MarksStripped(mid_run=False).hear(RUNNING, at_once)
    assert at_once.done == [cleared]


def test_queues_of_hosts_take_acknowledgements_for_the_last_class():
    world = Noted()
    saboteur = _sabotage.AcknowledgementsUnmarked()
    saboteur.hear(RUNNING, world)
    saboteur.hear(RUNNING, world)
    assert [host for host, _ in world.done[1:]] == ["h1", "h2", "h3", "h4"]
    lines = world.done[1][1].splitlines()
    assert lines[0] == "tc filter del dev h1-eth0 parent 1: prio 1"
    (control,) = [line for line in lines if "match ip dsfield 0xe0 0xe0" in line]
    assert control.endswith("flowid 1:11")
    assert len(lines) == 9


def test_unknown_parts_are_refused(tmp_path):
    with pytest.raises(InputError, match="--only slow: there is: clean, busy-loop, "):
        verdict.run(1, lambda _: None, tmp_path, ["slow"])


def test_an_experiment_that_was_not_ended_is_gone_on_with_and_one_that_was_is_kept(tmp_path):
    experiment = verdict._experiment(CLEAN, 1)
    begun = []

    def execute(code):
        def carry_out(experiment, root, _):
            begun.append(root.name)
            folder = RunFolder(root)
            if not root.exists():
                run = synthetic_run(experiment.jobs, experiment.network, POLICY, 0, 0)
                write_experiment(root, experiment.network, experiment.jobs, (POLICY,), [run])
                write_manifest(folder.manifest, manifest(experiment, "emulation", {}))
            write_seal(folder)
            if code == EXIT_INTERRUPTED:
                folder.failure.write_text("interrupted")
            else:
                folder.failure.unlink(missing_ok=True)
            return code, analyse(root, pictures="none")

        return carry_out

    def measure(code, what=experiment):
        return _kept_runs.measured(what, tmp_path, lambda _: None, execute(code), lambda summary: bool(summary.runs))

    with pytest.raises(RunError, match="interrupted; the same command goes on"):
        measure(EXIT_INTERRUPTED)
    assert measure(EXIT_VALID) == measure(EXIT_VALID) == tmp_path / "clean.1"
    assert begun == ["clean.1", "clean.1"]
    assert measure(EXIT_VALID, verdict._experiment(CLEAN, 2)) == tmp_path / "clean.2"
