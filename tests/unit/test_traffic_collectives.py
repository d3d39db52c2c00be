from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from typing import get_args

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.units import payload_share
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from traffic.agent.plan import check_observable
from traffic.workloads.collectives import Algorithm, Collective, expand, rounds

ALGORITHMS = get_args(Algorithm)
COLLECTIVES = get_args(Collective)
EXCHANGES = ("all-reduce", "reduce-scatter", "all-gather", "all-to-all")


def job_of(collective, algorithm, n, size_bytes, *, ready_s=None, root=0, pieces=1) -> Job:
    """Each rank computes, takes part, and computes again when the collective is over for it."""
    computes = [Compute(f"ready{i}", i, ready_s[i] if ready_s else 1.0) for i in range(n)]
    found = expand(
        "x", collective, algorithm, ranks=range(n), size_bytes=size_bytes,
        after=[(f"ready{i}",) for i in range(n)], root=root, pieces=pieces,
    )  # fmt: skip
    ends = [Compute(f"end{i}", i, 0.0, tuple({f"ready{i}": 0, **dict.fromkeys(found.done[i])})) for i in range(n)]
    names = tuple(t.name for t in found.transfers)
    dag = JobDag(n, (*computes, *found.transfers, *ends), (Group("x", "x", names, (0.0,) * len(names)),))
    return Job("j", dag, tuple(f"h{i + 1}" for i in range(n)))


def ends_s(job: Job, rate_bps=8e6) -> list[float]:
    """When the collective is over for each rank, alone on a switch; a link carries `rate_bps` in payload."""
    network = topologies.build("single-switch", {"hosts": job.dag.ranks, "rate_bps": rate_bps / payload_share(1500)})
    record = simulate([job], network, policies.load("fair"))
    at = {compute.step: compute.finish_s for compute in record.computes}
    return [at[f"end{i}"] for i in range(job.dag.ranks)]


def sent_and_got(collective, algorithm, n, size_bytes):
    sent, got = Counter(), Counter()
    for i, j, size in itertools.chain.from_iterable(rounds(collective, algorithm, n, size_bytes)):
        sent[i] += size
        got[j] += size
    return sent, got


def works(algorithm, n) -> bool:
    return algorithm != "halving-doubling" or n & (n - 1) == 0


