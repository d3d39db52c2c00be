"""docs/results.md and its pictures, from the cases that were measured: no number in it is written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from echelon.running.manifest import git_revision
from echelon.study import closed_page, prose, steady_page
from echelon.study.at_scale import MARKS, opening
from echelon.study.section import Scores, Section
from echelon.study.store import Measured
from echelonflow.errors import InputError
from echelonflow.files import write_whole

LEAST_CASES = 2
PICTURES = (*steady_page.PICTURES, *closed_page.PICTURES)


def write(folder: Path, measured: Mapping[tuple[str, int], Measured], sections: Sequence[Section]) -> list[Path]:
    """Write results.md and results/*.png into `folder`; returns what was written.

    Raises InputError where a section has not two measured cases.
    """
    cases = _by_section(measured, sections)
    for name, found in cases.items():
        if len(found) < LEAST_CASES:
            raise InputError(f"section {name!r} of the study has {len(found)} measured cases; {LEAST_CASES} are needed")
    pictures = folder / "results"
    pictures.mkdir(parents=True, exist_ok=True)
    there, wanted = sum(map(len, cases.values())), sum(section.cases for section in sections)
    codes = sorted({case.code for case in measured.values()})
    head = prose.HEAD.format(
        measured=there, wanted=wanted, code=" and ".join(codes), revision=git_revision() or "unknown"
    )
    if len(codes) > 1:
        head += f"\n\nThese cases were measured by {len(codes)} versions of the code (`--keep`)."
    in_short = "\n".join(f"- {line}" for line in steady_page.in_short(cases))
    at_scale = opening(folder)
    parts = [
        head,
        *([MARKS[0], at_scale, MARKS[1]] if at_scale else []),
        "## In short\n\n" + in_short,
        *steady_page.parts(cases, pictures),
        *closed_page.parts(cases, measured, pictures),
    ]
    document = folder / "results.md"
    write_whole(document, "\n\n".join(parts) + "\n")
    for name in PICTURES:  # pictures come in two forms; the page shows one
        (pictures / f"{name}.svg").unlink(missing_ok=True)
    return [document, *(pictures / f"{name}.png" for name in PICTURES)]


def fewest(measured: Mapping[tuple[str, int], Measured], sections: Sequence[Section]) -> int:
    """The number of measured cases of the section that has the fewest."""
    return min(len(found) for found in _by_section(measured, sections).values())


def _by_section(measured: Mapping[tuple[str, int], Measured], sections: Sequence[Section]) -> dict[str, list[Scores]]:
    return {
        section.name: [
            measured[section.name, number].scores
            for number in range(section.cases)
            if (section.name, number) in measured
        ]
        for section in sections
    }
