"""docs/paradigms.md is what was measured: of the figures and tables that are kept, and of nothing else."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from echelon.documents import paradigms_page
from echelon.places import DOCS, ROOT
from echelonflow.errors import InputError
from results.report.side_by_side import read_cells, write_cells

KEPT = DOCS / paradigms_page.KEPT
PAGE = (DOCS / "paradigms.md").read_text(encoding="utf-8")


def test_the_page_is_what_was_measured():
    assert paradigms_page.page(KEPT) == PAGE, "make it again: python -m echelon.documents.paradigms_page"


def figure(figures, words):
    (found,) = [figure for figure in figures if words in figure["what"]]
    return found["measured"]


def test_the_readme_tells_the_same():
    figures = json.loads((KEPT / "figures.json").read_text(encoding="utf-8"))["paradigms"]
    told = re.search(
        r"is (\S+%) off simulation in the median and (\S+%) at worst,\s+where a job is alone. "
        r"Beside a rival it is (\S+%) and (\S+%)\.",
        (ROOT / "README.md").read_text(encoding="utf-8"),
    )
    assert told is not None
    measured = [
        figure(figures, f"{setting}: {words}").split()[0].lstrip("+-")
        for setting in ("alone", "beside a rival")
        for words in ("exposed communication off fluid", "the same, worst")
    ]
    assert list(told.groups()) == measured, "write the figures of docs/paradigms.md into README.md, Limits"


@pytest.mark.parametrize("name", ["paradigms.csv", "paradigms-shared.csv"])
def test_a_table_that_is_written_is_read_as_it_was(tmp_path, name):
    cells = read_cells(KEPT / name)
    write_cells(tmp_path / name, cells)
    assert len(cells) >= 44
    assert read_cells(tmp_path / name) == cells


def copied(tmp_path):
    shutil.copytree(KEPT, tmp_path / "measured")
    return tmp_path / "measured"


def test_what_is_measured_anew_is_kept_and_makes_the_page(tmp_path):
    measured = copied(tmp_path)
    figures = json.loads((measured / "figures.json").read_text())
    figures["paradigms"][0]["measured"] = "1.4%"
    (measured / "figures.json").write_text(json.dumps(figures))
    paradigms_page.main(tmp_path / "docs", measured)
    assert "1.4%" in (tmp_path / "docs" / "paradigms.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in (tmp_path / "docs").iterdir()) == [
        "paradigms", "paradigms-shared.png", "paradigms.md", "paradigms.png",
    ]  # fmt: skip


def test_what_is_lacking_or_is_no_table_is_refused_and_nothing_is_kept(tmp_path):
    measured = copied(tmp_path)
    (measured / "paradigms.csv").write_text("experiment,job\ngpipe,gpt2\n")
    with pytest.raises(InputError, match=r"paradigms\.csv: is no table of experiments and policies"):
        paradigms_page.main(tmp_path / "docs", measured)
    (measured / "sensitivity.json").unlink()
    with pytest.raises(InputError, match=r"measured: lacks sensitivity\.json; measure it by"):
        paradigms_page.main(tmp_path / "docs", measured)
    assert not (tmp_path / "docs").exists()


def test_figures_of_another_benchmark_are_refused(tmp_path):
    measured = copied(tmp_path)
    shutil.copyfile(measured / "sensitivity.json", measured / "figures.json")
    with pytest.raises(InputError, match=r"figures\.json: has no figures of `echelon bench paradigms`"):
        paradigms_page.page(measured)
