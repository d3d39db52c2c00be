"""Writes what was measured into docs/live.md: python -m echelon.documents.live_page DIR..., folders of `echelon live --check`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from tabulate import tabulate

from echelon.documents.made_pages import with_made
from echelon.places import DOCS
from echelon.running import triple
from echelon.running.living import LESSON, LIVE
from echelonflow.files import write_whole
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest

PAGE = DOCS / "live.md"
MARKS = ("<!-- made by python -m echelon.documents.live_page -->", "<!-- end of what is made -->")
_LOSS = re.compile(r"^(step \d+) loss (\S+)", re.MULTILINE)


def measured(roots: Sequence[Path]) -> str:
    """What the folders hold, as text in Markdown: a table of all, and how their losses compare."""
    table, words = [], []
    for root in roots:
        manifest = read_manifest(RunFolder(root / LIVE).manifest)
        table += [(manifest.name, *row) for row in triple.rows(root)]
        words.append(f"- `{manifest.name}`, runs of each policy: {manifest.repeats}. {_losses(root)}")
        words += [f"- `{manifest.name}`: {line}." for line in triple.outcomes(root / LIVE)]
    head = ("experiment", *triple.HEAD)
    lines = [
        "Exposed communication in ms, of the experiments in `experiments/live/`: medians over valid runs. Where nothing stands, no run was valid.",
        tabulate(table, head, tablefmt="pipe"),
        "\n".join(words),
    ]
    return "\n\n".join(lines)


def _losses(root: Path) -> str:
    """How the losses of the runs compare with those of the lesson, in words."""
    lesson = dict(_printed(sorted((root / LESSON / "learned").glob("*/rank*.txt"))))
    runs = RunFolder(root / LIVE).runs()
    off, equal, ended = 0.0, 0, 0
    for run in runs:
        found = dict(_printed(sorted((run.root / "live").glob("*-rank*.txt"))))
        ended += found.keys() == lesson.keys()
        for step, loss in found.items():
            equal += loss == lesson[step]
            off = max(off, abs(float(loss) / float(lesson[step]) - 1))
    return (
        f"{ended} of {len(runs)} runs made all {len(lesson)} steps; {equal} of {len(lesson) * len(runs)} losses are those of the lesson in all "
        f"digits, and the farthest is {off:.1e} off."
    )


def _printed(paths: Sequence[Path]) -> Iterator[tuple[str, str]]:
    for path in paths:
        yield from _LOSS.findall(path.read_text(encoding="utf-8"))


def main(argv: list[str]) -> int:
    """Write the page."""
    text = PAGE.read_text(encoding="utf-8")
    made = measured([Path(each) for each in argv])
    write_whole(PAGE, with_made(text, *MARKS, made).encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
