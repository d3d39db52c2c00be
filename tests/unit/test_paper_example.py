"""The paper's Fig. 2, which every implementation must reproduce (docs/design.md, "The mathematics")."""

from __future__ import annotations

import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import derived_offsets, iteration_times_without_network
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from tests.unit.synthetic_run import paper_job

RATE_BPS = 100e6


@pytest.fixture
def network():
    return topologies.build("single-switch", {"hosts": 2, "rate_bps": RATE_BPS})


@pytest.fixture
def job(network):
    return paper_job(network)


@pytest.mark.parametrize(
    ("policy", "end_s", "max_tardiness_s"),
    [
        ("fair", 8.5, 4.5),
        ("coflow(grouping=group)", 10.0, 6.0),
        ("coflow(grouping=collective)", 8.0, 4.0),
        ("echelonflow", 8.0, 4.0),
        ("echelonflow(order=remaining)", 8.0, 4.0),
        ("echelonflow(order=extra)", 8.0, 4.0),
        ("echelonflow(within=paced)", 8.0, 4.0),
    ],
)
def test_end_and_tardiness(network, job, policy, end_s, max_tardiness_s):
    record = simulate([job], network, policies.load(policy))
    assert max(c.finish_s for c in record.computes) == pytest.approx(end_s, abs=1e-6)
    reference_s = next(f.release_s for f in record.flows if f.flow == "x0")
    tardiness = max(f.finish_s - reference_s - f.offset_s for f in record.flows)
    assert tardiness == pytest.approx(max_tardiness_s, abs=1e-6)


def test_offsets_from_the_dag_are_equation_6(job):
    assert derived_offsets(job.dag) == {"x0": 0.0, "x1": 1.0, "x2": 2.0}


def test_without_network(job):
    assert iteration_times_without_network(job.dag, 1) == [4.0]
