"""The benchmark of ranks: what counts in steady state, and which pairs of policies come in another order."""

from __future__ import annotations

import pytest
from ruamel.yaml import YAML

from echelon.benchmarks import ranking
from echelon.benchmarks.ranking import SteadyRun
from echelon.documents import steady_files
from echelon.experiment import schema
from echelon.study import steady
from echelonflow.errors import InputError


def test_only_iterations_count_that_end_while_all_jobs_run():
    short = [9.0, 1.0, 1.0, 1.0, 1.0, 1.0]  # ends at 9, 10, 11, 12, 13, 14
    long = [5.0, 5.0, 3.0, 4.0, 30.0]  # ends at 5, 10, 13, 17, 47
    assert ranking.steady_s([short, long]) == pytest.approx((1.0 + 3.0) / 2)


def test_jobs_that_never_run_together_have_no_steady_state():
    assert ranking.steady_s([[1.0] * 4, [3.0] * 4]) is None
    assert ranking.steady_s([[1.0, 1.0], [1.0] * 4]) is None


def test_a_pair_in_another_order_is_named():
    took = {"fair": [(2.0, 2.0)], "fifo": [(1.5, 1.5), (1.6, 1.5)], "clock": [(1.7, 1.0)], "edf": [(1.9, 1.98)]}
    found = [
        SteadyRun("x", policy, i, *each, valid=True) for policy, runs in took.items() for i, each in enumerate(runs)
    ]
    found.append(SteadyRun("x", "aalo", 0, 1.0, 9.0, valid=False))
    *_, order, of_all, off = ranking.figures(found)
    # fair and edf are 1 % apart in fluid, and do not count; clock is faster there than fifo, and slower on packets
    assert order.measured == "4 of 5 pairs. Not x: fifo and clock"
    assert order.ok is False
    assert of_all.measured.startswith("4 of 9 pairs")
    assert of_all.ok is None
    assert off.measured.startswith("3.7%")


def yaml_of(text):
    return YAML(typ="safe").load(text)


def test_files_are_what_is_drawn():
    numbers = range(steady_files.DRAWN + steady_files.CROSSING)
    texts = {yaml_of(text)["name"]: text for text in map(steady_files.drawn, numbers)}
    assert {path.stem for path in steady_files.FOLDER.glob("*.yaml")} == set(texts)
    for name, text in texts.items():
        path = steady_files.FOLDER / f"{name}.yaml"
        assert path.read_text(encoding="utf-8") == text, "make it again: python -m echelon.documents.steady_files"


@pytest.mark.parametrize("path", sorted(steady_files.FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_jobs_of_a_file_last_about_equally_long_at_the_pace_they_can_keep_up(path):
    experiment = schema.load(path)
    together_s = steady.loads_of(experiment.jobs, experiment.network).together_s
    lasts_s = [
        (job.iterations - steady.WARM_UP) * own_s for job, own_s in zip(experiment.jobs, together_s, strict=True)
    ]
    assert min(lasts_s) >= steady_files.LASTS_S
    assert max(lasts_s) <= steady_files.LASTS_S + max(together_s)


@pytest.mark.parametrize("path", sorted(steady_files.FOLDER.glob("*.yaml")), ids=lambda path: path.stem)
def test_no_transfer_is_too_short_to_be_timed_on_packets(path):
    shortest_s = [steady_files.shortest_transfer_s(job) for job in schema.load(path).jobs]
    assert min(shortest_s) >= steady_files.SHORTEST_S
    assert max(shortest_s) < 10 * steady_files.SHORTEST_S, "longer than it has to be"


def test_a_name_that_fits_no_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="--only zzz: fits no file"):
        ranking.run(1, lambda _: None, tmp_path, ["zzz"])
