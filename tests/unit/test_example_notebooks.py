"""The notebooks in examples/ run, and show what they show in the repository."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from echelon.documents import notebooks
from echelon.places import EXAMPLES
from echelonflow.errors import InputError

nbformat = pytest.importorskip("nbformat", reason="notebooks take Jupyter (scripts/setup.sh --dev)")
pytest.importorskip("nbclient", reason="notebooks take Jupyter (scripts/setup.sh --dev)")
pytest.importorskip("ipykernel", reason="notebooks take Jupyter (scripts/setup.sh --dev)")
pytest.importorskip("pandas", reason="the notebooks show data frames")

NOTEBOOKS = sorted(EXAMPLES.glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_shows_what_it_showed(path):
    kept = nbformat.read(path, as_version=4)
    nbformat.validate(kept)
    assert all(cell.execution_count for cell in kept.cells if cell.cell_type == "code"), "it was never executed"
    again = notebooks.executed(path)
    assert notebooks.shown(kept) == notebooks.shown(again), "make it again: python -m echelon.documents.notebooks"


def test_it_is_executed_where_a_loop_runs_already(tmp_path):
    path = tmp_path / "x.ipynb"
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("6 * 7")])))

    async def beside():
        return notebooks.executed(path)

    with ThreadPoolExecutor(max_workers=1) as aside:  # tests in a browser leave a loop running in this thread
        found = aside.submit(asyncio.run, beside()).result()
    assert notebooks.shown(found) == [["42"]]


def test_a_cell_that_fails_is_told(tmp_path):
    made = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1 / 0")])
    path = tmp_path / "x.ipynb"
    path.write_text(nbformat.writes(made))
    with pytest.raises(InputError, match="a cell fails: ZeroDivisionError: division by zero"):
        notebooks.executed(path)
