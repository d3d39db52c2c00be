"""Across the barrier between iterations: the parameters are those of plain training, and layers are what a forward pass needs."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from echelonflow.errors import InputError, RunError
from tests.live.processes import ROOT, end, printed, start
from tests.live.test_examples import losses
from traffic.live import process
from traffic.live.layerwise import LEAST_LAYER_BYTES, layers_of
from traffic.live.process import Outstanding
from traffic.workloads import formats

SCHEDULER = "bytescheduler(partition=20 kB, credit=60 kB)"


@pytest.mark.parametrize("backend", ["gloo", "echelon"])
def test_parameters_are_those_of_plain_training(tmp_path, backend):
    script = ROOT / "tests/live/crosses_barrier.py"
    codes = end(start(tmp_path, 2, script, backend))
    said = [printed(tmp_path, rank) for rank in range(2)]
    assert codes == [0, 0], said
    assert not [line for text in said for line in text.splitlines() if "differs" in line], said
    assert all("steps 4" in text for text in said)


def test_an_unchanged_program_loses_as_with_ddp_and_what_was_seen_crosses_the_barrier(tmp_path):
    script, argv = ROOT / "examples/live/train_ddp.py", ("--steps", "5", "--width", "64")
    found = []
    for folder, more in ((tmp_path / "ddp", {}), (tmp_path / "ours", {"ECHELON_SCHEDULER": SCHEDULER})):
        folder.mkdir()
        codes = end(start(folder, 2, script, *argv, ECHELON_OBSERVE=str(folder / "seen{rank}.json"), **more))
        assert codes == [0, 0], [printed(folder, rank) for rank in range(2)]
        found.append(losses(printed(folder, 0)))
    plain, ours = found
    assert len(plain) == 5
    assert ours == pytest.approx(plain, rel=1e-5)
    imported = formats.read("live", sorted((tmp_path / "ours").glob("seen*.json")), {})
    discipline = imported.discipline
    assert discipline.scheduler == SCHEDULER
    assert discipline.window.credit_bytes == 60_000
    assert {task.rank for task in discipline.tasks} == {0, 1}
    held = {name for task in discipline.tasks for name in task.transfers}
    assert held == {transfer.name for transfer in imported.dag.transfers}  # all of it is gradients
    crossing = {earlier for earlier, _ in imported.dag.next_iteration if earlier in held}
    assert crossing == held
    last, first = discipline.tasks[0], max(discipline.tasks, key=lambda task: -task.priority)
    assert last.priority > first.priority  # the backward pass comes to the last layer first


def test_a_program_that_clips_gradients_is_told_that_it_cannot(tmp_path):
    script = tmp_path / "clips.py"
    script.write_text("import torch\ntorch.nn.utils.clip_grad_norm_([], 1.0)\n")
    assert end(start(tmp_path, 1, script, ECHELON_SCHEDULER=SCHEDULER)) == [2]
    assert "the program clips gradients" in printed(tmp_path, 0)


def large():
    return nn.Linear(64, LEAST_LAYER_BYTES // 64)


def names(layers):
    return [layer.name for layer in layers]


def test_layers_come_in_the_order_in_which_they_are_entered():
    root = nn.ModuleDict({"a": large(), "b": large(), "c": large()})
    entered = [root, root["c"], root["a"], root["b"]]
    assert names(layers_of(root, entered)) == ["c", "a", "b"]


def test_a_layer_that_nobody_entered_is_needed_with_what_is_around_it():
    root = nn.ModuleDict({"a": large(), "b": large()})
    assert names(layers_of(root, [root, root["a"]])) == ["model", "a"]


def test_a_weight_that_is_used_twice_is_needed_the_first_time():
    first, second = large(), large()
    second.weight = first.weight
    root = nn.Sequential(first, second)
    found = layers_of(root, [root, first, second])
    assert [len(layer.parameters) for layer in found] == [3]  # the bias of the second has few bytes, and goes with them


def test_small_layers_go_with_the_next_one_and_the_last_with_the_one_before():
    small = nn.Linear(2, 2)
    root = nn.Sequential(small, large(), large(), nn.Linear(2, 2))
    found = layers_of(root, [root, *root])
    assert names(found) == ["0", "2"]
    assert sum(len(layer.parameters) for layer in found) == 8


def test_what_cannot_be_trained_so_is_refused():
    with pytest.raises(InputError, match="no parameter that is trained"):
        layers_of(nn.ReLU(), [])
    mixed = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, dtype=torch.float64))
    with pytest.raises(InputError, match="several types of numbers"):
        layers_of(mixed, [mixed, *mixed])


def test_a_run_begins_when_nothing_is_under_way_that_it_does_not_schedule(monkeypatch):
    monkeypatch.setattr(process, "DRAIN_LIMIT_S", 0.01)
    outstanding, told = Outstanding(), []
    outstanding.wait()
    ended = outstanding.counting(told.append)
    with pytest.raises(RunError, match="1 exchanges before the run had not ended"):
        outstanding.wait()
    ended(None)
    outstanding.wait()
    assert told == [None]
