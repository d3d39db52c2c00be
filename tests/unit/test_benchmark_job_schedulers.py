"""The benchmark of job schedulers: its figures on made-up cells, what is kept of an interrupted grid, and real small cells."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import msgspec
import pytest

from echelon import benchmarks
from echelon.benchmarks import _job_scheduler_cells as cells_module
from echelon.benchmarks import _job_scheduler_emulated as on_packets
from echelon.benchmarks import _job_scheduler_figures as figures_module
from echelon.benchmarks import _job_scheduler_matrix as matrix
from echelon.benchmarks import job_schedulers
from echelon.benchmarks._job_scheduler_cells import (
    BYTESCHEDULER,
    DDP,
    FIFO,
    PASS_THROUGH,
    PASS_THROUGH_TUNED,
    TUNED,
    TUNED_FAITHFUL,
    Key,
    Result,
    all_keys,
)
from echelon.benchmarks._job_scheduler_claims import CLAIMS
from echelon.documents import job_scheduler_files
from echelon.experiment import yaml_file
from echelon.running.simulated import predict
from echelon.tuning.space import Point
from echelonflow.errors import InputError
from echelonflow.model.units import parse_size_bytes
from echelonflow.plugins import parse_call
from results.analysis.rows import iteration_rows
from tests.unit.made_up_cells import made_up
from tests.unit.test_benchmark_paradigms import Recorded, silent

KEY = Key("ResNet-50", "ring", 2, 25, 0.0)


def _of(figures, words):
    return next(figure for figure in figures if words in figure.what)


def test_figures_of_a_grid_in_which_all_is_well():
    figures = figures_module.figures([made_up(key) for key in all_keys()])
    assert {figure.what for figure in figures if figure.ok is False} == set()
    assert _of(figures, "VGG-16, ring: speed-up over fifo").measured.startswith("1.30 (1.00 to 1.30)")
    assert _of(figures, "iteration over the ideal overlap bound").measured.startswith("1.0")
    assert _of(figures, "100 Gbit/s: tuned over untuned").measured.startswith("1.18")
    assert _of(figures, "fixed over faithful").measured.startswith("1.08")
    assert "for 150 settings" in _of(figures, "all of the fluid grid").measured


def _with(cell, scheduler, iteration_s):
    results = tuple(r if r.scheduler != scheduler else Result(scheduler, iteration_s) for r in cell.results)
    return msgspec.structs.replace(cell, results=results)


def test_one_setting_that_is_slower_is_missed():
    found = [made_up(key) for key in all_keys()]
    place = found.index(made_up(KEY))
    found[place] = _with(found[place], TUNED, 1.01 * found[place].iteration_s(FIFO))
    figures = figures_module.figures(found)
    assert _of(figures, "ResNet-50, ring: speed-up over fifo").ok is False
    assert _of(figures, "VGG-16, ring: speed-up over fifo").ok is True
    assert _of(figures, "ResNet-50: gains").ok is (not 0.2 <= found[place].intensity <= 2.0)


def test_no_gain_is_asked_for_where_the_bound_allows_none():
    hidden = [made_up(key) for key in all_keys() if key.model == "VGG-16" and key.workers == 2 and key.gbit == 25]
    plain = [_with(msgspec.structs.replace(c, least_s=c.iteration_s(FIFO)), TUNED, c.iteration_s(FIFO)) for c in hidden]
    figure = _of(figures_module.figures(plain), "VGG-16: gains")
    assert (figure.ok, figure.measured) == (True, "0 of 0; none; in 2 more the bound allows none")


def test_a_result_below_the_bound_is_missed():
    found = [made_up(key) for key in all_keys()]
    found[5] = _with(found[5], FIFO, 0.999 * found[5].least_s)
    assert _of(figures_module.figures(found), "iteration over the ideal overlap bound").ok is False


def test_a_best_case_far_from_the_bound_and_a_long_grid_are_missed():
    found = [
        msgspec.structs.replace(made_up(key), least_s=0.5 * made_up(key).least_s, took_s=10.0) for key in all_keys()
    ]
    figures = figures_module.figures(found)
    assert _of(figures, "the best case against").ok is False
    assert _of(figures, "all of the fluid grid").ok is False


def test_pass_through_is_told_for_both_costs_of_a_transfer():
    figures = figures_module.figures([made_up(key) for key in all_keys()])
    told = [figure for figure in figures if figure.what.startswith("partitions and credit alone")]
    assert [figure.measured.partition(" ")[0] for figure in told] == ["+5.0%", "-4.0%", "+5.0%", "-4.0%"]


def test_every_claim_says_what_was_found_and_why():
    found = [made_up(key) for key in all_keys()]
    for claim in CLAIMS:
        told = claim.found(found)
        assert told.here
        assert told.why
        assert told.verdict in {"yes", "in shape", "no", "not tried"}
    bytescheduler, every_bandwidth, linear, inference = (claim.found(found) for claim in CLAIMS[:4])
    assert (bytescheduler.verdict, bytescheduler.here.partition(" (")[0]) == ("in shape", "up to +30%")
    assert every_bandwidth.verdict == "yes"
    assert linear.verdict != "yes"
    assert inference.verdict == "not tried"


def test_a_claim_without_a_setting_is_not_tried():
    (p3,) = (claim for claim in CLAIMS if "ResNet-50" in claim.what)
    assert p3.found([made_up(Key("VGG-16", "parameter-server", 8, 100, 0.0))]).verdict == "not tried"


def test_real_cell_is_simulated_and_none_of_its_results_beats_the_bound(monkeypatch):
    monkeypatch.setattr(cells_module, "SAMPLES", 3)
    monkeypatch.setattr(cells_module, "METHOD", "random")
    cell = cells_module.measure(KEY)
    assert cell.key == KEY
    labels = {result.scheduler for result in cell.results}
    assert {FIFO, DDP, BYTESCHEDULER, TUNED, TUNED_FAITHFUL, PASS_THROUGH, PASS_THROUGH_TUNED} <= labels
    assert "p3" not in labels  # which is for parameter servers
    assert all(result.iteration_s >= cell.least_s * (1 - 1e-9) for result in cell.results)
    assert cell.iteration_s(TUNED) <= cell.iteration_s(BYTESCHEDULER)
    assert cell.compute_s < cell.least_s < cell.compute_s + cell.communication_s


def test_latency_makes_iterations_longer_and_not_the_bound():
    plain, late = (
        cells_module.measured_one(msgspec.structs.replace(KEY, latency_s=latency_s), FIFO) for latency_s in (0.0, 0.01)
    )
    assert plain < late


def test_a_grid_that_was_interrupted_goes_on(tmp_path, monkeypatch):
    keys = all_keys()[:4]
    path = tmp_path / "cells.jsonl"
    job_schedulers.append(cells_module.CELLS, path, [made_up(key) for key in keys[:3]])
    asked = []

    class Pool:
        def __init__(self, **_):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

        def submit(self, _, key):
            asked.append(key)
            return SimpleNamespace(result=lambda: made_up(key))

        def shutdown(self, **_):
            pass

    monkeypatch.setattr(job_schedulers, "pool", Pool)
    monkeypatch.setattr(job_schedulers, "as_completed", list)
    said = []
    found = job_schedulers.grid(keys, path, said.append)
    assert asked == keys[3:]
    assert [cell.key for cell in found] == keys
    assert said[0] == "3 of 4 settings are simulated"
    assert {cell.key for cell in cells_module.read_cells(path)} == set(keys)


def test_only_takes_settings_and_files_by_name(tmp_path):
    assert job_schedulers.fits("vgg-16-ring-8-100g", ["vgg-16-*"])
    assert not job_schedulers.fits("vgg-16-ring-8-100g", ["resnet*"])
    with pytest.raises(InputError, match="--only nothing: fits no setting such as vgg-16-ps-8-1g"):
        job_schedulers.run(1, print, tmp_path, ["nothing"])
    assert len({key.name for key in all_keys()}) == len(all_keys()) == 150


def test_emulated_is_refused_where_there_is_no_such_part():
    with pytest.raises(InputError, match="--emulated: forms has no part"):
        benchmarks.run_benchmarks(["forms"], 1, None, None, emulated=True)


# The matrix


def _combinations(gains):
    return [
        matrix.Combination("shared-two", scheduler, policy, {"a": 1 / gained, "b": 2 / gained})
        for (scheduler, policy), gained in gains.items()
    ]


@pytest.mark.parametrize(
    ("inside", "network", "both", "words"),
    [
        (1.2, 1.3, 1.5, "both together bring more than either"),
        (1.1, 1.3, 1.3, "the network policy makes the job scheduler superfluous"),
        (1.3, 1.1, 1.3, "the job scheduler makes the network policy superfluous"),
        (1.2, 1.2, 1.2, "either will do"),
    ],
)
def test_matrix_says_which_makes_which_superfluous(inside, network, both, words):
    pairs = itertools.product(("fifo", "bytescheduler"), ("fair", "echelonflow"))
    found = _combinations(dict(zip(pairs, (1.0, network, inside, both), strict=True)))
    (verdict,) = matrix.verdicts(found)
    assert verdict.words == words
    assert (verdict.inside_gain, verdict.network_gain) == pytest.approx((inside, network))
    figures = matrix.figures(found)
    assert figures[0].what == "shared-two (2 jobs): job scheduler alone, over fifo under fair"
    assert figures[-1].measured == words


def test_one_combination_simulated():
    (path,) = (path for path in matrix.files() if path.stem == "shared-two")
    found = matrix.simulated(path, "fifo", "fair")
    assert found.key == ("shared-two", "fifo", "fair")
    assert set(found.iteration_s) == {"vgg-16", "resnet-50"}
    assert all(iteration_s > 0.1 for iteration_s in found.iteration_s.values())


# On packets


def _turns(ratios, exposed=1.0):
    for turn, ratio in enumerate(ratios):
        for which, iteration_s in ((FIFO, 2.0 * ratio), (on_packets.OWN, 2.0)):
            yield on_packets.Turn("x", turn, which, which, iteration_s, 2.0, exposed, 1.0, 1.9)


def test_emulated_speed_ups_are_paired_by_turn():
    turns = list(_turns([1.2, 1.3, 1.25], exposed=1.02))
    found = on_packets.speed_ups(turns)["x"]
    assert (found.median, found.n) == (pytest.approx(1.25), 3)
    assert found.low < 1.25 < found.high
    figures = on_packets.figures(turns)
    assert [figure.ok for figure in figures] == [True, True, True]
    assert figures[1].measured.startswith("+5.3%")


def test_emulated_figures_that_are_missed():
    assert [figure.ok for figure in on_packets.figures(list(_turns([0.9, 1.1], exposed=1.2)))] == [False, True, False]
    assert on_packets.figures(list(_turns([1.2])))[0].ok is None  # a single turn has no interval


def test_a_turn_without_a_pair_does_not_count():
    turns = [each for each in _turns([1.2, 1.4]) if (each.turn, each.which) != (1, FIFO)]
    assert on_packets.speed_ups(turns)["x"].n == 1


def test_every_other_turn_goes_the_other_way_round():
    assert on_packets.order(0) == on_packets.order(2) == (FIFO, on_packets.OWN)
    assert on_packets.order(1) == (on_packets.OWN, FIFO)


def test_there_are_a_dozen_files_each_with_a_scheduler_and_a_bound():
    paths = on_packets.files()
    assert len(paths) == 12
    experiment = on_packets.variant(paths[0], on_packets.OWN, 0)
    plain = on_packets.variant(paths[0], FIFO, 1)
    assert experiment.jobs[0].discipline.scheduler.startswith("bytescheduler(partition=")
    assert plain.jobs[0].discipline.scheduler == FIFO
    assert experiment.name != plain.name
    assert 0.5 < on_packets.least_s(experiment) < 20


def _small_file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(
        """
