"""The event loop: jobs and traces alike, realism, and what must not hang."""

from __future__ import annotations

import math

import numpy as np
import pytest

from echelonflow.errors import InputError, PolicyError, RunError
from echelonflow.model import topologies
from echelonflow.model.coflow_trace import CoflowTrace
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.units import payload_share
from echelonflow.scheduling import policies
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from simulator.fluid import simulate
from simulator.realism import Realism
from simulator.trace import simulate_trace

NETWORK = topologies.build("single-switch", {"hosts": 4, "rate_bps": 1e6 / payload_share(1500)})  # 125,000 bytes/s
PORT_BPS = NETWORK.capacity_Bps[0]


def trace_of(*flows, arrivals=(0.0,), **options):
    """A trace from (coflow row, src, dst, seconds alone on a port)."""
    coflow, src, dst, alone_s = map(np.array, zip(*flows, strict=True))
    ids = np.arange(len(arrivals)) + 1
    return CoflowTrace(ids, np.array(arrivals), coflow, src, dst, np.rint(alone_s * PORT_BPS), **options)


def answering(answer, enforcer="rate"):
    """A policy made of a function from the snapshot to rates and, if it likes, validity."""

    def allocate(snapshot):
        rates, *valid = answer(snapshot)
        return Allocation(np.asarray(rates, float), np.zeros(snapshot.flows, np.int64), *valid)

    return Policy("mine", enforcer, "", allocate)


def test_fair_by_hand():
    """Two flows out of port 0 share it; the third joins at 1 s; all by hand."""
    trace = trace_of((0, 0, 1, 1.0), (0, 0, 2, 2.0), (1, 0, 3, 1.0), arrivals=(0.0, 1.0))
    record = simulate_trace(trace, NETWORK, policies.load("fair"))
    # At 1 s 0.5 s and 1.5 s are left, then thirds: the first ends at 2.5, the third has 0.5 left, halves to 3.5.
    np.testing.assert_allclose(record.flow_finish_s, [2.5, 4.0, 3.5], atol=2e-5)
    np.testing.assert_allclose(record.completion_s, [4.0, 2.5], atol=2e-5)


def test_smallest_coflow_first_by_hand():
    trace = trace_of((0, 0, 1, 3.5), (1, 0, 2, 1.0), (1, 3, 2, 1.0), arrivals=(0.0, 1.0))
    record = simulate_trace(trace, NETWORK, policies.load("coflow"))
    # At 1 s the first has Γ = 2.5, the second 2 (at port 2): it is done at 3 s with half of port 0, which
    # leaves the first the other half.
    np.testing.assert_allclose(record.finish_s, [4.5, 3.0], atol=2e-5)


def test_a_port_to_itself_uses_both_directions_of_its_cable():
    record = simulate_trace(trace_of((0, 0, 0, 1.0), (0, 0, 1, 1.0)), NETWORK, policies.load("fair"))
    np.testing.assert_allclose(record.flow_finish_s, [2.0, 2.0], atol=2e-5)


def random_trace(seed, coflows=12):
    rng = np.random.default_rng(seed)
    flows = [
        (c, int(rng.integers(4)), int(rng.integers(4)), float(rng.integers(1, 40)) / 10)
        for c in range(coflows)
        for _ in range(int(rng.integers(1, 6)))
    ]
    flows = [(c, s, (s + 1) % 4 if s == d else d, size) for c, s, d, size in flows]
    return trace_of(*flows, arrivals=tuple(np.round(rng.uniform(0, 8, coflows), 1)))


def as_jobs(trace):
    """Every Coflow as a job that releases its flows when it starts."""
    jobs = []
    for c in range(trace.coflows):
        rows = np.flatnonzero(trace.coflow == c)
        names = tuple(f"f{row}" for row in rows)
        transfers = [
            Transfer(name, int(trace.src[row]), int(trace.dst[row]), int(trace.size_bytes[row]), "g")
            for name, row in zip(names, rows, strict=True)
        ]
        dag = JobDag(4, tuple(transfers), (Group("g", "test", names, (0.0,) * len(names)),))
        jobs.append(Job(f"{trace.coflow_id[c]:03}", dag, NETWORK.hosts, start_s=float(trace.arrival_s[c])))
    return jobs


@pytest.mark.parametrize("policy", ["fair", "coflow", "echelonflow"])
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("realism", [Realism(), Realism(classes=3, decision_latency_s=0.05)])
def test_a_trace_is_the_same_as_jobs_that_do_nothing_else(policy, seed, realism):
    trace = random_trace(seed)
    record = simulate_trace(trace, NETWORK, policies.load(policy), realism=realism)
    run = simulate(as_jobs(trace), NETWORK, policies.load(policy), realism=realism)
    by_name = {f.flow: f.finish_s for f in run.flows}
    expected = [by_name[f"f{row}"] for row in range(trace.flows)]
    np.testing.assert_allclose(record.flow_finish_s, expected, rtol=1e-7)


