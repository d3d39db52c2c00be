"""Writes what was measured into docs/live.md, each part between its own marks. Folders are those of `echelon live`.

`python -m echelon.documents.live_page DIR...` has live, replayed and simulated side by side (folders with --check). With `policies DIR...` it sets
policies over each other, each experiment in its own part. With `across PLAIN SCHEDULED` it has one program with DDP, and with a job scheduler.
With `bench FILE...` it has what `echelon bench live-losses live-collectives --out FILE` found.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from echelon.benchmarks import Figure
from echelon.documents import live_ratios
from echelon.documents.live_ratios import found_in
from echelon.documents.made_pages import with_made
from echelon.documents.paradigms_page import figures_table
from echelon.places import DOCS
from echelon.running import triple
from echelon.running.living import LIVE
from echelonflow.codec import read_json
from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest
from echelonflow.tables import markdown_table

PAGE = DOCS / "live.md"
POLICIES, ACROSS, BENCH = "policies", "across", "bench"
BENCHMARKS = ("live-losses", "live-collectives")
_MODULE = "python -m echelon.documents.live_page"
Marks = tuple[str, str]


def marks(*words: str) -> Marks:
    """What a part that this command makes stands between: `words` are what the command is told."""
    return f"<!-- made by {' '.join([_MODULE, *words])} -->", "<!-- end of what is made -->"


def measured(roots: Sequence[Path]) -> str:
    """What the folders hold, as text in Markdown: a table of all, and how their losses compare."""
    table, words = [], []
    for root in roots:
        manifest = read_manifest(RunFolder(root / LIVE).manifest)
        table += [[manifest.name, *row] for row in triple.rows(root)]
        words += [f"- `{manifest.name}`, runs of each policy: {manifest.repeats}.", *found_in(root, manifest.name)]
    lines = [
        "Exposed communication in ms, of the experiments in `experiments/live/`: medians over valid runs. Where nothing stands, no run was valid.",
        markdown_table(["experiment", *triple.HEAD], table, align="lll"),
        "\n".join(words),
    ]
    return "\n\n".join(lines)


def benchmarks(paths: Sequence[Path]) -> str:
    """A table of the figures of each benchmark of `BENCHMARKS` that the files have (InputError where they have none)."""
    found: dict[str, list[Figure]] = {}
    for path in paths:
        try:
            found |= msgspec.convert(read_json(path), dict[str, list[Figure]])
        except msgspec.ValidationError as error:
            raise InputError(f"{path}: is not what `echelon bench --out` writes ({error})") from None
    known = [name for name in BENCHMARKS if name in found]
    if not known:
        raise InputError(f"no file has figures of `echelon bench {' '.join(BENCHMARKS)}`")
    return "\n\n".join(f"`echelon bench {name}`:\n\n{figures_table(found[name])}" for name in known)


def parts(argv: Sequence[str]) -> Mapping[Marks, str]:
    """What is to stand between which marks, by what the command was told (InputError where that cannot be read)."""
    if not argv:
        raise InputError("name folders of `echelon live`, or one of policies, across and bench before them")
    asked, *rest = argv
    paths = [Path(each) for each in rest]
    if asked == POLICIES:
        names = [read_manifest(RunFolder(root / LIVE).manifest).name for root in paths]
        return {marks(POLICIES, name): live_ratios.policies(root) for name, root in zip(names, paths, strict=True)}
    if asked == ACROSS:
        if len(paths) != 2:
            raise InputError(f"across takes two folders, and not {len(paths)}: with DDP, and with a job scheduler")
        return {marks(ACROSS): live_ratios.across(*paths)}
    if asked == BENCH:
        return {marks(BENCH): benchmarks(paths)}
    return {marks(): measured([Path(each) for each in argv])}


def main(argv: Sequence[str], page: Path = PAGE) -> int:
    """Write the parts that were asked for into the page."""
    text = page.read_text(encoding="utf-8")
    for between, made in parts(argv).items():
        text = with_made(text, *between, made)
    write_whole(page, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
