"""The benchmark of damaged run folders: a small part of it with fixed seeds, and that it sees what it looks for."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from echelon.benchmarks import mutated_runs
from echelon.benchmarks._in_children import Tally, within_limits
from echelon.benchmarks.mutated_runs import Cases, difference, figures_of, tables
from echelon.experiment import schema
from echelon.places import EXPERIMENTS
from echelon.running import runner
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest, write_manifest
from echelonflow.records.runs import load_runs, save_runs
from echelonflow.records.seal import write_seal
from results.folder import analyse
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_run, write_experiment

CASES = 25


def emulated(root):
    network = paper_network()
    jobs = [paper_job(network, iterations=2)]
    names = ["fair", "echelonflow"]
    write_experiment(root, network, jobs, names, [synthetic_run(jobs, network, n, 0, i) for i, n in enumerate(names)])
    manifest = RunFolder(root).manifest
    write_manifest(manifest, msgspec.structs.replace(read_manifest(manifest), sealed=True))
    write_seal(RunFolder(root))
    return root


def simulated(root, file):
    runner.run(schema.load(file), root, "fluid", lambda _: None, pictures="none")
    return root


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    parent = tmp_path_factory.mktemp("folders")
    return {
        "emulated": emulated(parent / "emulated"),
        "fluid": simulated(parent / "fluid", EXPERIMENTS / "pipeline.yaml"),
        "trace": simulated(parent / "trace", EXPERIMENTS / "traces" / "shuffles.yaml"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["emulated", "fluid", "trace"])
def test_damage_is_named_and_no_other_tables_are_valid(kind, folders, tmp_path, monkeypatch):
    monkeypatch.setattr(mutated_runs, "PICTURES_EVERY", 10**6)
    cases = Cases(mutated_runs._raw_only(folders[kind], tmp_path / "raw"), tmp_path, sealed_again=False)
    found = [within_limits(cases.judge, seed) for seed in range(CASES)]
    assert [(seed, one.fault, one.words) for seed, one in enumerate(found) if one.fault] == []
    assert sum(one.good for one in found) < CASES / 4


def test_other_tables_are_seen(folders, tmp_path, monkeypatch):
    """Written anew, with its digest and the seal's word, a changed time gets through: the benchmark must say so."""
    cases = Cases(mutated_runs._raw_only(folders["fluid"], tmp_path / "raw"), tmp_path, sealed_again=True)

    def later(folder, _):
        path = folder / "runs.json"
        runs = load_runs(path)
        for run in runs:
            run.computes = [replace(c, finish_s=c.finish_s - (0.1 if c.finish_s > 7.9 else 0.0)) for c in run.computes]
        save_runs(path, runs)
        return "earlier"

    monkeypatch.setattr(mutated_runs, "damage", later)
    fault, words, valid = cases.judge(1)
    assert (fault, valid) == ("wrong", True)
    assert words.startswith("earlier: ")


def test_tables_are_compared_to_a_thousandth(folders, tmp_path):
    root = folders["fluid"]
    analyse(root, pictures="none")
    one = tables(root)
    assert difference(one, one) is None
    rows = one["iterations.csv"]
    near = {
        **one,
        "iterations.csv": [rows[0], [*rows[1][:5], str(float(rows[1][5]) * 1.0005), *rows[1][6:]], *rows[2:]],
    }
    far = {**one, "iterations.csv": [rows[0], [*rows[1][:5], str(float(rows[1][5]) * 1.002), *rows[1][6:]], *rows[2:]]}
    assert difference(one, near) is None
    assert "iterations.csv has" in (difference(one, far) or "")
    assert "has 1 rows" in (difference(one, {**one, "iterations.csv": rows[:1]}) or "")


def test_a_fault_misses_the_figure():
    tally = Tally(cases=10)
    assert [figure.ok for figure in figures_of("fluid", tally)] == [True, True, True]
    tally.faults["wrong"] += 1
    tally.faults["time"] += 1
    assert [figure.ok for figure in figures_of("fluid", tally)] == [True, False, False]