@pytest.mark.parametrize("policy", ["fair", "coflow"])
def test_the_order_of_a_traces_rows_does_not_matter(policy):
    trace = random_trace(7)
    flows, coflows = np.random.default_rng(1).permutation(trace.flows), np.random.default_rng(2).permutation(12)
    moved = CoflowTrace(
        trace.coflow_id[coflows], trace.arrival_s[coflows], np.argsort(coflows)[trace.coflow][flows],
        trace.src[flows], trace.dst[flows], trace.size_bytes[flows],
    )  # fmt: skip
    one, other = (simulate_trace(t, NETWORK, policies.load(policy)) for t in (trace, moved))
    np.testing.assert_allclose(other.flow_finish_s, one.flow_finish_s[flows], rtol=1e-9)
    np.testing.assert_allclose(other.completion_s, one.completion_s[coflows], rtol=1e-9)


def test_a_port_that_the_network_lacks():
    with pytest.raises(InputError, match="Coflow 1 has a flow at port 9; the network has ports 0 to 3"):
        simulate_trace(trace_of((0, 0, 9, 1.0)), NETWORK, policies.load("fair"))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"arrival_s": np.array([-1.0, 0.0])}, "Coflow 1 arrives at -1.0 s"),
        ({"size_bytes": np.array([1.0, -5.0])}, "Coflow 2 has a flow of -5.0 bytes"),
        ({"size_bytes": np.array([math.nan, 1.0])}, "Coflow 1 has a flow of nan bytes"),
        ({"coflow": np.array([0, 0])}, "Coflow 2 has 0 flows"),
        ({"coflow_id": np.array([4, 4])}, "Coflow 4 occurs twice"),
        ({"weight": np.array([1.0, 0.0])}, "Coflow 2 has weight 0.0"),
        ({"src": np.array([0, -1])}, "Coflow 2 has a flow at port -1"),
        ({"dst": np.array([0])}, "columns of different lengths"),
    ],
)
def test_traces_that_make_no_sense(change, words):
    columns = {
        "coflow_id": np.array([1, 2]), "arrival_s": np.zeros(2), "coflow": np.array([0, 1]),
        "src": np.array([0, 1]), "dst": np.array([1, 2]), "size_bytes": np.ones(2),
    }  # fmt: skip
    with pytest.raises(InputError, match=words):
        CoflowTrace(**{**columns, **change})


def test_late_in_a_long_trace_the_clock_still_moves():
    """At 1e8 s doubles are 1.5e-8 s apart: more than what counts as simultaneous early in a run."""
    trace = trace_of((0, 0, 1, 1 / 3), (0, 0, 2, 1 / 7), arrivals=(1e8,))  # in whole bytes
    record = simulate_trace(trace, NETWORK, policies.load("fair"))
    np.testing.assert_allclose(record.completion_s, [trace.size_bytes.sum() / PORT_BPS], atol=1e-6)


