"""Writes docs/paradigms.md and its pictures of what was measured: `python -m echelon.documents.paradigms_page [FOLDER]`.

FOLDER is where `echelon bench paradigms --out FOLDER/figures.json` left its figures and tables, and `echelon bench
sensitivity --out FOLDER/sensitivity.json` its own. They are kept in docs/paradigms/, and the page is made of these.
Without FOLDER the page is made again of what is kept. No number in it is typed by hand.
"""

from __future__ import annotations

import shutil
import statistics
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import msgspec

from echelon.benchmarks import Figure
from echelon.benchmarks._paradigm_figures import ALONE, SHARED, Setting
from echelon.benchmarks._paradigm_files import POLICIES
from echelon.documents.modules import filled
from echelon.places import DOCS
from echelonflow.codec import read_json
from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.tables import markdown_table
from results.analysis.side_by_side import Cell
from results.pictures.paradigm_plots import draw_paradigms
from results.report.printed_column import format_share
from results.report.side_by_side import markdown, read_cells

KEPT = "paradigms"
"""Folder of what was measured, below the documents."""
FIGURES, FIRMNESS = "figures.json", "sensitivity.json"
FARTHEST = 3
"""Of the largest differences so many are named."""
_HEAD = """\
# Every paradigm on real packets

Written by `python -m echelon.documents.paradigms_page`, from what the commands below measured. No number is typed by
hand. GPT-2 small is trained by every paradigm of [workloads.md](workloads.md), under fair sharing, Coflow in both
groupings and EchelonFlow. These are the experiments of `experiments/paradigms/`: a job that has the network to itself,
and the same beside a rival job. `echelonflow` was `order=job` when this was measured; without options it is `order=due` now."""
_COMMANDS = """\
    sudo .venv/bin/echelon bench paradigms --repeat {repeat} --out paradigms/figures.json
    .venv/bin/echelon bench sensitivity --repeat 1 --out paradigms/sensitivity.json
    .venv/bin/python -m echelon.documents.paradigms_page paradigms"""
_AFTER_COMMANDS = """\
The first one says how long it takes, and may be interrupted: the same command goes on where it was. Runs that do not
count are made again, up to half as many as were asked for."""
_TIES = """\
Beside a rival an answer can hinge on a tie: which of two jobs, or of two Coflows, is the smaller when both want a link.
Simulation decides it by the last byte, packets by a millisecond. Then what simulation says is right, and says little
(ARCHITECTURE.md, Comparisons). So rivals have lengths and bandwidths at which answers move little in simulation, with 30
to 70 % exposed under fair sharing as everywhere. They were found by a random search that is not part of the project. For
three of them (`expert-parallel-shared`, `fsdp-shared`, `hybrid-shared`) that was not enough, and packets had a say."""
_FIRM = """\
Simulated again with computations that end some milliseconds late, decisions that take some, links that carry slightly
less, and seven classes (`echelon/benchmarks/sensitivity.py` has the amounts). What is shown is how far exposed
communication moves for these reasons alone."""


def page(kept: Path) -> str:
    """The page of what lies in `kept` (InputError where a file is missing or malformed)."""
    figures = figures_in(kept / FIGURES, "paradigms")
    firmness = figures_in(kept / FIRMNESS, "sensitivity")
    common = [figure for figure in figures if not figure.what.startswith((f"{ALONE.name}: ", f"{SHARED.name}: "))]
    runs = (cell.result.valid_runs for setting in (ALONE, SHARED) for cell in read_cells(_csv(kept, setting)))
    parts = [_HEAD, _COMMANDS.format(repeat=max(runs, default=3)), _AFTER_COMMANDS]
    if common:
        parts.append(figures_table(common))
    for setting, heading in ((ALONE, "Alone"), (SHARED, "Beside a rival job")):
        parts += [f"## {heading}", *_setting(kept, setting, figures)]
    parts += ["## How firm the simulation's answers are", _FIRM, figures_table(firmness)]
    return "\n\n".join(parts) + "\n"


