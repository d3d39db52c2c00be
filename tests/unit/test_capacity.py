from __future__ import annotations

import pytest

from echelon.running import capacity, capacity_trials, runner
from echelon.running.capacity import Capacity
from echelon.running.capacity_trials import Search, Trial
from echelonflow.errors import EXIT_INTERRUPTED, InputError, RunError
from echelonflow.scheduling import policies
from simulator.fluid import simulate


@pytest.mark.parametrize(
    ("topology", "hosts"), [("single-switch", 4), ("leaf-spine", 8), ("dumbbell", 4), ("fat-tree", 16)]
)
def test_the_trial_loads_every_host_link_at_once(topology, hosts):
    network = capacity_trials.build(topology, hosts, 10e6)
    record = simulate([capacity_trials.ring(network, 1.5)], network, policies.load("fair"))
    assert len(record.flows) == hosts
    if topology != "dumbbell":  # whose bottleneck two flows share
        assert all(f.finish_s == pytest.approx(1.5, rel=1e-3) for f in record.flows)


@pytest.mark.parametrize(("topology", "hosts"), [("leaf-spine", 6), ("fat-tree", 8), ("fat-tree", 15)])
def test_a_number_of_hosts_that_a_topology_cannot_have_is_refused(topology, hosts):
    with pytest.raises(InputError, match=f"{hosts} is n"):
        capacity_trials.build(topology, hosts, 10e6)


def test_what_is_remembered_is_recalled_and_replaced(tmp_path):
    path = tmp_path / "deep" / "capacity.json"
    capacity.remember([Capacity("single-switch", 4, 50e6), Capacity("leaf-spine", 4, 20e6)], path)
    capacity.remember([Capacity("single-switch", 4, 80e6)], path)
    assert set(capacity.recall(path)) == {Capacity("single-switch", 4, 80e6), Capacity("leaf-spine", 4, 20e6)}


def test_what_another_machine_carried_says_nothing(tmp_path):
    path = tmp_path / "capacity.json"
    capacity.remember([Capacity("single-switch", 4, 50e6)], path)
    path.write_text(path.read_text().replace('"machine": "', '"machine": "other-'))
    assert capacity.recall(path) == []


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "capacity.json"
    path.write_text("{")
    with pytest.raises(InputError, match="run `echelon capacity`"):
        capacity.recall(path)


def test_the_warning_takes_the_nearest_larger_number_of_hosts():
    known = [Capacity("single-switch", 4, 100e6), Capacity("single-switch", 16, 30e6)]
    assert capacity.warning(capacity_trials.build("single-switch", 4, 100e6), known) is None
    assert "4 hosts at 100 Mbit/s" in capacity.warning(capacity_trials.build("single-switch", 3, 110e6), known)
    assert "16 hosts at 30 Mbit/s" in capacity.warning(capacity_trials.build("single-switch", 8, 40e6), known)
    assert capacity.warning(capacity_trials.build("single-switch", 32, 40e6), known) is None
    assert capacity.warning(capacity_trials.build("leaf-spine", 8, 400e6), known) is None


def trials(monkeypatch, limit_bps, start_s=0.5, chance=()):
    """Made-up trials, carried up to `limit_bps` unless their number is in `chance`; returns (rate, flow_s) of each."""
    tried = []

    def attempted(network, flow_s):
        rate_bps = network.cables[0].rate_bps
        tried.append((rate_bps, flow_s))
        carried = rate_bps <= limit_bps and len(tried) - 1 not in chance
        return Trial("" if carried else "processors were busy", 8 * rate_bps, start_s)

    monkeypatch.setattr(capacity_trials, "attempted", attempted)
    return tried


@pytest.mark.parametrize("limit_bps", [2e6, 7e6, 25e6, 70e6, 333e6, 2.5e9])
def test_the_search_finds_the_limit_to_a_quarter(monkeypatch, limit_bps):
    tried = trials(monkeypatch, limit_bps)
    search = Search("single-switch", 4, lambda _: None)
    found = search.find()
    assert found.rate_bps <= limit_bps <= found.rate_bps * capacity_trials.RESOLUTION
    rates_bps = [rate_bps for rate_bps, _ in tried]
    assert len(set(rates_bps)) * search.expected_s <= search.most_s
    # What is not carried is tried once more, what is carried never.
    assert all(rates_bps.count(rate_bps) == (1 if rate_bps <= limit_bps else 2) for rate_bps in rates_bps)


def test_a_machine_that_carries_everything_is_not_tried_for_ever(monkeypatch):
    tried = trials(monkeypatch, 1e12)
    assert Search("single-switch", 2, lambda _: None).find().rate_bps == capacity_trials.MOST_RATE_BPS
    assert len(tried) == 5


def test_a_machine_that_carries_nothing_is_given_up(monkeypatch):
    tried = trials(monkeypatch, 0.0)
    assert Search("single-switch", 2, lambda _: None).find().rate_bps == 0
    assert len(tried) == 2 * 3


def test_a_neighbour_who_is_busy_for_a_moment_is_no_limit(monkeypatch):
    trials(monkeypatch, 120e6, chance=(0, 2))
    assert Search("single-switch", 4, lambda _: None).find().rate_bps >= 100e6


def test_hosts_send_for_long_against_the_start_of_their_programs(monkeypatch):
    for start_s, expected_s in ((0.1, capacity_trials.LEAST_FLOW_S), (4.0, 12.0)):
        tried = trials(monkeypatch, 30e6, start_s=start_s)
        Search("single-switch", 16, lambda _: None).find()
        assert tried[0][1] == pytest.approx(3 * (1.0 + 1.6))  # not known yet, but longer with more hosts
        assert {flow_s for _, flow_s in tried[1:]} == {expected_s}


def test_the_search_says_what_it_does_and_how_long_that_takes(monkeypatch):
    trials(monkeypatch, 30e6)
    said = []
    Search("single-switch", 4, said.append).find()
    assert said[0] == "single-switch, 4 hosts at 25 Mbit/s: sending for 4 s; up to 8 trials of 13 s, 102 s in all"
    assert said[1] == "  carried: 200 Mbit/s of payload in all"
    assert "  not carried: processors were busy; once more" in said
    left = [int(words.split("up to ")[1].split()[0]) for words in said if "up to" in words]
    assert left == sorted(left, reverse=True)


def test_an_interrupted_trial_ends_the_search(monkeypatch):
    def interrupted(experiment, root, *_, **__):
        return EXIT_INTERRUPTED, None

    monkeypatch.setattr(runner, "run", interrupted)
    with pytest.raises(RunError, match="interrupted"):
        Search("single-switch", 4, lambda _: None).find()
