"""Writes what was measured into docs/live.md: python -m echelon.documents.live_page DIR..., folders of `echelon live --check`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from tabulate import tabulate

from echelon.documents.made_pages import with_made
from echelon.places import DOCS
from echelon.running import triple
from echelon.running.living import LIVE
from echelonflow.files import write_whole
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest
from results.analysis.training import trained, training_lines

PAGE = DOCS / "live.md"
MARKS = ("<!-- made by python -m echelon.documents.live_page -->", "<!-- end of what is made -->")


def measured(roots: Sequence[Path]) -> str:
    """What the folders hold, as text in Markdown: a table of all, and how their losses compare."""
    table, words = [], []
    for root in roots:
        manifest = read_manifest(RunFolder(root / LIVE).manifest)
        table += [(manifest.name, *row) for row in triple.rows(root)]
        words.append(f"- `{manifest.name}`, runs of each policy: {manifest.repeats}.")
        words += [f"- `{manifest.name}`: {line}." for line in training_lines(trained(RunFolder(root / LIVE)))]
    head = ("experiment", *triple.HEAD)
    lines = [
        "Exposed communication in ms, of the experiments in `experiments/live/`: medians over valid runs. Where nothing stands, no run was valid.",
        tabulate(table, head, tablefmt="pipe"),
        "\n".join(words),
    ]
    return "\n\n".join(lines)


def main(argv: list[str]) -> int:
    """Write the page."""
    text = PAGE.read_text(encoding="utf-8")
    made = measured([Path(each) for each in argv])
    write_whole(PAGE, with_made(text, *MARKS, made).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
