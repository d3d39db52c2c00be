"""Yardsticks against closed forms, by hand, and against what policies reach: no bound may lie above any of these."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import numpy as np
import pytest

from echelon.cases import random_groups, random_jobs
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.scheduling import bounds, policies
from echelonflow.scheduling.bounds.iterations import one_machine_s
from echelonflow.scheduling.bounds.several import link_bound_s
from echelonflow.scheduling.fill import least_tardiness_s
from echelonflow.scheduling.state import SchedulerState
from echelonflow.wire.messages import Declare, FlowDeclaration
from results.analysis.rows import group_rows, iteration_rows
from simulator.fluid import simulate
from tests.unit.synthetic_run import paper_job

ONE_LINK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})
SPINE = topologies.build(
    "leaf-spine", {"leaves": 2, "spines": 1, "hosts_per_leaf": 3, "rate_bps": 8e6, "fabric_rate_bps": 16e6}
)
ROSTER = ["fair", "coflow", "coflow(grouping=group)", "echelonflow", "echelonflow(order=remaining,within=paced)"]


def one_group(rng, network):
    """A snapshot of one group of two to six flows, all released, some partly sent."""
    flows = []
    for i in range(rng.randint(2, 6)):
        src, dst = rng.sample(network.hosts, 2) if network is SPINE else ("h1", "h2")
        size = rng.randint(1, 20) * 100_000
        flows.append(FlowDeclaration(f"f{i}", i, f"f{i}", src, dst, size, rng.choice([0.0, 0.5, 1.0, 2.0]), i, 5001))
    state = SchedulerState(network)
    state.declare(Declare("job", "g", "test", 1.0, tuple(flows)))
    for flow in flows:
        state.release(("job", 0, flow.flow), rng.choice([0.0, 0.3, 1.0]))
        state.progress(("job", 0, flow.flow), flow.size_bytes * rng.choice([0.0, 0.5]))
    return state.snapshot(1.5)[0]


def flow_set(rows, capacity_Bps=(1.0,), weight=None):
    """Flows of (size, release, due, group, path)."""
    size, release, due, group, paths = zip(*rows, strict=True)
    groups = max(group) + 1
    return bounds.FlowSet(
        np.array(size, float), np.array(release, float), np.array(due, float), np.array(group),
        np.cumsum([0, *map(len, paths)]), np.array([link for path in paths for link in path]),
        np.array(capacity_Bps, float), np.ones(groups) if weight is None else np.array(weight, float),
        np.full(groups, -np.inf),
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(30))
def test_one_released_group_on_one_link_is_the_closed_form(seed):
    snapshot = one_group(random.Random(seed), ONE_LINK)
    exact = bounds.exact_tardiness_s(bounds.of_snapshot(snapshot))
    assert exact == pytest.approx(least_tardiness_s(snapshot)[0], abs=1e-6)


def test_on_a_network_the_optimum_is_never_below_the_closed_form_and_mostly_equal():
    tight = 0
    for seed in range(60):
        snapshot = one_group(random.Random(seed), SPINE)
        exact = bounds.exact_tardiness_s(bounds.of_snapshot(snapshot))
        closed = least_tardiness_s(snapshot)[0]
        assert exact >= closed - 1e-6
        tight += exact <= closed + 1e-6
    assert tight >= 54


def test_where_links_disagree_the_optimum_is_above_the_closed_form():
    """Each link alone could be on time by 2 s, but each two of these flows meet on another link."""
    rows = [(1, 0, 2, 0, (1, 2)), (1, 0, 1, 0, (0, 2)), (1, 0, 2, 0, (0, 1, 2)), (2, 0, 0, 0, (0, 1))]
    flows = flow_set(rows, (1, 1, 1))
    assert link_bound_s(flows) == pytest.approx(2.0)
    assert bounds.exact_tardiness_s(flows) == pytest.approx(2.5)
    ring = flow_set([(1, 0, 0, 0, (0, 1)), (1, 0, 0, 0, (1, 2)), (1, 0, 0, 0, (2, 0))], (1, 1, 1))
    assert bounds.exact_tardiness_s(ring) == pytest.approx(2.0)  # all at half rate; one after the other would take 3 s


@pytest.mark.parametrize("seed", range(20))
def test_with_releases_to_come_one_link_is_preemptive_earliest_due_date(seed):
    rng = random.Random(seed)
    n = rng.randint(2, 7)
    flows = flow_set([(rng.uniform(0.2, 2), rng.uniform(0, 4), rng.uniform(-1, 5), 0, (0,)) for _ in range(n)])
    assert bounds.exact_tardiness_s(flows) == pytest.approx(link_bound_s(flows), abs=1e-6)
    assert bounds.exact_tardiness_s(flows) == pytest.approx(earliest_due_date_s(flows), abs=1e-6)


def earliest_due_date_s(flows):
    """The largest lateness of preemptive earliest due date on one link of capacity 1, by simulation."""
    left, now, worst = flows.size_bytes.copy(), 0.0, -math.inf
    while left.max() > 1e-12:
        there = np.flatnonzero((left > 1e-12) & (flows.release_s <= now + 1e-12))
        coming = flows.release_s[flows.release_s > now + 1e-12]
        until = coming.min() if coming.size else math.inf
        if not there.size:
            now = until
            continue
        first = there[np.argmin(flows.due_s[there])]
        step = min(left[first], until - now)
        left[first] -= step
        now += step
        if left[first] <= 1e-12:
            worst = max(worst, now - flows.due_s[first])
    return worst


def test_what_was_incurred_counts_and_several_groups_are_refused():
    flows = flow_set([(1, 0, 0, 0, (0,))])
    assert bounds.exact_tardiness_s(flows) == pytest.approx(1.0)
    late = bounds.FlowSet(*[getattr(flows, f) for f in list(flows.__dataclass_fields__)[:8]], np.array([7.0]))
    assert bounds.exact_tardiness_s(late) == 7.0
    with pytest.raises(InputError, match="one group was asked for; 2 were given"):
        bounds.exact_tardiness_s(flow_set([(1, 0, 0, 0, (0,)), (1, 0, 0, 1, (0,))]))


@pytest.mark.parametrize("seed", range(6))
def test_the_sum_of_coflows_on_one_link_is_smiths_rule(seed):
    """Equal releases and dues: weighted shortest processing time first is optimal (Smith 1956)."""
    rng = random.Random(seed)
    sizes = [rng.uniform(1, 5) for _ in range(4)]
    weights = [rng.choice([1.0, 2.0, 3.0]) for _ in range(4)]
    optimum, now = 0.0, 0.0
    for size, weight in sorted(zip(sizes, weights, strict=True), key=lambda job: job[0] / job[1]):
        now += size
        optimum += weight * now
    halves = [(size / 2, 0, 0, g, (0,)) for g, size in enumerate(sizes) for _ in range(2)]
    found = bounds.sum_of_tardiness(flow_set(halves, weight=weights), intervals=160)
    assert found.total_s <= optimum * (1 + 1e-9)
    assert found.total_s >= optimum * 0.985
    assert found.alone_s == pytest.approx(sizes)


def test_branching_closes_what_one_program_leaves_open():
    """Two groups, each due early and late: the relaxation halves both, a schedule cannot."""
    rows = [(1, 0, 0, 0, (0,)), (3, 0, 2, 0, (0,)), (1, 0, 0, 1, (0,)), (3, 0, 2, 1, (0,))]
    flows = flow_set(rows)
    best = min(in_order_s(flows, order) for order in itertools.permutations(range(4)))
    one = bounds.sum_of_tardiness(flows)
    many = bounds.sum_of_tardiness(flows, programs=200)
    assert one.programs == 1
    assert one.total_s <= many.total_s <= best * (1 + 1e-9)
    assert many.total_s >= best * 0.97


def in_order_s(flows, order):
    """Sum of tardiness when flows of one link of capacity 1 are sent in `order`, all released at 0."""
    late, now = [-math.inf] * flows.groups, 0.0
    for i in order:
        now += flows.size_bytes[i]
        late[flows.group[i]] = max(late[flows.group[i]], now - flows.due_s[i])
    return sum(late)


@pytest.mark.parametrize("seed", range(10))
def test_no_policy_is_below_the_bound_on_the_sum(seed):
    case = random_groups.draw(random.Random(seed), random_groups.TOPOLOGIES[seed % 2])
    flows = bounds.of_jobs(case.jobs, case.network)
    found = bounds.sum_of_tardiness(flows, 50, programs=30)
    weight = {job.name: job.dag.groups[0].weight for job in case.jobs}
    for name in ROSTER:
        rows = group_rows(simulate(case.jobs, case.network, policies.load(name)), case.jobs)
        assert len(rows) == flows.groups
        assert sum(weight[row.job] * row.tardiness_s for row in rows) >= found.total_s * (1 - 1e-6), name
        alone = {name.split("/")[0]: value for name, value in zip(flows.names, found.alone_s, strict=True)}
        assert all(row.tardiness_s >= alone[row.job] - 1e-6 for row in rows), name


@pytest.mark.parametrize("pattern", sorted(random_jobs.PATTERNS))
def test_no_policy_is_below_the_bound_on_iterations(pattern):
    for seed, jobs in ((1, 1), (2, 2)):
        case = random_jobs.draw(random.Random(seed), random_jobs.TOPOLOGIES[seed % 2], [pattern], jobs, iterations=2)
        found = bounds.iteration_bound(case.jobs, case.network, 40)
        for name in ROSTER:
            rows = iteration_rows(simulate(case.jobs, case.network, policies.load(name)), case.jobs)
            own = {j.name: statistics.fmean(r.duration_s for r in rows if r.job == j.name) for j in case.jobs}
            assert statistics.fmean(own.values()) >= found.mean_s * (1 - 1e-6), name
            assert all(own[job] >= alone * (1 - 1e-6) for job, alone in found.alone_s.items()), name


def fig_2():
    """The paper's Fig. 2: three micro-batches of 2 s of link each."""
    return paper_job(ONE_LINK)


