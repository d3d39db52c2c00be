"""What the benchmarks of kills and full disks look at: they must see what is wrong."""

from __future__ import annotations

import subprocess
import sys

import pytest

from echelon.benchmarks import full_disk, kills
from echelon.benchmarks._experiments import Kept, finished_runs, said_wrong
from echelonflow.files import write_whole
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import RunOutcome, write_outcome

START = "python -I -c import runpy"
LINES = {
    1: f"unshare --net --pid python -I -S init.py serve {START} echelon.running.emulator DIR",
    2: f"python -I -S init.py serve {START} echelon.running.emulator DIR",
    3: f"{START} echelon.running.emulator DIR",
    4: f"{START} controller.main --framework ryu",
    5: f"mnexec -a 77 nice -n -10 {START} traffic.agent --host h1",
    6: f"{START} traffic.agent --host h2",
    7: "tcpdump -i h1-eth0 -s 96",
    8: "ovsdb-server conf.db",
    9: "ovs-vswitchd unix:db.sock",
    10: "bash --norc --noediting -is mininet:h1",
    11: f"{START} echelonflow.scheduling.own_policy.worker 3 4",
}


@pytest.mark.parametrize(
    ("kind", "pid"),
    [
        ("what carries the world", 1), ("the world's first process", 2), ("emulator", 3), ("controller", 4),
        ("agent", 6), ("capture", 7), ("switch database", 8), ("switch daemon", 9), ("a host's shell", 10),
        (kills.OF_POLICY, 11),
    ],
)  # fmt: skip
def test_every_kind_of_process_is_told_from_the_others(kind, pid):
    assert list(kills.of_kind(LINES, kills.KINDS[kind])) == [pid]


@pytest.fixture
def folder(tmp_path):
    """A folder with one finished run, and one that failed."""
    folder = RunFolder(tmp_path / "out")
    folder.pcap.mkdir(parents=True)
    for repeat, completed in ((0, True), (1, False)):
        files = folder.run(f"fair-r{repeat}")
        files.agents.mkdir(parents=True)
        write_whole(files.agent("h1"), "{}\n")
        write_whole(folder.capture(f"fair-r{repeat}", "h1"), "packets")
        outcome = RunOutcome(
            policy="fair", repeat=repeat, run_index=repeat, label=f"fair-r{repeat}", enforcer="", completed=completed
        )
        write_outcome(files.outcome, outcome)
    return folder


def test_a_finished_run_that_changes_is_seen_and_one_that_failed_may_change(folder):
    before = Kept.of(folder.root)
    assert finished_runs(folder.root) == ["fair-r0"]
    folder.run("fair-r1").agent("h1").unlink()
    assert before.difference(folder.root) is None
    folder.capture("fair-r0", "h1").write_text("other packets")
    assert "fair-r0-h1.pcap of a finished run has changed or is gone" in before.difference(folder.root)


def test_what_is_left_of_a_command_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(kills, "GONE_LIMIT_S", 0.05)
    before = kills.Machine.now()
    left = subprocess.Popen([sys.executable, "-c", "input()", str(tmp_path)], stdin=subprocess.PIPE)
    try:
        (fault,) = before.left_behind(set(), tmp_path)
    finally:
        left.communicate(b"\n")
    assert fault.startswith("1 processes are left, such as")
    assert before.left_behind({left.pid}, tmp_path) == []


def test_a_traceback_is_found_wherever_it_stands():
    assert said_wrong("all is well") is None
    assert said_wrong("a line\nTraceback (most recent call last):\n  x").startswith("Traceback")


def test_tables_that_differ_are_found():
    whole = {"flows.csv": b"a", "manifest.json": b"then"}
    assert full_disk._difference(whole, {"flows.csv": b"a", "manifest.json": b"now"}) is None
    assert "flows.csv" in full_disk._difference(whole, {"manifest.json": b"now"})


def test_verdicts_count_kills_and_what_followed():
    tally = kills.Tally()
    tally.note("agent", [])
    tally.note("agent", ["a socket is left", "interfaces are left"])
    tally.completed += [True, False]
    assert [(figure.measured, figure.ok) for figure in tally.figures()] == [("1 of 2", False)] * 3
