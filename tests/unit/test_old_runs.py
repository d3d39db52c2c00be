"""Run folders that an older version of the testbed made are analysed as they were then."""

from __future__ import annotations

import csv
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
    summary = analyse(old, pictures="none")
    assert summary.valid, summary.reasons
    assert {result.policy for result in summary.results} == {"fair", "echelonflow"}
    for name in TABLES:
        now = (old / name).read_text(encoding="utf-8")
        if name.endswith(".csv"):
            assert _columns(then[name]).items() <= _columns(now).items(), f"{name} is not what it was"
        elif name == "summary.json":
            _assert_still_there(json.loads(then[name]), json.loads(now), name)
        else:
            lines = [[json.loads(line) for line in text.splitlines()] for text in (then[name], now)]
            _assert_still_there(*lines, name)


def _columns(text):
    """Columns may be added to a table; those that were there stay."""
    header, *rows = list(csv.reader(text.splitlines()))
    return {name: tuple(row[place] for row in rows) for place, name in enumerate(header)}


def _assert_still_there(then, now, where):
    """Keys may be added to an object; those that were there stay, with their values."""
    if isinstance(then, dict):
        assert then.keys() <= now.keys(), where
        for key, value in then.items():
            _assert_still_there(value, now[key], f"{where}/{key}")
    elif isinstance(then, list):
        assert len(then) == len(now), where
        for place, (one, other) in enumerate(zip(then, now, strict=True)):
            _assert_still_there(one, other, f"{where}/{place}")
    else:
        assert then == now, where


def test_its_packets_are_found_by_the_ports_that_it_used(old):
    """What every flow's packets say agrees with the agents' logs, byte by byte."""
    analyse(old, pictures="none")
    runs = json.loads((old / "summary.json").read_text(encoding="utf-8"))["runs"]
    assert len(runs) == 2
    for run in runs:
        fidelity = run["fidelity"]
        assert fidelity["bytes_asked"] == fidelity["bytes_pcap"] == fidelity["bytes_received"] > 0
        assert fidelity["flows_finished"] == fidelity["flows_asked"]
