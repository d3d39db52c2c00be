"""Programs of ours start others without running what lies in the current folder."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import echelonflow
from echelonflow.child_process import module_argv

ROOT = Path(__file__).parents[2]
PACKAGES = ("echelonflow", "simulator", "controller", "traffic", "testbed", "results", "echelon")
PLANTED = ("json", "traffic", "numpy", "echelonflow", "argparse")


@pytest.fixture
def trap(tmp_path):
    """A folder with files that leave a mark when they are imported."""
    for name in PLANTED:
        (tmp_path / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write({name!r})\n")
    return tmp_path


def helped(argv: list[str], trap: Path) -> subprocess.CompletedProcess[str]:
    """What a program says to --help in the folder of the trap, which PYTHONPATH names, too."""
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(trap)}
    return subprocess.run([*argv, "--help"], cwd=trap, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("module", ["traffic.agent", "controller.main"])
def test_files_in_the_current_folder_are_not_run(trap, module):
    done = helped(module_argv(module), trap)
    assert done.returncode == 0, done.stderr
    assert f"python -m {module}" in done.stdout
    assert not (trap / "ran").exists()


def test_the_trap_catches_what_is_started_otherwise(trap):
    helped([sys.executable, "-m", "traffic.agent"], trap)
    assert (trap / "ran").read_text()


def test_arguments_reach_the_module_as_they_are(tmp_path):
    argv = module_argv("echelonflow.scheduling.own_policy.worker", "one two", "$x", unbuffered=True)
    assert argv[-3:] == ["echelonflow.scheduling.own_policy.worker", "one two", "$x"]
    assert "-u" in argv


def starts_by_m(path: Path) -> list[int]:
    """Lines of a source file on which a command with -m begins."""
    commands = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.List))
    return [c.lineno for c in commands if any(isinstance(e, ast.Constant) and e.value == "-m" for e in c.elts)]


def test_nothing_of_ours_starts_a_module_otherwise():
    """Schemathesis aside, which is not ours, and is started in a fresh folder."""
    sources = (path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    found = {str(path.relative_to(ROOT)): lines for path in sources if (lines := starts_by_m(path))}
    assert list(found) == ["echelon/benchmarks/strangers.py"]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a process that its parent has died")
@pytest.mark.parametrize("start", ["fork", "spawn"])
def test_processes_of_a_pool_end_with_the_one_that_is_killed(start, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os, sys, time\n"
        "from echelonflow.child_process import pool\n"
        "if __name__ == '__main__':\n"
        f"    with pool(1, {start!r}) as several:\n"
        "        print(several.submit(os.getpid).result(), flush=True)\n"
        "        several.submit(time.sleep, 600).result()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(echelonflow.__file__).parents[1])}
    with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True, env=environment) as killed:
        worker = psutil.Process(int(killed.stdout.readline()))
        killed.kill()
        worker.wait(timeout=30)
    assert killed.returncode == -signal.SIGKILL
