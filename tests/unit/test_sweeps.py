"""Sweeps below the command line: names of cells, what is kept of them, workers that die, and the table of all."""

from __future__ import annotations

import functools
import math
import os
import signal
from pathlib import Path

import pytest

from echelon.documents.columns import names as documented_columns
from echelon.sweeps import carrying, fluid, plan, pool
from echelon.sweeps.fluid import Computer, Wanted
from echelon.sweeps.pool import Pool
from echelonflow.errors import InputError, StorageError
from echelonflow.records.cells import Cell, keep_cell, read_cell, remove_parts
from results.analysis.cells import cell_table, write_cells_csv, write_cells_parquet
from results.analysis.gathered import gather
from tests.unit.sweep_cases import names_of, sweep_of, table, written


def cell(name="c-1", **changes):
    given = {"backend": "fluid", "policy": "fair", "seed": 0, "settings": {}, "jobs": {"p": {"iteration_s": 1.5}}}
    return Cell(name=name, **{**given, **changes})


def wanted_of(sweep):
    return [
        Wanted(each.name, sweep.points[each.point], each.policy, each.seed)
        for each in plan.cells(sweep, plan.Names(sweep))
    ]


# Names


def test_a_cell_is_one_point_one_policy_and_one_seed(tmp_path):
    sweep = sweep_of(written(tmp_path), "network.rate=50 Mbit/s,100 Mbit/s", "seed=3..5")
    found = plan.cells(sweep, plan.Names(sweep))
    assert len(found) == sweep.number_of_cells() == len({each.name for each in found}) == 2 * 2 * 3
    assert [(each.point, each.seed, each.policy) for each in found[:3]] == [
        (0, 3, "fair"), (0, 3, "echelonflow"), (0, 4, "fair"),
    ]  # fmt: skip


def test_emulated_cells_take_turns_seed_by_seed(tmp_path):
    sweep = sweep_of(written(tmp_path), "network.rate=50 Mbit/s,100 Mbit/s", "seed=3,4", backend="emulation")
    found = [(each.seed, each.point) for each in plan.cells(sweep, plan.Names(sweep))]
    assert found == [(3, 0), (3, 0), (3, 1), (3, 1), (4, 0), (4, 0), (4, 1), (4, 1)]


def test_seeds_are_the_repeats_of_the_file_where_none_are_swept(tmp_path):
    assert sweep_of(written(tmp_path, seed=7, repeats=3), "network.rate=1 Mbit/s").seeds == (7, 8, 9)
    assert sweep_of(written(tmp_path, seed=7, repeats=3), "seed=1,2").seeds == (1, 2)


def test_a_name_follows_from_what_is_computed_and_from_nothing_else(tmp_path):
    before = names_of(sweep_of(written(tmp_path), "seed=0"))
    assert names_of(sweep_of(written(tmp_path, title="other", repeats=4, against="fair"), "seed=0")) == before
    assert set(names_of(sweep_of(written(tmp_path), "seed=0..1"))) > set(before)
    assert not set(names_of(sweep_of(written(tmp_path), "seed=1"))) & set(before)
    assert not set(names_of(sweep_of(written(tmp_path, fluid={"classes": 2}), "seed=0"))) & set(before)
    assert not set(names_of(sweep_of(written(tmp_path), "jobs.0.iterations=3", "seed=0"))) & set(before)


def test_a_name_changes_with_the_files_that_are_named_and_with_the_code(tmp_path, monkeypatch):
    policy = tmp_path / "mine.py"
    policy.write_text((Path(plan.echelonflow.__file__).parent / "scheduling/policies/fair.py").read_text())
    path = written(tmp_path, policies=[str(policy)])
    before = names_of(sweep_of(path, "seed=0"))
    policy.write_text(policy.read_text() + "\n# another\n")
    after = names_of(sweep_of(path, "seed=0"))
    assert after != before
    monkeypatch.setattr(plan, "code_digest", lambda *_: "0123456789ab")
    (other,) = names_of(sweep_of(path, "seed=0"))
    assert other.partition("-")[0] == after[0].partition("-")[0]
    assert other.endswith("-01234567")


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ("network.rat=1,2", "network.rat: unknown key; did you mean 'rate'?"),
        ("network.rate=1 Mbit/s,fast", "'fast' is not a rate: write a number and a unit, such as '100 Mbit/s' (with"),
        ("jobs.q.iterations=1,2", "jobs has no entry 'q'"),
        ("policies=fair,fare", "unknown policy 'fare'; did you mean 'fair'?"),
        ("jobs.0.iterations=1..2000", None),
        ("fluid.classes=1..100..9", "fluid.classes: "),
    ],
)
def test_what_cannot_be_swept_is_found_before_anything_is_computed(tmp_path, over, words):
    path = written(tmp_path)
    if words is None:
        assert sweep_of(path, over).number_of_cells() == 4000
        return
    with pytest.raises(InputError) as refused:
        sweep_of(path, over)
    assert words in str(refused.value)


