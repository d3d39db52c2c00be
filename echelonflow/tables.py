"""Tables of text: aligned for a terminal, or in Markdown. The one place that knows the library that lays them out."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import SEPARATING_LINE, DataRow, Line, TableFormat, tabulate

from echelonflow.printable import printable

_TERMINAL = TableFormat(
    lineabove=None,
    linebelowheader=Line("", "-", "  ", ""),
    linebetweenrows=None,
    linebelow=None,
    headerrow=DataRow("", "  ", ""),
    datarow=DataRow("", "  ", ""),
    padding=0,
    with_header_hide=None,
)


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, align: str = "l") -> str:
    """`rows` of text in columns under a head and a line, aligned as for `markdown_table`."""
    rows = [[printable(cell) for cell in row] for row in rows]
    # The head goes in as a row: as a head it would be given two more columns than its text needs.
    return tabulate(
        [head, SEPARATING_LINE, *rows], tablefmt=_TERMINAL, colalign=_align(head, align), disable_numparse=True
    )


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, align: str = "l") -> str:
    """`rows` of text as a Markdown table; `align` has a letter ("l" or "r") for each of the first columns.

    The columns beyond are aligned to the right.
    """
    sides = _align(head, align) if rows else None  # without rows the library takes no alignment
    return tabulate(rows, head, tablefmt="pipe", colalign=sides, disable_numparse=True)


def _align(head: Sequence[str], align: str) -> list[str]:
    sides = {"l": "left", "r": "right"}
    return [sides[letter] for letter in align.ljust(len(head), "r")]
