"""`echelon sweep` and `echelon compare` as a shell sees them: what they print, how they go on, and what they refuse."""

from __future__ import annotations

import json
import shutil

import pytest

from echelon.running import place
from echelon.sweeps import pool
from echelonflow.errors import StorageError
from echelonflow.records.cells import keep_cell, read_cell
from echelonflow.records.sweeps import read_sweep
from tests.unit.sweep_cases import stamps, table, written

GRID = ("--over", "network.rate=50 Mbit/s,100 Mbit/s", "--over", "seed=0..1", "--workers", 1)


@pytest.fixture
def swept(echelon, tmp_path):
    """A sweep of eight cells that has ended."""
    done = echelon("sweep", written(tmp_path), *GRID, "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    return tmp_path / "out", done


def test_a_sweep_ends_with_its_comparison_and_its_tables(swept):
    root, done = swept
    assert "swept: 2 points x 2 policies x 2 seeds = 8 cells" in done.stderr
    assert "8 cells: 8 made now, 0 kept from before, 0 failed, 0 invalid" in done.stdout
    assert str(root / "cells.csv") in done.stdout
    assert "network.rate  policy" in done.stdout
    assert "all seeds gave the same to the last digit" in done.stdout
    assert len(table(root)) == 8


def test_the_same_command_makes_nothing_anew(echelon, swept, tmp_path):
    root, first = swept
    before = stamps(root)
    again = echelon("sweep", tmp_path / "swept.yaml", *GRID, "--out", root)
    assert again.returncode == 0
    assert "8 cells, of which 8 are there already" in again.stderr
    assert "0 made now, 8 kept" in again.stdout
    assert stamps(root) == before
    assert again.stdout.splitlines()[:6] == first.stdout.splitlines()[:6]


def test_what_is_missing_is_made_and_nothing_else(echelon, swept):
    root, _ = swept
    before = stamps(root)
    gone = sorted(before)[::3]
    for name in gone:
        shutil.rmtree(root / "cells" / name)
    done = echelon("sweep", "--resume", root, "--workers", 1)
    assert done.returncode == 0
    assert f"{len(gone)} made now, {8 - len(gone)} kept" in done.stdout
    after = stamps(root)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == set(gone)


def test_a_sweep_over_more_values_makes_the_new_cells_only(echelon, swept, tmp_path):
    root, _ = swept
    over = ("--over", "network.rate=50 Mbit/s,75 Mbit/s,100 Mbit/s", "--over", "seed=0..1", "--workers", 1)
    done = echelon("sweep", tmp_path / "swept.yaml", *over, "--out", root)
    assert "12 cells: 4 made now, 8 kept" in done.stdout
    assert [row["point"] for row in table(root)] == ["0"] * 4 + ["1"] * 4 + ["2"] * 4


def test_a_file_says_what_is_swept(echelon, tmp_path):
    points = [{"network.rate": "50 Mbit/s"}, {"jobs.p.iterations": 3}]
    path = written(tmp_path, sweep={"over": {"seed": "0..1", "policies": ["fifo"]}, "points": points})
    checked = echelon("check", path)
    assert "sweep      2 points x 1 policies x 2 seeds = 4 cells (`echelon sweep`)" in checked.stdout
    done = echelon("sweep", path, "--out", tmp_path / "out", "--workers", 1)
    assert done.returncode == 0, done.stderr
    rows = table(tmp_path / "out")
    assert [(row["network.rate"], row["jobs.p.iterations"], row["policy"]) for row in rows] == [
        ("50 Mbit/s", "", "fifo"), ("50 Mbit/s", "", "fifo"), ("", "3", "fifo"), ("", "3", "fifo"),
    ]  # fmt: skip
    ran = echelon("run", path, "--backend=fluid", "--pictures=none", "--out", tmp_path / "run")
    assert ran.returncode == 0, "as it stands, without its sweep"


def test_going_on_takes_everything_from_the_folder(echelon, tmp_path):
    path = written(tmp_path, sweep={"points": [{"network.rate": "50 Mbit/s"}, {"jobs.p.iterations": 3}]})
    options = ("--set", "jobs.p.micro_batches=3", "--policy", "fair", "--repeat", 2, "--against", "fair")
    first = echelon("sweep", path, *options, "--out", tmp_path / "out", "--workers", 1)
    assert first.returncode == 0, first.stderr
    before = stamps(tmp_path / "out")
    path.unlink()
    again = echelon("sweep", "--resume", tmp_path / "out", "--workers", 1)
    assert again.returncode == 0, again.stderr
    assert "4 cells: 0 made now, 4 kept" in again.stdout
    assert stamps(tmp_path / "out") == before
    record = read_sweep(tmp_path / "out")
    assert record.experiment["jobs"][0]["micro_batches"] == 3
    assert record.seeds == [0, 1]


def test_json_says_what_was_found(echelon, tmp_path):
    done = echelon("sweep", written(tmp_path), *GRID, "--out", tmp_path / "out", "--json")
    found = json.loads(done.stdout)
    assert (found["cells"], found["kept"], found["failed"]) == (8, 0, 0)
    assert found["comparisons"]["against"] == "fair"
    assert len(found["comparisons"]["rows"]) == 4


def interrupt_after(monkeypatch, cells):
    """Let so many cells be told, then be as Ctrl-C."""
    whole = pool.Pool.run

    def run(self, wanted):
        told = 0
        for ended in whole(self, wanted):
            yield ended
            told += len(ended)
            if told >= cells:
                raise KeyboardInterrupt

    monkeypatch.setattr(pool.Pool, "run", run)


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(echelon, tmp_path, monkeypatch):
    interrupt_after(monkeypatch, 3)
    root = tmp_path / "out"
    done = echelon("sweep", written(tmp_path), *GRID, "--out", root)
    assert done.returncode == 130
    kept = stamps(root)
    assert len(kept) >= 3
    assert f"{len(kept)} of 8 cells are kept. Go on with: echelon sweep --resume {root}" in done.stderr
    assert len(table(root)) == len(kept)
    monkeypatch.undo()
    again = echelon("sweep", "--resume", root, "--workers", 1)
    assert again.returncode == 0
    assert kept.items() <= stamps(root).items()
    assert len(stamps(root)) == 8


def test_a_full_disk_is_one_message_and_what_was_finished_stays(echelon, tmp_path, monkeypatch):
    root = tmp_path / "out"

    def refuse(cells, cell, fill=None):
        if len(stamps(root)) == 5:
            raise StorageError("cannot be written: No space left on device; free some space there", cells / cell.name)
        return keep_cell(cells, cell, fill)

    monkeypatch.setattr(pool, "keep_cell", refuse)
    done = echelon("sweep", written(tmp_path), *GRID, "--out", root)
    assert done.returncode == 1
    said = [line for line in done.stderr.splitlines() if not line.startswith("swept: ")]
    assert len(said) == 2
    assert said[0].endswith("cannot be written: No space left on device; free some space there")
    assert said[1] == f"5 of 8 cells are kept; go on with: echelon sweep --resume {root}"
    assert len(stamps(root)) == 5
    monkeypatch.undo()
    assert echelon("sweep", "--resume", root, "--workers", 1).returncode == 0


def test_two_sweeps_do_not_share_a_folder(echelon, tmp_path):
    with place.opened(tmp_path / "out"):
        done = echelon("sweep", written(tmp_path), *GRID, "--out", tmp_path / "out")
    assert done.returncode == 2
    assert "another process is at work there" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "no experiment file is given"),
        (("FILE", "--over", "network.rat=1,2"), "network.rat: unknown key; did you mean 'rate'?"),
        (("FILE", "--over", "networks.rate=1,2"), "networks: unknown key; did you mean 'network'?"),
        (("FILE", "--over", "seed"), "--over seed: must be written PATH=VALUE,VALUE"),
        (("FILE", "--over", "policy=fair", "--policy", "fifo"), "--policy and --over policies both name the policies"),
        (("FILE", "--against", "fifo"), "against: 'fifo' is none of the policies"),
        (("FILE", "--backend", "emulation", "--workers", "2"), "--workers does not go with this"),
        (("FILE", "--cluster", "localhost:1", "--workers", "2"), "a cluster has its own"),
        (("--resume", "nowhere"), "no sweep was begun there"),
        (("--resume", "nowhere", "--seed", "2"), "leave --seed away"),
    ],
)
def test_bad_input_ends_with_2_and_one_message(echelon, tmp_path, arguments, words):
    path = written(tmp_path)
    given = [path if word == "FILE" else word for word in arguments]
    out = () if "--resume" in arguments else ("--out", tmp_path / "out")
    done = echelon("sweep", *given, *out)
    assert done.returncode == 2
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_folders_of_something_else_are_refused(echelon, tmp_path):
    done = echelon("sweep", written(tmp_path), "--out", tmp_path)
    assert done.returncode == 2
    assert "holds something else than a sweep" in done.stderr


def test_a_damaged_cell_is_made_again(echelon, swept):
    root, _ = swept
    name = min(stamps(root))
    (root / "cells" / name / "cell.json").write_text("{}")
    again = echelon("sweep", "--resume", root, "--workers", 1)
    assert "8 cells, of which 7 are there already; 1 are damaged, and made anew" in again.stderr
    assert "1 made now, 7 kept" in again.stdout
    assert read_cell(root / "cells" / name).valid
