"""Tables of text: aligned for a terminal, or in Markdown. The one place that knows the library that lays them out."""

from __future__ import annotations

from collections.abc import Sequence

from tabulate import SEPARATING_LINE, DataRow, Line, TableFormat, tabulate

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


def text_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """`rows` of text in columns under a head and a line; the first `left` columns begin, the others end together."""
    align = _align(head, left)
    # The head goes in as a row: as a head it would be given two more columns than its text needs.
    return tabulate([head, SEPARATING_LINE, *rows], tablefmt=_TERMINAL, colalign=align, disable_numparse=True)


def markdown_table(head: Sequence[str], rows: Sequence[Sequence[str]], *, left: int = 1) -> str:
    """`rows` of text as a Markdown table; the first `left` columns are aligned to the left, the others to the right."""
    align = _align(head, left) if rows else None  # without rows the library takes no alignment
    return tabulate(rows, head, tablefmt="pipe", colalign=align, disable_numparse=True)


def _align(head: Sequence[str], left: int) -> list[str]:
    return ["left" if i < left else "right" for i in range(len(head))]