def test_the_papers_example_cannot_end_before_8_nor_be_less_tardy_than_4():
    job = fig_2()
    assert bounds.iteration_bound([job], ONE_LINK).mean_s == pytest.approx(8.0, abs=1e-5)
    assert bounds.exact_tardiness_s(bounds.of_jobs([job], ONE_LINK)) == pytest.approx(4.0, abs=1e-5)


def test_two_such_jobs_cannot_both_have_the_link():
    jobs = [fig_2(), Job("other", fig_2().dag, ("h1", "h2"))]
    found = bounds.iteration_bound(jobs, ONE_LINK)
    assert found.alone_s["other"] == pytest.approx(8.0, abs=1e-5)
    best = min(
        statistics.fmean(r.duration_s for r in iteration_rows(simulate(jobs, ONE_LINK, policies.load(p)), jobs))
        for p in ROSTER
    )
    assert 10.0 < found.mean_s <= best


def test_one_machine_by_hand():
    """The long tail arrives while the short one is served, and goes first: 1 + 2 + 5, then 5 + 1."""
    assert one_machine_s([(0.0, 1.0, 3.0), (1.0, 5.0, 2.0)]) == pytest.approx(8.0)
    assert one_machine_s([(0.0, 9.0, 3.0), (1.0, 5.0, 2.0)]) == pytest.approx(12.0)
    assert one_machine_s([(4.0, 0.0, 1.0), (0.0, 0.0, 1.0)]) == pytest.approx(5.0)


