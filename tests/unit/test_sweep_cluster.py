"""Sweeps on a dask.distributed cluster: real schedulers and workers on loopback, one of which is killed."""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections import Counter

import pytest

from echelon.benchmarks._dask_cluster import dask_cluster
from echelon.sweeps import carrying, cluster, on_packets, plan
from echelon.sweeps.cluster import OtherCodeError, connected, on_cluster
from echelon.sweeps.fluid import Wanted
from echelonflow.errors import InputError, RunError
from echelonflow.records.cells import Cell, read_cell
from tests.unit.sweep_cases import stamps, sweep_of, table, written

pytest.importorskip("distributed")


def nothing(_):
    """A report that nobody reads."""


NOTING = """
from pathlib import Path
from echelon.sweeps.fluid import Computer
whole = Computer.compute
def compute(self, wanted):
    cell = whole(self, wanted)
    with Path({path!r}).open("a") as file:
        file.write(wanted.name + "\\n")
    return cell
Computer.compute = compute
"""
"""What has a worker, which knows no tests, write down the name of every cell that it has computed."""


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
    kept_before, computed = {}, tmp_path / "computed.txt"
    with dask_cluster(tmp_path / "dask", 2) as dask, connected(dask.address, sweep) as client:
        client.wait_for_workers(2, timeout=60)
        client.run(exec, NOTING.format(path=str(computed)), {})

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
    twice = [name for name, times in Counter(computed.read_text().split()).items() if times > 1]
    assert len(twice) <= 10, "the cell that it was at, and the few that had ended and were not fetched yet"


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


def cell_of(wanted, backend="fluid"):
    return Cell(name=wanted.name, backend=backend, policy=wanted.policy, seed=wanted.seed, settings={}, jobs={"p": {}})


class Future:
    """A task that has ended as a test says."""

    def __init__(self, status, found):
        self.status = status
        self.found = found

    def exception(self):
        return self.found


class Fake:
    """A client each of whose tasks ends at once: `ends` says how, by the cell's name, one after the other; else well.

    `threads` are what workers there are, each time that they are asked for; the last stays.
    """

    def __init__(self, ends=None, threads=({"tcp://w1": 1},)):
        self._ends = {name: list(each) for name, each in (ends or {}).items()}
        self._threads = list(threads)
        self.submitted = []

    def nthreads(self):
        found = self._threads.pop(0) if len(self._threads) > 1 else self._threads[0]
        if isinstance(found, Exception):
            raise found
        return found

    def submit(self, _, __, wanted, **___):
        self.submitted.append(wanted.name)
        ends = self._ends.get(wanted.name)
        how = ends.pop(0) if ends else "well"
        if isinstance(how, Exception):
            return Future("error", how)
        return Future(
            "lost" if how == "lost" else "finished", None if how in ("lost", "dies first") else (cell_of(wanted), {})
        )

    def gather(self, futures, errors):
        assert errors == "skip"
        return [each.found for each in futures if each.found is not None]

    def as_current(self):
        return contextlib.nullcontext()

    def cancel(self, *_, **__):
        """Nothing is under way."""


@pytest.fixture
def carried(tmp_path, monkeypatch):
    """Has a sweep of four cells made by a fake client; what was told, and what is kept."""
    monkeypatch.setattr("distributed.wait", lambda *_, **__: None)
    monkeypatch.setattr(cluster, "_LOOK_S", 0.0)
    sweep = sweep_of(written(tmp_path), "seed=0..1")
    wanted = wanted_of(sweep)

    def carry(client, heard=nothing):
        ended = [cell for some in on_cluster(client, sweep, wanted, tmp_path / "cells", heard) for cell in some]
        kept = {path.name: read_cell(path) for path in (tmp_path / "cells").iterdir()}
        assert {cell.name: cell for cell in ended} == kept
        assert len(ended) == len(kept) == len(wanted)
        return kept

    return wanted, carry


def test_every_cell_is_a_task_of_its_own_and_made_once(carried):
    wanted, carry = carried
    client = Fake()
    assert all(cell.valid for cell in carry(client).values())
    assert sorted(client.submitted) == sorted(each.name for each in wanted)


