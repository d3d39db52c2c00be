"""What docs/few-queues.md says of enforcers: made of runs that are kept, and of nothing else."""

from __future__ import annotations

import re

import pytest

from echelon.benchmarks._few_queue_cells import FLUID_LOG, PACKET_LOG, FluidRun, PacketRun
from echelon.benchmarks.few_queues import FLUID_FILE, PACKETS_FILE
from echelon.documents import few_queues_page
from echelon.documents.made_pages import with_made
from echelon.places import DOCS
from echelonflow.errors import InputError

TOP = "priority(classes=1,folding=top)"
EMPTY = "\n\n".join(["# Few queues", *few_queues_page.MARKS, "By hand."])


def fluid(enforcer, slower=1.1):
    return [
        FluidRun(enforcer, "clock", draw, slower * unlimited_s, unlimited_s)
        for draw, unlimited_s in enumerate((2.0, 2.2))
    ]


def packets(enforcer, slower=1.15, valid=True):
    return [PacketRun(enforcer, "clock", 0, slower * 2.0, 1.1 * 2.0, 2.0, valid)]


def write(folder, in_fluid, on_packets=()):
    folder.mkdir(exist_ok=True)
    (folder / FLUID_FILE).write_bytes(FLUID_LOG.header + b"".join(map(FLUID_LOG.line, in_fluid)))
    if on_packets:
        (folder / PACKETS_FILE).write_bytes(PACKET_LOG.header + b"".join(map(PACKET_LOG.line, on_packets)))
    return folder


def plain(page):
    """Without the spaces that line up a table's columns."""
    return re.sub(" +", " ", page)


def test_the_committed_page_is_made_of_the_runs_that_are_kept():
    page, kept = (DOCS / "few-queues.md").read_text(encoding="utf-8"), DOCS / few_queues_page.NAME
    on_packets = list(PACKET_LOG.read(kept / PACKETS_FILE)) if (kept / PACKETS_FILE).exists() else []
    made = few_queues_page.part(list(FLUID_LOG.read(kept / FLUID_FILE)), on_packets)
    assert with_made(page, *few_queues_page.MARKS, made) == page, (
        "make it again: python -m echelon.documents.few_queues_page"
    )


def test_the_part_says_what_was_measured():
    part = plain(
        few_queues_page.part([*fluid(TOP), *fluid("rate", 1.0)], [*packets(TOP), *packets("rate", 1.3, valid=False)])
    )
    assert f"| `{TOP}` | 1.100 [1.100, 1.100] | 1.150 | +4.5% | 1 of 1 |" in part
    assert "| `rate` | 1.000 [1.000, 1.000] | 1.300\\* | +18.2% | 0 of 1 |" in part
    assert "2 runs were made on packets, of which 1 keep to all limits" in part.replace("\n", " ")


def test_what_was_not_run_on_packets_is_shown_without():
    assert f"| `{TOP}` | 1.100 [1.100, 1.100] | - | - | 0 of 0 |" in plain(few_queues_page.part(fluid(TOP), []))
    assert few_queues_page.part(fluid(TOP), []).endswith("Nothing is measured on packets as yet.")


def test_a_cell_that_is_measured_anew_replaces_what_was_kept_of_it(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "few-queues.md").write_text(EMPTY, encoding="utf-8")
    few_queues_page.main(docs, write(tmp_path / "one", [*fluid("rate"), *fluid(TOP)], packets(TOP)))
    few_queues_page.main(docs, write(tmp_path / "other", fluid(TOP, 1.4)))
    kept = list(FLUID_LOG.read(docs / "few-queues" / FLUID_FILE))
    assert [(run.enforcer, run.draw) for run in kept] == [(TOP, 0), (TOP, 1), ("rate", 0), ("rate", 1)]
    page = (docs / "few-queues.md").read_text(encoding="utf-8")
    assert "1.400 [1.400, 1.400] | 1.150 |" in plain(page)
    assert page.endswith("By hand.")
    few_queues_page.main(docs)
    assert (docs / "few-queues.md").read_text(encoding="utf-8") == page


def test_a_folder_without_runs_is_refused(tmp_path):
    (tmp_path / "few-queues.md").write_text(EMPTY, encoding="utf-8")
    with pytest.raises(InputError, match=r"has no fluid\.jsonl"):
        few_queues_page.main(tmp_path, tmp_path / "nothing")
    assert (tmp_path / "few-queues.md").read_text(encoding="utf-8") == EMPTY
