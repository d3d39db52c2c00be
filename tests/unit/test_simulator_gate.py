"""Jobs that hold back their own transfers, in simulation: times worked out by hand, and all that it must get on with."""

from __future__ import annotations

import dataclasses

import pytest

from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec, Window
from echelonflow.model.faults import Crash
from echelonflow.model.measured import Measured, Settings
from echelonflow.scheduling import policies
from simulator.fluid import simulate
from simulator.realism import EXACT, Realism
from tests.unit.gated_jobs import ALGORITHMS, ONE_AT_A_TIME, UNBOUNDED, Layer, layered

NETWORK = topologies.build("single-switch", {"hosts": 5, "rate_bps": 1e6})
SECOND = round(NETWORK.capacity_Bps[0])
"""Bytes that a link carries in a second."""
LAYERS = [Layer(1.0, 1.0, SECOND), Layer(1.0, 1.0, 2 * SECOND)]


def about(time_s):
    return pytest.approx(time_s, abs=1e-4)  # sizes are whole bytes


def run(job, policy="fair", realism=EXACT, **more):
    record = simulate([job], NETWORK, policies.load(policy), realism=realism, **more)
    return {(f.iteration, f.flow): f for f in record.flows}, record


def steps_end_s(record):
    return {(c.iteration, c.step): c.finish_s for c in record.computes}


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_window_without_bounds_is_no_discipline_to_the_bit(algorithm):
    plain = layered(LAYERS, algorithm=algorithm, iterations=3)
    (_, one), (_, other) = run(plain), run(layered(LAYERS, algorithm=algorithm, iterations=3, window=UNBOUNDED))
    assert one.flows == other.flows
    assert one.computes == other.computes
    assert {f.ready_s for f in one.flows} == {None}


def test_what_is_held_says_since_when_it_was_ready():
    flows, record = run(layered(LAYERS, window=ONE_AT_A_TIME))
    # Forward ends at 2 s; backward of layer 1 at 3 s, of layer 0 at 4 s. A ring of two carries each layer in its own time.
    last, first = flows[0, "l1 0->1"], flows[0, "l0 0->1"]
    assert (last.ready_s, last.release_s, last.finish_s) == (None, about(3), about(5))
    assert (first.ready_s, first.release_s, first.finish_s) == (about(4), about(5), about(6))
    assert record.end_s == about(6)


