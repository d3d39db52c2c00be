"""Each rival policy on cases small enough to be worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Group, Job, JobDag, Transfer
from echelonflow.scheduling import policies
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration
from simulator.fluid import simulate

MB = 1_000_000


def flow(src, dst, size_mb, offset_s=0.0, coflow=None):
    """A flow from host to host (numbers from 1); its Coflow is its group unless named."""
    return src, dst, size_mb, offset_s, coflow


class Case:
    """Flows on a switch whose hosts have 8 Mbit/s; `rates` and `order` are answers by flow name, in shares of a link."""

    def __init__(self, hosts=4):
        self.network = topologies.build("single-switch", {"hosts": hosts, "rate_bps": 8e6})
        self.link_Bps = float(self.network.capacity_Bps[0])
        self.state = SchedulerState(self.network)
        self.index = 0

    def group(self, job, name, *flows, weight=1.0, compute_s=0.0, released=None):
        """Declare flows made by `flow`, named <group>0, <group>1, ..., and release them, at 0 or as in `released`."""
        declared = []
        for i, (src, dst, size_mb, offset_s, coflow) in enumerate(flows):
            ends = (f"h{src}", f"h{dst}")
            row = (f"{name}{i}", self.index, coflow or name, *ends, round(size_mb * MB), offset_s, 1, 1)
            declared.append(FlowDeclaration(*row))
            self.index += 1
        self.state.declare(Declare(job, name, "test", weight, tuple(declared), compute_s))
        for i, one in enumerate(declared):
            self.state.release((job, 0, one.flow), released[i] if released else 0.0)
        return self

    def sent(self, job, flow, size_mb):
        self.state.progress((job, 0, flow), size_mb * MB)
        return self

    def answer(self, text, now_s=0.0):
        snapshot, keys = self.state.snapshot(now_s)
        return policies.load(text)(snapshot), [key[2] for key in keys]

    def shares(self, text, now_s=0.0):
        """Rate of each flow as a share of a host's link."""
        allocation, names = self.answer(text, now_s)
        return {n: round(float(r) / self.link_Bps, 9) for n, r in zip(names, allocation.rates_Bps, strict=True)}

    def order(self, text, now_s=0.0):
        """Flows in order of service; those that share a place are joined by +."""
        allocation, names = self.answer(text, now_s)
        places = {}
        for name, rank in zip(names, allocation.rank.tolist(), strict=True):
            places.setdefault(rank, []).append(name)
        return ["+".join(sorted(places[rank])) for rank in sorted(places)]


def test_fifo_goes_by_release_then_by_id():
    case = Case().group("a", "x", flow(1, 2, 1), flow(1, 2, 9), flow(1, 2, 1), released=(2.0, 1.0, 1.0))
    assert case.order("fifo", now_s=3.0) == ["x1", "x2", "x0"]
    assert case.shares("fifo", now_s=3.0) == {"x0": 0.0, "x1": 1.0, "x2": 0.0}


def test_fifo_lets_pass_whom_it_does_not_hold_up():
    case = Case().group("a", "x", flow(1, 2, 5), flow(1, 3, 5), flow(4, 3, 5), released=(0.0, 1.0, 2.0))
    assert case.shares("fifo", now_s=3.0) == {"x0": 1.0, "x1": 0.0, "x2": 1.0}


def test_srpt_goes_by_what_is_left_not_by_size():
    case = Case().group("a", "x", flow(1, 2, 3), flow(1, 2, 10)).sent("a", "x1", 8)
    assert case.order("srpt") == ["x1", "x0"]


def test_edf_goes_by_ideal_finish_over_all_groups_and_stages_finish_together():
    case = Case().group("a", "x", flow(1, 2, 1), flow(1, 2, 1, offset_s=2.0))
    case.group("b", "y", flow(1, 2, 3, offset_s=2.0), weight=9.0)
    # y's offset is its head's: its reference time is its release less 2 s, it is due at its release.
    assert case.order("edf") == ["x0+y0", "x1"]
    assert case.shares("edf") == {"x0": 0.25, "y0": 0.75, "x1": 0.0}


def test_random_order_is_kept_and_drawn_by_the_seed():
    case = Case().group("a", "x", *(flow(1, 2, 1 + i) for i in range(8)))
    orders = {seed: tuple(case.order(f"random-order(seed={seed})")) for seed in range(20)}
    assert len(set(orders.values())) == 20
    survivors = [name for name in orders[3] if name != "x4"]
    case.state.finish(("a", 0, "x4"), 1.0)
    assert case.order("random-order(seed=3)", now_s=1.0) == survivors


