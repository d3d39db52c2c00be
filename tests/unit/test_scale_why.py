"""Why policies do on large clusters what they do: iterations by cause, of kinds of jobs."""

from __future__ import annotations

import pytest

import echelon
from echelon.documents import scale_why
from echelon.documents.scale_why import BlamedJob
from echelonflow.errors import InputError

CLUSTER = """
name: gpus-64
network: {topology: single-switch, hosts: 4, gpus_per_host: 2, rate: 100 Mbit/s}
placement: random(seed=1)
jobs:
  - {name: a, paradigm: data-parallel, ranks: 3, layers: 2, forward: 10 ms, backward: 20 ms, parameter: 500 kB, iterations: 4}
  - {name: b, paradigm: gpipe, stages: 3, micro_batches: 2, forward: 10 ms, backward: 20 ms, activation: 500 kB, iterations: 4}
window: all
policies: [fair]
sweep: {over: {network.rate: [200 Mbit/s, 100 Mbit/s, 50 Mbit/s], placement: [packed, random(seed=1), random(seed=2), random(seed=3)]}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "gpus-64.yaml").write_text(CLUSTER)
    return tmp_path


def test_causes_add_up_to_the_iteration_at_the_rate_of_the_highest_load(folder, tmp_path):
    found = list(scale_why.found_in(64, folder))
    assert [one.placement for one in found[::6]] == ["packed", "random(seed=1)", "random(seed=2)"]
    assert {one.policy for one in found} == set(scale_why.POLICIES)
    file = tmp_path / "one.yaml"
    file.write_text(CLUSTER.partition("sweep:")[0])
    changes = {"network": {"rate": "50 Mbit/s"}, "placement": "packed", "policies": ["clock"]}
    results = echelon.simulate(echelon.load(file, **changes))
    iteration_s = dict(zip(results.medians["job"], results.medians["iteration_s"], strict=True))
    mine = [one for one in found if (one.placement, one.policy) == ("packed", "clock")]
    assert {one.job: sum(one.spent_s.values()) for one in mine} == pytest.approx(iteration_s)
    assert {one.job: one.paradigm for one in mine} == {"a": "data-parallel", "b": "gpipe"}
    assert any(one.waited_for for one in found)


def test_the_table_is_over_fair_sharing_and_counts_who_starves():
    def one(policy, job, spent_s):
        return BlamedJob(
            gpus=64, load=0.9, placement="p", policy=policy, job=job, paradigm="fsdp", spent_s=spent_s, waited_for=2
        )

    found = [
        one("fair", "a", {"computation": 1.0, "other job": 1.0}),
        one("fair", "b", {"computation": 4.0}),
        one("clock", "a", {"computation": 1.0, "communication": 0.5, "own flows": 0.25}),
        one("clock", "b", {}),
    ]
    lines = scale_why.table(found).splitlines()
    assert [cell.strip() for cell in lines[0].strip("|").split("|")][3:7] == list(scale_why.CAUSES)
    cells = {
        line.split("|")[2].strip(): [cell.strip() for cell in line.strip("|").split("|")][2:] for line in lines[2:]
    }
    assert cells["`fair`"] == ["2", "0.75", "0.00", "0.00", "0.25", "1.00", "2.0"]
    assert cells["`clock`"] == ["1 (and 1 starved)", "0.50", "0.25", "0.12", "0.00", "0.88", "2.0"]


def test_who_loses_most_is_told_with_what_it_waits_for():
    def one(policy, paradigm, spent_s):
        return BlamedJob(
            gpus=64,
            load=0.9,
            placement="p",
            policy=policy,
            job=paradigm,
            paradigm=paradigm,
            spent_s=spent_s,
            waited_for=2,
        )

    found = [
        one("fair", "fsdp", {"computation": 1.0, "other job": 1.0}),
        one("fair", "zero", {"computation": 1.0, "communication": 0.5, "other job": 0.5}),
        one("clock", "fsdp", {"computation": 1.0}),
        one("clock", "zero", {"computation": 1.0, "communication": 0.5, "other job": 4.5}),
    ]
    words = scale_why.sentence(found, "clock")
    assert "serves zero jobs worst" in words
    assert "own transfers take 0.25 and computation 0.50. Waiting for other jobs takes 2.25, which is 0.25" in words
    assert scale_why.sentence(found[:3], "clock") is None
    assert scale_why.sentence([], "clock") is None


def test_what_was_found_of_other_clusters_stays(folder, tmp_path, monkeypatch):
    monkeypatch.setattr(scale_why, "found_in", scale_why_of)
    kept = tmp_path / "kept"
    scale_why.main([256], kept)
    scale_why.main([64], kept)
    assert [one.gpus for one in scale_why.KEPT.rows_in(kept)] == [64, 256]


def scale_why_of(gpus):
    return [
        BlamedJob(gpus=gpus, load=0.9, placement="p", policy="fair", job="a", paradigm="fsdp", spent_s={}, waited_for=0)
    ]


def test_a_cluster_that_is_not_there_is_refused_with_those_that_are(folder):
    with pytest.raises(InputError, match="no cluster of 65 GPUs; there are 64, 256"):
        list(scale_why.found_in(65, folder))
