"""Text of others on a terminal: names in files and folders may hold what a terminal would take for commands."""

from __future__ import annotations


def printable(text: str) -> str:
    """`text` as one line: line ends, commands to a terminal and invisible characters are shown as Python writes them."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


def printable_lines(text: str) -> str:
    """The same of each line of `text`; lines stay lines."""
    return "\n".join(map(printable, text.split("\n")))
