"""docs/job-schedulers.md: made of what is kept, and of nothing else."""

from __future__ import annotations

import json

import msgspec
import pytest

from echelon.benchmarks import _job_scheduler_emulated as on_packets
from echelon.benchmarks import _job_scheduler_matrix as matrix
from echelon.benchmarks import job_schedulers
from echelon.benchmarks._job_scheduler_cells import CELLS, all_keys
from echelon.documents import job_schedulers_page
from echelon.places import DOCS
from echelon.tuning import showing, verifying
from echelon.tuning.history import History, write_asked
from echelon.tuning.tuning import Tuner
from echelonflow.errors import InputError
from tests.unit.made_up_cells import made_up
from tests.unit.test_tuning import Simulated, asked

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
    return folder


def tuned(folder):
    """A tuning of the mildest kind, simulated and called emulated; and figures of tuners."""
    folder.mkdir()
    known = msgspec.structs.replace(
        asked(), backend="emulation", samples=3, targets=(("a",),), experiment_folder="/x/y"
    )
    write_asked(folder, known)
    made = Tuner(known, History(folder), Simulated(fails=(5,)), lambda *_: None)
    found = made.tune()
    verifying.verify(made, found, 2)
    showing.draw(folder, known, found)
    figure = {"what": "gp: regret", "measured": "0.5%", "must": "below random", "ok": True}
    (folder / "figures.json").write_text(json.dumps({"tuner": [figure]}))
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


def test_what_was_run_again_takes_the_place_of_what_was_kept_of_it(tmp_path):
    job_schedulers_page.main(tmp_path / "docs", measured(tmp_path, turns=3))
    again = tmp_path / "again"
    again.mkdir()
    made = [on_packets.Turn(name, 0, "own", "own", 2.0, 2.0, 1.0, 1.0, 1.9) for name in ("vgg", "bert")]
    (again / "emulated.jsonl").write_bytes(on_packets.LOG.header + b"".join(map(on_packets.LOG.line, made)))
    job_schedulers_page.main(tmp_path / "docs", again)
    kept = list(on_packets.LOG.read(tmp_path / "docs" / "job-schedulers" / "emulated.jsonl"))
    assert [(turn.experiment, turn.turn, turn.which) for turn in kept] == [("bert", 0, "own"), ("vgg", 0, "own")]


def test_a_tuning_on_packets_is_shown_and_kept_without_places_of_the_machine(tmp_path):
    job_schedulers_page.main(tmp_path / "docs", measured(tmp_path))
    job_schedulers_page.main(tmp_path / "docs", tuned(tmp_path / "tuned"))
    page = (tmp_path / "docs" / "job-schedulers.md").read_text(encoding="utf-8")
    assert "One tuning on the emulated network alone: 2 of 3 samples count." in page
    assert "in the file, for a:  scheduler: bytescheduler(" in page
    assert "gp: regret" in page
    assert (tmp_path / "docs" / "job-schedulers" / "tuning" / "history.png").stat().st_size > 1000
    kept = "".join(path.read_text() for path in (tmp_path / "docs" / "job-schedulers" / "tuning").glob("*.json*"))
    assert "/x/y" not in kept
    assert "every run was invalid" in kept
    assert "/some/where" not in kept


def test_a_tuning_that_is_not_over_is_refused(tmp_path):
    job_schedulers_page.main(tmp_path / "docs", measured(tmp_path))
    folder = tuned(tmp_path / "tuned")
    lines = (folder / "history.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "history.jsonl").write_bytes(b"".join(lines[:4]))
    with pytest.raises(InputError, match="the tuning there is not over"):
        job_schedulers_page.main(tmp_path / "docs", folder)
    assert not (tmp_path / "docs" / "job-schedulers" / "tuning").exists()


@pytest.mark.parametrize("name", ["cells.jsonl", "matrix.jsonl"])
def test_what_is_lacking_is_refused_and_nothing_is_kept(tmp_path, name):
    folder = measured(tmp_path)
    (folder / name).unlink()
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        job_schedulers_page.main(tmp_path / "docs", folder)
    assert not (tmp_path / "docs").exists()
