"""docs/workloads.md describes every paradigm there is, and what is made of it is what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from echelon.documents import made_pages, workload_pictures
from echelonflow.model.dag import JobDag
from results.analysis.shown import ShownRun
from traffic.workloads import paradigms
from traffic.workloads.dag_builder import DagBuilder

PAGE = (workload_pictures.DOCS / "workloads.md").read_text(encoding="utf-8")


def section(name):
    match = re.search(rf"^### {re.escape(name)}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None, f"docs/workloads.md has no section {name!r}"
    return match[1]


@pytest.mark.parametrize("name", paradigms.names())
def test_every_paradigm_has_a_section_with_its_picture(name):
    text = section(name)
    for word in ("**Dependencies.**", "**Arrangement.**", "**Options.**", "| EchelonFlows "):
        assert word in text, f"section {name!r} does not say: {word} (its module's docstring)"
    picture = f"workloads/{name}.svg"
    assert f"]({picture})" in text
    drawn = ET.fromstring((workload_pictures.DOCS / picture).read_text(encoding="utf-8"))
    took_s = workload_pictures.iteration_time_s(name, workload_pictures.DRAWN)
    title = f"{workload_pictures.DRAWN}: iteration takes {took_s:.3f} s"
    assert any(title in (words or "") for words in drawn.itertext()), (
        "draw again: -m echelon.documents.workload_pictures"
    )


def test_no_section_or_picture_is_left_of_a_paradigm_that_is_gone():
    names = set(paradigms.names())
    assert set(re.findall(r"^### ([a-z0-9-]+)$", PAGE, re.MULTILINE)) == names
    assert {path.stem for path in (workload_pictures.DOCS / "workloads").iterdir()} == names
    side_by_side = PAGE.partition("## Side by side")[2].partition("\n## ")[0]
    assert set(re.findall(r"\(#([a-z0-9-]+)\)", side_by_side)) == names


def test_what_is_made_is_what_the_code_does():
    made = workload_pictures.with_all_made(PAGE)
    assert made == PAGE, "make it again: python -m echelon.documents.workload_pictures"


def test_pictures_of_one_paradigm_are_the_same_each_time(tmp_path):
    for folder in ("first", "second"):
        workload_pictures.draw("gpipe", tmp_path / folder)
    first, second = (tmp_path / folder / "gpipe.svg" for folder in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    assert not list(Path(tmp_path).rglob("*.png"))


@pytest.mark.parametrize("name", paradigms.names())
def test_all_that_an_iteration_sends_is_in_its_picture(name):
    """The window that is drawn holds every flow of the iteration but those that were sent ahead of it."""
    job, record = workload_pictures.observe(name)
    part = ShownRun.of(name, record, [job]).window
    flows = [flow for flow in record.flows if flow.iteration == part.iteration]
    assert len(flows) == len(job.dag.transfers)
    assert all(flow.finish_s <= part.finish_s + 1e-9 for flow in flows) or getattr(
        paradigms.load(name), "SENDS_AHEAD", False
    )
    seen = [flow for flow in flows if flow.finish_s > part.start_s]
    assert len(seen) >= (2 / 3 if getattr(paradigms.load(name), "SENDS_AHEAD", False) else 1) * len(flows)


def test_the_papers_example_is_in_it():
    times = [workload_pictures.iteration_time_s("pipeline", policy) for policy in workload_pictures.SHOWN]
    assert times == pytest.approx([8.5, 10, 8, 8])


def test_offsets_are_shown_as_they_are():
    rows = dict(re.findall(r"\| `(pp-\S+)` .*\| ([0-9., ]+[0-9]) *\|", section("gpipe")))
    assert rows == {"pp-forward": "0, 1, 2, 3", "pp-backward": "0, 2, 4, 6"}


def test_the_example_of_a_new_paradigm_works():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {"DagBuilder": DagBuilder, "JobDag": JobDag}
    exec(code, names)
    dag = names["build"](ranks=4, forward_s=1.0, parameter_bytes=1000)
    assert isinstance(dag, JobDag)
    assert sum(transfer.size_bytes for transfer in dag.transfers) == 2 * 3 * 1000


def test_marks_that_were_edited_away_are_noticed():
    with pytest.raises(ValueError, match="lacks the mark 'begin'"):
        made_pages.with_made("a page end", "begin", "end", "x")
    with pytest.raises(ValueError, match="lacks the mark 'end'"):
        made_pages.with_made("a page begin", "begin", "end", "x")
    assert made_pages.with_made("a begin old end b", "begin", "end", "new") == "a begin\n\nnew\n\nend b"
