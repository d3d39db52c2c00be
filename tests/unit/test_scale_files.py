"""The experiments of large clusters: they are what is drawn, fill their clusters, and have the loads that they say."""

from __future__ import annotations

import dataclasses

import pytest
from ruamel.yaml import YAML

from echelon.documents import scale_files
from echelon.documents.scale_files import FOLDER, LOADS, SIZES, name_of
from echelon.experiment import schema
from echelon.study import steady

SMALL = SIZES[:2]
"""What is built in a second."""


def path_of(size):
    return FOLDER / f"{name_of(size)}.yaml"


def source_of(size):
    return YAML(typ="safe").load(path_of(size))


def ranks_of(job):
    return job.get("ranks") or job.get("stages") or job["workers"] + job["servers"]


def test_there_is_a_file_for_every_size():
    assert {path.name for path in FOLDER.glob("*.yaml")} == {path_of(size).name for size in SIZES}


@pytest.mark.parametrize("size", SMALL, ids=name_of)
def test_files_are_what_is_drawn(size):
    assert path_of(size).read_text(encoding="utf-8") == scale_files.drawn(size), (
        "make it again: python -m echelon.documents.scale_files"
    )


@pytest.mark.parametrize("size", SIZES, ids=name_of)
def test_jobs_fill_the_cluster_with_paradigms_of_their_size(size):
    source = source_of(size)
    network, jobs = source["network"], source["jobs"]
    assert network["leaves"] * network["hosts_per_leaf"] * network["gpus_per_host"] == size.gpus
    assert len(jobs) == size.jobs
    least, most = scale_files.FILLED
    assert least * size.gpus <= sum(map(ranks_of, jobs)) <= most * size.gpus
    for job in jobs:
        assert ranks_of(job) in scale_files.RANKS[job["paradigm"]]
        assert ranks_of(job) <= size.largest
    assert len(source["sweep"]["over"].get("placement", [None])) == size.seeds


@pytest.mark.parametrize("size", SMALL, ids=name_of)
def test_the_fabric_has_the_loads_that_are_swept(size):
    rates = source_of(size)["sweep"]["over"]["network.rate"]
    for rate, load in zip(rates, LOADS, strict=True):
        swept = schema.load(path_of(size), {"network": {"rate": rate}})
        assert scale_files.fabric_load_of(swept.jobs, swept.network) == pytest.approx(load, rel=0.01)


@pytest.mark.parametrize("size", SMALL, ids=name_of)
def test_jobs_last_about_equally_long_at_the_pace_they_can_keep_up(size):
    experiment = schema.load(path_of(size))
    drawn_on = dataclasses.replace(
        experiment.network, ecmp_seed=None
    )  # paths of connections are not known of single jobs
    together_s = steady.loads_of(experiment.jobs, drawn_on).together_s
    lasts_s = [
        (job.iterations - steady.WARM_UP) * own_s for job, own_s in zip(experiment.jobs, together_s, strict=True)
    ]
    assert max(lasts_s) - min(lasts_s) <= max(together_s)
