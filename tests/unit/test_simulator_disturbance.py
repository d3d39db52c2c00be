"""Members of an ensemble differ by next to nothing, and by nothing else."""

import statistics

import pytest

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, Job, JobDag
from echelonflow.model.draws import Draws
from echelonflow.scheduling import policies
from simulator.disturbance import DISTURBED_S, Disturbance
from simulator.fluid import simulate
from simulator.realism import Realism
from tests.unit.synthetic_run import paper_job, paper_network

NETWORK = paper_network()


def durations_s(member, jobs=None, repeat=0, most_s=DISTURBED_S):
    disturbance = None if member is None else Disturbance(member, most_s)
    record = simulate(
        jobs or [paper_job(NETWORK, 3)],
        NETWORK,
        policies.load("fair"),
        repeat,
        realism=Realism(disturbance=disturbance),
    )
    return {(c.job, c.iteration, c.step): c.finish_s - c.start_s for c in record.computes}


def drawn_job(duration_s=1.0):
    steps = tuple(Compute(f"p{i}", 0, duration_s, (f"p{i - 1}",) if i else ()) for i in range(50))
    return Job("drawn", JobDag(2, steps, (), ()), ("h1", "h2"), 4, draws=Draws(1, jitter=0.1))


def test_computations_take_up_to_a_tenth_of_a_millisecond_more_or_less():
    plain, disturbed = durations_s(None), durations_s(0)
    off_s = [disturbed[key] - plain[key] for key in plain]
    assert all(0 < abs(each) <= DISTURBED_S for each in off_s)
    assert min(off_s) < 0 < max(off_s)


def test_a_member_is_the_same_whenever_it_is_asked_for_and_each_is_another():
    assert durations_s(3) == durations_s(3)
    assert durations_s(3) != durations_s(4)


def test_the_mean_is_nothing():
    key = ("job", 0, "p0")
    drawn = [Disturbance(member).of(key, 1.0) - 1.0 for member in range(4000)]
    assert abs(statistics.fmean(drawn)) < DISTURBED_S / 20
    assert statistics.stdev(drawn) == pytest.approx(DISTURBED_S / 3**0.5, rel=0.05)  # uniform


def test_no_computation_takes_less_than_no_time():
    drawn = [Disturbance(member).of(("job", 0, "p0"), 1e-6) for member in range(100)]
    assert all(0 <= each <= 2e-6 for each in drawn)
    assert Disturbance(0).of(("job", 0, "p0"), 0.0) == 0.0


def test_what_jobs_draw_by_the_repeat_stays_as_it_is():
    plain, disturbed, other = (durations_s(m, [drawn_job()], repeat=r) for m, r in ((None, 2), (7, 2), (7, 3)))
    assert all(abs(disturbed[key] - plain[key]) <= DISTURBED_S * 1.001 for key in plain)
    assert max(abs(other[key] - plain[key]) for key in plain) > 0.1


@pytest.mark.parametrize(("member", "most_s"), [(-1, 1e-4), (0, -1e-4), (0, float("inf")), (0, float("nan"))])
def test_disturbances_that_cannot_be_are_refused(member, most_s):
    with pytest.raises(InputError):
        Disturbance(member, most_s)