class TestRealism:
    @pytest.mark.parametrize(
        "wrong",
        [{"classes": 0}, {"classes": 9}, {"decision_latency_s": -1.0}, {"decision_latency_s": math.inf},
         {"enforcer": "magic"}, {"undecided": "vanish"}, {"late_s": -1.0}, {"late_s": math.nan}, {"burst_s": -1.0}],
    )  # fmt: skip
    def test_out_of_range(self, wrong):
        with pytest.raises(InputError, match=str(next(iter(wrong.values())))):
            Realism(**wrong)

    def test_late_computations_are_late_by_chance_and_the_same_in_the_same_repeat(self):
        """A chain of 400 computations of 1 ms on one rank, each late by 10 ms in the mean; nothing on the network."""
        names = [f"c{i}" for i in range(400)]
        steps = [
            Compute(name, 0, 0.001, (before,) if before else ())
            for before, name in zip(["", *names], names, strict=False)
        ]
        job = Job("chain", JobDag(1, tuple(steps)), ("h1",))

        def end_s(repeat):
            record = simulate([job], NETWORK, policies.load("fair"), repeat, realism=Realism(late_s=0.01))
            return record.computes[-1].finish_s

        ends_s = [end_s(repeat) for repeat in range(5)]
        assert end_s(3) == ends_s[3]
        assert len(set(ends_s)) == 5
        assert np.mean(ends_s) == pytest.approx(400 * 0.011, rel=0.1)

    def test_classes_do_not_touch_a_policy_enforced_by_rates(self):
        trace = random_trace(3)
        one, other = (
            simulate_trace(trace, NETWORK, policies.load("coflow"), realism=realism)
            for realism in (Realism(), Realism(classes=1))
        )
        np.testing.assert_array_equal(other.flow_finish_s, one.flow_finish_s)

    @pytest.mark.parametrize("undecided", ["wait", "last-class"])
    @pytest.mark.parametrize("classes", [1, 2, 3])
    def test_where_classes_run_out_what_would_get_nothing_waits(self, classes, undecided):
        """Three flows out of one port, smallest first: one after the other, however few classes there are."""
        trace = trace_of((0, 0, 1, 1.0), (1, 0, 2, 2.0), (2, 0, 3, 3.0), arrivals=(0.0, 0.0, 0.0))
        realism = Realism(classes=classes, enforcer="priority", undecided=undecided)
        record = simulate_trace(trace, NETWORK, policies.load("coflow"), realism=realism)
        np.testing.assert_allclose(record.finish_s, [1.0, 3.0, 6.0], atol=2e-5)

    def test_with_too_few_classes_flows_that_would_both_get_something_share(self):
        """Over an uplink one and a half times as fast as a port: the second is to have what the first leaves."""
        rate_bps = 1e6 / payload_share(1500)
        network = topologies.build(
            "leaf-spine",
            {"leaves": 2, "spines": 1, "hosts_per_leaf": 2, "rate_bps": rate_bps, "fabric_rate_bps": 1.5 * rate_bps},
        )
        trace = trace_of((0, 0, 2, 1.0), (1, 1, 3, 2.0), arrivals=(0.0, 0.0))
        two, one = (
            simulate_trace(trace, network, policies.load("echelonflow"), realism=Realism(classes=classes))
            for classes in (2, 1)
        )
        np.testing.assert_allclose(two.finish_s, [1.0, 2.5], atol=2e-5)
        np.testing.assert_allclose(one.finish_s, [4 / 3, 7 / 3], atol=2e-5)

    @pytest.mark.parametrize("classes", [None, 8])
    @pytest.mark.parametrize(("undecided", "wait_s"), [("wait", 0.25), ("last-class", 0.0)])
    def test_a_new_flow_until_its_first_decision(self, classes, undecided, wait_s):
        realism = Realism(classes=classes, decision_latency_s=0.25, undecided=undecided)
        record = simulate_trace(trace_of((0, 0, 1, 1.0)), NETWORK, policies.load("echelonflow"), realism=realism)
        assert record.completion_s[0] == pytest.approx(1.0 + wait_s, abs=2e-5)

    def test_a_late_decision_leaves_old_rates_in_force(self):
        """The first flow keeps the whole port until the decision of 1 s takes effect at 1.5 s."""
        trace = trace_of((0, 0, 1, 4.0), (1, 0, 2, 1.0), arrivals=(0.0, 1.0))
        record = simulate_trace(trace, NETWORK, policies.load("coflow"), realism=Realism(decision_latency_s=0.5))
        # 0.5 s wait, 1 s alone, then the small one 1.5 to 2.5 s, half a second of nothing, then 3 s left.
        np.testing.assert_allclose(record.finish_s, [6.0, 2.5], atol=2e-5)


class TestNoProgress:
    trace = trace_of((0, 0, 1, 1.0), arrivals=(2.0,))

    def test_no_rates_and_nothing_to_wait_for(self):
        with pytest.raises(RunError, match="stuck at 2 s: policy mine gives none of 1 flows a rate"):
            simulate_trace(self.trace, NETWORK, answering(lambda _: ([0.0],)))

    @pytest.mark.parametrize("step_s", [1.0, 1e-15])
    def test_an_answer_that_expires_for_ever(self, step_s):
        def answer(snapshot):
            return [0.0], snapshot.now_s + max(step_s, math.ulp(snapshot.now_s))

        with pytest.raises(RunError, match=r"makes no progress at .* policy mine"):
            simulate_trace(self.trace, NETWORK, answering(answer))

    def test_full_speed_in_steps_too_small_to_matter(self):
        def answer(snapshot):
            return [PORT_BPS], math.nextafter(snapshot.now_s, math.inf)

        with pytest.raises(RunError, match="makes no progress"):
            simulate_trace(self.trace, NETWORK, answering(answer))

    def test_small_steps_that_do_lead_somewhere(self):
        record = simulate_trace(
            self.trace, NETWORK, answering(lambda s: ([PORT_BPS], s.now_s + 2e-4))
        )  # 5,000 decisions, each of which moves something
        assert record.finish_s[0] == pytest.approx(3.0, abs=2e-5)

    def test_expired_before_it_began(self):
        with pytest.raises(PolicyError, match="policy mine: valid_until_s"):
            simulate_trace(self.trace, NETWORK, answering(lambda s: ([1.0], s.now_s)))

    def test_too_much(self):
        with pytest.raises(PolicyError, match=r"policy mine allocates .* on h1->s1"):
            simulate_trace(self.trace, NETWORK, answering(lambda _: ([2 * PORT_BPS],)))

    def test_a_dag_that_waits_for_a_flow_that_gets_nothing(self):
        dag = JobDag(
            2,
            (Transfer("x", 0, 1, 1000, "g"), Compute("c", 1, 1.0, ("x",))),
            (Group("g", "test", ("x",), (0.0,)),),
        )
        with pytest.raises(RunError, match="policy mine"):
            simulate([Job("job", dag, ("h1", "h2"))], NETWORK, answering(lambda _: ([0.0],)))