name: small
network: {topology: single-switch, hosts: 2, rate: 50 Mbit/s}
jobs:
  - name: resnet
    paradigm: data-parallel
    profile: resnet50-b128-h100
    ranks: 2
    scheduler: bytescheduler(partition=16 MB, credit=102 MB)
    iterations: 3
    scaling: {time: 30, bandwidth: 500}
policies: [fair]
"""
    )
    return path


def test_turns_are_run_read_and_kept(tmp_path):
    """On made-up recordings of fluid runs: what is measured is what fluid simulation says, but for the start of a run."""
    carried_out = Recorded()
    path = _small_file(tmp_path)
    found = on_packets.measured([path], tmp_path, 2, silent, carried_out)
    assert carried_out.carried_out == ["small-fifo-0", "small-own-0", "small-own-1", "small-fifo-1"]
    assert [(each.turn, each.which) for each in found] == [(0, "fifo"), (0, "own"), (1, "own"), (1, "fifo")]
    assert list(on_packets.LOG.read(tmp_path / "emulated.jsonl")) == found
    for each in found:
        assert each.iteration_s == pytest.approx(each.fluid_iteration_s, rel=0.02)
        assert each.iteration_s >= each.least_s * (1 - 1e-6)  # tables have six digits
    again = Recorded()
    assert on_packets.measured([path], tmp_path, 2, silent, again) == found
    assert again.carried_out == []  # it is there


def test_an_experiment_without_a_valid_pair_is_named():
    turns = [turn for turn in _turns([1.2, 1.3]) if turn.which == FIFO]
    (only, *_) = on_packets.figures(turns)
    assert (only.what, only.measured) == ("emulated, x: speed-up over fifo", "no turn in which both runs count")
    assert only.ok is None


def test_next_to_nothing_exposed_is_no_measure_of_how_far_off_fluid_is():
    hidden = on_packets.Turn("x", 0, FIFO, FIFO, 2.0, 2.0, exposed_s=0.013, fluid_exposed_s=1e-4, least_s=1.9)
    assert on_packets.off_fluid([hidden]) == []
    assert on_packets.off_fluid([hidden, *_turns([1.2], exposed=1.1)]) == pytest.approx([0.1, 0.1])


# The files


@pytest.mark.parametrize("key", job_scheduler_files.DOZEN, ids=lambda key: key.name)
def test_files_are_what_their_command_writes(key):
    """But for what the tuner finds, which takes longer: that is read from the file."""
    path = matrix.FOLDER / f"{key.name}.yaml"
    _, written = parse_call(yaml_file.read(path).data["jobs"][0]["scheduler"])
    point = Point(parse_size_bytes(written["partition"]), parse_size_bytes(written["credit"]))
    assert job_scheduler_files.alone_text(key, point) == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", job_scheduler_files.SHARED)
def test_files_with_several_jobs_are_what_their_command_writes(name):
    path = matrix.FOLDER / f"{name}.yaml"
    text = job_scheduler_files.shared_text(name, job_scheduler_files.SHARED[name])
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["vgg-16-ring-4-100g", "resnet-50-ps-4-10g"])
def test_engine_finds_in_a_file_what_the_fast_simulation_finds_for_its_setting(name):
    (path,) = (path for path in on_packets.files() if path.stem == name)
    (key,) = (key for key in job_scheduler_files.DOZEN if key.name == name)
    experiment = on_packets.variant(path, on_packets.OWN, 0)
    source = experiment.source["jobs"][0]
    fast_s = cells_module.measured_one(key, source["scheduler"]) * source["scaling"]["time"]
    (whole_s,) = [
        row.duration_s for row in iteration_rows(predict(experiment, "fair"), experiment.jobs) if row.iteration == 3
    ]
    assert whole_s == pytest.approx(fast_s, rel=1e-4)
    assert whole_s >= on_packets.least_s(experiment) * (1 - 1e-6)


def test_it_is_said_beforehand_how_long_turns_take(tmp_path):
    said = []
    path = _small_file(tmp_path)
    on_packets.measured([path], tmp_path, 3, said.append, Recorded())
    assert (
        said[0]
        == f"3 turns of 1 experiments take about {3 * on_packets.expected_s(path) / 60:.0f} min, less what is there"
    )
    assert 60 < on_packets.expected_s(path) < 120
