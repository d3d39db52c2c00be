"""Sweeps on a dask.distributed cluster: real schedulers and workers on loopback, one of which is killed."""

from __future__ import annotations

import dataclasses
import json

import pytest

from echelon.benchmarks._dask_cluster import dask_cluster
from echelon.sweeps import carrying, cluster, plan
from echelon.sweeps.cluster import OtherCodeError, connected, on_cluster
from echelon.sweeps.fluid import Wanted
from echelonflow.errors import InputError, RunError
from tests.unit.sweep_cases import stamps, sweep_of, table, written

pytest.importorskip("distributed")


def nothing(_):
    """A report that nobody reads."""


def wanted_of(sweep):
    return [
        Wanted(each.name, sweep.points[each.point], each.policy, each.seed)
        for each in plan.cells(sweep, plan.Names(sweep))
    ]


@pytest.mark.slow
def test_a_worker_that_is_killed_costs_its_cell_which_is_made_again(tmp_path):
    sweep = sweep_of(written(tmp_path), "seed=0..99")
    root = tmp_path / "out"
    state = carrying.begin(sweep, root)
    (tmp_path / "dask").mkdir()
    kept_before = {}
    with dask_cluster(tmp_path / "dask", 2) as dask, connected(dask.address, sweep) as client:
        client.wait_for_workers(2, timeout=60)

        def makes(wanted, cells):
            for ended in on_cluster(client, sweep, wanted, cells, nothing):
                yield ended
                if len(stamps(root)) >= 20 and not kept_before:
                    kept_before.update(stamps(root))
                    dask.workers[0].kill()

        carrying.carry_out(state, root, makes, nothing)
    carrying.write_tables(state, root)
    assert 20 <= len(kept_before) < 200, "it was killed in mid-sweep"
    assert kept_before.items() <= stamps(root).items(), "no finished cell was written again"
    rows = table(root)
    assert len(rows) == 200
    assert {row["valid"] for row in rows} == {"true"}


@pytest.mark.slow
def test_the_command_on_a_cluster_and_what_it_refuses_there(echelon, tmp_path):
    path = written(tmp_path)
    (tmp_path / "dask").mkdir()
    with dask_cluster(tmp_path / "dask", 1) as dask:
        at = ("--cluster", dask.address)
        done = echelon("sweep", path, "--over", "seed=0..3", "--out", tmp_path / "out", *at)
        assert done.returncode == 0, done.stderr
        assert "8 cells: 8 made now" in done.stdout
        here = echelon("sweep", path, "--over", "seed=0..3", "--out", tmp_path / "here", "--workers", 1)
        assert here.returncode == 0
        figures = [[row["iteration_s"] for row in table(tmp_path / name)] for name in ("out", "here")]
        assert figures[0] == figures[1], "the same, wherever it is computed"
        refused = echelon("sweep", path, "--backend", "emulation", "--out", tmp_path / "none", *at)
        assert refused.returncode == 2
        assert "no worker declares the resource emulation; start one, as root" in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
        assert not (tmp_path / "none").exists()


@pytest.mark.slow
def test_emulated_cells_go_to_workers_that_declare_it(tmp_path):
    """Of two workers, each cell is sent to the one with the resource, which here lacks root or is told no: a reason."""
    sweep = sweep_of(written(tmp_path), "seed=0", backend="emulation")
    (tmp_path / "dask").mkdir()
    with (
        dask_cluster(tmp_path / "dask", 1, "--resources", "emulation=1") as dask,
        connected(dask.address, sweep) as client,
    ):
        assert cluster._emulating(client) == list(client.nthreads())
        future = client.submit(json.dumps, 1, resources={cluster.RESOURCE: 1}, pure=False)
        assert future.result(timeout=30) == "1"


def test_an_unreachable_scheduler_is_one_message(echelon, tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_S", 0.2)
    done = echelon("sweep", written(tmp_path), "--cluster", "tcp://127.0.0.1:9", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "--cluster tcp://127.0.0.1:9: no dask scheduler answers there (" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_an_address_that_is_none_is_one_message(echelon, tmp_path):
    done = echelon("sweep", written(tmp_path), "--cluster", "carrier://pigeon", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "no dask scheduler answers there" in done.stderr


def test_without_dask_the_command_says_how_to_get_it(echelon, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    done = echelon("sweep", written(tmp_path), "--cluster", "tcp://127.0.0.1:9", "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "--cluster takes dask.distributed, which is not installed: scripts/setup.sh --sweep" in done.stderr


class Speaking:
    """A client whose workers answer as a test says."""

    def __init__(self, lacks, code):
        self._answers = {"eval": lacks, "_code": code}

    def wait_for_workers(self, *_, **__):
        """They are there."""

    def run(self, function, *_):
        answer = self._answers[function.__name__]
        if isinstance(answer, Exception):
            raise answer
        return {"tcp://w1": answer}


@pytest.mark.parametrize(
    ("lacks", "code", "words"),
    [
        (["msgspec"], "", "the worker tcp://w1 lacks msgspec; install them: scripts/setup.sh --fluid --sweep there"),
        ([], "other", "the worker tcp://w1 has other code or files than this machine"),
        ([], ImportError("no echelon.sweeps"), "a worker cannot load this project (no echelon.sweeps); install it"),
    ],
)
def test_a_worker_that_would_not_do_is_one_message(tmp_path, lacks, code, words):
    sweep = sweep_of(written(tmp_path), "seed=0")
    with pytest.raises(InputError) as refused:
        cluster._check_workers(Speaking(lacks, code), "tcp://x", sweep)
    assert words in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_worker_makes_only_what_it_would_name_the_same(tmp_path):
    sweep = sweep_of(written(tmp_path), "seed=0")
    wanted = wanted_of(sweep)
    made = cluster._made(cluster._sent(sweep), wanted)
    assert [cell.name for cell, _ in made] == [each.name for each in wanted]
    with pytest.raises(OtherCodeError):
        cluster._made(cluster._sent(sweep), [dataclasses.replace(wanted[0], name="other-code")])


def test_a_run_folder_comes_back_whole(tmp_path):
    root = tmp_path / "made" / "run"
    (root / "raw").mkdir(parents=True)
    (root / "raw" / "a.txt").write_text("all of it")
    cluster._unpack(cluster._packed(root), tmp_path / "kept")
    assert (tmp_path / "kept" / "run" / "raw" / "a.txt").read_text() == "all of it"
    assert cluster._packed(tmp_path / "nowhere") == {}
    with pytest.raises(RunError, match="outside of the cell's folder"):
        cluster._unpack({"../../evil": b""}, tmp_path / "kept")