def test_too_many_cells_are_refused(tmp_path):
    with pytest.raises(InputError, match="the sweep has 200,000 cells, and 100,000 is the most"):
        sweep_of(written(tmp_path), "seed=0..9999", "jobs.0.iterations=1..10")


# What is kept


def test_a_cell_is_kept_whole_and_once(tmp_path):
    assert keep_cell(tmp_path, cell())
    assert read_cell(tmp_path / "c-1") == cell()
    assert not keep_cell(tmp_path, cell(took_s=9.0)), "it is kept already"
    assert read_cell(tmp_path / "c-1").took_s == 0.0
    assert [path.name for path in tmp_path.iterdir()] == ["c-1"]


def test_a_cell_that_failed_makes_room(tmp_path):
    keep_cell(tmp_path, cell(reasons=("no",), failed=True))
    assert keep_cell(tmp_path, cell())
    assert read_cell(tmp_path / "c-1").valid


def test_what_cannot_be_read_counts_as_missing_and_is_made_again(tmp_path):
    keep_cell(tmp_path, cell())
    (tmp_path / "c-1" / "cell.json").write_text("{")
    assert read_cell(tmp_path / "c-1") is None
    assert keep_cell(tmp_path, cell())
    assert read_cell(tmp_path / "c-1") == cell()


def test_a_cell_of_the_version_before_is_read_and_has_no_measures(tmp_path):
    sweep = sweep_of(written(tmp_path), "seed=0")
    first = plan.cells(sweep, plan.Names(sweep))[0]
    state = carrying.begin(sweep, tmp_path / "out")
    place = tmp_path / "out" / "cells" / first.name
    place.mkdir()
    (place / "cell.json").write_text(
        f'{{"schema":"echelon-cell","version":1,"name":"{first.name}","backend":"fluid","policy":"fair","seed":0,"settings":{{}},'
        '"jobs":{"p":{"iterations":2,"iteration_s":1.5,"exposed_s":0.5,"tardiness_s":0.25,"in_job_s":null,"in_job_share":null,'
        '"completion_s":3.0}},"reasons":[],"failed":false,"set_aside":0,"took_s":0.01,"ended":"2026-11-20T10:00:00+00:00"}\n'
    )
    assert carrying.kept_now(state, tmp_path / "out") == 1
    carrying.write_tables(state, tmp_path / "out")
    (row,) = table(tmp_path / "out")
    assert (row["iteration_s"], row["completion_s"], row["iterations"]) == ("1.5", "3", "2")
    assert (row["counted"], row["slowdown"], row["jain"]) == ("", "", "")
    (seen,) = gather([tmp_path / "out"]).observations
    assert seen.figures["completion_s"] == 3.0


def test_a_cell_in_the_folder_of_another_is_not_taken_for_it(tmp_path):
    keep_cell(tmp_path, cell())
    (tmp_path / "c-1").rename(tmp_path / "c-2")
    assert read_cell(tmp_path / "c-2") is None


def test_a_disk_that_refuses_is_named_and_leaves_nothing(tmp_path):
    def full(_):
        raise OSError(28, "No space left on device")

    with pytest.raises(StorageError, match="c-1: cannot be written: No space left on device; free some space"):
        keep_cell(tmp_path, cell(), full)
    assert list(tmp_path.iterdir()) == []


