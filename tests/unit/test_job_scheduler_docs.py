"""docs/job-schedulers.md: made of what is kept, and of nothing else."""

from __future__ import annotations

import json

import msgspec
import pytest

from echelon.benchmarks import _job_scheduler_emulated as on_packets
from echelon.benchmarks import _job_scheduler_matrix as matrix
from echelon.benchmarks import job_schedulers
from echelon.benchmarks._job_scheduler_cells import CELLS, all_keys
from echelon.benchmarks._job_scheduler_figures import figures
from echelon.documents import job_schedulers_page
from echelon.places import DOCS
from echelonflow.errors import InputError
from tests.unit.made_up_cells import made_up

KEPT = DOCS / job_schedulers_page.KEPT


def test_page_is_made_of_what_is_kept():
    page = (DOCS / "job-schedulers.md").read_text(encoding="utf-8")
    assert job_schedulers_page.page(KEPT) == page, "make it again: python -m echelon.documents.job_schedulers_page"


def measured(tmp_path, turns=0):
    folder = tmp_path / "measured"
    folder.mkdir()
    cells = [made_up(key) for key in all_keys()]
    job_schedulers.append(CELLS, folder / "cells.jsonl", cells)
    found = [
        matrix.Combination("shared-two", scheduler, policy, {"a": iteration_s, "b": 2 * iteration_s})
        for (scheduler, policy), iteration_s in {
            ("fifo", "fair"): 1.0,
            ("fifo", "echelonflow"): 0.9,
            ("dear", "fair"): 0.8,
            ("dear", "echelonflow"): 0.7,
        }.items()
    ]
    (folder / "matrix.jsonl").write_bytes(matrix.LOG.header + b"".join(map(matrix.LOG.line, found)))
    if turns:
        made = [
            on_packets.Turn("vgg", turn, which, which, iteration_s + 0.01 * turn, iteration_s, 1.0, 1.0, 1.9)
            for turn in range(turns)
            for which, iteration_s in (("fifo", 2.5), ("own", 2.0))
        ]
        (folder / "emulated.jsonl").write_bytes(on_packets.LOG.header + b"".join(map(on_packets.LOG.line, made)))
    told = {"job-schedulers": [msgspec.to_builtins(figure) for figure in figures(cells)]}
    (folder / "figures.json").write_text(json.dumps(told))
    return folder


def test_sentences_of_the_finding_follow_the_numbers(tmp_path):
    page = job_schedulers_page.page(measured(tmp_path))
    assert "The best case is 1.30 times as fast as `fifo`" in page
    assert "is slower than `fifo` in 0 of" in page
    assert "`dear` under `echelonflow` with 1.43: both together bring more than either." in page.replace("\n", " ")
    assert "| ByteScheduler: up to +196 % " in page
    assert "in shape" in page
    assert "## On packets" not in page


def test_what_was_run_on_packets_is_shown(tmp_path):
    page = job_schedulers_page.page(measured(tmp_path, turns=3))
    assert "## On packets" in page
    (row,) = (line for line in page.splitlines() if line.startswith("| `vgg`"))
    assert "1.249" in row
    assert "1.250" in row  # in fluid


def test_page_and_picture_are_written_and_inputs_kept(tmp_path):
    job_schedulers_page.main(tmp_path / "docs", measured(tmp_path))
    assert sorted(path.name for path in (tmp_path / "docs").iterdir()) == [
        "job-schedulers", "job-schedulers.md", "job-schedulers.png",
    ]  # fmt: skip
    first = (tmp_path / "docs" / "job-schedulers.md").read_text(encoding="utf-8")
    job_schedulers_page.main(tmp_path / "docs")
    assert (tmp_path / "docs" / "job-schedulers.md").read_text(encoding="utf-8") == first


@pytest.mark.parametrize("name", ["cells.jsonl", "matrix.jsonl", "figures.json"])
def test_what_is_lacking_is_refused_and_nothing_is_kept(tmp_path, name):
    folder = measured(tmp_path)
    (folder / name).unlink()
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        job_schedulers_page.main(tmp_path / "docs", folder)
    assert not (tmp_path / "docs").exists()