def _setting(kept: Path, setting: Setting, figures: Sequence[Figure]) -> list[str]:
    """What was measured in one setting: picture, figures, how far off policies are, tables."""
    cells = read_cells(_csv(kept, setting))
    prefix = f"{setting.name}: "
    mine = [replace(f, what=f.what.removeprefix(prefix)) for f in figures if f.what.startswith(prefix)]
    parts = [
        f"![Exposed communication {setting.name}, emulated against fluid]({_picture(setting)})",
        figures_table(mine),
    ]
    parts += [filled(_in_words(cells)), _by_policy(cells)]
    if setting is SHARED:
        parts.append(_TIES)
    return [*parts, markdown(cells, POLICIES).rstrip()]


def _in_words(cells: Sequence[Cell]) -> str:
    """How many runs there are, which way exposed communication is off, and where it is farthest."""
    off = {cell: cell.result.exposed_difference for cell in cells}
    known = {cell: share for cell, share in off.items() if share is not None}
    runs = sorted({cell.result.valid_runs for cell in cells})
    number = f"{runs[0]}" if len(runs) == 1 else f"{runs[0]} to {runs[-1]}"
    more = sum(share > 0 for share in known.values())
    farthest = sorted(known, key=lambda cell: -abs(known[cell]))[:FARTHEST]
    told = "; ".join(
        f"`{cell.experiment}` ({cell.result.job}) under `{cell.result.policy}`, {format_share(known[cell])}"
        for cell in farthest
    )
    single = " Where there is one, there is no interval." if runs[0] == 1 else ""
    return (
        f"Each policy has {number} valid runs.{single} Exposed communication is longer than simulated in {more} of "
        f"{len(known)} cases. Farthest off are: {told}."
    )


def _by_policy(cells: Sequence[Cell]) -> str:
    """How far each policy's exposed communication is off fluid."""
    rows = []
    for policy in POLICIES:
        off = [
            share
            for cell in cells
            if cell.result.policy == policy and (share := cell.result.exposed_difference) is not None
        ]
        if off:
            shares = (statistics.median(off), min(off), max(off))
            size = f"{statistics.median(map(abs, off)):.1%}"
            rows.append([f"`{policy}`", size, *map(format_share, shares)])
    head = ["exposed communication off fluid", "median size", "median", "least", "most"]
    return markdown_table(head, rows, align="lr")


def figures_table(figures: Sequence[Figure]) -> str:
    """Figures as a Markdown table, with what they must be."""
    marks = {True: "yes", False: "no", None: ""}
    rows = [[figure.what, figure.measured, figure.must or "reported", marks[figure.ok]] for figure in figures]
    return markdown_table(["what", "measured", "must", "reached"], rows, align="llll")


def figures_in(path: Path, name: str) -> list[Figure]:
    """The figures of one benchmark in what `echelon bench --out` wrote."""
    try:
        return msgspec.convert(read_json(path), dict[str, list[Figure]])[name]
    except (msgspec.ValidationError, KeyError) as error:
        raise InputError(f"{path}: has no figures of `echelon bench {name}` ({error})") from None


def _csv(folder: Path, setting: Setting) -> Path:
    return folder / f"paradigms{setting.suffix}.csv"


def _picture(setting: Setting) -> str:
    return f"paradigms{setting.suffix}.png"


def keep(measured: Path, kept: Path) -> None:
    """Keep what benchmarks left in `measured`, all of it or nothing (InputError where something is missing)."""
    names = [FIGURES, FIRMNESS, *(_csv(measured, setting).name for setting in (ALONE, SHARED))]
    missing = [name for name in names if not (measured / name).is_file()]
    if missing:
        raise InputError(f"{measured}: lacks {', '.join(missing)}; measure it by the commands in docs/paradigms.md")
    page(measured)  # so that what cannot be shown is not kept
    kept.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(measured / name, kept / name)


def main(docs: Path = DOCS, measured: Path | None = None) -> None:
    """Write the page and its pictures, of what lies in `measured` or was kept before."""
    kept = docs / KEPT
    if measured is not None:
        keep(measured, kept)
    write_whole(docs / "paradigms.md", page(kept))
    for setting in (ALONE, SHARED):
        picture = docs / _picture(setting)
        draw_paradigms(picture, read_cells(_csv(kept, setting)), POLICIES)
        picture.with_suffix(".svg").unlink(missing_ok=True)  # pictures come in two forms; the page shows one


if __name__ == "__main__":
    try:
        main(measured=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    except InputError as error:
        sys.exit(str(error))
