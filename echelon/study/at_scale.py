"""What docs/results.md says of large clusters: the finding of docs/scale.md, at its beginning."""

from __future__ import annotations

from pathlib import Path

PAGE = "scale.md"
MARKS = ("<!-- of scale.md: made by python -m echelon.documents.scale_page -->", "<!-- end of what is made -->")
_WORDS = """\
Mixed jobs on oversubscribed leaves and spines, in steady state. [The page of its own](scale.md) has tables, and says what was computed.
Loads are of the cables between switches."""


def opening(docs: Path) -> str:
    """What stands between the marks, of the page in the folder `docs`; empty where there is none."""
    page = docs / PAGE
    if not page.is_file():
        return ""
    finding = page.read_text(encoding="utf-8").partition("\n## Finding\n\n")[2].partition("\n\n## ")[0]
    return f"## At scale\n\n{_WORDS}\n\n{finding}"