@pytest.mark.parametrize("how", ["lost", "dies first"])
def test_what_is_lost_with_its_worker_is_made_again_and_nothing_else(carried, how):
    wanted, carry = carried
    client = Fake({wanted[1].name: [how]})
    assert all(cell.valid for cell in carry(client).values())
    assert [client.submitted.count(each.name) for each in wanted] == [1, 2, 1, 1]


def test_a_cell_that_workers_die_of_has_failed_and_the_others_go_on(carried):
    from distributed.scheduler import KilledWorker

    wanted, carry = carried
    kept = carry(Fake({wanted[2].name: [KilledWorker("task", None, 3)]}))
    bad = kept.pop(wanted[2].name)
    assert bad.failed
    assert bad.reasons == ("the workers that were at it died, one after the other; is there memory enough?",)
    assert all(cell.valid for cell in kept.values())


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (OtherCodeError("worker on there"), "--cluster worker on there has other code or files than this machine"),
        (ImportError("no numba"), "a worker cannot make cells (ImportError: no numba); install: scripts/setup.sh"),
    ],
)
def test_a_worker_that_turns_out_not_to_do_ends_the_sweep(carried, error, words):
    wanted, carry = carried
    with pytest.raises(InputError) as refused:
        carry(Fake({wanted[0].name: [error]}))
    assert words in str(refused.value)


def test_a_scheduler_that_has_gone_ends_the_sweep_with_one_message(carried):
    _, carry = carried
    with pytest.raises(RunError, match="--cluster: the scheduler has gone, or cannot be reached any more"):
        carry(Fake(threads=[OSError("closed")]))


def test_where_no_worker_is_left_that_is_said_once_and_the_sweep_goes_on_when_one_comes(carried):
    _, carry = carried
    told = []
    carry(Fake(threads=[{}, {}, {"tcp://w2": 1}]), told.append)
    assert [each.reason for each in told] == ["no worker is left on the cluster; the sweep goes on when one comes"]


def test_where_no_worker_comes_the_message_says_how_to_start_one(tmp_path):
    class Alone:
        def wait_for_workers(self, *_, timeout):
            assert timeout == cluster._WORKERS_S
            raise TimeoutError

    with pytest.raises(InputError, match="no worker has come; start some by `dask worker tcp://x --nthreads 1`"):
        cluster._check_workers(Alone(), "tcp://x", sweep_of(written(tmp_path), "seed=0"))


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
    for one in wanted:
        cell, packed = cluster._made(cluster._sent(sweep), one)
        assert (cell.name, cell.valid, packed) == (one.name, True, {})
    with pytest.raises(OtherCodeError):
        cluster._made(cluster._sent(sweep), dataclasses.replace(wanted[0], name="other-code"))


def test_an_emulated_cell_comes_back_with_its_run_folder(tmp_path, monkeypatch):
    sweep = sweep_of(written(tmp_path), "seed=0", backend="emulation")
    (first, *_) = wanted_of(sweep)

    def emulated(_, wanted, root, report):
        root.mkdir()
        (root / "manifest.json").write_text("{}")
        report("nobody reads it there")
        return cell_of(wanted, "emulation")

    monkeypatch.setattr(on_packets, "emulated", emulated)
    cell, packed = cluster._made(cluster._sent(sweep), first)
    assert cell.name == first.name
    assert list(packed) == ["manifest.json"]


def test_a_run_folder_comes_back_whole(tmp_path):
    root = tmp_path / "made" / "run"
    (root / "raw").mkdir(parents=True)
    (root / "raw" / "a.txt").write_text("all of it")
    cluster._unpack(cluster._packed(root), tmp_path / "kept")
    assert (tmp_path / "kept" / "run" / "raw" / "a.txt").read_text() == "all of it"
    assert cluster._packed(tmp_path / "nowhere") == {}
    with pytest.raises(RunError, match="outside of the cell's folder"):
        cluster._unpack({"../../evil": b""}, tmp_path / "kept")