def test_random_order_of_groups_keeps_a_group_together():
    case = Case().group("a", "x", flow(1, 2, 1), flow(1, 2, 1)).group("b", "y", flow(1, 2, 1), flow(1, 2, 1))
    assert sorted(case.order("random-order(of=group)")) == ["x0+x1", "y0+y1"]
    assert sorted(case.shares("random-order(of=group)").values()) == [0.0, 0.0, 0.5, 0.5]


def test_weights_per_flow_group_and_job():
    case = Case().group("a", "x", flow(1, 2, 1), flow(1, 2, 1), weight=2.0)
    case.group("b", "y", flow(1, 2, 1)).group("b", "z", flow(1, 2, 1))
    assert case.shares("weighted") == {"x0": 0.333333333, "x1": 0.333333333, "y0": 0.166666667, "z0": 0.166666667}
    assert case.shares("weighted(per=group)") == {"x0": 0.25, "x1": 0.25, "y0": 0.25, "z0": 0.25}
    assert case.shares("weighted(per=job)") == {
        "x0": 0.333333333,
        "x1": 0.333333333,
        "y0": 0.166666667,
        "z0": 0.166666667,
    }


def test_job_priority_goes_by_weight_then_by_the_order_of_jobs_and_is_fair_within():
    case = Case().group("a", "x", flow(1, 2, 1)).group("b", "y", flow(1, 2, 1), flow(1, 2, 9), weight=3.0)
    case.group("c", "z", flow(1, 2, 1))
    assert case.order("job-priority") == ["y0+y1", "x0", "z0"]
    assert case.shares("job-priority") == {"x0": 0.0, "y0": 0.5, "y1": 0.5, "z0": 0.0}


def test_crux_goes_by_computation_per_second_of_traffic():
    case = Case().group("a", "x", flow(1, 2, 2), compute_s=4.0)  # 2 per MB
    case.group("b", "y", flow(1, 2, 1), compute_s=3.0)  # 3 per MB
    case.group("c", "z", flow(1, 2, 0.001))  # nothing declared
    assert case.order("crux") == ["y0", "x0", "z0"]


@pytest.mark.parametrize(
    ("order", "first"),
    [
        ("sebf", "short"),  # 4 MB at its slowest link, against 5, 6 and 8
        ("fifo", "old"),
        ("scf", "wide"),  # its longest flow has 2 MB
        ("ncf", "old"),  # one flow
        ("lcf", "old"),  # 5 MB in all, against 8, 8 and 6
    ],
)
def test_orders_between_coflows(order, first):
    case = Case(hosts=6)
    case.group("a", "short", flow(1, 2, 4), flow(3, 4, 4), released=(1.0, 1.0))
    case.group("a", "wide", *(flow(1, 2, 2) for _ in range(4)), released=(2.0,) * 4)
    case.group("a", "old", flow(1, 2, 5))
    case.group("a", "other", flow(1, 2, 3), flow(1, 2, 3), released=(2.0, 2.0))
    assert case.order(f"coflow(order={order})", now_s=2.0)[0].rstrip("+0123456789").startswith(first)


def test_a_coflow_of_weight_two_counts_half():
    case = Case().group("a", "x", flow(1, 2, 3)).group("b", "y", flow(1, 2, 5), weight=2.0)
    for order in ("sebf", "scf", "ncf", "lcf"):
        assert case.order(f"coflow(order={order})") == ["y0", "x0"], order
    assert case.order("coflow(order=fifo)") == ["x0", "y0"]


def test_madd_leaves_to_the_next_what_greedy_takes():
    """x's flows meet at h1's link, so the small one needs a fifth of it to end with the large one."""
    case = Case().group("a", "x", flow(1, 2, 4), flow(1, 3, 1)).group("b", "y", flow(4, 3, 9))
    assert case.shares("coflow") == {"x0": 0.8, "x1": 0.2, "y0": 0.8}
    assert case.shares("coflow(rates=greedy)") == {"x0": 0.5, "x1": 0.5, "y0": 0.5}


def test_groupings_differ_where_a_group_has_several_coflows():
    case = Case().group("a", "x", flow(1, 2, 3, 0.0, "first"), flow(1, 2, 3, 1.0, "second"))
    assert case.order("coflow") == ["x0", "x1"]
    assert case.order("coflow(grouping=group)") == ["x0+x1"]
    assert case.order("sincronia(grouping=group)") == ["x0+x1"]


def test_sincronia_places_from_the_last_by_bottleneck_and_scaled_weight():
    """Links h1 and h3 both carry 2.1 MB: h1 first; there y is cheapest (1 / 1.1), so last; x's weight shrinks to 0.09.

    Then h3 carries most; x costs 0.09 / 1 there against z's 1 / 1.1, so x goes second. SEBF would begin with x.
    """
    case = Case(hosts=8).group("a", "x", flow(1, 2, 1), flow(3, 4, 1))
    case.group("a", "y", flow(1, 5, 1.1)).group("a", "z", flow(3, 6, 1.1))
    assert case.order("sincronia") == ["z0", "x0+x1", "y0"]
    assert case.order("coflow")[0] == "x0+x1"


