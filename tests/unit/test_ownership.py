"""Under sudo: results belong to the user who called it, and what needs no root has none. Needs root to be shown."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from echelon.running import capacity, ownership, place
from echelonflow.errors import InputError

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")

SOMEBODY = 54321
ROOT = Path(__file__).resolve().parents[2]
EXPERIMENT = """
name: sudo
network: {topology: single-switch, hosts: 2, rate: 100 Mbit/s}
jobs: [{name: p, paradigm: pipeline, stages: 2, micro_batches: 2, forward: 50 ms, activation: 100 ms of link}]
policies: [fair]
"""


@pytest.fixture
def under_sudo(monkeypatch):
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    monkeypatch.setenv("SUDO_GID", str(SOMEBODY))


@pytest.fixture
def home():
    """A folder of somebody's, where they can go."""
    closed = [str(folder) for folder in (ROOT, *ROOT.parents) if not folder.stat().st_mode & stat.S_IXOTH]
    if closed:
        pytest.skip(f"others cannot enter {closed[0]}, so nobody but root can run what is in it")
    folder = Path(tempfile.mkdtemp(prefix="echelon-sudo-"))
    os.chown(folder, SOMEBODY, SOMEBODY)
    (folder / "e.yaml").write_text(EXPERIMENT)
    yield folder
    shutil.rmtree(folder)


def owners(folder):
    return {str(path.relative_to(folder)): path.lstat().st_uid for path in [folder, *folder.rglob("*")]}


def sudo(home, *arguments):
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "SUDO_UID": str(SOMEBODY),
        "SUDO_GID": str(SOMEBODY),
    }
    command = [sys.executable, "-m", "echelon.cli", *map(str, arguments)]
    return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("uid", ["0", "", "me", "-1"])
def test_without_sudo_or_by_root_nothing_changes(monkeypatch, tmp_path, uid):
    monkeypatch.setenv("SUDO_UID", uid)
    monkeypatch.setenv("SUDO_GID", "1000")
    assert ownership.caller() is None
    assert not ownership.stop_being_root()
    with ownership.to_caller(tmp_path / "out"):
        (tmp_path / "out").mkdir()
    assert (tmp_path / "out").stat().st_uid == 0


@pytest.mark.parametrize("ends_by", [None, ValueError, KeyboardInterrupt])
def test_what_was_made_is_given_with_the_folders_above_it_however_it_ended(under_sudo, tmp_path, ends_by):
    out = tmp_path / "results" / "runs" / "one"
    outside = tmp_path / "outside"
    outside.write_text("")
    expected = contextlib.nullcontext() if ends_by is None else pytest.raises(ends_by)
    with expected, ownership.to_caller(out):
        (out / "raw" / "a").mkdir(parents=True)
        (out / "raw" / "a" / "log").write_text("")
        (out / "link").symlink_to(outside)
        os.link(outside, out / "second-name")
        if ends_by is not None:
            raise ends_by
    found = owners(tmp_path / "results")
    assert found.pop("runs/one/second-name") == 0  # another name of a file of root's is no way to get at it
    assert set(found.values()) == {SOMEBODY}
    assert (tmp_path.stat().st_uid, outside.stat().st_uid) == (0, 0)


def test_folders_that_hold_other_things_stay_whose_they_are(under_sudo, tmp_path):
    (tmp_path / "passwd").write_text("")
    with ownership.to_caller(tmp_path):
        pass
    with ownership.to_caller(tmp_path / "passwd"):
        pass
    assert set(owners(tmp_path).values()) == {0}


@pytest.mark.parametrize("manifest", ['{"name": "an app"}', "{}", "", None])
def test_folders_of_other_programs_that_have_a_manifest_stay_whose_they_are(under_sudo, tmp_path, manifest):
    if manifest is None:
        (tmp_path / "manifest.json").symlink_to("elsewhere")
    else:
        (tmp_path / "manifest.json").write_text(manifest)
    (tmp_path / "secret").write_text("")
    with pytest.raises(InputError), ownership.to_caller(tmp_path), place.opened(tmp_path):
        pass
    assert set(owners(tmp_path).values()) == {0}


def test_capacities_are_remembered_for_the_user_who_measured_them(under_sudo, monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(ownership.User, "home", property(lambda _: tmp_path))
    for _ in range(2):  # the second time the file is there
        with ownership.to_caller(capacity.store(), ours=True):
            capacity.remember([capacity.Capacity("single-switch", 4, 1e8)], capacity.store())
    assert capacity.store() == tmp_path / ".cache" / "echelon" / "capacity.json"
    assert set(owners(tmp_path / ".cache").values()) == {SOMEBODY}


@pytest.mark.slow
def test_simulation_and_reports_are_no_roots(home):
    (home / "who.py").write_text(
        "import os\nprint('loaded by user', os.getuid())\nfrom echelonflow.scheduling.policies.fair import allocate\n"
    )
    done = sudo(home, "run", "e.yaml", "--backend", "fluid", "--policy", "./who.py")
    assert done.returncode == 0, done.stderr
    assert f"loaded by user {SOMEBODY}" in done.stderr  # as who simulates
    (out,) = (home / "results" / "runs").iterdir()
    (home / "e.yaml").unlink(), (home / "who.py").unlink()
    assert set(owners(home).values()) == {SOMEBODY}
    assert sudo(home, "report", out).returncode == 0
    assert set(owners(home).values()) == {SOMEBODY}


@pytest.mark.slow
def test_where_the_user_may_not_write_root_does_and_gives_it_away(home):
    os.chown(home, 0, 0)
    done = sudo(home, "run", "e.yaml", "--backend", "fluid", "--out", "out")
    assert done.returncode == 0, done.stderr
    assert set(owners(home / "out").values()) == {SOMEBODY}


@pytest.mark.slow
def test_root_reports_on_a_strangers_folder_as_that_stranger(home):
    def as_root(*arguments):
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "echelon.cli", *map(str, arguments)]
        return subprocess.run(command, cwd=home, env=environment, capture_output=True, text=True, check=False)

    assert sudo(home, "run", "e.yaml", "--backend", "fluid", "--out", "out").returncode == 0
    assert as_root("report", "out").returncode == 0
    assert set(owners(home / "out").values()) == {SOMEBODY}
    done = as_root("run", "--resume", "out")
    assert done.returncode == 2
    assert f"belongs to the user {SOMEBODY}, and root does not write there" in done.stderr


@pytest.mark.parametrize("again", [False, True])
def test_root_runs_nothing_in_folders_that_others_may_write(tmp_path, again):
    out = tmp_path / "out"
    out.mkdir()
    out.chmod(0o757)
    with pytest.raises(InputError, match="every user may write there"), place.opened(out, again=again):
        pass
    os.chown(out, SOMEBODY, SOMEBODY)
    out.chmod(0o755)
    with pytest.raises(InputError, match=f"belongs to the user {SOMEBODY}"), place.opened(out, again=again):
        pass


def test_who_called_sudo_is_no_stranger(under_sudo, tmp_path):
    os.chown(tmp_path, SOMEBODY, SOMEBODY)
    with place.opened(tmp_path) as folder:
        assert folder.root == tmp_path
