"""Shared by all tests: which of them this machine can run, and a refusal to skip in silence."""

from __future__ import annotations

import os

import pytest


def _why_not_emulate() -> str | None:
    from echelonflow.errors import InputError
    from testbed import preflight

    try:
        preflight.require()
    except InputError as error:
        return str(error)
    return None


def pytest_itemcollected(item):
    if item.get_closest_marker("emulation"):
        item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)  # the machine is not asked about tests that were deselected
def pytest_collection_modifyitems(config, items):
    emulated = [item for item in items if item.get_closest_marker("emulation")]
    if not emulated:
        return
    reason = _why_not_emulate()
    if reason is None:
        return
    if os.environ.get("ECHELON_REQUIRE_EMULATION") == "1":
        pytest.exit(f"emulation tests are required here but cannot run: {reason}", returncode=1)
    for item in emulated:
        item.add_marker(pytest.mark.skip(reason=f"this machine cannot emulate: {reason}"))
