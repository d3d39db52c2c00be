"""The package `echelon` as notebooks and scripts use it: experiments, results, tables."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import echelon
from echelon.notebook.table import read_table
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
    assert list(results.jobs["policy"]) == ["fair", "echelonflow"]
    assert results.valid
    assert results.reasons == ()
    assert results.jobs["iteration_s"] == pytest.approx(results.runs["iteration_s"])
    assert np.isnan(results.jobs["iteration_low_s"]).all(), "there is one run of each"
    assert "echelonflow" in str(results)


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
        results.jobs["iteration_ms"]


def test_a_table_is_shown_in_part_and_told_so(results):
    assert "more" not in repr(results.jobs)
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
    assert list(echelon.read(out).jobs["policy"]) == ["clock"]
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
