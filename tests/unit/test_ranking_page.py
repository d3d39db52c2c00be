"""docs/on-packets.md: made of runs that are kept, and of nothing else."""

from __future__ import annotations

import re

import pytest

from echelon.benchmarks.ranking import LOG, RUNS_FILE, SteadyRun
from echelon.documents import ranking_page
from echelon.places import DOCS
from echelonflow.errors import InputError

COFLOW = ranking_page.RIVAL


def runs(experiment, repeats=3, slower=1.0):
    took = {"fair": (2.0, 1.98), COFLOW: (2.2, 2.1), "clock": (1.6, 1.61)}
    return [
        SteadyRun(experiment, policy, repeat, on_packets * slower + 0.001 * repeat, fluid * slower, valid=True)
        for policy, (on_packets, fluid) in took.items()
        for repeat in range(repeats)
    ]


def plain(page):
    """Without the spaces that line up a table's columns."""
    return re.sub(" +", " ", page)


def write(folder, found):
    folder.mkdir(exist_ok=True)
    (folder / RUNS_FILE).write_bytes(LOG.header + b"".join(map(LOG.line, found)))
    return folder


def test_the_committed_page_is_made_of_the_runs_that_are_kept():
    kept = DOCS / ranking_page.NAME / RUNS_FILE
    if not kept.exists():
        assert not (DOCS / f"{ranking_page.NAME}.md").exists(), "there are no runs that it could be made of"
        return
    page = (DOCS / f"{ranking_page.NAME}.md").read_text(encoding="utf-8")
    assert ranking_page.page(list(LOG.read(kept))) == page, "make it again: python -m echelon.documents.ranking_page"


def test_the_page_says_what_was_measured():
    page = plain(ranking_page.page([*runs("drawn-1"), *runs("drawn-2", slower=1.5)]))
    assert "2 of 10 experiments are measured, in 18 runs. 18 of them are valid, 3 of" in page
    assert "| `drawn-1` | **1.601** (1.610) | 2.001 (1.980) | 2.201 (2.100) |" in page
    assert "6 of 6 pairs" in page


def test_a_policy_without_a_valid_run_is_shown_and_does_not_count():
    lost = [SteadyRun("drawn-1", "fifo", 0, 1.0, 1.9, valid=False)]
    page = plain(ranking_page.page([*runs("drawn-1"), *runs("drawn-2"), *lost]))
    assert "Of 1 pairs of experiment and policy no run is valid" in " ".join(page.split())
    assert "| 1.000\\* (1.900) |" in page
    assert "**1.601**" in page
    assert "`fifo` " not in page.partition("## Each experiment")[0].partition("over fair")[2]


def test_an_experiment_that_is_measured_anew_replaces_what_was_kept_of_it(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    ranking_page.main(docs, write(tmp_path / "one", [*runs("drawn-2"), *runs("drawn-1")]))
    ranking_page.main(docs, write(tmp_path / "other", runs("drawn-2", repeats=1)))
    kept = list(LOG.read(docs / ranking_page.NAME / RUNS_FILE))
    assert [(run.experiment, run.repeat) for run in kept if run.policy == "fair"] == [
        ("drawn-1", 0), ("drawn-1", 1), ("drawn-1", 2), ("drawn-2", 0),
    ]  # fmt: skip
    assert (docs / "on-packets.png").stat().st_size > 1000
    before = (docs / "on-packets.md").read_text(encoding="utf-8")
    ranking_page.main(docs)
    assert (docs / "on-packets.md").read_text(encoding="utf-8") == before


def test_what_says_nothing_is_not_kept(tmp_path):
    with pytest.raises(InputError, match="two experiments at least"):
        ranking_page.main(tmp_path, write(tmp_path / "one", runs("drawn-1")))
    assert not (tmp_path / ranking_page.NAME).exists()
