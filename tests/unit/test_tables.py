"""Tables of text: columns as wide as their texts, on the terminal and in Markdown."""

from __future__ import annotations

from echelonflow.tables import markdown_table, text_table

HEAD = ("policy", "job", "speed-up")
ROWS = [("fair", "a", "1.000"), ("coflow(grouping=group)", "pipeline", "12")]


def test_a_table_on_the_terminal():
    assert text_table(HEAD, ROWS, align="ll").splitlines() == [
        "policy                  job       speed-up",
        "----------------------  --------  --------",
        "fair                    a            1.000",
        "coflow(grouping=group)  pipeline        12",
    ]


def test_a_table_without_rows_has_its_head():
    assert text_table(HEAD, []).splitlines() == ["policy  job  speed-up", "------  ---  --------"]
    assert markdown_table(HEAD, []).splitlines()[0].split() == ["|", "policy", "|", "job", "|", "speed-up", "|"]


def test_texts_are_left_as_they_are():
    texts = ["007", "", "1e5", "1_0"]
    assert text_table(("n",), [(text,) for text in texts]).splitlines() == ["n", "---", *texts]
    assert "| 007 |" in markdown_table(("n",), [("007",)])


def test_a_table_in_markdown():
    head, line, *rows = markdown_table(HEAD, ROWS, align="lrl").splitlines()
    assert [cell.strip() for cell in head.split("|")] == ["", *HEAD, ""]
    assert [(cell[0], cell[-1]) for cell in line.strip("|").split("|")] == [(":", "-"), ("-", ":"), (":", "-")]
    assert [[cell.strip() for cell in row.split("|")][1:-1] for row in rows] == [list(row) for row in ROWS]
    assert len({len(text) for text in (head, line, *rows)}) == 1
