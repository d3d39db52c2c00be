"""Policies compared over folders: statistics against worked numbers, pairs, what does not count, and what is refused."""

from __future__ import annotations

import csv
import dataclasses
import json
import math

import pytest
from scipy import stats

from echelon.experiment import schema
from echelon.running import runner
from echelonflow.errors import InputError
from results.analysis import gathered
from results.analysis.across import by_every_measure, compare_across
from results.analysis.across_measures import MEASURES, Estimates
from results.analysis.gathered import Gathered, Observation, gather
from results.analysis.statistics import holm, p_value, ratio_of
from results.report.across import across_lines
from results.report.across_page import across_headline
from results.report.charts.explorer import explorer
from results.report.printed_column import SECONDS
from tests.unit.sweep_cases import written

FAIR_S = [1.0, 1.2, 1.1, 1.3]
CONTROL = ("messages", "decisions", "decision_p50_ms", "decision_p95_ms")
"""Measures of what a controller had to do: a simulation has none."""
OURS_S = [0.8, 1.0, 0.85, 1.05]


def seen(policy, seed, iteration_s, *, valid=True, settings=(), job="p", reason=""):
    return Observation(settings, "fluid", policy, seed, 0, job, valid, reason, {"iteration_s": iteration_s})


def gathered_of(*observations, against=None):
    policies = list(dict.fromkeys(each.policy for each in observations))
    return Gathered(observations, policies, against, 0)


def two_policies():
    pairs = enumerate(zip(FAIR_S, OURS_S, strict=True))
    return [each for k, (fair, ours) in pairs for each in (seen("fair", k, fair), seen("ours", k, ours))]


def test_a_ratio_is_a_geometric_mean_with_the_t_test_of_its_logarithms():
    ratios = [ours / fair for ours, fair in zip(OURS_S, FAIR_S, strict=True)]
    logs = [math.log(one) for one in ratios]
    found = ratio_of(ratios)
    tested = stats.ttest_1samp(logs, 0.0)
    interval = tested.confidence_interval(0.95)
    assert found.mean == pytest.approx(math.exp(sum(logs) / 4))
    assert (found.low, found.high) == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.p == pytest.approx(tested.pvalue)
    assert found.effect == pytest.approx(tested.statistic / math.sqrt(4)), "Cohen's d for pairs is t over the root of n"
    assert p_value(logs) == pytest.approx(tested.pvalue)


def test_a_ratio_the_other_way_round_is_its_inverse():
    ratios = [0.5, 0.8, 0.7]
    found, other = ratio_of(ratios), ratio_of([1 / one for one in ratios])
    assert other.mean == pytest.approx(1 / found.mean)
    assert other.low == pytest.approx(1 / found.high)
    assert other.effect == pytest.approx(-found.effect)


def test_a_single_pair_and_equal_pairs_have_no_certainty():
    assert ratio_of([]) is None
    assert (ratio_of([0.5]).mean, ratio_of([0.5]).low, ratio_of([0.5]).p) == (0.5, None, None)
    assert (ratio_of([0.5, 0.5]).effect, ratio_of([0.5, 0.5]).p) == (None, None)


def test_policies_are_compared_pair_by_pair_on_the_same_seeds():
    found = compare_across(gathered_of(*two_policies()))
    fair, ours = found.rows
    assert found.against == "fair"
    assert fair.ratio is None
    assert ours.pairs == 4
    assert ours.ratio.mean == pytest.approx(ratio_of([a / b for a, b in zip(OURS_S, FAIR_S, strict=True)]).mean)
    assert ours.p_holm == pytest.approx(ours.ratio.p), "one comparison needs no correction"
    assert fair.iteration_s.median == pytest.approx(1.15)


