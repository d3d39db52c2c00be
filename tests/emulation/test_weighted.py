"""Flows that share a link by weights: what each gets on real packets, and that queues are in order again afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFolder
from echelonflow.records.weights import read_weights
from results.analysis.context import open_folder
from results.analysis.evidence import RawRun
from tests.emulation.conftest import echelon, echelon_run
from tests.waiting import end_of

pytestmark = pytest.mark.emulation

THREE_TO_ONE = '''"""The first flow gets three times as much as any other."""

import numpy as np

from echelonflow.scheduling.allocation import Allocation

ENFORCER = "weighted"


def allocate(snapshot):
    share = np.where(snapshot.flow_id == snapshot.flow_id.min(), 3.0, 1.0)
    return Allocation(snapshot.capacity_Bps.min() * share / share.sum(), np.zeros(snapshot.flows, np.int64))
'''
EXPERIMENT = """
name: weighted
network: {topology: single-switch, hosts: 4, rate: 50 Mbit/s}
jobs:
  - {name: a, paradigm: pipeline, stages: 2, micro_batches: 1, forward: 100 ms, activation: 1500 ms of link, placement: SENDERS}
  - {name: b, paradigm: pipeline, stages: 2, micro_batches: 1, forward: 100 ms, activation: 1 s of link, placement: OTHERS}
policies: [POLICY, srpt]
emulation: {limits: {max_link_error: 1, max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1,
                     max_unexplained_exposed: 1}}
"""


@pytest.fixture(scope="module", params=["at a switch", "at a host"])
def compared(request, tmp_path_factory):
    """The same two flows first by weights, then by strict priority; they meet at a switch's port, or at their host's own."""
    folder = tmp_path_factory.mktemp("weighted")
    (folder / "mine.py").write_text(THREE_TO_ONE)
    first, second = ("[h1, h3]", "[h2, h3]") if request.param == "at a switch" else ("[h1, h3]", "[h1, h4]")
    text = EXPERIMENT.replace("SENDERS", first).replace("OTHERS", second).replace("POLICY", str(folder / "mine.py"))
    experiment, out = folder / "experiment.yaml", folder / "out"
    experiment.write_text(text)
    with echelon_run(experiment, "--out", out, "--attempts", "1", "--pictures", "none") as process:
        code, stdout, stderr = end_of(process, 180, [out / "logs"])
    assert code in (0, 3), stdout + stderr
    return out


def runs(out):
    return {run.outcome.policy: run for run in _runs(out)}


def _runs(out):
    context = open_folder(out)
    return [RawRun.of(context, files) for files in RunFolder(out).runs()]


def shares_of_time(run, settle_s=0.2):
    """What share of the bytes each job had while both were backlogged, by the receivers' captures."""
    evidence = run.evidence(run.plan())
    flows = {flow.job: flow for flow in evidence.read.record.flows}
    begin_s = max(flow.start_s for flow in flows.values()) + settle_s
    end_s = min(flow.finish_s for flow in flows.values()) - 0.05
    addresses = run.plan().addresses
    found = {}
    for job, flow in flows.items():
        name = (addresses[flow.src_host], flow.src_port, addresses[flow.dst_host], flow.dst_port)
        stream = evidence.captures[flow.dst_host].streams[name]
        times_s = evidence.clock.run_times_s(stream.time_ns)
        found[job] = int(stream.payload_bytes[(times_s >= begin_s) & (times_s < end_s)].sum())
    total = sum(found.values())
    return {job: amount / total for job, amount in found.items()}


def test_bytes_are_shared_as_was_allocated(compared):
    (policy,) = [name for name in runs(compared) if name != "srpt"]
    found = shares_of_time(runs(compared)[policy])
    assert found["a"] == pytest.approx(0.75, abs=0.1), found


def test_the_next_run_finds_classes_in_strict_order(compared):
    """The smaller flow goes first, and the other one gets next to nothing until it has ended."""
    found = shares_of_time(runs(compared)["srpt"])
    assert found["b"] > 0.95, found


def test_decisions_say_which_weights_and_when_switches_had_them(compared):
    (policy,) = [name for name in runs(compared) if name != "srpt"]
    files = runs(compared)[policy].files
    told = [dict(shares) for decision in read_decisions(files.decisions) for _, shares in decision.weights]
    assert any(np.isclose(max(one.values()) / min(one.values()), 3, rtol=0.01) for one in told), told
    given = read_weights(files.weights)
    assert given
    assert all(0 <= one.confirmed_s - one.sent_s < 1 for one in given)
    assert not runs(compared)["srpt"].files.weights.exists()


def test_the_controller_decides_the_same_again(compared):
    assert echelon("replay", compared)
