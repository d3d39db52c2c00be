"""Effects are told apart from chance as Student and Welch have it."""

import math
import statistics

import pytest
from scipy import stats

from results.analysis.chance import Effect, difference, mean, one_more

AFTER = (5.91, 5.70, 6.08, 5.52, 5.88, 5.79, 6.01, 5.66)
BEFORE = (5.61, 5.44, 5.80, 5.59, 5.72, 5.31, 5.66, 5.50)
"""Iteration times of a job that scatters by some 6 %, in seconds."""


def test_a_difference_of_means_is_welchs():
    found = difference(AFTER, BEFORE)
    theirs = stats.ttest_ind(AFTER, BEFORE, equal_var=False).confidence_interval(0.95)
    assert found.value == pytest.approx(statistics.fmean(AFTER) - statistics.fmean(BEFORE))
    assert (found.value - found.chance, found.value + found.chance) == pytest.approx((theirs.low, theirs.high))


def test_what_is_no_more_than_chance_is_nothing_and_what_is_more_counts_by_that():
    found = difference(AFTER, BEFORE)
    assert 0 < found.beyond == pytest.approx(found.value - found.chance)
    assert difference(BEFORE, AFTER).beyond == pytest.approx(-found.beyond)
    assert Effect(found.chance, found.error, found.freedom).beyond == 0


def test_one_more_draw_lies_within_the_prediction_interval_19_times_in_20():
    found = one_more(6.5, AFTER)
    reach = stats.t.ppf(0.975, len(AFTER) - 1) * statistics.stdev(AFTER) * math.sqrt(1 + 1 / len(AFTER))
    assert found.value == pytest.approx(6.5 - statistics.fmean(AFTER))
    assert found.chance == pytest.approx(reach)


def test_draws_that_are_all_the_same_leave_nothing_to_chance():
    same = (5.0,) * 8
    assert difference((5.2,) * 8, same) == Effect(pytest.approx(0.2))
    assert one_more(5.2, same).beyond == pytest.approx(0.2)
    assert Effect(0.2).beyond == 0.2


def test_the_same_draws_are_no_effect_and_leave_nothing_to_chance_either():
    assert difference(AFTER, AFTER) == Effect(0.0)


def test_the_mean_of_several_is_told_apart_better_by_the_root_of_their_number():
    one = one_more(6.5, AFTER)
    assert mean([one]) == Effect(one.value, pytest.approx(one.error), pytest.approx(one.freedom))
    four = mean([one] * 4)
    assert four.value == pytest.approx(one.value)
    assert four.error == pytest.approx(one.error / 2)
    assert four.freedom == pytest.approx(4 * one.freedom)
    assert four.chance < one.chance / 2


def test_one_that_is_certain_adds_no_chance():
    one = one_more(6.5, AFTER)
    both = mean([one, Effect(0.1)])
    assert both.value == pytest.approx((one.value + 0.1) / 2)
    assert (both.error, both.freedom) == (pytest.approx(one.error / 2), pytest.approx(one.freedom))


def test_shares_are_told_apart_like_the_times_that_they_are_of():
    one = one_more(6.5, AFTER)
    share = one.over(2.0)
    assert (share.value, share.chance) == (pytest.approx(one.value / 2), pytest.approx(one.chance / 2))
    assert one.over(0.0) == Effect(0.0)
