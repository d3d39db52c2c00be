"""Describes every folding: `python -m echelon.documents.folding_pages` writes the made part of docs/few-queues.md."""

from __future__ import annotations

import inspect
from pathlib import Path

from echelon.documents.made_pages import with_made
from echelon.documents.modules import described, listed_options
from echelon.places import DOCS
from echelonflow import plugins
from echelonflow.options import options_of
from echelonflow.scheduling import folding, foldings

BEGIN, END = "<!-- made by python -m echelon.documents.folding_pages -->", "<!-- end of what is made -->"


def section(name: str) -> str:
    """What there is to say of a folding."""
    module = plugins.load(foldings, name, "folding")
    parts = [f"### {name}", described(module), inspect.getdoc(module.fold) or ""]
    given = listed_options(options_of(module.fold, given=folding.GIVEN))
    return "\n\n".join([*parts, *([f"**Options.** {', '.join(given.values())}."] if given else [])])


def with_all_made(page: str) -> str:
    """`page` with its made part as the code has it now."""
    names = sorted(folding.names(), key=lambda name: (name != folding.DEFAULT, name))
    return with_made(page, BEGIN, END, "\n\n".join(map(section, names)))


def main(docs: Path = DOCS) -> None:
    """Put the made part in its place."""
    page = docs / "few-queues.md"
    page.write_text(with_all_made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
