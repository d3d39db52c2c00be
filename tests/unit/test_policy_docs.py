"""docs/policies.md describes every policy there is, and its table is what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from echelon.documents import policy_pictures
from echelon.documents.modules import as_markdown
from echelonflow.scheduling import policies

PAGE = (policy_pictures.DOCS / "policies.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", policies.names())
def test_every_policy_has_a_section_with_its_picture(name):
    match = re.search(rf"^### {re.escape(name)}\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert match is not None, f"docs/policies.md has no section {name!r}"
    section = " ".join(match[1].split())
    for word in ("**Knows**", "**Cost.**", "Enforcer: `" + policies.load(name).enforcer):
        assert word in section, f"section {name!r} does not say: {word} (its module's docstring)"
    picture = f"policies/{name}.svg"
    assert f"]({picture})" in section
    title = ET.fromstring((policy_pictures.DOCS / picture).read_text(encoding="utf-8"))
    assert any(f"{name}: pipeline ends at" in (text or "") for text in title.itertext())


def test_no_section_or_picture_is_left_of_a_policy_that_is_gone():
    assert set(re.findall(r"^### (\S+)$", PAGE, re.MULTILINE)) == set(policies.names())
    assert {path.stem for path in (policy_pictures.DOCS / "policies").glob("*.svg")} == set(policies.names())


def test_every_option_is_named():
    for name in policies.names():
        own = PAGE.partition(f"\n### {name}\n")[2].partition("\n##")[0]
        for option in policies.options_of(name):
            assert f"`{option}" in own, f"docs/policies.md does not mention {name}({option}=...)"


def test_what_is_made_is_what_the_code_says_and_does():
    made = policy_pictures.with_all_made(PAGE)
    assert made == PAGE, "make it again: python -m echelon.documents.policy_pictures"


def test_rows_of_a_docstring_become_a_list():
    text = "`order`, smallest first:\n  sebf   its own\n  lcf    size, its bytes:\n         lightest first\nA Coflow.\n\nMore."
    assert as_markdown(text) == (
        "`order`, smallest first:\n\n- `sebf`: its own\n- `lcf`: size, its bytes:\n  lightest first\n\nA Coflow.\n\nMore."
    )


def test_pictures_of_one_policy_are_the_same_each_time(tmp_path):
    for folder in ("first", "second"):
        policy_pictures.draw("aalo", tmp_path / folder)
    first, second = (tmp_path / folder / "aalo.svg" for folder in ("first", "second"))
    assert first.read_bytes() == second.read_bytes()
    assert not list(Path(tmp_path).rglob("*.png"))


def test_what_is_drawn_is_what_was_sent():
    """The area of each flow's band is its size: seconds of the link."""
    seconds = {"x0": 1.5, "x1": 1.5, "x2": 1.5, "a0": 1.0, "a1": 2.0, "b": 1.0}
    for name in policies.names():
        areas = {
            b.label: sum((end - start) * share for start, end, share in b.spans)
            for b in policy_pictures.observe(name).bands
        }
        assert areas == pytest.approx(seconds, abs=1e-5), name