def test_parts_of_cells_are_removed(tmp_path):
    (tmp_path / ".c-1.77.part").mkdir()
    keep_cell(tmp_path, cell())
    remove_parts(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["c-1"]


# Computing


def test_a_cell_has_the_figures_of_every_job(tmp_path):
    sweep = sweep_of(written(tmp_path), "seed=0")
    first = wanted_of(sweep)[0]
    found = Computer(sweep.data, sweep.path, sweep.policies).compute(first)
    assert found.valid
    assert found.jobs["p"]["iterations"] == 2
    assert found.jobs["p"]["completion_s"] == pytest.approx(2 * found.jobs["p"]["iteration_s"])
    assert found.jobs["p"]["exposed_s"] < found.jobs["p"]["iteration_s"]


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (InputError("first\nsecond"), "first second"),
        (MemoryError(), "there was not enough memory for it"),
        (ZeroDivisionError("by what?"), "ZeroDivisionError: by what?"),
    ],
)
def test_what_goes_wrong_is_the_reason_of_its_cell(tmp_path, monkeypatch, error, words):
    def fails(*_, **__):
        raise error

    monkeypatch.setattr(fluid, "predict", fails)
    sweep = sweep_of(written(tmp_path), "seed=0")
    found = Computer(sweep.data, sweep.path, sweep.policies).compute(wanted_of(sweep)[0])
    assert found.failed
    assert not found.valid
    assert found.reasons == (words,)


# Workers


