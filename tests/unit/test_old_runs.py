"""Run folders that an older version of the testbed made are analysed as they were then."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from results.folder import analyse

OLDEST = Path(__file__).parent.parent / "data" / "run-v0.tar.xz"
"""Two policies on real packets, one run each, from before records had versions; with the tables made then."""
TABLES = ("iterations.csv", "groups.csv", "flows.csv", "decisions.jsonl", "summary.json")


@pytest.fixture
def old(tmp_path):
    with tarfile.open(OLDEST) as archive:
        archive.extractall(tmp_path)
    return tmp_path


def test_a_run_from_before_versions_gives_the_tables_that_it_gave_then(old):
    then = {name: (old / name).read_text(encoding="utf-8") for name in TABLES}
    for name in TABLES:
        (old / name).unlink()
    summary = analyse(old, pictures=False)
    assert summary.valid, summary.reasons
    assert {result.policy for result in summary.results} == {"fair", "echelonflow"}
    for name in TABLES:
        now = (old / name).read_text(encoding="utf-8")
        if name == "summary.json":
            now = _as_then(now)
        assert now == then[name], f"{name} is not what it was"


def _as_then(summary: str) -> str:
    """The summary without what older versions did not know of; such a run has nothing of it."""
    found = json.loads(summary)
    for run in found["runs"]:
        assert run.pop("faults") == []
    return json.dumps(found, indent=1) + "\n"


def test_its_packets_are_found_by_the_ports_that_it_used(old):
    """What every flow's packets say agrees with the agents' logs, byte by byte."""
    analyse(old, pictures=False)
    runs = json.loads((old / "summary.json").read_text(encoding="utf-8"))["runs"]
    assert len(runs) == 2
    for run in runs:
        fidelity = run["fidelity"]
        assert fidelity["bytes_asked"] == fidelity["bytes_pcap"] == fidelity["bytes_received"] > 0
        assert fidelity["flows_finished"] == fidelity["flows_asked"]