def test_a_release_that_waits_for_a_flow_is_refused_by_name():
    steps = (
        Transfer("x", 0, 1, 1000, "x"), Compute("c", 1, 1.0, ("x",)), Transfer("y", 1, 0, 1000, "y", ("c",)),
    )  # fmt: skip
    dag = JobDag(2, steps, (Group("g", "t", ("x",), (0.0,)), Group("h", "t", ("y",), (0.0,))))
    with pytest.raises(InputError, match="job chained: flow 'y' is released by another flow's end"):
        bounds.of_jobs([Job("chained", dag, ("h1", "h2"))], ONE_LINK)
    twice = JobDag(2, steps[:2], (Group("g", "t", ("x",), (0.0,)),), (("c", "x"),))
    bounds.of_jobs([Job("once", twice, ("h1", "h2"))], ONE_LINK)
    with pytest.raises(InputError, match="flow 'x' is released by another flow's end"):
        bounds.of_jobs([Job("twice", twice, ("h1", "h2"), 2)], ONE_LINK)


def test_jobs_without_traffic():
    silent = Job("silent", JobDag(1, (Compute("c", 0, 1.5),)), ("h1",), 2)
    assert bounds.iteration_bound([silent], ONE_LINK).mean_s == pytest.approx(0.75)
    with pytest.raises(InputError, match="nothing to bound"):
        bounds.of_jobs([silent], ONE_LINK)
    moved = JobDag(2, (Transfer("x", 0, 1, 1000, "x"),), (Group("g", "t", ("x",), (0.0,)),))
    sent_s = 1000 / ONE_LINK.capacity_Bps[0]
    assert bounds.iteration_bound([Job("sends", moved, ("h1", "h2"))], ONE_LINK).mean_s == pytest.approx(sent_s)
    # Nothing ties an iteration to the one before: all five are under way at once, and share the link.
    assert bounds.iteration_bound([Job("sends", moved, ("h1", "h2"), 5)], ONE_LINK).mean_s == pytest.approx(sent_s)


def test_a_link_carries_the_jobs_one_after_the_other_at_best():
    """Two iterations of a second each: one job ends after 2 s and the other after 4 at best, whoever goes first."""
    second = round(ONE_LINK.capacity_Bps[0])
    dag = JobDag(2, (Transfer("x", 0, 1, second, "x"),), (Group("g", "t", ("x",), (0.0,)),), (("x", "x"),))
    jobs = [Job(name, dag, ("h1", "h2"), 2) for name in "ab"]
    assert bounds.iteration_bound(jobs, ONE_LINK).mean_s == pytest.approx(1.5, rel=1e-4)


def test_a_job_of_more_iterations_weighs_less_on_a_link():
    """Ends count divided by iterations: 1 s of one iteration goes before 4 s of four, and 4.5 s of nine before neither."""
    second = round(ONE_LINK.capacity_Bps[0])

    def job(name, seconds, iterations):
        size = round(seconds * second / iterations)
        dag = JobDag(2, (Transfer("x", 0, 1, size, "x"),), (Group("g", "t", ("x",), (0.0,)),), (("x", "x"),))
        return Job(name, dag, ("h1", "h2"), iterations)

    # time over weight: 1, 16 and 40.5; ends 1, 5 and 9.5
    found = bounds.iteration_bound([job("c", 4.5, 9), job("b", 4.0, 4), job("a", 1.0, 1)], ONE_LINK)
    assert found.mean_s == pytest.approx((1 + 5 / 4 + 9.5 / 9) / 3, rel=1e-3)
