"""Shell scripts and the Vagrantfile: that they can be read by what runs them, and are clean under shellcheck."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]
SCRIPTS = sorted([*ROOT.glob("*.sh"), *ROOT.glob("scripts/*.sh"), ROOT / ".ci" / "run"])


def run(*argv, **settings):
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False, **settings)


def test_there_are_scripts_to_check():
    assert {"run.sh", "test.sh", "setup.sh", "vagrant-test.sh", "run"} <= {path.name for path in SCRIPTS}


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bash_can_read_it(script):
    assert run("bash", "-n", str(script)).stderr == ""


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_finds_nothing():
    done = run("shellcheck", "--external-sources", *(str(path.relative_to(ROOT)) for path in SCRIPTS))
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    "script", ["./run.sh", *(f"scripts/{n}.sh" for n in ("setup", "lock", "audit", "vagrant-test", "clean-root-test"))]
)
def test_help_is_its_own_header_and_changes_nothing(script):
    done = run(script, "--help")
    assert done.returncode == 0, done.stderr
    assert script in done.stdout
    assert "set -e" not in done.stdout
    assert "#" not in done.stdout


@pytest.mark.parametrize("script", ["setup.sh", "lock.sh", "vagrant-test.sh"])
def test_an_unknown_option_is_named(script):
    done = run(f"scripts/{script}", "--fast")
    assert done.returncode == 2
    assert "'--fast'" in done.stderr


def test_the_guest_is_set_up_like_any_other_machine():
    """The Vagrantfile provisions by setup.sh and by nothing else, so that no package is listed twice."""
    text = (ROOT / "Vagrantfile").read_text()
    provisions = re.findall(r"^\s*config\.vm\.provision.*$", text, re.MULTILINE)
    assert len(provisions) == 1
    assert "scripts/setup.sh" in provisions[0]
    assert "apt-get" not in text


def test_the_guest_test_runs_an_experiment_that_is_shipped():
    named = set(re.findall(r"experiments/[\w-]+\.yaml", (ROOT / "scripts" / "vagrant-test.sh").read_text()))
    assert named == {"experiments/smoke.yaml"}
    assert YAML(typ="safe", pure=True).load((ROOT / "experiments" / "smoke.yaml").read_text())["name"] == "smoke"


@pytest.fixture
def audit(tmp_path):
    """scripts/audit.sh over two files, with a pip-audit that does as it is told: call it with a shell's words."""
    for folder in ("scripts/lock", ".venv/bin"):
        (tmp_path / folder).mkdir(parents=True)
    for name in ("base", "dev"):
        (tmp_path / "scripts" / "lock" / f"{name}.txt").write_text("")
    shutil.copy(ROOT / "scripts" / "audit.sh", tmp_path / "scripts")

    def run_with(words):
        tool = tmp_path / ".venv" / "bin" / "pip-audit"
        if words is not None:
            tool.write_text(f"#!/usr/bin/env bash\n{words}\n")
            tool.chmod(0o755)
        return run(str(tmp_path / "scripts" / "audit.sh"))

    return run_with


def test_an_audit_says_what_it_found(audit):
    clean = audit('echo "No known vulnerabilities found"')
    assert (clean.returncode, clean.stderr) == (0, "")
    assert clean.stdout.count("No known vulnerabilities found") == 2
    found = audit('case "$*" in *dev.txt) echo "Found 1 known vulnerability in 1 package"; exit 1;; esac')
    assert found.returncode == 1
    assert "dev.txt: Found 1 known vulnerability" in found.stdout


@pytest.mark.parametrize("words", ['echo "ERROR: ConnectionError: unreachable" >&2; exit 1', None])
def test_an_audit_that_could_not_be_made_is_not_taken_for_a_clean_one(audit, words):
    done = audit(words)
    assert done.returncode == 2
    assert (
        "was not audited: ERROR: ConnectionError: unreachable" if words else "run scripts/setup.sh --dev"
    ) in done.stderr


