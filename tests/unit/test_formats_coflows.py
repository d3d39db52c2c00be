"""Traces of Coflows as jobs: the same Coflows, at the same times, of the same bytes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from echelon.experiment.import_jobs import import_files
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Job
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from simulator.trace import simulate_trace
from tests.unit.format_files import FACEBOOK, SINCRONIA, write
from traffic.workloads import formats, traces

DATA = Path(__file__).parents[3] / "shared" / "data"
MB = 1 << 20
CROSSING = FACEBOOK.replace("2 0:5 1:0.5", "1 1:0.5")
"""Without the flow within port 0, which crosses no link of a job."""


@pytest.mark.parametrize(("name", "text"), [("coflow-benchmark", CROSSING), ("sincronia", SINCRONIA)])
@pytest.mark.parametrize("policy", ["fair", "coflow"])
def test_the_job_ends_every_coflow_when_the_trace_does(tmp_path, name, text, policy):
    path = write(tmp_path, "t.txt", text)
    network = topologies.build("big-switch", {"ports": 4, "rate_bps": 8 * MB})
    trace = traces.read(name, path, {})
    expected = simulate_trace(trace, network, policies.load(policy))
    dag = formats.read(name, [path], {}).dag
    record = simulate([Job("t", dag, network.hosts[: dag.ranks])], network, policies.load(policy))
    finish_s: dict[str, float] = {}
    for flow in record.flows:
        finish_s[flow.coflow] = max(finish_s.get(flow.coflow, 0.0), flow.finish_s)
    for coflow_id, end_s in zip(trace.coflow_id, expected.finish_s, strict=True):
        assert finish_s[f"coflow {coflow_id}"] == pytest.approx(end_s, abs=1e-5)  # bytes are whole in a job


def test_an_iteration_lasts_until_the_last_arrival_and_the_next_one_follows(tmp_path):
    dag = formats.read("coflow-benchmark", [write(tmp_path, "t.txt", FACEBOOK)], {}).dag
    for rank in range(dag.ranks):
        waits = [step for step in dag.steps if isinstance(step, Compute) and step.rank == rank]
        assert sum(step.duration_s for step in waits) == pytest.approx(1.0)
        assert (waits[-1].name, waits[0].name) in dag.next_iteration


def test_flows_within_a_port_are_dropped_and_said(tmp_path):
    path = write(tmp_path, "t.txt", "3 2\n1 0 2 0 1 2 1:2 2:2\n2 0 1 2 1 2:3\n")
    found = formats.read("coflow-benchmark", [path], {})
    assert Counter((t.src_rank, t.dst_rank) for t in found.dag.transfers) == {(0, 1): 1, (0, 2): 1, (1, 2): 1}
    assert found.report.balance.job.size_bytes == 3 * MB
    assert found.report.dropped == (
        "2 flows of 4.194 MB within one port, which cross no link, 1 Coflows with all of theirs",
    )
    with pytest.raises(InputError, match=r"t\.txt: every flow stays within one port"):
        formats.read("coflow-benchmark", [write(tmp_path, "t.txt", "1 1\n1 0 1 0 1 0:2\n")], {})


def test_only_the_first_coflows_to_arrive_are_taken_if_so_many_are_asked_for(tmp_path):
    path = write(tmp_path, "t.txt", "2 3\n1 900 1 0 1 1:1\n2 0 1 1 1 0:2\n3 500 1 0 1 1:4\n")
    found = import_files("coflow-benchmark", [path], {"coflows": 2})
    assert [group.name for group in found.dag.groups] == ["coflow 2", "coflow 3"]
    assert (found.report.balance.read.size_bytes, found.report.balance.job.size_bytes) == (7 * MB, 6 * MB)
    assert any("1 Coflows that arrive later" in words for words in found.report.dropped)
    for wrong in (0, 4):
        with pytest.raises(InputError, match="has 1 to 3"):
            formats.read("coflow-benchmark", [path], {"coflows": wrong})


def test_shares_that_are_not_whole_add_up(tmp_path):
    path = write(tmp_path, "t.txt", "4 1\n1 0 3 0 1 2 1 3:1\n")
    found = formats.read("coflow-benchmark", [path], {})
    sizes = [t.size_bytes for t in found.dag.transfers]
    assert sum(sizes) == MB
    assert max(sizes) - min(sizes) <= 1
    plain = import_files("coflow-benchmark", [path], {"megabyte": "1 MB"})
    assert plain.report.balance.job.size_bytes == 1_000_000
    tiny = formats.read("coflow-benchmark", [path], {"megabyte_bytes": 1})
    assert [t.size_bytes for t in tiny.dag.transfers] == [1, 1, 1]
    assert any("added: 2 bytes: a flow has at least 1" in line for line in tiny.report.lines())


def test_the_facebook_trace_has_its_bytes():
    path = DATA / "coflow-benchmark" / "FB2010-1Hr-150-0.txt"
    if not path.exists():
        pytest.skip(f"others' files are not published with this project: {path} is absent")
    found = formats.read("coflow-benchmark", [path], {"coflows": 100})
    assert len(found.dag.groups) <= 100
    assert found.report.balance.job.size_bytes == sum(t.size_bytes for t in found.dag.transfers)
