"""What a machine that cannot emulate is told."""

from __future__ import annotations

import pytest

from echelonflow.errors import InputError
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