def test_what_does_not_count_is_in_no_average_and_is_counted():
    bad = [seen("fair", 9, 99.0, valid=False, reason="late"), seen("ours", 9, 0.1), seen("ours", 8, 77.0, valid=False)]
    found = compare_across(gathered_of(*two_policies(), *bad))
    fair, ours = found.rows
    assert (fair.runs, fair.valid_runs, ours.runs, ours.valid_runs) == (5, 4, 6, 5)
    assert fair.iteration_s.median == pytest.approx(1.15)
    assert ours.pairs == 4, "a run whose partner does not count is in no pair"
    assert (found.runs, found.left_out) == (11, 2)
    assert found.reasons == {"late": 1, "": 1}


def test_many_comparisons_are_corrected_together():
    others = [
        seen(f"p{n}", k, value * (1 + 0.01 * n + 0.001 * k * n)) for n in range(1, 4) for k, value in enumerate(FAIR_S)
    ]
    found = compare_across(gathered_of(*two_policies(), *others))
    rows = [row for row in found.rows if row.ratio is not None]
    assert [row.p_holm for row in rows] == pytest.approx(holm([row.ratio.p for row in rows]))


def test_conditions_are_compared_apart():
    slow = [
        Observation((("network.rate", "1"),), "fluid", each.policy, each.seed, 0, "p", True, "", {"iteration_s": 2.0})
        for each in two_policies()
    ]
    fast = [
        Observation((("network.rate", "2"),), "fluid", each.policy, each.seed, 0, "p", True, "", each.figures)
        for each in two_policies()
    ]
    found = compare_across(gathered_of(*slow, *fast))
    assert [(row.settings["network.rate"], row.policy) for row in found.rows] == [
        ("1", "fair"), ("1", "ours"), ("2", "fair"), ("2", "ours"),
    ]  # fmt: skip
    assert found.rows[1].ratio.mean == 1.0
    assert found.rows[3].ratio.mean < 1.0


def test_all_conditions_together_count_once_each():
    few = [seen(policy, 0, value, settings=(("x", "1"),)) for policy, value in (("fair", 1.0), ("ours", 0.5))]
    many = [
        seen(policy, k, value, settings=(("x", "2"),))
        for k in range(9)
        for policy, value in (("fair", 1.0), ("ours", 2.0))
    ]
    same = [seen(policy, 0, 1.0, settings=(("x", "3"),)) for policy in ("fair", "ours")]
    (overall,) = compare_across(gathered_of(*few, *many, *same)).overall
    assert (overall.policy, overall.conditions) == ("ours", 3)
    assert overall.ratio.mean == pytest.approx(1.0), "half and double cancel out"
    assert (overall.wins, overall.ties, overall.losses) == (1, 1, 1)
    assert compare_across(gathered_of(*two_policies())).overall == []


def test_runs_of_one_seed_are_pairs_by_their_repeat():
    runs = [
        Observation((), "emulation", policy, 7, repeat, "p", True, "", {"iteration_s": value})
        for policy, values in (("fair", (1.0, 2.0)), ("ours", (0.5, 1.0)))
        for repeat, value in enumerate(values)
    ]
    found = compare_across(gathered_of(*runs))
    assert (found.runs, found.rows[1].pairs, found.rows[1].ratio.mean) == (4, 2, 0.5)


def test_seeds_that_give_the_same_are_told():
    same = [seen(policy, k, 1.0) for policy in ("fair", "ours") for k in range(3)]
    found = compare_across(gathered_of(*same))
    assert not found.by_chance
    assert found.rows[0].iteration_s.low is None, "an interval would say what is not known"
    assert compare_across(gathered_of(*two_policies())).by_chance
    assert compare_across(gathered_of(seen("fair", 0, 1.0))).by_chance, "one seed tells nothing of that"


@pytest.mark.parametrize(
    ("against", "measure", "words"),
    [
        ("our", "iteration_s", "--against: 'our' is none of the policies; did you mean 'ours'?"),
        (None, "iteration", "--measure: 'iteration' is no measure; did you mean 'iteration_s'?"),
    ],
)
def test_unknown_policies_and_measures_are_refused(against, measure, words):
    with pytest.raises(InputError) as refused:
        compare_across(gathered_of(*two_policies()), against, measure)
    assert words in str(refused.value)


