"""Policies compared pair by pair: against values that were worked out by hand."""

from __future__ import annotations

import msgspec
import pytest

from echelonflow.errors import InputError
from echelonflow.records.manifest import read_manifest, write_manifest
from results.analysis.figures import JobFigures
from results.analysis.paired import compare, pairs_for
from results.analysis.summary import RunResult
from results.folder import analyse
from results.report.comparison import comparison_lines, narrowing_lines
from tests.unit.test_results_folder import experiment


def run(policy, repeat, iteration_s, exposed_s=0.5, *, valid=True):
    figures = {"j": JobFigures(iteration_s, exposed_s, None)}
    return RunResult(f"{policy}-r{repeat}", policy, repeat, () if valid else ("slow",), figures, None)


def runs(ours, theirs):
    return [each for n, pair in enumerate(zip(ours, theirs, strict=True)) for each in map(run, "ab", (n, n), pair)]


def one(found):
    (comparison,) = compare(found, ["a", "b"], ["j"], "b")
    return comparison


def test_noise_that_both_of_a_pair_had_cancels_out():
    # 1 s of noise, which both had, and 0.1 s between them: alone, the means would be ±1.2 s.
    found = one(runs([9.9, 10.9, 8.9], [10, 11, 9]))
    assert found.pairs == 3
    assert found.iteration_difference_s.median == pytest.approx(-0.1)
    assert found.iteration_difference_s.high - found.iteration_difference_s.low < 1e-9
    assert found.speedup.median == pytest.approx(10 / 9.9)
    assert not found.wide
    assert narrowing_lines([found]) == []


def test_the_interval_is_students_over_pairs():
    # Differences 1, 2, 3: mean 2, deviation 1, t of 2 degrees of freedom 4.3027, half width 4.3027 / sqrt(3) = 2.4841.
    found = one(runs([11, 12, 13], [10, 10, 10]))
    interval = found.iteration_difference_s
    assert (interval.median, interval.low, interval.high) == pytest.approx((2, -0.4841, 4.4841), abs=1e-4)
    assert found.undecided


def test_pairs_are_of_one_repeat_and_what_was_made_again_goes_with_what_is_left_over():
    found = [
        run("a", 0, 10.0), run("b", 0, 20.0), run("b", 1, 21.0), run("a", 1, 99.0, valid=False),
        run("a", 2, 12.0), run("b", 2, 22.0), run("a", 3, 11.5),
    ]  # fmt: skip
    comparison = one(found)
    assert comparison.pairs == 3
    assert comparison.iteration_difference_s.median == pytest.approx(-10)
    assert comparison.iteration_difference_s.high == pytest.approx(-9.833 + 4.3027 * 0.28868 / 3**0.5, abs=1e-3)


def test_a_wide_interval_says_how_many_repeats_would_narrow_it():
    found = one(runs([11, 12, 13], [10, 10, 10]))
    # Half a width of 0.1 s from a deviation of 1 s: about (1.96 / 0.1)^2, and a little more for Student's t.
    assert found.pairs_to_be_narrow == 387
    (words,) = narrowing_lines([found])
    assert words == "a against b on j: 3 pairs do not tell which is faster; about 387 (--repeat) would tell it to ±1%"


def test_a_wide_interval_that_tells_them_apart_says_how_wide_it_is():
    (words,) = narrowing_lines([one(runs([15.0, 15.2, 15.4], [10, 10, 10]))])
    assert (
        words
        == "a against b on j: 3 pairs tell the difference to ±5.0% of an iteration; about 18 (--repeat) would tell it to ±1%"
    )


def test_what_no_thousand_pairs_would_narrow_is_said_to_be_the_machine():
    found = one(runs([10, 20, 40], [10, 10, 10]))
    assert found.pairs_to_be_narrow is None
    assert "the machine is not quiet enough" in narrowing_lines([found])[0]


def test_the_number_of_pairs_is_the_least_that_is_enough():
    assert pairs_for([1.0, 2.0, 3.0], 4.3027 / 3**0.5 + 1e-3) == 3
    assert pairs_for([1.0, 2.0, 3.0], 4.3027 / 3**0.5 - 1e-3) == 4
    assert pairs_for([1.0], 1.0) is None
    assert pairs_for([1.0, 1.0], 0.1) == 2


def test_one_pair_has_a_difference_and_no_interval():
    found = one(runs([9.0], [10.0]))
    assert (found.iteration_difference_s.median, found.iteration_difference_s.low) == (-1.0, None)
    assert found.pairs_to_be_narrow is None
    assert not found.wide


def test_without_a_pair_nothing_is_printed():
    found = one([run("a", 0, 1.0), run("b", 0, 1.0, valid=False)])
    assert (found.pairs, found.iteration_difference_s, found.speedup) == (0, None, None)
    assert comparison_lines([found]) == []


def test_the_policy_that_was_named_is_the_one_compared_with(tmp_path):
    root = experiment(tmp_path / "run", repeats=2)
    manifest = read_manifest(root / "manifest.json")
    write_manifest(root / "manifest.json", msgspec.structs.replace(manifest, against="echelonflow", sealed=False))
    summary = analyse(root, pictures="none")
    assert {found.against for found in summary.comparisons} == {"echelonflow"}
    assert len(summary.comparisons) == len(manifest.policies) - 1
    assert "Compared with echelonflow, pair by pair" in (root / "report.html").read_text()


def test_a_manifest_that_compares_with_no_policy_of_its_own_is_refused(tmp_path):
    root = experiment(tmp_path / "run")
    manifest = read_manifest(root / "manifest.json")
    write_manifest(root / "manifest.json", msgspec.structs.replace(manifest, against="srpt"))
    with pytest.raises(InputError, match="against names 'srpt', which is none of the policies"):
        analyse(root)
