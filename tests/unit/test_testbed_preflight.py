"""What a machine that cannot emulate is told."""

from __future__ import annotations

import pytest

from echelonflow.errors import InputError, RunError
from testbed import preflight


def test_every_check_that_fails_has_a_remedy():
    for check in preflight.checks():
        assert check.name
        assert check.detail
        assert check.remedy


def test_missing_programs_are_named_with_their_packages(monkeypatch):
    monkeypatch.setattr(preflight.shutil, "which", lambda name: None if name in ("tcpdump", "mnexec") else f"/x/{name}")
    check = preflight._programs()
    assert not check.ok
    assert "tcpdump" in check.detail
    assert "mininet tcpdump" in check.remedy


def test_without_root_that_alone_is_said(monkeypatch):
    monkeypatch.setattr(
        preflight,
        "checks",
        lambda: [
            preflight.Check("root", ok=False, detail="user id 1000", remedy="run as root"),
            preflight.Check("namespaces", ok=False, detail="not permitted", remedy="allow them"),
        ],
    )
    with pytest.raises(InputError, match="run as root") as caught:
        preflight.require()
    assert "namespaces" not in str(caught.value)


def test_with_root_everything_that_is_missing_is_said_at_once(monkeypatch):
    failed = [preflight.Check(name, ok=False, detail="gone", remedy=f"get {name}") for name in ("queues", "mininet")]
    monkeypatch.setattr(preflight, "checks", lambda: [*failed, preflight.Check("root", ok=True, detail="0")])
    with pytest.raises(InputError, match=r"get queues.*get mininet"):
        preflight.require()


def _killed_at_first(monkeypatch, kills):
    """Let the first `kills` looks at the machine be killed, and the others find everything."""
    codes = iter([-9] * kills)

    def run(argv, **_):
        return preflight.subprocess.CompletedProcess(argv, next(codes, 0), "", "")

    monkeypatch.setattr(preflight.subprocess, "run", run)
    monkeypatch.setattr(preflight.shutil, "which", lambda name: f"/x/{name}")


def test_a_look_at_the_machine_that_is_killed_is_taken_again(monkeypatch):
    _killed_at_first(monkeypatch, preflight.TRIES - 1)
    assert preflight._queues().ok


def test_one_that_is_killed_every_time_is_not_taken_for_a_lack_of_the_machine(monkeypatch):
    _killed_at_first(monkeypatch, preflight.TRIES)
    with pytest.raises(RunError, match=r"was killed 3 times \(signal 9\)"):
        preflight._queues()


def test_a_switch_that_does_not_say_its_version_has_an_unknown_one(monkeypatch):
    _killed_at_first(monkeypatch, 1)
    assert preflight.openvswitch.version() == "unknown"