def several_jobs(policy, slow, jain):
    """Two jobs in one run: figures of each, and those of both together, which are the same in both."""
    return [
        Observation((), "fluid", policy, 0, 0, job, True, "", {"iteration_s": time_s, "slowdown": own, "jain": jain})
        for job, time_s, own in (("a", 1.0, 1.0), ("b", 2.0, slow))
    ]


def test_a_measure_of_each_job_has_a_row_for_each():
    found = compare_across(
        gathered_of(*several_jobs("fair", 2.0, 0.8), *several_jobs("ours", 1.5, 0.9)), None, "slowdown"
    )
    assert [(row.policy, row.job, row.ratio and row.ratio.mean) for row in found.rows] == [
        ("fair", "a", None), ("ours", "a", 1.0), ("fair", "b", None), ("ours", "b", 0.75),
    ]  # fmt: skip
    assert found.rows[3].slowdown.median == 1.5


def test_a_measure_of_all_jobs_together_has_one_row_and_more_of_it_may_be_better():
    runs = gathered_of(*several_jobs("fair", 2.0, 0.8), *several_jobs("ours", 1.5, 0.9))
    found = compare_across(runs, None, "jain")
    assert [(row.policy, row.job) for row in found.rows] == [("fair", "all jobs"), ("ours", "all jobs")]
    ours = found.rows[1]
    assert (ours.runs, ours.pairs, ours.jain.median, ours.iteration_s) == (1, 1, 0.9, None)
    assert ours.ratio.mean == pytest.approx(0.9 / 0.8)
    twice = [dataclasses.replace(each, settings=(("x", x),)) for x in "12" for each in runs.observations]
    (overall,) = compare_across(Gathered(twice, runs.policies, None, 0), None, "jain").overall
    assert (overall.wins, overall.losses) == (2, 0), "more of it is better"
    lines = across_lines(found)
    assert lines[0].splitlines()[0].split() == ["policy", "job", "jain", "ratio", "p", "valid"]
    assert "ours is the better of 2 policies: its Jain's index is 12.5 % larger" in across_headline(found, SECONDS)


def test_maps_have_every_measure_that_any_run_says():
    runs = gathered_of(*several_jobs("fair", 2.0, 0.8), *several_jobs("ours", 1.5, 0.9))
    rows, ratios = by_every_measure(runs)
    assert list(ratios) == ["iteration_s", "slowdown", "jain"]
    assert [None if each is None else each.mean for each in ratios["jain"]] == [None, 1.125, None, 1.125]
    made = explorer(rows, ratios, "fair", "jain")
    assert [one["words"] for one in made["measures"]] == ["iteration time", "slowdown", "Jain's index"]
    assert [one["more"] for one in made["measures"]] == [False, False, True]
    assert made["first"] == 2
    assert made["value"][1] == [1.0, 1.0, 2.0, 1.5]


def test_every_measure_has_words_and_is_an_estimate():
    assert list(MEASURES) == [field.name for field in dataclasses.fields(Estimates)]


def test_a_measure_that_no_run_says_is_told():
    found = compare_across(gathered_of(*two_policies()), None, "completion_s")
    assert "no run that counts says its completion time (completion_s)" in across_lines(found)
    assert not any("no run that counts" in line for line in across_lines(compare_across(gathered_of(*two_policies()))))


# Folders


@pytest.fixture
def ran(echelon, tmp_path):
    """Simulates the experiment with changes, and returns the folder."""

    def run(name, *options, **changes):
        done = echelon(
            "run",
            written(tmp_path, **changes),
            "--backend=fluid",
            "--pictures=none",
            "--out",
            tmp_path / name,
            *options,
        )
        assert done.returncode == 0, done.stderr
        return tmp_path / name

    return run


