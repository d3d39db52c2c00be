"""Experiments that say where jobs run: GPUs of hosts, placements, and what any network may have beside its topology."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from echelon.experiment import schema
from echelon.running import runner
from echelonflow.errors import InputError
from echelonflow.model import placements
from echelonflow.records.network_file import read_network, write_network

RING = {"paradigm": "data-parallel", "layers": 2, "forward": "10 ms", "backward": "20 ms", "parameter": "1 MB"}


def described(*jobs, network=None, **more):
    """An experiment on eight hosts; each job is (ranks, placement), None where it says nothing of that."""
    entries = [
        {**RING, "name": f"j{i}", "ranks": ranks} | ({} if placement is None else {"placement": placement})
        for i, (ranks, placement) in enumerate(jobs)
    ]
    leaves = {"topology": "leaf-spine", "leaves": 2, "spines": 2, "hosts_per_leaf": 4, "rate": "100 Mbit/s"}
    return {"name": "cluster", "network": {**leaves, **(network or {})}, "jobs": entries, "policies": ["fair"], **more}


def placed(*jobs, network=None, **more):
    found = schema.check(described(*jobs, network=network, **more), Path("e.yaml"))
    return [job.placement for job in found.jobs]


def faults(*jobs, network=None, **more):
    with pytest.raises(InputError) as refused:
        schema.check(described(*jobs, network=network, **more), Path("e.yaml"))
    heading, *lines = str(refused.value).splitlines()
    return lines or [heading]


def hosts(*numbers):
    return tuple(f"h{number}" for number in numbers)


def test_without_gpus_jobs_begin_at_the_first_host_and_may_share_hosts():
    assert placed((3, None), (4, None), (2, ["h2", "h1"])) == [hosts(1, 2, 3), hosts(1, 2, 3, 4), hosts(2, 1)]


def test_named_placements_find_gpus_that_no_list_and_no_job_before_has():
    found = placed((2, "packed"), (4, "packed"), (2, ["h1", "h2"]))
    assert found == [hosts(3, 4), hosts(5, 6, 7, 8), hosts(1, 2)]
    assert placed((3, None), (4, "packed")) == [hosts(1, 2, 3), hosts(5, 6, 7, 8)]


def test_with_gpus_every_job_has_its_own_and_those_that_say_nothing_are_packed():
    found = placed((6, None), (8, None), (2, ["h8", "h8"]), network={"gpus_per_host": 2})
    taken = Counter(host for job in found for host in job)
    assert max(taken.values()) <= 2
    assert sum(taken.values()) == 16
    assert found[0] == hosts(5, 5, 6, 6, 7, 7)
    assert found[1] == hosts(1, 1, 2, 2, 3, 3, 4, 4)


def test_one_placement_for_all_jobs_leaves_those_alone_that_have_one():
    found = placed((4, None), (2, ["h1", "h2"]), (2, "packed"), placement="spread")
    assert found[0][0] in hosts(3, 4)
    assert found[1:] == [hosts(1, 2), found[2]]
    sides = [int(host[1:]) > 4 for host in found[0]]
    assert sides == [False, True, False, True]


def test_ring_aware_sees_what_the_job_sends():
    job = {"name": "h", "paradigm": "hybrid", "tensor": 2, "pipeline": 2, "data": 2, "micro_batches": 2, "layers": 4}
    times = {"forward": "10 ms", "backward": "20 ms", "activation": "10 kB", "parameter": "10 MB"}
    data = described((2, None))
    found = {}
    for placement in ("packed", "ring-aware"):
        data["jobs"] = [{**job, **times, "placement": placement}]
        (one,) = schema.check(data, Path("e.yaml")).jobs
        sent = placements.sent_bytes(one.dag)
        switch = [int(host[1:]) > 4 for host in one.placement]
        found[placement] = sum(size for (src, dst), size in sent.items() if switch[src] != switch[dst])
    assert found["ring-aware"] <= found["packed"]


def test_two_ranks_of_a_job_on_one_host_need_two_gpus():
    (fault,) = faults((2, ["h1", "h1"]))
    assert "jobs.0.placement: puts 2 ranks on h1, which has 1 GPU; name another host, or give hosts more" in fault
    assert placed((2, ["h1", "h1"]), network={"gpus_per_host": 2}) == [hosts(1, 1)]
    (fault,) = faults((3, ["h1", "h1", "h1"]), network={"gpus_per_host": 2})
    assert "puts 3 ranks on h1, which has 2 GPUs" in fault
    assert "`gpus_per_host: 3`" in fault


def test_lists_of_several_jobs_are_counted_together_where_gpus_are_given():
    found = faults((2, ["h1", "h2"]), (2, ["h1", "h3"]), (2, ["h4", "h5"]), network={"gpus_per_host": 1})
    said = "h1 has 1 GPU, and jobs that list it put 2 ranks there"
    assert [said in line for line in found] == [True, True]
    assert [line.split(": ")[1] for line in found] == ["jobs.0.placement", "jobs.1.placement"]


@pytest.mark.parametrize(
    ("jobs", "network", "said"),
    [
        ([(9, None)], {}, "jobs.0: 9 ranks need as many GPUs, and 8 hosts with one each have 8; .* `gpus_per_host: 2`"),
        ([(9, "spread")], {}, "jobs.0.placement: 9 GPUs are asked for, .*; 8 of the cluster's 8 are free; "),
        (
            [(6, None), (6, None)],
            {"gpus_per_host": 1},
            "jobs.1: 6 GPUs are asked for, .*; 2 of the cluster's 8 are free",
        ),
        ([(6, None), (16, None)], {"gpus_per_host": 2}, "10 of the cluster's 16 are free; .* `gpus_per_host: 3`"),
    ],
)
def test_a_job_that_does_not_fit_is_told_how_many_gpus_are_free(jobs, network, said):
    (fault,) = faults(*jobs, network=network)
    assert re.search(said, fault), fault


def test_a_wrong_placement_for_all_is_said_once_and_one_of_a_job_at_the_job():
    (fault,) = faults((2, None), (2, None), placement="spred")
    assert ": placement: unknown placement 'spred'; did you mean 'spread'?" in fault
    found = faults((2, "paked"), network={"rate": "fast"})
    assert [line.split(": ")[1] for line in found] == ["network.rate", "jobs.0.placement"]


def test_a_placement_does_not_go_with_a_trace(tmp_path):
    (tmp_path / "t.txt").write_text("4 1\n0 0 1 0 1 1:4\n")
    data = described(placement="packed")
    data["jobs"] = [{"name": "t", "trace": {"format": "coflow-benchmark", "file": "t.txt"}}]
    with pytest.raises(InputError, match="placement: does not go with a trace of Coflows"):
        schema.check(data, tmp_path / "e.yaml")


def test_rates_routing_and_gpus_reach_the_network_and_its_file(tmp_path):
    given = {"gpus_per_host": 4, "rates": {"h1": "10 Mbit/s", "l2-p1": "1 Gbit/s"}, "routing": "ecmp(seed=9)"}
    network = schema.check(described((2, None), network=given), Path("e.yaml")).network
    assert (network.gpus_per_host, network.ecmp_seed) == (4, 9)
    assert {(cable.a, cable.b): cable.rate_bps for cable in network.cables}["h1", "l1"] == 1e7
    write_network(tmp_path / "network.json", network)
    assert read_network(tmp_path / "network.json") == network
    plain = schema.check(described((2, None), network={"routing": "destination"}), Path("e.yaml")).network
    assert (plain.gpus_per_host, plain.ecmp_seed) == (1, None)


def test_a_topologys_file_is_found_beside_the_experiment_and_named_where_it_is_not(tmp_path):
    (tmp_path / "hosts.csv").write_text("ip,DSW,PSW,ASW\na,G,P,S\nb,G,P,S\n")
    data = described((2, None))
    data["network"] = {"topology": "three-layer", "file": "hosts.csv", "rate": "1 Gbit/s"}
    path = tmp_path / "e.yaml"
    YAML().dump(data, path)
    assert schema.load(path).jobs[0].placement == hosts(1, 2)
    data["network"]["file"] = "host.csv"
    with pytest.raises(InputError, match=r"network.file: there is no file .*; did you mean 'hosts.csv'\?"):
        schema.check(data, path)


def test_all_faults_of_a_network_are_said_at_once():
    found = faults((2, None), network={"rate": "fast", "routing": "ecpm", "rates": {"h1": "slow"}})
    assert {line.split(": ")[1] for line in found} == {"network.rate", "network.routing", "network.rates.h1"}


def test_ranks_on_one_host_exchange_nothing_over_the_network():
    spec = schema.check(described((4, ["h1", "h1", "h2", "h2"]), network={"gpus_per_host": 2}), Path("e.yaml"))
    flows = runner.predict(spec, "fair").flows
    assert flows
    assert all(flow.src_host != flow.dst_host for flow in flows)
