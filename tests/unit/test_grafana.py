"""The Grafana dashboard asks for nothing that /metrics does not have."""

from __future__ import annotations

import json
import re

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.metrics import Counters, exposition
from echelon.live.bodies import LinkDrawn
from echelon.live.controller_side import link_metrics
from echelon.places import DOCS
from tests.unit.test_controller_northbound import JOB, View

DASHBOARD = json.loads((DOCS / "grafana" / "echelon.json").read_text())
TARGETS = [(panel["title"], target) for panel in DASHBOARD["panels"] for target in panel["targets"]]


@pytest.fixture(scope="module")
def labels():
    """Every sample's name, and the labels that it may have."""
    view, counters = View(), Counters()
    counters.request(200)
    text = exposition(counters, view.status(0.0), (JOB,)) + link_metrics(
        [(LinkDrawn("h1->s1", "h1", "s1", 1e6), (1,) * 8)]
    )
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def names(expression):
    return set(re.findall(r"\bechelon_\w+", expression))


@pytest.mark.parametrize(("title", "target"), TARGETS, ids=[f"{title} {target['refId']}" for title, target in TARGETS])
def test_every_metric_and_label_that_is_named_is_there(labels, title, target):
    asked = names(target["expr"])
    assert asked
    assert asked <= set(labels), title
    known = set.union(*(labels[name] for name in asked))
    used = set(re.findall(r"{{(\w+)}}", target["legendFormat"]))
    for grouping in re.findall(r"(?:by|on) \(([^)]*)\)", target["expr"]):
        used |= {label.strip() for label in grouping.split(",")}
    assert used <= known, title


def test_every_metric_is_on_the_dashboard(labels):
    shown = set.union(*(names(target["expr"]) for _, target in TARGETS))
    left_out = {name for name in labels if name not in shown} - {"echelon_decision_seconds_sum"}
    assert left_out == set()


def test_panels_ask_the_chosen_source_and_do_not_overlap():
    taken = set()
    for panel in DASHBOARD["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
        assert all(target["datasource"]["uid"] == "${prometheus}" for target in panel["targets"])
    assert [variable["name"] for variable in DASHBOARD["templating"]["list"]] == ["prometheus"]
