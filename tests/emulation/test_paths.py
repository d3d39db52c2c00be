"""Connections that are spread over paths: packets take those that the tables name."""

from __future__ import annotations

import csv

import pytest

from tests.emulation.conftest import echelon_run
from tests.waiting import end_of

pytestmark = pytest.mark.emulation

EXPERIMENT = """
# Paths over the first spine are ten times as slow as those over the second. Transfers follow each other, so none waits.
name: spread
network: {topology: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 50 Mbit/s, routing: ecmp, rates: {l1-p1: 5 Mbit/s, l2-p1: 5 Mbit/s}}
jobs:
  - {name: a, paradigm: pipeline, stages: 2, micro_batches: 8, forward: 300 ms, activation: 100 kB, placement: [h1, h3]}
policies: [fair]
emulation: {limits: {max_link_error: 1, max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1,
                     max_unexplained_exposed: 1}}
"""
FAST_S = 100e3 * 8 / 50e6
SLOW_S = 10 * FAST_S


def test_flows_are_as_fast_as_the_path_that_is_named(tmp_path):
    path = tmp_path / "spread.yaml"
    path.write_text(EXPERIMENT)
    out = tmp_path / "out"
    with echelon_run(path, "--out", out, "--attempts", "1", "--pictures", "none") as process:
        code, stdout, stderr = end_of(process, 180, [out / "logs"])
    assert code in (0, 3), stdout + stderr
    with (out / "flows.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    took_s = {"l1 p1 l2": [], "l1 p2 l2": []}
    for row in rows:
        took_s[row["path"]].append(float(row["pcap_finish_s"]) - float(row["pcap_start_s"]))
    assert all(took_s.values()), "the hash sends all flows the same way; take another seed"
    assert min(took_s["l1 p1 l2"]) > SLOW_S / 2
    assert max(took_s["l1 p2 l2"]) < SLOW_S / 2