@settings(max_examples=60, deadline=None)
@given(sizes=st.lists(st.tuples(st.integers(1, 20), st.sampled_from([0.5, 1.0, 2.0, 5.0])), min_size=1, max_size=7))
def test_sincronia_on_one_link_is_smiths_rule(sizes):
    """Weighted shortest first is the optimum of one machine (Smith 1956)."""
    case = Case()
    for i, (size_mb, weight) in enumerate(sizes):
        case.group("a", f"g{i}-", flow(1, 2, size_mb), weight=weight)
    expected = sorted(range(len(sizes)), key=lambda i: (sizes[i][0] / sizes[i][1], i))
    assert case.order("sincronia") == [f"g{i}-0" for i in expected]


def test_aalo_shares_between_queues_by_weight_and_says_when_that_ends():
    case = Case().group("a", "old", flow(1, 2, 900)).sent("a", "old0", 15).group("b", "new", flow(1, 2, 900))
    assert case.order("aalo") == ["new0", "old0"]
    assert case.shares("aalo") == {"new0": round(10 / 19, 9), "old0": round(9 / 19, 9)}
    allocation, _ = case.answer("aalo", now_s=5.0)
    assert allocation.valid_until_s == pytest.approx(5.0 + 10 * MB / (case.link_Bps * 10 / 19))


def test_aalo_is_first_in_first_out_within_a_queue_and_fair_within_a_coflow():
    case = Case().group("a", "late", flow(1, 2, 1), released=(1.0,)).group("b", "early", flow(1, 2, 9), flow(1, 2, 2))
    assert case.order("aalo", now_s=1.0) == ["early0+early1", "late0"]
    assert case.shares("aalo", now_s=1.0) == {"early0": 0.5, "early1": 0.5, "late0": 0.0}


def test_aalo_gives_out_what_a_queue_cannot_use():
    """Of the first queue, x holds the link into h3, so y cannot use its share of h1's link; z of the second can."""
    case = Case().group("a", "x", flow(4, 3, 50)).group("b", "y", flow(1, 3, 50))
    case.group("c", "z", flow(1, 2, 50)).sent("c", "z0", 20)
    assert case.shares("aalo") == {"x0": 1.0, "y0": 0.0, "z0": 1.0}


def test_aalo_counts_what_a_whole_coflow_has_sent_finished_flows_too():
    case = Case().group("a", "x", flow(1, 2, 11), flow(1, 2, 5)).group("b", "y", flow(1, 2, 5), released=(1.0,))
    case.state.finish(("a", 0, "x0"), 1.0)
    assert case.order("aalo", now_s=1.0) == ["y0", "x1"]


def test_aalo_crosses_into_the_next_queue_at_the_moment_it_should():
    """Two Coflows of 1 s, queues of half a second and of all above, weights 2 and 1.

    A runs alone to 0.5 s and crosses; B gets 2/3 for 0.75 s and crosses too; A, the older, ends at 1.5 s, B at 2 s.
    """
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})
    size_bytes = round(network.capacity_Bps[0])
    steps = (Transfer("x", 0, 1, size_bytes, "c"),)
    dag = JobDag(2, steps, (Group("g", "test", ("x",), (0.0,)),))
    policy = policies.load(f"aalo(queues=2,first_bytes={size_bytes / 2})")
    record = simulate([Job(name, dag, ("h1", "h2")) for name in ("a", "b")], network, policy)
    ends = {flow.job: flow.finish_s for flow in record.flows}
    assert ends == {"a": pytest.approx(1.5, abs=1e-5), "b": pytest.approx(2.0, abs=1e-5)}


def test_aalo_stays_valid_where_nothing_can_cross():
    case = Case().group("a", "x", flow(1, 2, 50))
    assert case.answer("aalo(queues=1)")[0].valid_until_s == math.inf


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("aalo(queues=0)", "policy aalo.*queues is 0; there can be 1 to 64"),
        ("aalo(first_bytes=0)", "first_bytes is 0.0; the first queue must hold more than a byte"),
        ("aalo(first_bytes=nan)", "first_bytes is nan"),
        ("aalo(factor=1)", "factor is 1.0; each queue must reach further"),
        ("coflow(order=best)", "order: 'best' is not one of sebf, fifo, scf, ncf, lcf"),
        ("random-order(seed=x)", "seed: 'x' is not a whole number"),
    ],
)
def test_options_that_make_no_sense_are_refused_before_anything_runs(text, words):
    with pytest.raises(InputError, match=words):
        policies.load(text)