@pytest.fixture(scope="module")
def ran_once(tmp_path_factory):
    folder = tmp_path_factory.mktemp("once")
    runner.run(schema.load(written(folder)), folder / "run", "fluid", lambda _: None, pictures="none")
    return folder / "run"


def test_what_differs_between_runs_is_a_column(echelon, ran):
    slow, fast = ran("slow", "--set", "network.rate=50 Mbit/s"), ran("fast")
    done = echelon("compare", slow, fast)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("network.rate  policy")
    assert len([line for line in done.stdout.splitlines() if line.startswith(("50 Mbit/s", "100 Mbit/s"))]) == 4


@pytest.mark.parametrize("measure", [name for name in MEASURES if name not in CONTROL])
def test_every_measure_of_a_simulation_is_known_of_folders_of_runs(ran_once, measure):
    found = compare_across(gather([ran_once]), None, measure)
    assert [row.policy for row in found.rows] == ["fair", "echelonflow"]
    assert all(getattr(row, measure) is not None for row in found.rows)
    assert found.rows[1].pairs == 1


def test_folders_that_an_older_revision_analysed_say_what_to_do(ran):
    folder = ran("a")
    (folder / "links.csv").unlink()
    assert not any("link_max_share" in each.figures for each in gather([folder]).observations)
    (folder / "links.csv").write_text("policy,repeat\nfair,first\n")
    with pytest.raises(InputError, match=r"links\.csv: is no table of links"):
        gather([folder])


def test_policies_that_were_run_apart_are_pairs(echelon, ran):
    found = compare_across(gather([ran("a", "--policy", "fair"), ran("b", "--policy", "echelonflow")]))
    assert [(row.policy, row.pairs) for row in found.rows] == [("fair", 0), ("echelonflow", 1)]
    assert found.rows[1].settings == {}


def test_the_same_run_twice_is_told_apart_by_its_folder(ran):
    first, second = ran("a"), ran("b")
    found = compare_across(gather([first, second]))
    assert [row.settings[gathered.FOLDER] for row in found.rows] == [str(first)] * 2 + [str(second)] * 2


def test_a_sweep_and_a_run_are_compared(echelon, ran, tmp_path):
    run = ran("run")
    done = echelon(
        "sweep",
        tmp_path / "swept.yaml",
        "--over",
        "network.rate=25 Mbit/s,50 Mbit/s",
        "--workers=1",
        "--out",
        tmp_path / "s",
    )
    assert done.returncode == 0, done.stderr
    found = compare_across(gather([run, tmp_path / "s"]))
    assert [row.settings["network.rate"] for row in found.rows] == ["100 Mbit/s"] * 2 + ["25 Mbit/s"] * 2 + [
        "50 Mbit/s"
    ] * 2


def test_other_jobs_are_not_compared(echelon, ran):
    first = ran("a")
    second = ran("b", "--set", "jobs.0.name=q")
    done = echelon("compare", first, second)
    assert done.returncode == 2
    assert f"{second} has jobs q, and {first} has p: only runs of the same jobs can be compared" in done.stderr


def test_folders_of_nothing_are_refused(echelon, tmp_path):
    assert "there is no such folder" in echelon("compare", tmp_path / "nowhere").stderr
    done = echelon("compare", tmp_path)
    assert done.returncode == 2
    assert "is neither the folder of a run nor of a sweep" in done.stderr


def test_tables_for_other_programs(echelon, ran, tmp_path):
    folder = ran("a")
    done = echelon("compare", folder, "--json", "--csv", tmp_path / "t.csv", "--measure", "exposed_s")
    found = json.loads(done.stdout)
    assert (found["against"], found["measure"]) == ("fair", "exposed_s")
    assert found["rows"][1]["ratio"]["mean"] < 1
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["policy"] for row in rows] == ["fair", "echelonflow"]
    assert float(rows[1]["ratio_mean"]) == pytest.approx(found["rows"][1]["ratio"]["mean"])