@pytest.mark.parametrize("n", [2, 3, 4, 8])
@pytest.mark.parametrize("algorithm", ["ring", "ring-steps", "halving-doubling", "direct"])
@pytest.mark.parametrize(("collective", "factor"), [("all-reduce", 2), ("reduce-scatter", 1), ("all-gather", 1)])
def test_a_rank_sends_and_receives_what_the_closed_form_says(collective, factor, algorithm, n):
    if not works(algorithm, n):
        pytest.skip("halving and doubling need a power of two")
    size = 840
    sent, got = sent_and_got(collective, algorithm, n, size)
    assert set(sent.values()) == set(got.values()) == {factor * (n - 1) * size // n}
    assert len(sent) == len(got) == n


@pytest.mark.parametrize("n", [2, 4, 8])
def test_all_to_all_costs_what_the_way_costs(n):
    size = 840
    each = {a: set(sent_and_got("all-to-all", a, n, size)[0].values()) for a in ALGORITHMS if a != "tree"}
    assert each["direct"] == {(n - 1) * size // n}  # every part goes straight to its receiver
    assert each["halving-doubling"] == {(n.bit_length() - 1) * size // 2}  # log2 n times half of it
    assert each["ring"] == each["ring-steps"] == {(n - 1) * size // 2}  # part for distance d travels d links


@pytest.mark.parametrize("n", [2, 3, 4, 7, 8])
def test_tree_sends_over_each_edge_what_is_needed_on_the_other_side(n):
    size = 840
    total = {c: sum(sent_and_got(c, "tree", n, size)[0].values()) for c in COLLECTIVES}
    assert total["broadcast"] == (n - 1) * size
    assert total["all-reduce"] == 2 * (n - 1) * size
    assert total["all-gather"] == (n - 1) * size  # every rank receives what it has not


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("root", [0, 3])
def test_everyone_but_the_root_receives_a_broadcast(algorithm, root):
    got = Counter()
    for _, j, size in itertools.chain.from_iterable(rounds("broadcast", algorithm, 8, 840, root)):
        got[j] += size
    assert all(got[j] >= 840 for j in range(8) if j != root)
    if algorithm != "halving-doubling":  # whose second half, an all-gather, gives the root its own parts too
        assert got == {j: 840 for j in range(8) if j != root}


@given(st.integers(2, 9), st.integers(1, 10_000), st.sampled_from(EXCHANGES), st.sampled_from(ALGORITHMS))
def test_no_byte_is_lost_by_rounding(n, size_bytes, collective, algorithm):
    assume(works(algorithm, n))
    parts_bytes = max(size_bytes, n)  # no part is empty
    sent, _ = sent_and_got(collective, algorithm, n, size_bytes)
    least = {"all-reduce": 2, "reduce-scatter": 1, "all-gather": 1, "all-to-all": 1}[collective] * (n - 1) * parts_bytes
    if algorithm == "direct" or (collective != "all-to-all" and algorithm != "tree"):
        assert sum(sent.values()) == least
    else:
        assert sum(sent.values()) >= least


@given(st.integers(2, 9), st.integers(1, 10_000), st.sampled_from(EXCHANGES))
def test_a_ring_flow_is_the_sum_of_its_steps(n, size_bytes, collective):
    steps = Counter()
    for i, j, size in itertools.chain.from_iterable(rounds(collective, "ring-steps", n, size_bytes)):
        steps[i, j] += size
    assert {(i, j): size for i, j, size in rounds(collective, "ring", n, size_bytes)[0]} == steps


def reached(job: Job, end: str) -> set[str]:
    """All steps before `end`."""
    found, waiting = set(), [end]
    while waiting:
        for before in job.dag.by_name[waiting.pop()].after:
            if before not in found:
                found.add(before)
                waiting.append(before)
    return found


@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("algorithm", ["ring-steps", "halving-doubling", "direct", "tree"])
@pytest.mark.parametrize("collective", EXCHANGES)
def test_nobody_is_done_before_everybody_has_begun(collective, algorithm, n):
    if not works(algorithm, n):
        pytest.skip("halving and doubling need a power of two")
    job = job_of(collective, algorithm, n, 840)
    for i in range(n):
        assert {f"ready{j}" for j in range(n)} <= reached(job, f"end{i}")


def test_in_a_ring_of_whole_flows_a_rank_waits_for_the_one_before_it():
    job = job_of("all-reduce", "ring", 5, 840)
    assert {s for s in reached(job, "end2") if s.startswith("ready")} == {"ready1", "ready2"}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_broadcast_waits_for_its_root(algorithm):
    job = job_of("broadcast", algorithm, 8, 840, root=5)
    assert all("ready5" in reached(job, f"end{i}") for i in range(8))


@settings(deadline=None)
@given(
    st.integers(2, 9),
    st.integers(1, 5000),
    st.sampled_from(COLLECTIVES),
    st.sampled_from(ALGORITHMS),
    st.integers(1, 3),
)
def test_hosts_notice_all_that_their_ranks_wait_for(n, size_bytes, collective, algorithm, pieces):
    assume(works(algorithm, n))
    job = job_of(collective, algorithm, n, size_bytes, root=n - 1, pieces=pieces)  # JobDag finds cycles, names twice
    check_observable(job)


@pytest.mark.parametrize("collective", EXCHANGES)
def test_one_flow_per_neighbour_takes_as_long_as_all_steps_of_a_ring(collective):
    whole, steps = (job_of(collective, algorithm, 4, 1_200_000) for algorithm in ("ring", "ring-steps"))
    assert len(whole.dag.transfers) == 4
    assert ends_s(whole) == pytest.approx(ends_s(steps), rel=1e-6)


def test_what_a_ring_of_whole_flows_leaves_out():
    late = [1.0, 1.0, 1.0, 4.0]
    whole, steps = (ends_s(job_of("all-reduce", a, 4, 1_200_000, ready_s=late)) for a in ("ring", "ring-steps"))
    assert min(steps) > 4.0  # nobody is done before the late one has begun
    assert min(whole) == pytest.approx(2.8)  # who does not border on the late one does not notice
    assert max(whole) == pytest.approx(5.8)


@pytest.mark.parametrize(("algorithm", "pieces"), [("ring", 1), ("ring", 4), ("ring", 8), ("tree", 1)])
def test_pieces_let_a_broadcast_flow_on(algorithm, pieces):
    n, link_s = 5, 1.2
    found = max(ends_s(job_of("broadcast", algorithm, n, 1_200_000, pieces=pieces))) - 1.0
    # A chain of n - 1 hops; in the tree the root sends two copies at once, and its child two more.
    expected = {"ring": (n - 2 + pieces) / pieces * link_s, "tree": 4 * link_s}[algorithm]
    assert found == pytest.approx(expected, rel=1e-6)


def test_pieces_send_every_byte_once():
    job = job_of("all-reduce", "halving-doubling", 4, 1001, pieces=3)
    assert sum(t.size_bytes for t in job.dag.transfers) == 2 * 3 * 1001


def test_ranks_need_not_begin_at_zero_and_alone_there_is_nothing_to_send():
    found = expand("x", "all-gather", "ring", ranks=[7, 3], size_bytes=10, after=[("a",), ()], coflow="c")
    assert found.transfers == (
        Transfer("x 7->3", 7, 3, 5, "c", ("a",)),
        Transfer("x 3->7", 3, 7, 5, "c", ()),
    )
    assert found.done == (("x 7->3", "x 3->7"), ("x 3->7", "x 7->3"))
    assert expand("x", "all-gather", "ring", ranks=[7], size_bytes=10, after=[("a",)]).done == (("a",),)


def test_direct_senders_spread_over_receivers():
    first = defaultdict(int)
    seen = set()
    for i, j, _ in rounds("all-to-all", "direct", 6, 600)[0]:
        if i not in seen:
            seen.add(i)
            first[j] += 1
    assert set(first.values()) == {1}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"collective": "gather"}, "unknown collective 'gather'; there is: all-reduce"),
        ({"algorithm": "torus"}, "unknown algorithm 'torus'; there is: ring"),
        ({"algorithm": "halving-doubling"}, "power of two"),
        ({"ranks": [0, 1, 1]}, "must differ"),
        ({"size_bytes": 0}, "at least 1"),
        ({"pieces": 0}, "at least 1"),
        ({"root": 3}, "root is 3"),
    ],
)
def test_bad_input_is_named(change, words):
    options = {
        "collective": "all-reduce", "algorithm": "ring", "ranks": [0, 1, 2], "size_bytes": 9, "after": [(), (), ()],
        **change,
    }  # fmt: skip
    with pytest.raises(InputError, match=words):
        expand("x", **options)
