from __future__ import annotations

import pytest

from echelon.running import capacity, capacity_trials, runner
from echelon.running.capacity import Capacity
from echelonflow.errors import EXIT_INTERRUPTED, InputError, RunError
from echelonflow.scheduling import policies
from simulator.fluid import simulate


@pytest.mark.parametrize(("topology", "hosts"), [("single-switch", 4), ("leaf-spine", 8), ("dumbbell", 4)])
def test_the_trial_loads_every_host_link_at_once(topology, hosts):
    network = capacity_trials.build(topology, hosts, 10e6)
    record = simulate([capacity_trials.ring(network)], network, policies.load("fair"))
    assert len(record.flows) == hosts
    if topology != "dumbbell":  # whose bottleneck two flows share
        assert all(f.finish_s == pytest.approx(capacity_trials.FLOW_S, rel=1e-3) for f in record.flows)


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


def test_the_search_brackets_the_limit(monkeypatch):
    tried = []

    def carried_up_to_70_mbit(network, say):
        tried.append(network.cables[0].rate_bps)
        return tried[-1] <= 70e6

    monkeypatch.setattr(capacity_trials, "_try", carried_up_to_70_mbit)
    found = capacity_trials.find("single-switch", 4, lambda _: None)
    assert 56e6 <= found.rate_bps <= 70e6
    assert tried[:4] == [10e6, 20e6, 40e6, 80e6]


def test_an_interrupted_trial_ends_the_search(monkeypatch):
    def interrupted(experiment, root, *_, **__):
        return EXIT_INTERRUPTED, None

    monkeypatch.setattr(runner, "run", interrupted)
    with pytest.raises(RunError, match="interrupted"):
        capacity_trials.find("single-switch", 4, lambda _: None)
