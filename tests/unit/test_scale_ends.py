"""When jobs of large clusters end: of all of them, whether or not an iteration of theirs counts."""

from __future__ import annotations

import pytest

import echelon
from echelon.documents import scale_ends

CLUSTER = """
name: gpus-64
network: {topology: single-switch, hosts: 4, gpus_per_host: 2, rate: 100 Mbit/s}
placement: packed
jobs:
  - {name: a, paradigm: data-parallel, ranks: 3, layers: 2, forward: 10 ms, backward: 20 ms, parameter: 500 kB, iterations: 9}
  - {name: b, paradigm: gpipe, stages: 3, micro_batches: 2, forward: 90 ms, backward: 200 ms, activation: 500 kB, iterations: 3}
window: steady
policies: [fair, fifo]
sweep: {over: {network.rate: [200 Mbit/s, 100 Mbit/s, 50 Mbit/s]}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "gpus-64.yaml").write_text(CLUSTER)
    return tmp_path


def test_of_jobs_of_which_no_iteration_counts_it_is_known_too(folder, tmp_path):
    found = list(scale_ends.found_in(64, folder))
    assert [(cell.load, cell.policy) for cell in found][:3] == [(0.3, "fair"), (0.3, "fifo"), (0.6, "fair")]
    file = tmp_path / "one.yaml"
    file.write_text(CLUSTER.partition("sweep:")[0])
    results = echelon.simulate(echelon.load(file, network={"rate": "50 Mbit/s"}, window="all"))
    mine = results.jobs["completion_s"][:2]
    assert list(results.jobs["policy"])[:2] == ["fair", "fair"]
    assert found[-2].completion_s == pytest.approx(mine, rel=1e-5)
    assert found[-2].mean_s == pytest.approx(sum(mine) / 2, rel=1e-5)
    steady = echelon.simulate(echelon.load(file, network={"rate": "50 Mbit/s"}))
    assert len(steady.jobs["job"]) < len(results.jobs["job"]), "no iteration of the longer job counts"


def test_what_was_found_of_other_clusters_stays(tmp_path, monkeypatch):
    monkeypatch.setattr(scale_ends, "found_in", lambda gpus: [scale_ends.EndedCell(gpus, 0.9, "p", "fair", [1.0])])
    scale_ends.main([256], tmp_path)
    scale_ends.main([64], tmp_path)
    assert [each.gpus for each in scale_ends.KEPT.rows_in(tmp_path)] == [64, 256]
