"""Plain English can be counted in part: no sentence of the documents or of a docstring has over 30 words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MOST_WORDS = 30
PAGES = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md", *(f"docs/{p.name}" for p in sorted((ROOT / "docs").glob("*.md")))]  # fmt: skip
PACKAGES = ["echelonflow", "simulator", "controller", "traffic", "testbed", "results", "echelon", "experiments", "tests"]  # fmt: skip

_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_MADE = re.compile(r"<!-- made by.*?<!-- end of what is made -->", re.DOTALL)
_OPTIONS = re.compile(r"\*\*Options\.\*\*.*?(?=\n\n|\Z)", re.DOTALL)
"""A list of names with their defaults, not a sentence."""
_EXAMPLE = re.compile(r"^\s*>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_PICTURE = re.compile(r"!\[[^\]]*\]\([^)]*\)")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_CODE = re.compile(r"``[^`]+``|`[^`]+`")
_NEW_ITEM = re.compile(r"^\s*(?:[-*+]|\d+\.)\s+")
_NEW_ROW = re.compile(r"^\s*\S+(?: \S+)? {2,}\S")
"""A row of a plain list, as docstrings have them: a name, some spaces, what it means."""
_NOT_PROSE = re.compile(r"^(?:#|\||---)")
_ABBREVIATION = re.compile(r"\b(e\.g|i\.e|et al|vs|Fig|eq|Eq|cf|resp|No|pp|Proc|Trans|J)\.")
_ONE_WORD = "Codeword"
_END = re.compile(r"(?<=[.!?])[)\"'*]*\s+(?=[\"'(*A-Z0-9_ΓΣτ])")
_WORD = re.compile(r"\w[\w'’.,/-]*")


def paragraphs_of_page(text: str) -> Iterator[str]:
    """Paragraphs, list items and table cells of a Markdown page, without code and what programs made of it."""
    for pattern in (_MADE, _FENCED, _OPTIONS, _COMMENT, _PICTURE):
        text = pattern.sub("\n\n", text)
    yield from _paragraphs(text.splitlines(), code_indent=4)
    for line in text.splitlines():
        if line.startswith("|"):
            yield from (cell.strip() for cell in line.strip("|").split("|"))


def paragraphs_of_docstring(text: str) -> Iterator[str]:
    """Paragraphs and rows of lists of a docstring, without worked examples."""
    yield from _paragraphs(_EXAMPLE.sub("", text).splitlines(), code_indent=None)


def _paragraphs(lines: list[str], code_indent: int | None) -> Iterator[str]:
    found: list[str] = []
    inside_item = False
    for line in lines:
        indent = len(line) - len(line.lstrip())
        blank, item = not line.strip(), _NEW_ITEM.match(line) is not None
        row = code_indent is None and _NEW_ROW.match(line) is not None
        is_code = code_indent is not None and indent >= code_indent and not inside_item
        aside = code_indent is None and bool(found) and indent != len(found[-1]) - len(found[-1].lstrip())
        item = item and not is_code
        if blank or item or row or is_code or aside or _NOT_PROSE.match(line):
            if found:
                yield " ".join(part.strip() for part in found)
            found = []
            inside_item = item or (inside_item and not (blank and indent == 0))
        if not (blank or is_code or _NOT_PROSE.match(line)):
            found.append(_NEW_ITEM.sub("", line) if item else line)
    if found:
        yield " ".join(part.strip() for part in found)


def long_sentences(paragraph: str) -> Iterator[tuple[int, str]]:
    """Sentences with too many words, each with how many it has; a piece of code counts as one word."""
    linked = _LINK.sub(lambda link: "Page" if link[1].endswith(".md") else link[1], paragraph)
    code = iter(_CODE.findall(linked))
    plain = _ABBREVIATION.sub(r"\1", _CODE.sub(_ONE_WORD, linked))
    for sentence in _END.split(plain):
        as_written = re.sub(_ONE_WORD, lambda _: next(code), sentence)
        words = len(_WORD.findall(sentence))
        if words > MOST_WORDS:
            yield words, as_written


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Every docstring of a module, those of its variables included, with its line."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            for statement in body:
                value = getattr(statement, "value", None)
                if isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield statement.lineno, _even(value.value)


def _even(text: str) -> str:
    """The text with the indentation of its second and later lines taken away."""
    first, *rest = text.splitlines() or [""]
    least = min((len(line) - len(line.lstrip()) for line in rest if line.strip()), default=0)
    return "\n".join([first, *(line[least:] for line in rest)])


@pytest.mark.parametrize("page", PAGES)
def test_no_sentence_of_a_page_is_long(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    found = [f"{words} words: {sentence}" for p in paragraphs_of_page(text) for words, sentence in long_sentences(p)]
    assert not found, "\n".join([f"{page}: sentences of over {MOST_WORDS} words; split them", *found])


@pytest.mark.parametrize("package", PACKAGES)
def test_no_sentence_of_a_docstring_is_long(package):
    found = [
        f"{path.relative_to(ROOT)}:{line}: {words} words: {sentence}"
        for path in sorted((ROOT / package).rglob("*.py"))
        for line, text in docstrings(path)
        for paragraph in paragraphs_of_docstring(text)
        for words, sentence in long_sentences(paragraph)
    ]
    assert not found, "\n".join([f"sentences of over {MOST_WORDS} words; split them", *found])


@pytest.mark.parametrize(
    ("paragraph", "words"),
    [
        (" ".join(["word"] * 30) + ".", []),
        (" ".join(["word"] * 31) + ".", [31]),
        (" ".join(["word"] * 20) + ". And " + " ".join(["more"] * 20) + ".", []),
        (" ".join(["word"] * 20) + " (Fig. 2, e.g. `a b c d`) " + " ".join(["more"] * 10) + ".", [34]),
    ],
)
def test_words_are_counted_by_sentence(paragraph, words):
    assert [count for count, _ in long_sentences(paragraph)] == words


def test_worked_examples_are_no_sentences():
    text = "One sentence.\n\n    >>> a\n    1\n    >>> b\n    2\n\nAnother.\n"
    assert list(paragraphs_of_docstring(text)) == ["One sentence.", "Another."]


def test_code_tables_and_lists_are_told_apart():
    page = "One\nparagraph.\n\n- an item\n  that goes on\n- another\n\n    code here\n\n| cell | other |\n\n```\nfenced\n```\n"
    assert list(paragraphs_of_page(page)) == ["One paragraph.", "an item that goes on", "another", "cell", "other"]
