"""Simulation in columns: the same as the plain event loop to the bit, under every policy, compiled and as it stands."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import random
import sys

import numpy as np
import pytest

from echelon.cases import random_jobs
from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Discipline, Window
from echelonflow.model.draws import Draws
from echelonflow.model.faults import Slowdown
from echelonflow.model.measured import Measured
from echelonflow.records.rates import RateLog
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import decision_loops, kernels, policies
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.policies import Policy
from simulator import fluid
from simulator.columns import engine, loops, room
from simulator.columns import tables as t
from simulator.realism import Realism
from tests.contract.snapshots import VARIANTS

NETWORK = topologies.build("single-switch", {"hosts": 4, "rate_bps": 8e6})


@pytest.fixture
def plain(monkeypatch):
    """The loops as they stand: nothing to compile, and quick enough for small simulations. Policies are asked."""
    monkeypatch.setattr("echelonflow.scheduling.trace_kernels.jit.COMPILED", False)
    spec = importlib.util.spec_from_file_location("plain_column_loops", loops.__file__)
    copy = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "plain_column_loops", copy)
    spec.loader.exec_module(copy)
    monkeypatch.setattr(engine, "loops", copy)
    runners = kernels.Runners(math.inf)
    monkeypatch.setattr(kernels, "of_this_process", lambda: runners)


@pytest.fixture
def by_form(plain, monkeypatch):
    """The same, and decisions are made by the forms of policies, as they stand too."""
    spec = importlib.util.spec_from_file_location("plain_decision_loops", decision_loops.__file__)
    copy = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "plain_decision_loops", copy)
    spec.loader.exec_module(copy)
    monkeypatch.setattr(engine.loops, "decision_loops", copy)
    monkeypatch.setattr(engine, "_can_decide", lambda: True)


@pytest.fixture
def compiled():
    """Everything compiled."""
    if kernels.warm_up() != "numba":
        pytest.skip("numba is not installed, or ECHELON_PLAIN is set: nothing is compiled")


def both(jobs, network, policy):
    """The records of a simulation by the plain event loop and in columns."""
    asked = policies.load(policy) if isinstance(policy, str) else policy
    plain_record = _by_the_plain_loop(jobs, network, asked)
    again = policies.load(policy) if isinstance(policy, str) else policy
    record = RunRecord(again.name, 0)
    engine.run(jobs, network, again, record)
    return plain_record, record


def _by_the_plain_loop(jobs, network, policy):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fluid, "_in_columns", lambda *_: False)
        return fluid.simulate(jobs, network, policy)


def check_equal(one, other):
    assert list(one.flows) == list(other.flows)
    assert list(one.computes) == list(other.computes)
    assert one.flows or one.computes


def case(seed, jobs=3, iterations=2):
    rng = random.Random(seed)
    return random_jobs.draw(rng, rng.choice(random_jobs.TOPOLOGIES), jobs=jobs, iterations=iterations)


@pytest.mark.parametrize("seed", range(4))
def test_random_jobs_come_out_the_same(seed, plain):
    drawn = case(seed, jobs=2)
    check_equal(*both(drawn.jobs, drawn.network, "echelonflow"))


@pytest.mark.parametrize("policy", ["echelonflow", "fair", "coflow", "aalo"])
def test_decisions_by_form_come_out_the_same(policy, by_form):
    drawn = case(7, jobs=2, iterations=1)
    check_equal(*both(drawn.jobs, drawn.network, policy))


@pytest.mark.parametrize("policy", ["echelonflow", "clock"])
def test_drawn_computations_come_out_the_same(policy, plain):
    drawn = case(7, jobs=2)
    jobs = [dataclasses.replace(job, draws=Draws(5, 0.3, 1.5, slow_count=1)) for job in drawn.jobs]
    one, other = both(jobs, drawn.network, policy)
    check_equal(one, other)
    assert list(one.computes) != list(both(drawn.jobs, drawn.network, policy)[0].computes)


def test_one_stops_now_and_then_to_show_progress(by_form, monkeypatch):
    monkeypatch.setattr(engine.loops, "PAUSE_DECISIONS", 3)
    shown = []
    engine.run(tangled(), NETWORK, policies.load("echelonflow"), RunRecord("echelonflow", 0), shown.append)
    assert len(shown) > 5
    assert shown == sorted(shown)


@pytest.mark.parametrize("policy", [p for p in policies.deciding_alone() if not policies.load(p).promises.holds_back])
def test_every_policy_comes_out_the_same(policy, plain):
    drawn = case(7, jobs=2, iterations=1)
    check_equal(*both(drawn.jobs, drawn.network, policy))


@pytest.mark.slow  # compiles the loops, where that was not done before
@pytest.mark.parametrize(
    "policy", [t for t in VARIANTS if not (policies.load(t).promises.plans or policies.load(t).promises.holds_back)]
)
def test_compiled_every_form_of_every_policy_comes_out_the_same(policy, compiled):
    for seed in range(20, 24):
        drawn = case(seed)
        check_equal(*both(drawn.jobs, drawn.network, policy))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 140))
def test_compiled_random_jobs_come_out_the_same(seed, compiled):
    drawn = case(seed, jobs=random.Random(seed).randint(2, 6), iterations=3)
    check_equal(*both(drawn.jobs, drawn.network, "echelonflow"))


def tangled(iterations=3):
    """Coflows that several groups share, transfers that wait for nothing, others within a host, a job without any."""
    steps = (
        Transfer("early", 0, 1, 3_000_000, "shared"),
        Compute("c0", 0, 0.5),
        Transfer("a", 0, 1, 1_000_000, "shared", ("c0",)),
        Transfer("b", 1, 2, 2_000_000, "shared", ("a",)),
        Transfer("within", 0, 3, 5, "within", ("c0",)),
        Compute("c3", 3, 0.0, ("within",)),
        Transfer("late", 3, 1, 500_000, "within", ("c3",)),
    )
    groups = (
        Group("g0", "x", ("early", "b"), (0.0, 1.0), 2.0),
        Group("g1", "x", ("a", "late"), (0.5, 0.25)),
        Group("g2", "x", ("within",), (0.0,)),
    )
    dag = JobDag(4, steps, groups, next_iteration=(("b", "c0"), ("c0", "c0")))
    alone = JobDag(1, (Compute("only", 0, 0.3),), next_iteration=(("only", "only"),))
    return [
        Job("z", dag, ("h1", "h2", "h3", "h1"), iterations, 1.0, 0.25),
        Job("lonely", alone, ("h1",), 2),
        Job("a", dag, ("h2", "h3", "h4", "h2"), iterations, 3.0),
    ]


@pytest.mark.parametrize(
    "policy",
    ["echelonflow(pending=count,order=tardiness)", "coflow", "fair", "aalo", "mltcp", "crux(correction=pairs)"],
)
def test_coflows_of_several_groups_and_steps_without_causes_come_out_the_same(policy, plain):
    check_equal(*both(tangled(), NETWORK, policy))


def test_columns_grow_and_nothing_is_lost(plain, monkeypatch):
    grown = []
    original = room.grown
    monkeypatch.setattr(t, "FIRST_ROWS", 2)
    monkeypatch.setattr(room, "grown", lambda tables: grown.append(1) or original(tables))
    check_equal(*both(tangled(iterations=30), NETWORK, "echelonflow(pending=count,order=extra)"))
    assert len(grown) >= 3


def test_what_a_policy_sees_is_what_it_sees_of_the_plain_loop(plain):
    seen = {True: [], False: []}
    named = policies.load("fair")

    def noting(into):
        def decide(snapshot):
            into.append(snapshot)
            return named(snapshot)

        return Policy("spy", "rate", "", decide)

    _by_the_plain_loop(tangled(), NETWORK, noting(seen[False]))
    engine.run(tangled(), NETWORK, noting(seen[True]), RunRecord("spy", 0))
    assert len(seen[True]) == len(seen[False]) > 10
    for ours, theirs in zip(seen[True], seen[False], strict=True):
        assert ours.now_s == theirs.now_s
        for one, other in (
            (ours, theirs),
            (ours.groups, theirs.groups),
            (ours.coflows, theirs.coflows),
            (ours.jobs, theirs.jobs),
        ):
            for name, column in vars(one).items():
                if isinstance(column, np.ndarray):
                    np.testing.assert_array_equal(column, getattr(other, name), err_msg=name)
                    assert column.dtype == getattr(other, name).dtype


def test_a_policy_that_gives_nothing_is_told_so(plain):
    def nothing(snapshot):
        return Allocation(np.zeros(snapshot.flows), np.zeros(snapshot.flows, np.int64))

    policy = Policy("idle", "rate", "", nothing)
    with pytest.raises(RunError, match=r"stuck at .* policy idle gives none of"):
        engine.run(tangled(), NETWORK, policy, RunRecord("idle", 0))


def test_answers_that_only_expire_are_told_so(plain):
    def expiring(snapshot):
        rates = np.full(snapshot.flows, 1e-9)
        return Allocation(rates, np.zeros(snapshot.flows, np.int64), snapshot.now_s + 1e-6)

    with pytest.raises(RunError, match=r"makes no progress at .* policy restless let its answer expire"):
        engine.run(tangled(), NETWORK, Policy("restless", "rate", "", expiring), RunRecord("restless", 0))


@pytest.mark.parametrize(
    "more",
    [
        {"realism": Realism(classes=3)},
        {"realism": Realism(decision_latency_s=0.01)},
        {"realism": Realism(late_s=0.01)},
        {"realism": Realism(burst_s=0.01)},
        {"realism": Realism(undecided="ahead")},
        {"faults": [Slowdown(host="h1", at_s=0.5, for_s=1.0, factor=2.0)]},
        {"measured": Measured()},
        {"job": {"discipline": Discipline("fifo", Window(), ())}},
        {"job": {"placement": ("h1", "nowhere")}},
    ],
    ids=str,
)
def test_what_departs_from_the_ideal_takes_the_plain_loop(more, monkeypatch):
    dag = JobDag(2, (Transfer("t", 0, 1, 1000, "t"),), (Group("g", "x", ("t",), (0.0,)),))
    job = Job(**{"name": "j", "dag": dag, "placement": ("h1", "h2"), **more.pop("job", {})})
    monkeypatch.setattr(fluid._Patience, "steps", fluid.COMPILING_STEPS)
    monkeypatch.setattr(fluid.kernels, "can_compile", lambda: True)
    policy, asked = policies.load("echelonflow"), {"realism": Realism(), "faults": (), "measured": None}
    assert fluid._in_columns([Job("j", dag, ("h1", "h2"))], NETWORK, policy, *asked.values())
    assert not fluid._in_columns([job], NETWORK, policy, *{**asked, **more}.values())


@pytest.mark.parametrize(
    ("ready", "columns"), [(True, [False, True, True, True]), (False, [False, False, False, True])]
)
def test_a_process_begins_with_the_plain_loop(ready, columns, monkeypatch):
    monkeypatch.setattr(fluid._Patience, "steps", 0)
    monkeypatch.setattr(fluid, "PATIENCE_STEPS", 15)
    monkeypatch.setattr(fluid, "COMPILING_STEPS", 35)
    monkeypatch.setattr(fluid, "_are_ready", lambda: ready)
    monkeypatch.setattr(fluid.kernels, "can_compile", lambda: True)
    dag = JobDag(1, (Compute("a", 0, 1.0),))
    given = ([Job("j", dag, ("h1",), 10)], NETWORK, policies.load("fair"), Realism(), (), None)
    assert [fluid._in_columns(*given) for _ in range(4)] == columns


def test_a_function_put_in_a_policys_place_is_asked(monkeypatch):
    monkeypatch.setattr(fluid._Patience, "steps", fluid.COMPILING_STEPS)
    named, asked = policies.load("echelonflow"), []

    def counting(snapshot):
        asked.append(snapshot.now_s)
        return named(snapshot)

    dag = JobDag(2, (Transfer("t", 0, 1, 1000, "t"),), (Group("g", "x", ("t",), (0.0,)),))
    fluid.simulate([Job("j", dag, ("h1", "h2"), 3)], NETWORK, named.deciding(counting))
    assert len(asked) == 3


@pytest.mark.slow
def test_what_was_warmed_up_is_ready(compiled, monkeypatch):
    monkeypatch.setattr(fluid._Patience, "steps", 0)
    fluid.warm_up()
    assert fluid._are_ready()
    used = []
    original = engine.run
    monkeypatch.setattr(engine, "run", lambda *given: used.append(1) or original(*given))
    fluid.simulate(tangled(), NETWORK, policies.load("fair"))
    assert used == [1]


@pytest.mark.parametrize("loops_as", ["plain", "by_form"])
@pytest.mark.parametrize("policy", ["fair", "echelonflow"])
def test_rates_are_noted_as_by_the_plain_event_loop(policy, loops_as, request):
    request.getfixturevalue(loops_as)
    case = random_jobs.draw(random.Random(7), "leaf-spine", jobs=2)
    found = []
    for run in (_noted_by_the_plain_loop, _noted_in_columns):
        rates = RateLog()
        record = run(case, policy, rates)
        row, begin_s, end_s, rate_Bps = rates.pieces(record.flows.finish_s)
        keys = [(record.flows[r].job, record.flows[r].iteration, record.flows[r].flow) for r in row.tolist()]
        found.append(sorted(zip(keys, begin_s, end_s, rate_Bps, strict=True)))
    assert found[0] == found[1]


def _noted_by_the_plain_loop(case, policy, rates):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fluid, "_in_columns", lambda *_: False)
        return fluid.simulate(case.jobs, case.network, policies.load(policy), rates=rates)


def _noted_in_columns(case, policy, rates):
    record = RunRecord(policy, 0)
    engine.run(case.jobs, case.network, policies.load(policy), record, rates=rates)
    return record
