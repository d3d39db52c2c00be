"""Members of an ensemble differ by next to nothing, and by nothing else."""

import statistics

import pytest

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, Job, JobDag
from echelonflow.model.draws import Draws
from echelonflow.scheduling import policies
from simulator.disturbance import DISTURBED_SHARE, Disturbance
from simulator.fluid import simulate
from simulator.realism import Realism
from tests.unit.synthetic_run import paper_job, paper_network

NETWORK = paper_network()


def durations_s(member, jobs=None, repeat=0):
    disturbance = None if member is None else Disturbance(member)
    record = simulate(
        jobs or [paper_job(NETWORK, 3)],
        NETWORK,
        policies.load("fifo"),
        repeat,
        realism=Realism(disturbance=disturbance),
    )
    flows = {(f.job, f.iteration, f.flow): f.finish_s - f.start_s for f in record.flows}
    return {(c.job, c.iteration, c.step): c.finish_s - c.start_s for c in record.computes} | flows


def drawn_job(duration_s=1.0):
    steps = tuple(Compute(f"p{i}", 0, duration_s, (f"p{i - 1}",) if i else ()) for i in range(50))
    return Job("drawn", JobDag(2, steps, (), ()), ("h1", "h2"), 4, draws=Draws(1, jitter=0.1))


def test_each_step_takes_up_to_half_a_percent_more_or_less():
    plain, disturbed = durations_s(None), durations_s(0)
    assert {name for _, _, name in plain} == {"p0", "p1", "p2", "c0", "c1", "c2", "x0", "x1", "x2"}
    shares = [disturbed[key] / plain[key] - 1 for key in plain]
    assert all(0 < abs(share) <= DISTURBED_SHARE * (1 + 1e-6) for share in shares)
    assert min(shares) < 0 < max(shares)


def test_all_bytes_of_a_flow_arrive_however_it_is_disturbed():
    record = simulate(
        [paper_job(NETWORK)], NETWORK, policies.load("fifo"), realism=Realism(disturbance=Disturbance(0, 0.1))
    )
    (size_bytes,) = {flow.size_bytes for flow in record.flows}
    assert size_bytes == paper_job(NETWORK).dag.by_name["x0"].size_bytes


def test_a_member_is_the_same_whenever_it_is_asked_for_and_each_is_another():
    assert durations_s(3) == durations_s(3)
    assert durations_s(3) != durations_s(4)


def test_the_mean_is_nothing():
    drawn = [Disturbance(member).of(("job", 0, "p0"), 2.0) / 2.0 - 1.0 for member in range(4000)]
    assert abs(statistics.fmean(drawn)) < DISTURBED_SHARE / 20
    assert statistics.stdev(drawn) == pytest.approx(DISTURBED_SHARE / 3**0.5, rel=0.05)  # uniform


def test_nothing_takes_less_than_nothing():
    assert all(0 < Disturbance(member, 0.999).of(("job", 0, "p0"), 1e-6) < 2e-6 for member in range(100))
    assert Disturbance(0).of(("job", 0, "p0"), 0.0) == 0.0


def test_what_jobs_draw_by_the_repeat_stays_as_it_is():
    plain, disturbed, other = (durations_s(m, [drawn_job()], repeat=r) for m, r in ((None, 2), (7, 2), (7, 3)))
    assert all(abs(disturbed[key] / plain[key] - 1) <= DISTURBED_SHARE * (1 + 1e-6) for key in plain)
    assert max(abs(other[key] / plain[key] - 1) for key in plain) > 0.1


@pytest.mark.parametrize(("member", "share"), [(-1, 0.01), (0, -0.01), (0, 1.0), (0, float("nan"))])
def test_disturbances_that_cannot_be_are_refused(member, share):
    with pytest.raises(InputError):
        Disturbance(member, share)
