"""The package `echelon` as notebooks and scripts use it: experiments, results, tables."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

import numpy as np
import pytest

import echelon
from echelon.notebook.table import read_table
from echelon.places import DOCS
from echelon.running import runner
from echelon.sweeps import pool
from echelonflow.errors import InputError

DESCRIPTION = {
    "name": "small",
    "network": {"topology": "single-switch", "hosts": 2, "rate": "100 Mbit/s"},
    "jobs": [
        {"name": "one", "paradigm": "pipeline", "stages": 2, "micro_batches": 2, "forward": "1 s", "activation": "1 s of link",
         "iterations": 3},
    ],
    "policies": ["fair", "echelonflow"],
}  # fmt: skip


@pytest.fixture(scope="module")
def results():
    return echelon.simulate(echelon.build(DESCRIPTION))


def test_a_row_for_each_policy_and_job(results):
    assert list(results.medians["policy"]) == ["fair", "echelonflow"]
    assert results.valid
    assert results.reasons == ()
    assert results.medians["iteration_s"] == pytest.approx(results.jobs["iteration_s"], abs=1e-6)
    assert results.medians["completion_s"] == pytest.approx(results.jobs["completion_s"], abs=1e-6)
    assert np.isnan(results.medians["iteration_low_s"]).all(), "there is one run of each"
    assert "echelonflow" in str(results)


@pytest.mark.parametrize("name", ["runs", "jobs", "iterations", "groups", "flows", "blame", "links", "arrivals"])
def test_every_table_of_the_folder_is_there_with_its_meanings(results, name):
    table = getattr(results, name)
    assert table.names == (results.folder / f"{name}.csv").read_text().splitlines()[0].split(",")
    assert len(table) > 0
    assert set(table.names) == set(table.meanings)
    assert set(table["policy"]) == {"fair", "echelonflow"}


def test_a_folder_that_an_older_revision_analysed_says_what_makes_its_tables(tmp_path):
    results = echelon.simulate(echelon.build(DESCRIPTION), tmp_path / "kept")
    (tmp_path / "kept" / "links.csv").unlink()
    with pytest.raises(
        InputError, match=r"links\.csv: there is no such table; `echelon report .*kept` makes all of them"
    ):
        results.links  # noqa: B018


def test_tables_are_those_of_the_folder(results):
    assert len(results.iterations) == 6
    assert results.iterations["iteration"].dtype.kind == "i"
    assert set(results.iterations.meanings) >= {"duration_s", "exposed_s"}
    first = results.iterations[0]
    assert (first["policy"], first["job"], first["iteration"]) == ("fair", "one", 0)
    assert first["finish_s"] - first["start_s"] == pytest.approx(first["duration_s"], abs=2e-6)
    assert len(results.flows) == 2 * 3 * 2
    assert len(results.groups) > 0


def test_rows_are_picked_by_what_is_true_of_them(results):
    fair = results.runs.where(results.runs["policy"] == "fair")
    assert [row["policy"] for row in fair] == ["fair"]
    assert len(results.iterations[:4]) == 4
    with pytest.raises(InputError, match="there is no column 'iteration_ms'; did you mean 'iteration_s'"):
        results.medians["iteration_ms"]


def test_a_table_is_shown_in_part_and_told_so(results):
    assert "more" not in repr(results.medians)
    long = echelon.Table({"x": np.arange(50), "y": np.full(50, np.nan)})
    assert "30 rows more" in repr(long)
    assert "<td>19</td>" in long._repr_html_()
    assert "<td>20</td>" not in long._repr_html_()


def test_a_picture_is_drawn_when_it_is_asked_for(results):
    assert not (results.folder / "figures").exists()
    assert results.picture("gantt")._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="there is no picture 'gant'; did you mean 'gantt'"):
        results.picture("gant")


def test_an_experiment_with_other_values(tmp_path):
    experiment = echelon.build(DESCRIPTION)
    other = echelon.with_changes(experiment, network={"rate": "50 Mbit/s"}, policies=["clock"])
    assert other.policies == ("clock",)
    assert {cable.rate_bps for cable in other.network.cables} == {50e6}
    assert len(other.network.hosts) == 2, "what is not named stays"
    out = tmp_path / "kept"
    assert echelon.simulate(other, out).folder == out
    assert list(echelon.read(out).medians["policy"]) == ["clock"]
    assert (out / "report.html").exists()
    with pytest.raises(InputError, match="exists and is not empty"):
        echelon.simulate(other, out)


def test_mistakes_are_told_as_on_the_command_line(tmp_path):
    with pytest.raises(InputError, match=r"network\.rate"):
        echelon.build({**DESCRIPTION, "network": {"topology": "single-switch", "hosts": 2, "rate": "fast"}})
    with pytest.raises(InputError, match=r"summary\.json"):
        echelon.read(tmp_path)
    with pytest.raises(AttributeError, match="no attribute 'simulat'"):
        echelon.simulat  # noqa: B018


# Emulation


def test_emulating_hands_on_what_is_asked_for_and_reads_what_came(tmp_path, monkeypatch):
    """The runner is one that simulates: what it is asked for is what `echelon run` would ask."""
    asked = []
    whole = runner.run

    def run(experiment, root, backend, report, *, again, patience_s):
        asked.append((experiment.name, root, backend, again, patience_s))
        return whole(experiment, root, "fluid", report, pictures="none")

    monkeypatch.setattr(runner, "run", run)
    monkeypatch.chdir(tmp_path)
    experiment = echelon.build({**DESCRIPTION, "repeats": 2})
    found = echelon.emulate(experiment, tmp_path / "kept", attempts=5, patience_s=7.0)
    by_default = echelon.emulate(experiment)
    assert asked[0] == ("small", tmp_path / "kept", "emulation", 3, 7.0), "three more than its repeats"
    assert asked[1][2:] == ("emulation", 1, 0.0), "half as many again"
    assert asked[1][1].parent.as_posix() == "results/runs"
    assert list(found.medians["policy"]) == list(by_default.medians["policy"]) == ["fair", "echelonflow"]
    assert by_default.folder == asked[1][1]


# Sweeps and comparisons

RATES = ["50 Mbit/s", "100 Mbit/s"]


@pytest.fixture(scope="module")
def swept():
    return echelon.sweep(echelon.build(DESCRIPTION), {"network.rate": RATES, "seed": "0..1"}, workers=1)


def test_a_sweep_has_a_row_for_each_cell_and_job(swept):
    assert swept.valid
    assert swept.reasons == {}
    assert len(swept.cells) == 2 * 2 * 2
    assert list(dict.fromkeys(swept.cells["network.rate"])) == RATES
    assert set(swept.cells["seed"]) == {0, 1}
    assert swept.cells["slowdown"].dtype.kind == "f"
    assert np.isnan(swept.cells["decisions"]).all(), "there is no controller"
    assert set(swept.cells.names) - set(swept.cells.meanings) == {"network.rate", "network.rate_bps"}
    assert "all conditions together" in str(swept)


def test_a_sweep_is_kept_gone_on_with_and_read(tmp_path, monkeypatch):
    experiment = echelon.build({**DESCRIPTION, "sweep": {"over": {"policies": ["fair"]}}})
    out = tmp_path / "kept"
    first = echelon.sweep(experiment, {"network.rate": RATES}, out, workers=1)
    assert set(first.cells["policy"]) == {"fair"}, "of its own `sweep`"
    monkeypatch.setattr(pool.Pool, "run", lambda _, wanted: pytest.fail("they are there") if wanted else iter(()))
    again = echelon.sweep(experiment, {"network.rate": tuple(RATES)}, out, workers=1)
    read = echelon.read(out)
    assert isinstance(read, echelon.SweepResults)
    for found in (again, read):
        assert found.cells["iteration_s"].tolist() == first.cells["iteration_s"].tolist()
    shutil.rmtree(next((out / "cells").iterdir()))
    part = echelon.read(out)
    assert (part.valid, part.reasons, len(part.cells)) == (False, {"not made yet": 1}, 1)


def test_points_are_listed_one_by_one():
    points = [{"network.rate": "50 Mbit/s"}, {"jobs.one.iterations": 2}]
    found = echelon.sweep(echelon.build(DESCRIPTION), {"policies": ["fair"]}, points=points, workers=1)
    assert found.cells["iterations"].tolist() == [3, 2]


def test_a_sweep_has_pictures_and_a_report(swept):
    assert swept.picture("curves")._repr_png_().startswith(b"\x89PNG")
    with pytest.raises(InputError, match="there is no picture 'maps'"):
        swept.picture()  # one value was swept
    assert swept.report.read_text().startswith("<!doctype html>")


@pytest.mark.parametrize(
    ("over", "words"),
    [
        ({"network.rat": ["1 Mbit/s"]}, "network.rat: unknown key; did you mean 'rate'?"),
        ({"seed": ["x"]}, "over.seed: seeds are whole numbers"),
        ({"network.rate": "fast"}, "over.network.rate: 'fast' is not a list of values"),
        ({"repeats": [2]}, "over.repeats: cannot be swept"),
    ],
)
def test_what_cannot_be_swept_is_told(over, words):
    with pytest.raises(InputError, match=re.escape(words)):
        echelon.sweep(echelon.build(DESCRIPTION), over)


def test_ctrl_c_ends_a_sweep_and_keeps_what_has_ended(tmp_path, monkeypatch):
    whole = pool.Pool.run

    def run(self, wanted):
        yield next(each for each in whole(self, wanted) if each)
        raise KeyboardInterrupt

    monkeypatch.setattr(pool.Pool, "run", run)
    with pytest.raises(KeyboardInterrupt):
        echelon.sweep(echelon.build(DESCRIPTION), {"seed": "0..3"}, tmp_path / "kept", workers=1)
    assert len(echelon.read(tmp_path / "kept").cells) >= 1


def test_results_and_folders_are_compared(results, swept, tmp_path):
    slow = echelon.simulate(
        echelon.with_changes(echelon.build(DESCRIPTION), network={"rate": "25 Mbit/s"}), tmp_path / "slow"
    )
    found = echelon.compare(swept, tmp_path / "slow", measure="completion_s")
    assert sorted(set(found.rows["network.rate"])) == ["100 Mbit/s", "25 Mbit/s", "50 Mbit/s"]
    ratio = next(row for row in found.rows if (row["network.rate"], row["policy"]) == ("25 Mbit/s", "echelonflow"))
    fair_s, ours_s = slow.jobs["completion_s"]
    assert ratio["ratio_mean"] == pytest.approx(ours_s / fair_s, rel=1e-5)
    assert found.rows.meanings["slowdown_worst"] == "The largest slowdown of a job."
    assert found.reasons == {}
    assert "over that of fair, pair by pair" in str(found)
    assert "A comparison of 2 folders" in found.report(tmp_path / "page.html").read_text()
    with pytest.raises(InputError, match="did you mean 'slowdown'"):
        echelon.compare(results, measure="slowdow")


def test_every_example_of_the_page_runs(monkeypatch):
    """From top to bottom, as a reader would, in the root of the repository."""
    monkeypatch.chdir(DOCS.parent)
    page = (DOCS / "python.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    names = {}
    for example in examples:
        exec(compile(example, "docs/python.md", "exec"), names)
    assert len(examples) == 5
    assert set(names["times"]) == {(rate, policy) for rate in RATES for policy in ("fair", "echelonflow")}
    assert names["worst"]["slowdown"] >= 1
    assert len(names["compared"].rows) == 5, "of the two policies at one rate, and of those of the file at the other"


def test_a_damaged_table_is_refused(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("a,b\n1,2\n3\n")
    with pytest.raises(InputError, match="not every row has 2 values"):
        read_table(path)
    path.write_text("a,b,c\n1,,true\n2,0.5,false\n")
    table = read_table(path)
    assert table["a"].tolist() == [1, 2]
    assert np.isnan(table["b"][0])
    assert table["c"].tolist() == [True, False]


def test_the_package_loads_nothing_until_it_is_used():
    code = "import sys, echelon; print([name for name in ('numpy', 'pydantic', 'echelon.notebook') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
