"""Experiments that ask for weights: what is built of them, what does not go with them, and how their runs are explained."""

from __future__ import annotations

import pytest

from echelon.experiment import schema
from echelon.running.stages import _enforcer
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.wire.messages import Queues
from traffic.agent.plan import make_plan

EXPERIMENT = """
name: weighted
network: {topology: single-switch, hosts: 2, rate: 50 Mbit/s}
jobs:
  - {name: a, paradigm: pipeline, stages: 2, micro_batches: 2, forward: 100 ms, activation: 200 ms of link}
policies: [coflow, POLICY]
emulation: {enforcer: ENFORCER}
fluid: {enforcer: weighted, classes: 3}
faults: [{fault: FAULT, at: 1 s, host: h1, factor: 2}]
"""
SLOWED = EXPERIMENT.replace(
    "FAULT, at: 1 s, host: h1, factor: 2", "link-rate, at: 1 s, link: [h1, s1], rate: 10 Mbit/s"
)


def load(tmp_path, text, enforcer="weighted", policy="fair"):
    path = tmp_path / "experiment.yaml"
    path.write_text(text.replace("ENFORCER", enforcer).replace("POLICY", policy).replace("FAULT", "slowdown"))
    return schema.load(path)


@pytest.mark.parametrize("enforcer", ["weighted", "weighted(classes=3)"])
def test_packets_and_simulations_are_asked_for_weights(tmp_path, enforcer):
    found = load(tmp_path, EXPERIMENT, enforcer)
    assert found.enforcer_of("coflow") == enforcer
    assert (found.realism.enforcer, found.realism.classes) == ("weighted", 3)
    assert found.realism.is_weighted("rate")


def test_a_link_that_is_slowed_down_does_not_go_with_it(tmp_path):
    with pytest.raises(InputError, match="whose rate changes does not go with the enforcer weighted"):
        load(tmp_path, SLOWED)
    assert load(tmp_path, SLOWED, "priority").faults


def test_nor_with_a_policy_that_wants_it(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text(
        '"""Mine."""\nimport numpy as np\nfrom echelonflow.scheduling.allocation import Allocation\nENFORCER = "weighted"\n'
        "def allocate(snapshot):\n    return Allocation(np.zeros(snapshot.flows), np.zeros(snapshot.flows, np.int64))\n"
    )
    with pytest.raises(InputError, match="does not go with the enforcer weighted"):
        load(tmp_path, SLOWED, "auto", str(mine))
    assert load(tmp_path, SLOWED, "rate", str(mine)).faults


@pytest.mark.parametrize("wrong", ["weighted(classes=9)", "weighted(folding=top)", "weighty"])
def test_what_there_is_not_is_named(tmp_path, wrong):
    with pytest.raises(InputError, match=r"emulation\.enforcer"):
        load(tmp_path, EXPERIMENT, f'"{wrong}"')


def test_runs_are_explained_with_the_enforcer_that_they_had():
    found = [_enforcer(text) for text in ("weighted(classes=3)", "weighted", "rate", "priority(classes=2)", "damaged")]
    assert found == ["weighted", "weighted", "rate", "priority", "priority"]


def test_agents_are_told_of_their_own_queues_where_these_are_known(tmp_path):
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 5e7})
    jobs = load(tmp_path, EXPERIMENT).jobs
    assert make_plan(jobs, network, 0).egress == {}
    egress = make_plan(jobs, network, 0, queues=Queues(12_500, 0.004)).egress
    assert {host: one.interface for host, one in egress.items()} == {"h1": "h1-eth0", "h2": "h2-eth0"}
