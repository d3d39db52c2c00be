"""docs/tutorial.md does what it says: its files are written and its commands are run, one after the other."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys

import pytest

from echelon.places import DOCS, ROOT

PAGE = (DOCS / "tutorial.md").read_text(encoding="utf-8")
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"# (\S+\.\w+)\n")
LIMIT_S = 120.0


@pytest.fixture(scope="module")
def worked(tmp_path_factory):
    """A folder in which everything on the page was done, and what the commands printed."""
    folder, tools = tmp_path_factory.mktemp("tutorial"), tmp_path_factory.mktemp("bin")
    for name, argv in (("echelon", f"{sys.executable} -m echelon.cli"), ("python", sys.executable)):
        (tools / name).write_text(f'#!/bin/sh\nexec {argv} "$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    settings = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT), "MPLBACKEND": "Agg"}
    printed = []
    for language, body in _BLOCK.findall(PAGE):
        if language in ("yaml", "python"):
            name = _FILE.match(body)
            assert name is not None, f"a file of the page does not begin with its name:\n{body}"
            (folder / name[1]).write_text(body, encoding="utf-8")
        elif language == "sh":
            done = subprocess.run(
                ["bash", "-e", "-c", body], cwd=folder, env=settings, capture_output=True, text=True, timeout=LIMIT_S, check=False
            )  # fmt: skip
            assert done.returncode == 0, f"{body}\n{done.stdout}\n{done.stderr}"
            printed.append(done.stdout)
    return folder, printed


@pytest.mark.slow
def test_the_tables_are_those_on_the_page(worked):
    _, printed = worked
    (shown,) = (body for language, body in _BLOCK.findall(PAGE) if language == "text")
    first = {tuple(line.split()) for line in printed[0].splitlines()}
    for line in shown.splitlines():
        assert tuple(line.split()) in first, f"make the table again; it does not have: {line}"


@pytest.mark.slow
def test_every_policy_is_in_the_report_and_the_figure_is_drawn(worked):
    folder, printed = worked
    assert "No scheduler can save more than" in printed[1]
    with (folder / "second" / "iterations.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    policies = ["fair", "echelonflow", "./mine.py", "./mine.py(share=0)"]
    assert list(dict.fromkeys(row["policy"] for row in rows)) == policies
    report = (folder / "second" / "report.html").read_text(encoding="utf-8")
    assert all(policy in report for policy in policies)
    assert (folder / "exposed.png").read_bytes().startswith(b"\x89PNG")
    for name in re.findall(r"^- `(.*?)`:", PAGE, re.MULTILINE):
        for file_name in name.replace("`", "").split(", "):
            assert (folder / "second" / file_name).exists(), f"the page names {file_name}, which no run leaves"


@pytest.mark.slow
def test_what_the_page_says_of_the_outcome_is_so(worked):
    """Both policies help both jobs: least slack first helps `mine` more, and `echelonflow` the rival."""
    folder, _ = worked
    found = json.loads((folder / "second" / "summary.json").read_text(encoding="utf-8"))
    exposed_s = {(row["policy"], row["job"]): row["exposed_s"]["median"] for row in found["results"]}
    for job in ("mine", "rival"):
        assert max(exposed_s["./mine.py", job], exposed_s["echelonflow", job]) < exposed_s["fair", job]
    assert exposed_s["./mine.py", "mine"] < exposed_s["echelonflow", "mine"]
    assert exposed_s["echelonflow", "rival"] < exposed_s["./mine.py", "rival"]


def test_files_and_commands_alternate():
    """The page has what the other tests look for."""
    languages = [language for language, _ in _BLOCK.findall(PAGE)]
    assert languages == ["console", "yaml", "sh", "text", "sh", "python", "sh", "python", "sh", "console"]
