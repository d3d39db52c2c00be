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


@pytest.mark.parametrize("script", ["setup.sh", "vagrant-test.sh", "clean-root-test.sh"])
def test_help_is_its_own_header_and_changes_nothing(script):
    done = run(f"scripts/{script}", "--help")
    assert done.returncode == 0, done.stderr
    assert f"scripts/{script}" in done.stdout
    assert "set -e" not in done.stdout
    assert "#" not in done.stdout


@pytest.mark.parametrize("script", ["setup.sh", "vagrant-test.sh"])
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


@pytest.mark.skipif(shutil.which("vagrant") is None, reason="vagrant is not installed")
def test_vagrant_accepts_the_vagrantfile(tmp_path):
    # Provider blocks are only looked into where the provider is there; a typo in them shows here where it is.
    shutil.copy(ROOT / "Vagrantfile", tmp_path)
    home = {"VAGRANT_HOME": str(tmp_path / "home"), "VAGRANT_CWD": str(tmp_path), "VAGRANT_CHECKPOINT_DISABLE": "1"}
    provider = ["--ignore-provider"] if shutil.which("libvirtd") is None else []
    done = run("vagrant", "validate", *provider, env={**os.environ, **home})
    assert done.returncode == 0, done.stdout + done.stderr
