"""Describes every format of jobs that is imported: `python -m echelon.documents.format_pages`.

Writes the made part of docs/formats.md: of each format what its module says of itself, its options, and a small file.
"""

from __future__ import annotations

from pathlib import Path

from echelon.documents.made_pages import with_made
from echelon.documents.modules import described, filled, listed_options
from echelon.experiment.import_jobs import options_of
from echelon.places import DOCS
from traffic.workloads import formats

BEGIN, END = "<!-- made by python -m echelon.documents.format_pages -->", "<!-- end of what is made -->"


def section(name: str) -> str:
    """What there is to say of a format."""
    module = formats.load(name)
    given = ", ".join(listed_options(options_of(name)).values())
    shown = [f"A small one, `{file}`:\n\n```text\n{text.rstrip()}\n```" for file, text in _files(name).items()]
    options = [filled(f"**Options.** {given}.")] if given else []
    return "\n\n".join([f"### {name}", described(module), *options, *shown])


def _files(name: str) -> dict[str, str]:
    return dict(getattr(formats.load(name), "EXAMPLE_FILES", {}))


def with_all_made(page: str) -> str:
    """`page` with its made part as the code has it now."""
    return with_made(page, BEGIN, END, "\n\n".join(section(name) for name in formats.names()))


def main(docs: Path = DOCS) -> None:
    """Put the made part in its place."""
    page = docs / "formats.md"
    page.write_text(with_all_made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
