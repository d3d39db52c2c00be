"""What every way to fold an order into few classes promises."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.errors import InputError
from echelonflow.scheduling import folding, foldings
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.foldings import max_k_cut
from tests.contract.snapshots import on_paths, snapshots

MARKING = [name for name in folding.names() if name != folding.DEFAULT]
"""Those that hold nobody back."""


def folded(name, snapshot, rank, classes):
    none = np.full(snapshot.flows, folding.UNDECIDED)
    return folding.load(name)(snapshot, Allocation(np.ones(snapshot.flows), np.array(rank, np.int64)), none, classes)


def test_who_holds_back_says_so():
    assert folding.DEFAULT in folding.names()
    found = [
        name
        for name in folding.names()
        if getattr(folding.plugins.load(foldings, name, "folding"), "HOLDS_BACK", False)
    ]
    assert found == [folding.DEFAULT]


@pytest.mark.parametrize("name", MARKING)
@settings(deadline=None, max_examples=40)
@given(snapshot=snapshots(), data=st.data())
def test_no_queue_serves_a_flow_before_one_of_a_lower_rank(name, snapshot, data):
    rank = data.draw(st.lists(st.integers(0, 5), min_size=snapshot.flows, max_size=snapshot.flows))
    classes = data.draw(st.sampled_from([[3], [1, 2], [1, 2, 3], range(7)]))
    found = folded(name, snapshot, rank, classes)
    again = folded(name, snapshot, rank, classes)
    assert found.traffic_class.tolist() == again.traffic_class.tolist()
    assert not found.held_back.any()
    assert set(found.traffic_class.tolist()) <= set(classes)
    queues = set(np.flatnonzero(folding.contended(snapshot)).tolist())
    starts = itertools.pairwise(snapshot.path_start.tolist())
    links = [queues & set(snapshot.path_link[a:b].tolist()) for a, b in starts]
    for one, other in itertools.permutations(range(snapshot.flows), 2):
        if rank[one] < rank[other] and links[one] & links[other]:
            assert found.traffic_class[one] <= found.traffic_class[other]


@pytest.mark.parametrize("name", MARKING)
@settings(deadline=None, max_examples=20)
@given(snapshot=snapshots())
def test_where_classes_suffice_each_rank_has_its_own(name, snapshot):
    rank = np.arange(snapshot.flows)[::-1]
    found = folded(name, snapshot, rank, range(snapshot.flows))
    assert found.traffic_class.tolist() == rank.tolist()


def with_bytes(*sizes_bytes):
    """Flows on one link, one after the other in the order, with so many bytes left."""
    snapshot = on_paths([[0]] * len(sizes_bytes), [1.0])
    object.__setattr__(snapshot, "remaining_bytes", np.array(sizes_bytes, np.float64))
    return snapshot


def test_how_places_are_divided():
    snapshot = with_bytes(10.0, 1.0, 1.0, 1.0, 1.0, 6.0)
    rank = range(6)
    assert folded("top", snapshot, rank, range(3)).traffic_class.tolist() == [0, 1, 2, 2, 2, 2]
    assert folded("balanced", snapshot, rank, range(3)).traffic_class.tolist() == [0, 0, 1, 1, 2, 2]
    assert folded("equal-bytes", snapshot, rank, range(2)).traffic_class.tolist() == [0, 1, 1, 1, 1, 1]
    assert folded("balanced", snapshot, [4, 4, 4, 9, 9, 7], range(2)).traffic_class.tolist() == [0, 0, 0, 1, 1, 0]


def test_cruxs_example_cuts_what_meets():
    """Figure 13 of the paper: jobs 1 and 2 share a link, and so do jobs 3 and 4; there are two classes."""
    snapshot = on_paths([[0], [0], [1], [1]], [1.0, 1.0])
    assert folded("max-k-cut", snapshot, range(4), range(2)).traffic_class.tolist() == [0, 1, 0, 1]
    assert folded("balanced", snapshot, range(4), range(2)).traffic_class.tolist() == [0, 0, 1, 1]
    assert folded("top", snapshot, range(4), range(2)).traffic_class.tolist() == [0, 1, 1, 1]


@settings(deadline=None, max_examples=60)
@given(st.integers(3, 7), st.integers(2, 3), st.randoms(use_true_random=False))
def test_the_greatest_cut_of_a_sequence_is_that_of_trying_all(nodes, pieces, rng):
    weight = np.triu(np.array([[rng.choice([0.0, 1.0, 2.5]) for _ in range(nodes)] for _ in range(nodes)]), 1)

    def cut(ends):
        level = np.searchsorted(ends, np.arange(nodes), side="right")
        return weight[level[:, None] != level[None, :]].sum()

    found, ends = max_k_cut._greatest_cut(weight, pieces)
    assert found == pytest.approx(cut(ends))
    assert found == pytest.approx(max(cut(tried) for tried in itertools.combinations(range(1, nodes), pieces - 1)))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tpo", "unknown folding 'tpo'; did you mean 'top'"),
        ("top(orders=3)", "folding top"),
        ("max-k-cut(orders=many)", "orders"),
        ("max-k-cut(orders=0)", "orders: 0 is not a whole number of at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(text, words):
    with pytest.raises(InputError, match=words):
        folding.load(text)