class Scripted:
    """A computer that does to some cells what a test says."""

    def __init__(self, folder, deadly):
        self._folder = folder
        self._deadly = deadly

    def compute(self, wanted):
        with (self._folder / "computed.txt").open("a") as file:
            file.write(f"{wanted.name}\n")
        times = (self._folder / "computed.txt").read_text().split().count(wanted.name)
        if times <= self._deadly.get(wanted.name, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        return cell(wanted.name, took_s=0.001)


def run_pool(folder, wanted, deadly, workers=2):
    make = functools.partial(Scripted, folder, deadly)
    with Pool(make, folder / "cells", workers) as made:
        ended = [each for batch in made.run(wanted) for each in batch]
    return ended, (folder / "computed.txt").read_text().split()


def scripted(count):
    return [Wanted(f"c-{i}", {}, "fair", i) for i in range(count)]


def test_every_cell_is_computed_once_and_told_once(tmp_path):
    ended, computed = run_pool(tmp_path, scripted(40), {})
    assert sorted(each.name for each in ended) == sorted(computed) == sorted(f"c-{i}" for i in range(40))
    assert len(list((tmp_path / "cells").iterdir())) == 40


def test_a_worker_that_dies_costs_the_cell_that_it_was_at(tmp_path):
    ended, computed = run_pool(tmp_path, scripted(30), {"c-7": 1, "c-20": 2})
    assert sorted(each.name for each in ended) == sorted(f"c-{i}" for i in range(30))
    assert all(each.valid for each in ended)
    assert {name: computed.count(name) for name in set(computed) if computed.count(name) > 1} == {"c-7": 2, "c-20": 3}


def test_a_cell_that_workers_die_of_has_failed_and_the_others_go_on(tmp_path):
    ended, computed = run_pool(tmp_path, scripted(10), {"c-4": 99})
    assert len(ended) == 10
    (bad,) = (each for each in ended if not each.valid)
    assert bad.name == "c-4"
    assert bad.failed
    assert bad.reasons == ("its process was killed (signal 9), 3 times; is there memory enough?",)
    assert computed.count("c-4") == 3
    assert read_cell(tmp_path / "cells" / "c-4") == bad


def test_a_disk_that_is_full_ends_all(tmp_path, monkeypatch):
    def refuse(cells, cell, fill=None):
        if cell.name == "c-3":
            raise StorageError("cannot be written: No space left on device", cells / cell.name)
        return keep_cell(cells, cell, fill)

    monkeypatch.setattr(pool, "keep_cell", refuse)
    with pytest.raises(StorageError, match="c-3: cannot be written: No space left"):
        run_pool(tmp_path, scripted(10), {}, workers=1)


def test_batches_are_few_cells_at_first_and_at_the_end(tmp_path):
    made = Pool(functools.partial(Scripted, tmp_path, {}), tmp_path, 2)
    assert made._batch(1000) == 1
    made._learn([cell(took_s=0.01)])
    assert made._batch(1000) == math.ceil(pool._BATCH_S / 0.01)
    assert made._batch(8) == 1
    made._learn([cell(took_s=5.0)] * 50)
    assert made._batch(1000) == 1


# The table


def carried_out(tmp_path, *over, **changes):
    sweep = sweep_of(written(tmp_path, **changes), *over)
    root = tmp_path / "out"
    state = carrying.begin(sweep, root)
    computer = Computer(sweep.data, sweep.path, sweep.policies)

    def makes(wanted, cells):
        for each in wanted:
            made = computer.compute(each)
            keep_cell(cells, made)
            yield [made]

    carrying.carry_out(state, root, makes, lambda _: None)
    return state, root, carrying.write_tables(state, root)


def test_the_table_has_a_row_for_each_cell_and_job_with_what_was_swept(tmp_path):
    state, root, _ = carried_out(tmp_path, "network.rate=50 Mbit/s,100 Mbit/s", "jobs.p.iterations=1,2")
    rows = table(root)
    assert len(rows) == 8
    assert {row["network.rate"] for row in rows} == {"50 Mbit/s", "100 Mbit/s"}
    assert {row["network.rate_bps"] for row in rows} == {"50000000", "100000000"}
    assert {row["jobs.p.iterations"] for row in rows} == {row["iterations"] for row in rows} == {"1", "2"}
    assert {row["valid"] for row in rows} == {"true"}
    assert {row["backend"] for row in rows} == {"fluid"}
    assert state.exit_code() == 0


def test_cells_that_failed_are_rows_that_do_not_count(tmp_path, monkeypatch):
    whole = fluid.predict

    def fails(experiment, policy, **how):
        if policy == "echelonflow":
            raise ZeroDivisionError("by what?")
        return whole(experiment, policy, **how)

    monkeypatch.setattr(fluid, "predict", fails)
    state, root, _ = carried_out(tmp_path, "seed=0..1")
    bad = [row for row in table(root) if row["valid"] == "false"]
    assert [(row["policy"], row["job"], row["reason"]) for row in bad] == [
        ("echelonflow", "", "ZeroDivisionError: by what?")
    ] * 2
    assert state.exit_code() == 1
    monkeypatch.undo()
    again = carrying.begin(sweep_of(written(tmp_path), "seed=0..1"), root)
    assert (again.total, again.kept) == (4, 2), "those that failed are tried again"


def test_the_parquet_table_is_the_same_table(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    state, root, written_to = carried_out(tmp_path, "network.rate=50 Mbit/s,100 Mbit/s", "jobs.p.start=0 s,1 ms")
    assert written_to.parquet == root / "cells.parquet"
    read = parquet.read_table(written_to.parquet)
    assert read.column_names == list(table(root)[0])
    assert read["iteration_s"].to_pylist() == pytest.approx([float(row["iteration_s"]) for row in table(root)])
    assert read["valid"].to_pylist() == [True] * 8
    assert set(read["jobs.p.start_s"].to_pylist()) == {0.0, 0.001}
    assert state.failed == 0


def test_without_pyarrow_there_is_no_parquet_table(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    state, root, written_to = carried_out(tmp_path, "seed=0")
    assert written_to.parquet is None
    assert not (root / "cells.parquet").exists()
    assert len(table(root)) == state.total


def test_values_of_several_kinds_are_a_column_of_texts(tmp_path):
    pytest.importorskip("pyarrow")
    state, root, _ = carried_out(tmp_path, "fluid.classes=3,null")
    found = cell_table(state.record, state.found)
    assert found.columns["fluid.classes"] == [3, 3, None, None]
    assert write_cells_parquet(root / "t.parquet", found)
    write_cells_csv(root / "t.csv", found)
    assert (root / "t.csv").read_bytes() == (root / "cells.csv").read_bytes()


def test_a_sweep_is_gathered_by_what_was_swept(tmp_path):
    _, root, _ = carried_out(tmp_path, "jobs.0.iterations=1,2")
    found = gather([root])
    assert {each.settings for each in found.observations} == {
        (("jobs.p.iterations", "1"),), (("jobs.p.iterations", "2"),),
    }  # fmt: skip
    assert found.missing == 0


def test_every_column_of_the_table_is_documented(tmp_path):
    _, root, _ = carried_out(tmp_path, "network.rate=50 Mbit/s", "jobs.p.iterations=1")
    swept = {"network.rate", "network.rate_bps", "jobs.p.iterations"}
    columns = list(table(root)[0])
    assert [name for name in columns if name not in swept] == documented_columns("cells.csv")
    assert columns.index("network.rate") == columns.index("reason") + 1
