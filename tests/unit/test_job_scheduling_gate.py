"""What a job's gate lets go: by hand for what it promises, and whatever happens in what order for what never may."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.errors import RunError
from echelonflow.job_scheduling.gate import Gate
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.discipline import Discipline, TaskSpec, Window
from echelonflow.model.progress import JobProgress
from tests.unit.gated_jobs import ALGORITHMS, ONE_AT_A_TIME, UNBOUNDED, Layer, layered

TWO_LAYERS = [Layer(1.0, 1.0, 100), Layer(1.0, 1.0, 100)]


def sends(*names, window=ONE_AT_A_TIME, tasks, ranks=2, after=None):
    """A job in which rank 0 sends to rank 1 what it has, and `tasks` hold that back."""
    steps = tuple(Transfer(name, 0, 1, 10, "c", (after or {}).get(name, ())) for name in names)
    dag = JobDag(ranks, steps, (Group("g", "x", names, (0.0,) * len(names)),))
    return Job("j", dag, tuple(f"h{n}" for n in range(ranks)), 2, discipline=Discipline("test", window, tasks))


def test_a_job_without_a_discipline_or_a_bound_is_let_through():
    for job in (layered(TWO_LAYERS), layered(TWO_LAYERS, window=UNBOUNDED)):
        gate = Gate(job)
        for transfer in job.dag.transfers:
            assert gate.ready(0, transfer.name) == [(0, transfer.name)]
            assert gate.ended(0, transfer.name) == []
        assert gate.waiting == 0


def test_a_more_urgent_layer_overtakes_one_that_waits():
    job = sends("x2", "x1", "x0", tasks=tuple(TaskSpec(f"t{n}", 0, 10, n, (f"x{n}",)) for n in range(3)))
    gate = Gate(job)
    assert [gate.ready(0, name) for name in ("x2", "x1", "x0")] == [[(0, "x2")], [], []]
    assert gate.waiting == 2
    assert gate.ended(0, "x2") == [(0, "x0")]
    assert gate.ended(0, "x0") == [(0, "x1")]
    assert gate.waiting == 0


def test_the_first_iteration_has_its_own_order():
    tasks = tuple(TaskSpec(f"t{n}", 0, 10, n, (f"x{n}",), first_priority=-n) for n in range(3))
    gate = Gate(sends("x0", "x1", "x2", tasks=tasks))
    for iteration, first, second in ((0, "x2", "x1"), (1, "x1", "x2")):
        for name in ("x0", "x1", "x2"):
            gate.ready(iteration, name)
        assert gate.ended(iteration, "x0") == [(iteration, first)]
        assert gate.ended(iteration, first) == [(iteration, second)]
        assert gate.ended(iteration, second) == []


def test_what_starts_as_one_is_let_go_as_it_becomes_ready():
    tasks = (TaskSpec("both", 0, 10, 0, ("a", "b")), TaskSpec("other", 0, 10, 1, ("c",)))
    gate = Gate(sends("a", "b", "c", tasks=tasks))
    assert gate.ready(0, "a") == [(0, "a")]
    assert gate.ready(0, "c") == []
    assert gate.ready(0, "b") == [(0, "b")]  # its task has started
    assert gate.ended(0, "a") == []
    assert gate.ended(0, "b") == [(0, "c")]


def test_transfers_in_no_task_pass():
    gate = Gate(sends("a", "b", "c", tasks=(TaskSpec("t", 0, 10, 0, ("a",)), TaskSpec("u", 0, 10, 0, ("b",)))))
    assert [gate.ready(0, name) for name in "abc"] == [[(0, "a")], [], [(0, "c")]]


def test_credit_comes_back_to_each_rank_as_it_notices():
    job = layered(TWO_LAYERS, window=ONE_AT_A_TIME, late_ends=True, priority=lambda layer: -layer)
    gate = Gate(job)
    there, back = ("l1 0->1", "l1 1->0")
    for name in (there, back, "l0 0->1", "l0 1->0"):
        gate.ready(0, name)
    assert gate.ended(0, there) == []
    assert gate.ended(0, back, noticed_by=(0,)) == [(0, "l0 0->1")]
    assert gate.ended(0, back, noticed_by=(1,)) == [(0, "l0 1->0")]


def test_an_agent_has_the_gate_of_its_own_ranks():
    job = layered(TWO_LAYERS, algorithm="ring", window=ONE_AT_A_TIME)
    gate = Gate(job, ranks=(1,))
    assert [gate.ready(0, name) for name in ("l1 1->0", "l0 1->0")] == [[(0, "l1 1->0")], []]
    assert gate.ready(0, "l1 0->1") == [(0, "l1 0->1")]  # another rank's: none of its business
    assert gate.ended(0, "l1 0->1") == []
    assert gate.ended(0, "l1 1->0") == [(0, "l0 1->0")]


def test_ranks_that_have_started_different_layers_do_not_wait_for_each_other():
    job = layered(TWO_LAYERS, algorithm="ring", window=ONE_AT_A_TIME, late_ends=True)
    one, other = Gate(job, (0,)), Gate(job, (1,))
    assert one.ready(0, "l1 0->1") == [(0, "l1 0->1")]
    assert other.ready(0, "l0 1->0") == [(0, "l0 1->0")]
    assert one.ready(0, "l0 0->1") == other.ready(0, "l1 1->0") == []
    assert one.ended(0, "l1 0->1") == [(0, "l0 0->1")]  # nothing under way: its most urgent layer goes
    assert other.ended(0, "l1 0->1") == []  # its own is still under way
    assert other.ended(0, "l0 1->0") == [(0, "l1 1->0")]  # nothing under way: what its peer has begun goes


def test_no_rank_goes_over_its_credit_while_it_sends():
    job = layered(TWO_LAYERS, algorithm="ring", window=ONE_AT_A_TIME, late_ends=True)
    gate = Gate(job, (1,))
    gate.ready(0, "l1 1->0")
    gate.ready(0, "l0 1->0")
    assert gate.ended(0, "l0 0->1") == []
    assert gate.waiting == 1


def drive(job, window_ranks, choices):
    """Run a job to its end, whatever happens in any order; returns what was released and when it was ready, by count."""
    gates = {rank: Gate(job, (rank,)) for rank in range(job.dag.ranks)} if window_ranks else None
    whole = Gate(job)
    progress = JobProgress(job)
    under_way, ready, released = [], set(), []

    def of(rank):
        return whole if gates is None else gates[rank]

    def let_go(keys):
        for key in keys:
            assert key in ready, f"{key} is released before it is ready"
            released.append(key)
            under_way.append(key)

    def follow(keys):
        for key in keys:
            step = job.dag.by_name[key[1]]
            if isinstance(step, Compute):
                under_way.append(key)
            else:
                ready.add(key)
                let_go(of(step.src_rank).ready(*key))

    follow(progress.start())
    while under_way:
        key = under_way.pop(choices.randrange(len(under_way)))
        step = job.dag.by_name[key[1]]
        follow(progress.finish(*key))
        if isinstance(step, Transfer):
            ranks = [step.src_rank, step.dst_rank]
            choices.shuffle(ranks)
            for rank in ranks:
                let_go(of(rank).ended(*key, noticed_by=(rank,)))
    assert progress.done, "; ".join(
        gate.why_waiting() for gate in ([whole] if gates is None else gates.values()) if gate.waiting
    )
    return released


@settings(deadline=None, max_examples=150)
@given(
    algorithm=st.sampled_from(ALGORITHMS),
    workers=st.sampled_from([2, 4]),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=4),
    partition_bytes=st.integers(60, 300),
    window=st.builds(Window, st.integers(1, 400), st.none() | st.integers(1, 3), overdraw=st.just(True))
    | st.builds(Window, st.integers(4000, 5000), st.none() | st.integers(1, 3), overdraw=st.booleans())
    | st.builds(Window, st.none(), st.integers(1, 3)),
    late_ends=st.booleans(),
    barrier=st.booleans(),
    upwards=st.booleans(),
    apart=st.booleans(),
    choices=st.randoms(use_true_random=False),
)
def test_whatever_happens_in_what_order_nothing_stalls_and_each_is_released_once(
    algorithm, workers, sizes, partition_bytes, window, late_ends, barrier, upwards, apart, choices
):
    job = layered(
        [Layer(1.0, 1.0, size) for size in sizes],
        algorithm=algorithm,
        workers=workers,
        partition_bytes=partition_bytes,
        window=window,
        late_ends=late_ends,
        barrier=barrier,
        priority=(lambda layer: layer) if upwards else (lambda layer: -layer),
        iterations=3,
    )
    released = drive(job, apart, choices)
    assert sorted(released) == sorted((k, t.name) for k in range(3) for t in job.dag.transfers)


def test_what_stalls_all_the_same_is_named():
    steps = (
        Compute("c", 0, 1.0),
        Transfer("push", 0, 1, 10, "c", ("c",)),
        Transfer("other", 0, 1, 10, "c", ("push",)),
        Transfer("pull", 1, 0, 10, "c", ("other",)),
    )
    dag = JobDag(2, steps, (Group("g", "x", ("push", "other", "pull"), (0.0,) * 3),))
    tasks = (TaskSpec("first", 0, 10, 0, ("push",), ("pull",)), TaskSpec("second", 0, 10, 1, ("other",)))
    gate = Gate(Job("j", dag, ("h1", "h2"), discipline=Discipline("test", ONE_AT_A_TIME, tasks)))
    assert gate.ready(0, "push") == [(0, "push")]
    assert gate.ready(0, "other") == []
    assert gate.ended(0, "push") == []
    assert gate.why_waiting() == "rank 0: other held, 10 bytes of credit with first of iteration 0"


def test_an_end_that_was_never_released_is_refused():
    gate = Gate(sends("a", tasks=(TaskSpec("t", 0, 10, 0, ("a",)),)))
    with pytest.raises(RunError, match="more transfers of iteration 0 have ended than were released"):
        gate.ended(0, "a")


def test_what_a_peer_has_begun_starts_at_once_if_it_waits():
    job = sends("x2", "x1", "x0", tasks=tuple(TaskSpec(f"t{n}", 0, 10, n, (f"x{n}",)) for n in range(3)))
    gate = Gate(job)
    assert [gate.ready(0, name) for name in ("x2", "x1")] == [[(0, "x2")], []]
    assert gate.begun_by_peer(0, "x0") == []  # its bytes are not there yet
    assert gate.begun_by_peer(0, "x2") == []  # it has started
    assert gate.begun_by_peer(0, "x1") == [(0, "x1")]  # beside x2, beyond the window
    assert gate.begun_by_peer(0, "x1") == []
    assert gate.ready(0, "x0") == []
    assert gate.ended(0, "x2") == []  # x1 has the window
    assert gate.ended(0, "x1") == [(0, "x0")]
    assert gate.begun_by_peer(0, "unknown") == []
