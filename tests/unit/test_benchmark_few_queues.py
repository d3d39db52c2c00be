"""The benchmark of few queues: its cells, what they cost in fluid, and what is made of runs on packets."""

from __future__ import annotations

import pytest

from echelon.benchmarks import _few_queue_cells as cells_module
from echelon.benchmarks import few_queues
from echelon.benchmarks._few_queue_cells import FLUID_LOG, PACKET_LOG, Cell, FluidRun, PacketRun, cells
from echelon.running.simulated import predict
from echelonflow.errors import InputError, RunError
from echelonflow.model.counting import ALL
from echelonflow.scheduling import folding
from echelonflow.wire.classes import DATA_CLASSES
from simulator.realism import Realism
from tests.unit.test_benchmark_paradigms import Recorded, named, silent

TOP, LINKS = "priority(classes=1,folding=top)", "priority(classes=7,folding=links)"


def test_every_folding_and_every_enforcer_has_cells():
    found = {cell.name for cell in cells()}
    assert len(found) == len(cells())
    assert {"rate", "weighted", *(f"{way}-2" for way in folding.names())} <= found
    assert {f"links-{classes}" for classes in cells_module.CLASSES} <= found
    alike = [name for name in found if name.endswith("-1")]
    assert len(alike) == 2, "with one class all foldings but links are the same"


@pytest.mark.parametrize("cell", cells(), ids=lambda cell: cell.name)
def test_packets_and_their_simulation_are_told_the_same(cell):
    experiment = cell.experiment(3)
    assert (experiment.repeats, experiment.name) == (3, f"few-queues-{cell.name}")
    assert {experiment.enforcer_of(policy) for policy in experiment.policies} == {cell.enforcer}
    kind, _, rest = cell.enforcer.partition("(")
    assert experiment.realism.enforcer == kind
    if kind == "priority":
        classes, way = rest.removesuffix(")").split(",")
        wanted = {"classes": int(classes.partition("=")[2]), "folding": way.partition("=")[2]}
        assert experiment.realism == Realism(enforcer="priority", **wanted)


def test_the_experiment_is_drawn_and_its_transfers_are_long_enough_to_be_timed():
    experiment = Cell("rate").experiment(1)
    assert experiment.is_drawn, "repeats would all be one course of events"
    assert experiment.counting == ALL, "what is counted here are all iterations"
    sizes = [transfer.size_bytes for job in experiment.jobs for transfer in job.dag.transfers]
    assert min(sizes) / max(experiment.network.capacity_Bps) >= 0.15


def test_more_flows_are_under_way_at_once_than_there_are_classes():
    experiment = Cell("rate").experiment(1)
    for policy in experiment.policies:
        flows = predict(experiment, policy).flows
        at_once = [sum(other.release_s <= flow.release_s < other.finish_s for other in flows) for flow in flows]
        assert max(at_once) > len(DATA_CLASSES)


def test_one_class_costs_in_fluid_and_what_is_held_back_needs_none(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_module, "DRAWS", 2)
    figures = few_queues.run(1, silent, tmp_path, ["top-1", "links-7"])
    runs = list(FLUID_LOG.read(tmp_path / few_queues.FLUID_FILE))
    assert len(runs) == 2 * 2 * 2 == 2 * len(figures)
    for by_enforcer in few_queues.fluid_ratios(runs).values():
        assert min(by_enforcer[TOP]) > 1.05
        assert max(by_enforcer[LINKS]) < 1.03
    assert len({run.unlimited_s for run in runs if run.policy == "echelonflow"}) == 2, "each draw is another"
    assert not (tmp_path / few_queues.PACKETS_FILE).exists()


def packet_runs(on_packets, in_fluid, valid=(True,), enforcer=TOP):
    return [PacketRun(enforcer, "clock", i, on_packets, in_fluid, 2.0, valid=each) for i, each in enumerate(valid)]


def test_figures_say_what_a_cell_costs_and_which_pairs_are_turned():
    in_fluid = [FluidRun(TOP, "clock", draw, time_s, 2.0) for draw, time_s in enumerate((2.4, 2.6))]
    packets = [
        *packet_runs(2.6, 2.5, (True, False)),
        *packet_runs(2.7, 2.0, enforcer=LINKS),
        *packet_runs(2.2, 2.04, enforcer="rate"),
    ]
    figures = few_queues.figures(in_fluid, packets)
    assert named(figures, "clock, top-1").measured == (
        "1.250 [1.200, 1.300] in fluid, 1.300 on packets (+4.0%), 1 of 2 runs count"
    )
    order = named(figures, "the same order on packets, valid runs")
    # links and rate are 2 % apart in fluid, and do not count
    assert (order.ok, order.measured) == (False, f"1 of 2 pairs. Not clock: {TOP} and {LINKS}")
    assert named(figures, "off fluid").measured == "7.8% (up to 35.0%)"


def test_runs_that_do_not_count_or_did_not_end_are_told_apart():
    packets = [*packet_runs(2.6, 2.5, (False,)), *packet_runs(None, 2.5, (False,))]
    assert few_queues.packet_ratios(packets, valid=True) == {}
    assert few_queues.packet_ratios(packets, valid=False) == {"clock": {TOP: pytest.approx((1.3, 1.25))}}
    assert few_queues.valid_of(packets, "clock", TOP) == "0 of 2"
    (figure,) = few_queues.figures([FluidRun(TOP, "clock", 0, 2.4, 2.0)], packets)[:1]
    assert figure.measured.endswith("not on packets, 0 of 2 runs count")


@pytest.mark.slow  # a whole run folder is written and analysed
def test_runs_on_packets_are_kept_with_what_fluid_says_of_their_draws(tmp_path, monkeypatch):
    monkeypatch.setattr(cells_module, "DRAWS", 1)
    execute, said = Recorded(), []
    few_queues.run(1, said.append, tmp_path, ["rate"], emulated=True, execute=execute)
    assert execute.carried_out == ["few-queues-rate"]
    assert any(words.startswith("1 cells on packets take about ") for words in said)
    runs = list(PACKET_LOG.read(tmp_path / few_queues.PACKETS_FILE))
    assert {(run.enforcer, run.repeat) for run in runs} == {("rate", 0)}
    for run in runs:
        assert run.iteration_s == pytest.approx(run.fluid_s, rel=0.01), "recordings are of fluid runs"
    few_queues.run(1, said.append, tmp_path, ["rate"], emulated=True, execute=execute)
    assert len(execute.carried_out) == 1, "what is measured is not run again"


def test_where_nothing_comes_out_it_is_an_error(tmp_path):
    def fails(*_):
        raise RunError("no network here")

    with pytest.raises(RunError, match="no run came out"):
        few_queues.on_packets([Cell("rate")], 1, tmp_path, silent, fails)


def test_a_name_that_fits_no_cell_is_refused(tmp_path):
    with pytest.raises(InputError, match="--only zzz: fits none of links-1, links-2"):
        few_queues.run(1, silent, tmp_path, ["zzz"])
