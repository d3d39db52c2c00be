"""docs/few-queues.md has every folding, as its module describes it."""

from __future__ import annotations

from echelon.documents import folding_pages
from echelon.places import DOCS
from echelonflow.scheduling import folding


def test_the_page_is_what_the_code_says():
    page = (DOCS / "few-queues.md").read_text(encoding="utf-8")
    assert folding_pages.with_all_made(page) == page, "make it again: python -m echelon.documents.folding_pages"
    assert [name for name in folding.names() if f"### {name}" not in page] == []
