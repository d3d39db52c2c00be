"""docs/cluster.md describes every placement there is, and what it shows works."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from echelon.documents import placement_pages
from echelon.experiment import schema
from echelon.experiment.networks import BESIDE
from echelonflow.model import placements

PAGE = (placement_pages.DOCS / "cluster.md").read_text(encoding="utf-8")


def section(name):
    return PAGE.partition(f"\n### {name}\n")[2].partition("\n##")[0]


def test_what_is_made_is_what_the_code_does():
    assert placement_pages.with_all_made(PAGE) == PAGE, "make it again: python -m echelon.documents.placement_pages"


def test_no_section_is_left_of_a_placement_that_is_gone():
    made = PAGE.partition(placement_pages.BEGIN_SECTIONS)[2].partition(placement_pages.END)[0]
    assert re.findall(r"^### (\S+)$", made, re.MULTILINE) == placements.names()


@pytest.mark.parametrize("name", placements.names())
def test_every_placement_has_its_options_in_its_section(name):
    assert section(name)
    for option in placement_pages.options(name):
        assert f"`{option.key}`" in section(name)


def test_the_words_about_the_table_are_those_of_what_is_placed():
    taken = placement_pages.TAKEN
    hosts = placement_pages.cluster().network.hosts
    by_count = {count: [host for host in hosts if taken.count(host) == count] for count in (0, 1, 2)}
    assert by_count == {0: ["h3"], 1: [host for host in hosts if host not in ("h1", "h3", "h9")], 2: ["h1", "h9"]}
    assert "two rings, " + " and ".join(map(str, placement_pages.RINGS)) in PAGE
    assert "Other jobs have both of h1 and h9, and one of every other host but h3." in PAGE


def test_the_experiment_can_be_read_and_every_key_of_a_network_is_described(tmp_path):
    text = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)[0]
    path = Path(tmp_path / "e.yaml")
    path.write_text(text)
    found = schema.load(path)
    assert found.network.ecmp_seed is not None
    assert len({host for job in found.jobs for host in job.placement}) > 4
    assert set(
        re.findall(r"^\| `(\w+)` +\|", PAGE.partition("key of `network`")[2].partition("\n\n")[0], re.MULTILINE)
    ) == {*BESIDE} - {"topology"}


def test_the_placement_of_ones_own_works():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {}
    exec(code, names)
    asked = placement_pages.request()
    assert names["place"](asked) == asked.slots[-8:]
    assert names["place"](asked, skip=100) == asked.slots[:8]
