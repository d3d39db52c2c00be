"""Commands that are ended, of which a batch is a part, and machines that refuse: exit codes and one line."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from echelon.cli import interrupts
from echelon.running import place, runner
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_INVALID, EXIT_VALID, RunError
from tests.unit.test_experiments import GOOD, YAML


@pytest.mark.parametrize("number", interrupts.AS_CTRL_C)
def test_signals_that_end_a_program_end_an_experiment_as_ctrl_c_does(number):
    before = signal.signal(number, signal.SIG_DFL)  # tests that nohup started would ignore one
    try:
        with pytest.raises(KeyboardInterrupt), interrupts.in_order():
            os.kill(os.getpid(), number)
            signal.pause()  # until it arrives, if it has not
        assert signal.getsignal(number) is signal.SIG_DFL
    finally:
        signal.signal(number, before)


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interrupts.in_order():
            os.kill(os.getpid(), signal.SIGHUP)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.fixture
def batch(echelon, tmp_path, monkeypatch):
    """Runs three experiment files, which end with the given codes (or errors): the command's end, and the names begun."""

    def play(*ends):
        begun, left = [], list(ends)

        def run(experiment, root, backend, report, **_):
            begun.append(experiment.name)
            end = left.pop(0)
            if isinstance(end, BaseException):
                raise end
            return end, SimpleNamespace()

        monkeypatch.setattr(runner, "run", run)
        monkeypatch.setattr(place, "RUNS", tmp_path / "runs")
        monkeypatch.setattr("echelon.cli.run._show", lambda *_, **__: None)
        monkeypatch.chdir(tmp_path)
        paths = []
        for name in "abc":
            paths.append(tmp_path / f"{name}.yaml")
            YAML().dump({**GOOD, "name": name}, paths[-1])
        return echelon("run", *paths, "--backend", "fluid"), begun

    return play


@pytest.mark.parametrize("end", [EXIT_INTERRUPTED, KeyboardInterrupt()], ids=["in mid-run", "before it"])
def test_an_interrupt_ends_a_batch(batch, end):
    done, begun = batch(EXIT_VALID, end)
    assert (done.returncode, begun) == (EXIT_INTERRUPTED, ["a", "b"])


def test_what_goes_wrong_with_one_file_does_not_keep_the_next_from_being_run(batch):
    done, begun = batch(RunError("the machine is busy"), EXIT_INVALID, EXIT_VALID)
    assert (done.returncode, begun) == (EXIT_FAILED, ["a", "b", "c"])
    assert "echelon: the machine is busy" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--resume", "x", "a.yaml", "b.yaml"], "--resume names the folder of one experiment"),
        (["--resume", "x", "--out", "y"], "leave --out and --backend away"),
        (["--resume", "x", "--repeat", "3"], "takes everything from its folder"),
        (["--resume", "nowhere"], "nowhere: no experiment was begun there"),
    ],
)
def test_what_does_not_go_with_resume_is_bad_input(echelon, arguments, words):
    done = echelon("run", *arguments)
    assert done.returncode == 2
    assert words in done.stderr


def test_a_folder_goes_on_by_the_command(echelon, tmp_path):
    path, out = tmp_path / "e.yaml", tmp_path / "out"
    YAML().dump(GOOD, path)
    assert echelon("run", path, "--backend", "fluid", "--out", out).returncode == 0
    (out / "runs.json").unlink()
    done = echelon("run", "--resume", out, path)
    assert done.returncode == 0, done.stderr
    assert (out / "runs.json").exists()


ECHELON = [sys.executable, "-c", "from echelon.cli.main import main; main()"]


def as_a_shell_sees_it(*arguments, **options):
    done = subprocess.run([*ECHELON, *map(str, arguments)], stderr=subprocess.PIPE, text=True, check=False, **options)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_one_line():
    with Path("/dev/full").open("w") as full:
        code, said = as_a_shell_sees_it("policies", stdout=full)
    assert (code, len(said.splitlines())) == (EXIT_FAILED, 1)
    assert "No space left on device" in said


def test_a_reader_that_has_enough_is_no_error_to_speak_of():
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as nobody:
        assert as_a_shell_sees_it("policies", stdout=nobody) == (EXIT_FAILED, "")


@pytest.mark.slow
def test_without_file_descriptors_it_is_one_line(tmp_path):
    path = tmp_path / "e.yaml"
    YAML().dump(GOOD, path)
    code, said = as_a_shell_sees_it(
        "run", path, "--backend", "fluid", "--out", tmp_path / "out",
        stdout=subprocess.DEVNULL,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (8, 8)),
    )  # fmt: skip
    assert (code, len(said.splitlines())) == (EXIT_FAILED, 1)
    assert "Too many open files; allow a process more open files (ulimit -n)" in said
