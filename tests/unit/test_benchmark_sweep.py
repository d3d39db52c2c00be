"""The benchmarks of sweeps: what they count as good, on sweeps small enough for a test."""

from __future__ import annotations

import random

import pytest

from echelon.benchmarks import _sweep_command, sweep, sweep_kills
from echelon.benchmarks._sweep_command import Finished, cells_of, ended, sweeping, write_experiment
from echelon.experiment import schema
from echelonflow.records.cells import Cell, keep_cell
from echelonflow.records.sweeps import CELLS


def kept(root, name, **changes):
    keep_cell(root / CELLS, Cell(name=name, backend="fluid", policy="fair", seed=0, settings={}, **changes))


def test_the_experiment_can_be_run(tmp_path):
    experiment = schema.load(write_experiment(tmp_path / "e.yaml", 2))
    assert [job.iterations for job in experiment.jobs] == [2, 2]


def test_a_cell_that_is_lost_or_made_again_is_found(tmp_path):
    kept(tmp_path, "a-1")
    kept(tmp_path, "b-1")
    kept(tmp_path, "c-1", reasons=("no",), failed=True)
    before = Finished.of(tmp_path)
    assert sorted(before.stamps) == ["a-1", "b-1"], "one that failed may be made again"
    assert before.difference(tmp_path) is None
    (tmp_path / CELLS / "a-1").rename(tmp_path / "gone")
    assert before.difference(tmp_path) == "cell a-1 was finished, and is lost"
    kept(tmp_path, "a-1")
    assert before.difference(tmp_path) == "cell a-1 was finished, and was made again"


def test_the_speed_up_is_held_against_that_of_loops():
    good = sweep.figures([1.8, 1.7, 1.9], [1.9, 1.9], [30.0, 31.0, 32.0], 1000)
    assert [figure.ok for figure in good] == [None, None, True]
    assert good[0].measured == "31.0 ms a cell"
    assert good[2].measured == "1.80, 95% of that"
    assert not sweep.figures([1.5], [1.9], [30.0], 1000)[2].ok


def test_loops_are_timed():
    assert 0.1 < sweep.loop_speed_up(2, 200_000) < 10


@pytest.mark.slow
def test_a_sweep_is_timed(tmp_path):
    file = write_experiment(tmp_path / "e.yaml", 1)
    assert sweep.sweep_s(file, tmp_path / "out", 2, 1) > 0
    assert len(Finished.of(tmp_path / "out").stamps) == cells_of(1)


@pytest.mark.slow
def test_a_sweep_that_is_interrupted_is_completed(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep_kills, "SEEDS", 3)
    file = write_experiment(tmp_path / "e.yaml", 3)
    tally, said = sweep_kills.Tally(), []
    kinds = list(sweep_kills.KINDS)
    while kinds:
        place = tmp_path / f"out-{len(kinds)}"
        sweep_kills.one_folder(file, place, kinds, 4.0, random.Random(1), tally, said.append)
    assert all(figure.ok for figure in tally.figures()), said
    assert sum(map(len, tally.moments.values())) == 3


def test_what_went_wrong_is_no_good_figure():
    tally = sweep_kills.Tally({"Ctrl-C": [None, "a cell is lost"]}, [None])
    assert [figure.ok for figure in tally.figures()] == [False, False, True]
    assert tally.figures()[1].measured == "1 of 2"


@pytest.mark.slow
def test_the_command_is_waited_for_and_killed_where_it_does_not_end(tmp_path):
    process = sweeping(write_experiment(tmp_path / "e.yaml", 1), tmp_path / "out", 1)
    assert ended(process, 0.01) == (-1, "", "it had not ended 0 s later")
    assert _sweep_command.END_LIMIT_S > 60
