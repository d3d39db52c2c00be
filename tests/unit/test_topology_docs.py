"""docs/topologies.md describes every topology there is, and what is made of it is what the code does."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

import pytest

from echelon.documents import topology_pages
from echelonflow.model import topologies
from echelonflow.model.network import Cable, Network

PAGE = (topology_pages.DOCS / "topologies.md").read_text(encoding="utf-8")
PICTURES = topology_pages.DOCS / "topologies"


def test_what_is_made_is_what_the_code_does():
    assert topology_pages.with_all_made(PAGE) == PAGE, "make it again: python -m echelon.documents.topology_pages"
    assert set(re.findall(r"^### (\S+)$", PAGE, re.MULTILINE)) == set(topologies.names())
    assert {path.stem for path in PICTURES.iterdir()} == set(topologies.names())


@pytest.mark.parametrize("name", topologies.names())
def test_every_node_of_a_topology_is_in_its_picture(name):
    drawn = set(ET.fromstring((PICTURES / f"{name}.svg").read_text(encoding="utf-8")).itertext())
    network = topology_pages.example(name)
    assert {*network.hosts, *network.switches} <= drawn, "draw again: python -m echelon.documents.topology_pages"


def test_options_stand_in_their_units_with_their_defaults():
    text = PAGE.partition("### dumbbell")[2].partition("###")[0]
    rows = dict(re.findall(r"^\| (`\w+`) +\| (.*?) +\|$", text, re.MULTILINE))
    assert {key: " ".join(words.split()) for key, words in rows.items()} == {
        "`hosts`": "number | needed",
        "`rate`": "rate | needed",
        "`bottleneck_rate`": "rate | optional",
        "`mtu`": "size | 1.5 kB",
    }


def test_pictures_are_the_same_each_time_and_show_each_of_two_cables(tmp_path):
    twins = [Cable("s1", "s2", 1e8, kind="twin") for _ in range(2)]
    network = Network("t", ("h1", "h2"), ("s1", "s2"), (Cable("h1", "s1", 1e8), Cable("h2", "s2", 1e8), *twins))
    for name in ("first", "second"):
        topology_pages.draw_network(tmp_path / f"{name}.svg", network)
    first, second = ((tmp_path / f"{name}.svg").read_text(encoding="utf-8") for name in ("first", "second"))
    assert first == second
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".svg", ".svg"]
    paths = re.findall(r'<path d="(M [^"]+)"[^>]*stroke: #e69f00', first, re.IGNORECASE)
    assert len(set(paths)) >= 2


def test_the_example_of_a_new_topology_works():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    names = {"Cable": Cable, "Network": Network}
    exec(code, names)
    network = names["build"](hosts=4, rate_bps=1e8, ring_rate_bps=1e8)
    assert len(network.path("h1", "h4")) == 5
