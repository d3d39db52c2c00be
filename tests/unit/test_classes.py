from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from echelonflow.classes import CLASSES, CONTROL_CLASS, DATA_CLASSES, class_of_dscp, dscp_of_class, fold


def test_dscps_are_class_selectors_and_unmarked_is_the_lowest_class():
    assert [dscp_of_class(c) for c in range(CLASSES)] == [56, 48, 40, 32, 24, 16, 8, 0]
    assert all(class_of_dscp(dscp_of_class(c)) == c for c in range(CLASSES))


ranks = st.dictionaries(st.sampled_from("abcdefghijkl"), st.integers(0, 12))
classes_in_force = st.dictionaries(st.sampled_from("abcdefghijkl"), st.sampled_from(DATA_CLASSES))


@given(ranks, classes_in_force)
def test_folding_keeps_the_order_and_never_uses_the_control_class(ranks, in_force):
    folded = fold(ranks, in_force)
    assert folded.keys() == ranks.keys()
    assert CONTROL_CLASS not in folded.values()
    few = len(set(ranks.values())) <= len(DATA_CLASSES)
    for a in ranks:
        for b in ranks:
            if ranks[a] < ranks[b]:
                assert folded[a] < folded[b] if few else folded[a] <= folded[b]
            if ranks[a] == ranks[b]:
                assert folded[a] == folded[b]


@given(ranks)
def test_an_unchanged_order_changes_nothing(ranks):
    assert fold(ranks, fold(ranks)) == fold(ranks)


def test_the_head_leaving_moves_nobody():
    in_force = fold({"a": 0, "b": 1, "c": 2})
    assert fold({"b": 0, "c": 1, "d": 2}, in_force) == {"b": 2, "c": 3, "d": 4}


def test_room_is_made_by_as_few_changes_as_possible():
    in_force = {"a": 1, "b": 2}
    assert fold({"a": 0, "new": 1, "b": 2}, in_force) == {"a": 1, "new": 2, "b": 3}
