from __future__ import annotations

from echelonflow.wire.classes import CLASSES, class_of_dscp, dscp_of_class


def test_dscps_are_class_selectors_and_unmarked_is_the_lowest_class():
    assert [dscp_of_class(c) for c in range(CLASSES)] == [56, 48, 40, 32, 24, 16, 8, 0]
    assert all(class_of_dscp(dscp_of_class(c)) == c for c in range(CLASSES))
