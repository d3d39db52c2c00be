"""Pages of documentation of which parts are made by a program: those between two marks."""

from __future__ import annotations


def with_made(page: str, begin: str, end: str, made: str) -> str:
    """`page` with what stands between the first `begin` and the `end` after it replaced.

    ValueError if either mark is missing: the page was edited by hand where it should not have been.
    """
    before, mark, rest = page.partition(begin)
    _, closing, after = rest.partition(end)
    if not mark or not closing:
        raise ValueError(f"the page lacks the mark {begin if not mark else end!r}")
    return f"{before}{begin}\n\n{made}\n\n{end}{after}"