def test_an_urgent_layer_overtakes_the_partitions_that_wait():
    job = layered(LAYERS, window=ONE_AT_A_TIME, partition_bytes=SECOND // 2, iterations=2)
    flows, record = run(job)
    # 1.5 s of layer 1 are left when layer 0 is ready at 4 s, the partition under way ends then.
    assert flows[0, "l0.1 0->1"].finish_s == about(5)
    assert flows[0, "l1.3 0->1"].finish_s == about(6)
    end_s = steps_end_s(record)
    assert end_s[1, "f0 0"] == about(6)  # layer 0 is there at 5 s: it does not wait for layer 1
    assert end_s[1, "f0 1"] == about(7)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_with_a_barrier_the_first_layer_waits_for_all_and_without_for_its_own(algorithm):
    ends_s = {}
    for barrier in (True, False):
        job = layered(
            LAYERS,
            algorithm=algorithm,
            window=ONE_AT_A_TIME,
            partition_bytes=SECOND // 2,
            iterations=2,
            barrier=barrier,
        )
        flows, record = run(job)
        (begin_s,) = (c.start_s for c in record.computes if (c.iteration, c.step) == (1, "f0 0"))
        finish_s = {flow: f.finish_s for (iteration, flow), f in flows.items() if iteration == 0}
        waits_for = job.dag.previous["f0 0"]
        assert any("l1" in flow for flow in waits_for) == barrier
        assert begin_s == about(max(finish_s[flow] for flow in waits_for))
        assert barrier or begin_s < max(finish_s.values()) - 0.1
        ends_s[barrier] = record.end_s
        assert len(flows) == 2 * len(job.dag.transfers)
    assert ends_s[False] < ends_s[True]


@pytest.mark.parametrize("policy", policies.deciding_alone())
def test_every_policy_schedules_what_the_job_lets_go(policy):
    job = layered(LAYERS, algorithm="ring-steps", window=ONE_AT_A_TIME, partition_bytes=SECOND // 2, workers=4)
    flows, _ = run(dataclasses.replace(job, iterations=2), policy)
    assert len(flows) == 2 * len(job.dag.transfers)
    assert any(f.ready_s is not None for f in flows.values())
    assert all(f.ready_s is None or f.ready_s < f.release_s <= f.start_s <= f.finish_s for f in flows.values())


@pytest.mark.parametrize("undecided", ["ahead", "wait", "last-class"])
@pytest.mark.parametrize("policy", ["fair", "echelonflow", "coflow(grouping=group)"])
def test_decisions_ahead_and_late_get_on_with_what_is_held(policy, undecided):
    job = layered(LAYERS, algorithm="ring-steps", workers=4, window=ONE_AT_A_TIME, partition_bytes=SECOND, iterations=3)
    realism = Realism(classes=7, decision_latency_s=0.01, undecided=undecided)
    flows, record = run(job, policy, realism)
    exact_s = run(job, policy)[1].end_s
    assert len(flows) == 3 * len(job.dag.transfers)
    assert exact_s * 0.99 <= record.end_s <= exact_s * 1.1


def test_credit_comes_back_when_its_rank_was_found_to_notice():
    job = layered(LAYERS, window=ONE_AT_A_TIME)
    key = ("j", 0, "l1 0->1")
    settings = Settings(acknowledged_s={key: 0.3}, arrival_s={key: 0.2})
    flows, _ = run(job, realism=Realism(classes=7), measured=Measured(settings=settings))
    assert flows[0, "l0 0->1"].release_s == about(5.3)  # its sender notices by the acknowledgement
    assert flows[0, "l0 1->0"].release_s == about(5)  # nobody else has to


def test_a_late_release_counts_from_when_a_transfer_was_ready():
    job = layered(LAYERS, window=ONE_AT_A_TIME)
    late = Measured(release_s={("j", 0, "l1 0->1"): 0.25, ("j", 0, "l0 0->1"): 0.5})
    flows, _ = run(job, measured=late)
    assert flows[0, "l1 0->1"].release_s == about(3.25)
    first = flows[0, "l0 0->1"]
    assert (first.ready_s, first.release_s) == (about(4.5), about(5.25))


def test_settings_that_take_no_time_change_nothing_for_what_is_held():
    job = layered(LAYERS, algorithm="ring-steps", workers=4, window=ONE_AT_A_TIME, iterations=2)
    realism = Realism(classes=7)
    plain, timed = run(job, realism=realism)[0], run(job, realism=realism, measured=Measured(settings=Settings()))[0]
    for key, flow in plain.items():
        assert timed[key].finish_s == about(flow.finish_s)
        assert timed[key].ready_s == (None if flow.ready_s is None else about(flow.ready_s))


def test_transfers_within_a_host_take_no_time_and_give_their_credit_back():
    job = layered(
        LAYERS, algorithm="ring", workers=4, window=ONE_AT_A_TIME, hosts=("h1", "h1", "h2", "h2"), iterations=2
    )
    flows, record = run(job)
    assert len(flows) == 2 * 2 * 2  # two of four edges of the ring cross, for two layers, twice
    assert {c.iteration for c in record.computes} == {0, 1}


def test_a_job_whose_host_crashes_ends_and_what_it_held_goes_with_it():
    job = layered(LAYERS, window=ONE_AT_A_TIME, iterations=3)
    other = dataclasses.replace(layered(LAYERS, window=ONE_AT_A_TIME, hosts=("h3", "h4")), name="other")
    crash = Crash(host="h1", at_s=4.5)
    record = simulate([job, other], NETWORK, policies.load("fair"), faults=[crash])
    assert {f.job for f in record.flows} == {"other"}
    assert len([f for f in record.flows if f.job == "other"]) == 4
    assert max(c.finish_s for c in record.computes if c.job == "j") <= 4.5


def test_a_discipline_that_stalls_is_named():
    steps = (
        Compute("c", 0, 1.0),
        Transfer("push", 0, 1, 10, "c", ("c",)),
        Transfer("other", 0, 1, 10, "c", ("push",)),
        Transfer("pull", 1, 0, 10, "c", ("other",)),
    )
    dag = JobDag(2, steps, (Group("g", "x", ("push", "other", "pull"), (0.0,) * 3),))
    tasks = (TaskSpec("first", 0, 10, 0, ("push",), ("pull",)), TaskSpec("second", 0, 10, 1, ("other",)))
    job = Job("j", dag, ("h1", "h2"), discipline=Discipline("test", Window(slots=1), tasks))
    with pytest.raises(RunError, match="job j still waits: its job scheduler stalls: rank 0: other held, 10 bytes"):
        run(job)