@pytest.fixture
def machine(tmp_path):
    """A checkout and a machine made of stand-ins: call it with what is odd about it; returns status, output, errors.

    Every stand-in says how it was called. By default root, Linux, namespaces, and a doctor who is content.
    """
    checkout, programs = tmp_path / "a checkout", tmp_path / "bin"
    for folder in (checkout / "scripts", checkout / ".venv" / "bin", programs):
        folder.mkdir(parents=True)
    shutil.copy(ROOT / "run.sh", checkout)
    for name in ("bash", "dirname", "sed"):
        (programs / name).symlink_to(shutil.which(name))

    def write(path, body):
        path.write_text(f"#!/usr/bin/env bash\n{body}\n")
        path.chmod(0o755)

    def run_on(*arguments, setup="exit 0", doctor="exit 0", status=0, **changed):
        for name, body in {"uname": "echo Linux", "id": "echo 0", "unshare": "exit 0", **changed}.items():
            write(programs / name, body)
        write(checkout / "scripts" / "setup.sh", f'echo "setup $*"\nif [ "$*" = --fluid ]; then exit 0; fi\n{setup}')
        echelon = f'if [ "$1" = doctor ]; then\n{doctor}\nfi\nprintf "<%s>" "$@"\nexit {status}'
        write(checkout / ".venv" / "bin" / "echelon", echelon)
        argv = [str(checkout / "run.sh"), *arguments]
        done = subprocess.run(argv, env={"PATH": str(programs)}, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr

    return run_on


HEADLINE = "<experiments/pipeline.yaml><experiments/gpt2-pipeline.yaml>"


def test_run_emulates_where_it_can(machine):
    assert machine() == (0, f"setup \n<run><--patience=20s>{HEADLINE}", "")
    assert machine("a b.yaml", "--repeat", "2")[1] == "setup \n<run><a b.yaml><--repeat><2>"


def test_run_becomes_root_by_sudo(machine):
    status, out, _ = machine(
        id="echo 1000", sudo='if [ "$1" != -n ] && [ "$2" != doctor ]; then echo "as root: $*"; "$@"; fi'
    )
    assert status == 0
    assert out.endswith(
        "as root: .venv/bin/echelon run --patience=20s experiments/pipeline.yaml experiments/gpt2-pipeline.yaml\n"
        f"<run><--patience=20s>{HEADLINE}"
    )


@pytest.mark.parametrize(
    ("odd", "why"),
    [
        ({"uname": "echo Darwin"}, "emulation needs Linux, and this is Darwin"),
        ({"id": "echo 1000"}, "emulation needs root, and there is no sudo here"),
        ({"id": "echo 1000", "sudo": "exit 1"}, "emulation needs root, and sudo does not give it"),
        ({"unshare": "exit 1"}, "emulation needs network, process and mount namespaces, which are not allowed here"),
        ({"setup": "exit 1"}, "what emulation needs could not be installed"),
        (
            {
                "doctor": 'echo "ok    root  user id 0"; echo "LACK  queues               no HTB"; echo "LACK x y"; exit 2'
            },
            "emulation lacks queues no HTB",
        ),
        ({"doctor": "exit 1"}, "emulation lacks something; see: echelon doctor"),
    ],
)
def test_run_says_in_one_line_why_it_simulates_instead(machine, odd, why):
    status, out, err = machine("my file.yaml", **odd)
    assert status == 0, err
    assert err.count("\n") == 1
    assert err.startswith(f"run.sh: simulating instead of emulating: {why}")
    assert out.endswith("setup --fluid\n<run><--backend><fluid><my file.yaml>")


def test_run_does_as_it_is_told_about_the_backend(machine):
    """Who asks for the fluid backend needs nothing installed for the other; who asks for the other gets no substitute."""
    told = ("x.yaml", "--backend", "fluid")
    assert machine(*told, id="echo 1000") == (0, "setup --fluid\n<run><x.yaml><--backend><fluid>", "")
    assert machine("x.yaml", "--backend=emulation", unshare="exit 1")[1:] == (
        "setup \n<run><x.yaml><--backend=emulation>",
        "",
    )


def test_run_ends_with_the_status_of_the_experiment(machine):
    assert machine(status=3)[0] == 3
    assert machine(status=3, uname="echo Darwin")[0] == 3


def test_what_is_simulated_waits_for_nothing(machine):
    assert machine(uname="echo Darwin")[1].endswith(f"<run><--backend><fluid>{HEADLINE}")


@pytest.fixture
def checks(tmp_path):
    """A checkout in which every tool is a stand-in: call test.sh with what pytest does; returns status and output."""
    checkout = tmp_path / "a checkout"
    shutil.copytree(ROOT / "scripts", checkout / "scripts", ignore=shutil.ignore_patterns("*"))
    (checkout / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(ROOT / "test.sh", checkout)

    def run_there(*arguments, pytest_does="exit 0"):
        stand_ins = {".venv/bin/python": f'printf "<%s>" "$@"\necho\n{pytest_does}', "scripts/setup.sh": "exit 0"}
        stand_ins |= {f".venv/bin/{tool}": "exit 0" for tool in ("ruff", "mypy", "lint-imports")}
        for name, body in stand_ins.items():
            (checkout / name).write_text(f"#!/usr/bin/env bash\n{body}\n")
            (checkout / name).chmod(0o755)
        done = run(str(checkout / "test.sh"), *arguments)
        said = done.stdout.replace("<-m><pytest>", "").splitlines()
        return done.returncode, [line for line in said if not line.startswith("== ")]

    return run_there


def test_emulation_is_tested_by_itself_and_after_all_else(checks):
    status, (compiled, first, live, second) = checks()
    assert status == 0
    assert "warm_up" in compiled
    assert live == "<tests/live>"
    assert first.startswith(
        "<tests/unit><tests/contract><tests/browser><-n>"
    )  # what a browser leaves behind disturbs other tests
    assert second == "<tests/emulation>"


def test_a_failure_is_not_forgotten_and_the_rest_is_tested(checks):
    fails_once = 'case "$*" in *tests/unit*) exit 1 ;; esac'
    status, called = checks(pytest_does=fails_once)
    assert (status, len(called)) == (1, 4)


def test_nothing_is_tested_where_loops_cannot_be_compiled(checks):
    status, called = checks(pytest_does='case "$*" in *warm_up*) exit 1 ;; esac')
    assert (status, len(called)) == (1, 1)


def test_training_programs_are_not_tested_without_pytorch(checks):
    status, said = checks(pytest_does='case "$*" in *torch*) exit 1 ;; esac')
    assert status == 0
    assert "<tests/live>" not in said
    assert any("scripts/setup.sh --live" in line for line in said)


def test_arguments_of_the_tests_go_to_pytest(checks):
    assert checks("-k", "a b") == (0, ["<-k><a b>"])
    assert checks("-k", "a b", pytest_does="exit 5")[0] == 5


@pytest.mark.skipif(shutil.which("vagrant") is None, reason="vagrant is not installed")
def test_vagrant_accepts_the_vagrantfile(tmp_path):
    # Provider blocks are only looked into where the provider is there; a typo in them shows here where it is.
    shutil.copy(ROOT / "Vagrantfile", tmp_path)
    home = {"VAGRANT_HOME": str(tmp_path / "home"), "VAGRANT_CWD": str(tmp_path), "VAGRANT_CHECKPOINT_DISABLE": "1"}
    provider = ["--ignore-provider"] if shutil.which("libvirtd") is None else []
    done = run("vagrant", "validate", *provider, env={**os.environ, **home})
    assert done.returncode == 0, done.stdout + done.stderr
