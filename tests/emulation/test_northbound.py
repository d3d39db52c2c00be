"""Somebody else's network under the controller alone: reachability, marks, swaps, switches that come back."""

from __future__ import annotations

import json
import sys

import pytest

from controller.launch import FRAMEWORKS
from echelonflow.wire.classes import dscp_of_class
from tests.emulation.conftest import output_of_world

pytestmark = pytest.mark.emulation

CLAIMED = 46


@pytest.fixture(scope="module", params=FRAMEWORKS)
def seen(request, tmp_path_factory):
    """What `northbound_world` saw."""
    folder = tmp_path_factory.mktemp(request.param)
    log = folder / "world.log"
    argv = [sys.executable, "-m", "tests.emulation.northbound_world", request.param, str(folder)]
    output = output_of_world(argv, log)
    assert "ERROR" not in (folder / "controller.log").read_text(), (folder / "controller.log").read_text()
    return json.loads(output)


def test_every_host_reaches_every_other(seen):
    assert seen["unreached"] == []


def test_the_controller_is_shown_no_packet_of_hosts_that_it_knows(seen):
    assert seen["shown"] == 0


def test_flows_that_nobody_declared_keep_their_marks(seen):
    assert seen["undeclared"] == CLAIMED


def test_declared_flows_carry_the_marks_of_the_policy_in_force(seen):
    first, second = dscp_of_class(3), dscp_of_class(4)  # new flows leave classes above them
    assert seen["echelonflow"] == [first, second]
    assert seen["fair"][0] == seen["fair"][1]
    assert seen["echelonflow_again"][0] > seen["echelonflow_again"][1]


def test_a_switch_that_comes_back_empty_gets_all_its_rules_again(seen):
    assert seen["rules"] == {"s1": 4, "s2": 4, "s3": 4}
    assert seen["rules_back"] == 4
    assert seen["fair_after_return"][0] == seen["fair_after_return"][1]
    assert seen["unreached_after_return"] == []


def test_with_a_client_go_its_rules(seen):
    assert seen["rules_after_client"] == 0
