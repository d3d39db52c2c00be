"""Jobs that job schedulers make: all bytes, no cycle, every tensor carried, and no way to wait for ever."""

from __future__ import annotations

from collections import defaultdict
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.bounds import BeyondBoundsError
from echelonflow.errors import InputError
from echelonflow.job_scheduling.gate import Gate
from echelonflow.model.dag import Compute, Job, iteration_times_without_network, run_without_network
from echelonflow.model.progress import JobProgress
from tests.unit.tensor_cases import CASES, model_of, models, setting_of, settings_of
from traffic.workloads import job_schedulers, scaling
from traffic.workloads.in_job import build_job_dag
from traffic.workloads.tensors import Setting, TensorModel

FEW = settings(max_examples=15, deadline=None)


def made(text, model, setting):
    scheduler = job_schedulers.load(text)
    plan = scheduler.plan(model, setting)
    dag, discipline = build_job_dag(model, plan, setting, text)
    discipline.check(dag)
    return plan, dag, discipline


@pytest.mark.parametrize(("text", "architecture"), CASES)
@FEW
@given(st.data())
def test_bytes_are_those_of_the_model_however_it_is_cut(text, architecture, data):
    model, setting = data.draw(models()), data.draw(settings_of(architecture))
    _, dag, _ = made(text, model, setting)
    sent = sum(transfer.size_bytes for transfer in dag.transfers)
    if architecture != "parameter-server":
        assert sent == 2 * (setting.workers - 1) * model.total_bytes
        return
    pushed = defaultdict(int)
    for transfer in dag.transfers:
        worker = transfer.src_rank if transfer.name.startswith("ps-push") else transfer.dst_rank
        pushed[transfer.name[:7], worker] += transfer.size_bytes
    if setting.colocated:  # what a worker and its own server give each other is no flow
        assert all(size_bytes <= model.total_bytes for size_bytes in pushed.values())
        assert sent <= 2 * setting.workers * model.total_bytes
    else:
        assert set(pushed.values()) == {model.total_bytes}
        assert len(pushed) == 2 * setting.workers


@pytest.mark.parametrize(("text", "architecture"), CASES)
@FEW
@given(st.data())
def test_a_forward_pass_waits_for_every_byte_of_its_tensor(text, architecture, data):
    model, setting = data.draw(models()), data.draw(settings_of(architecture))
    plan, dag, _ = made(text, model, setting)
    before = {(1, name): waits for name, waits in waits_of(dag).items()}
    for worker in range(setting.workers):
        for i, tensor in enumerate(model.tensors):
            known = ancestors(dag, before, f"f{worker} {tensor.name}")
            for unit in plan.units:
                if any(part == i for part, _ in unit.parts):
                    last = last_legs(plan, dag, worker, unit)
                    assert known >= last, f"{tensor.name} does not wait for {last - known}"
            assert known >= {(0, f"b{worker} {each.name}") for each in model.tensors}


def last_legs(plan, dag, worker, unit):
    """(iteration, transfer) of what brings a unit to a worker for iteration 1: pulls, or the last of a collective."""
    kinds = ("ps-pull", "dp-all-reduce", "dp-all-gather")
    there = [t for t in dag.transfers if t.dst_rank == worker and t.coflow in {f"{kind} {unit.name}" for kind in kinds}]
    return {(1 if plan.two_phase else 0, t.name) for t in there}


def waits_of(dag):
    return {step.name: set(step.after) for step in dag.steps}


def ancestors(dag, before, name):
    """All (iteration, step) that step `name` of iteration 1 waits for."""
    known, stack = set(), [(1, name)]
    while stack:
        iteration, step = stack.pop()
        waits = [(iteration, each) for each in before[1, step]]
        if iteration == 1:
            waits += [(0, each) for each in dag.previous[step]]
        new = [each for each in waits if each not in known]
        known.update(new)
        stack += new
    return known


@pytest.mark.parametrize(("text", "architecture"), CASES)
def test_without_a_barrier_the_first_layer_does_not_wait_for_the_last_one(text, architecture):
    model, setting = model_of(100, 100, 100, 100), setting_of(architecture)
    plan, dag, _ = made(text, model, setting)
    before = {(1, name): waits for name, waits in waits_of(dag).items()}
    everything = set().union(*(last_legs(plan, dag, 0, unit) for unit in plan.units))
    assert (ancestors(dag, before, "f0 l0") >= everything) == (plan.barrier or len(plan.units) == 1)


@pytest.mark.parametrize(("text", "architecture"), CASES)
@FEW
@given(st.data())
def test_a_rank_waits_only_for_what_its_host_can_notice(text, architecture, data):
    _, dag, _ = made(text, data.draw(models()), data.draw(settings_of(architecture)))
    for step in dag.steps:
        rank = step.rank if isinstance(step, Compute) else step.src_rank
        for name in (*step.after, *dag.previous[step.name]):
            before = dag.by_name[name]
            noticed_by = {before.rank} if isinstance(before, Compute) else {before.src_rank, before.dst_rank}
            assert rank in noticed_by, f"{step.name} waits for {name}"


@pytest.mark.parametrize(("text", "architecture"), CASES)
def test_all_time_of_the_model_is_kept(text, architecture):
    model, setting = model_of(100, 300, 200, 100), setting_of(architecture)
    _, dag, _ = made(text, model, setting)
    at_work_s = model.compute_s + (0 if architecture == "parameter-server" else 4 * 0.05)
    own = sum(step.duration_s for step in dag.computes if step.rank == 0)
    assert own == pytest.approx(at_work_s)
    updates = sum(step.duration_s for step in dag.computes if step.kind == "update")
    assert updates == pytest.approx(0.2 if architecture == "parameter-server" else 4 * 0.2)
    # Servers update beside the workers; the last layers go first, and the first layer's update is waited for.
    last_s = iteration_times_without_network(dag, 3)[-1]
    assert at_work_s - 1e-9 <= last_s <= model.compute_s + 0.2 + 1e-9


@pytest.mark.parametrize(("text", "architecture"), CASES)
def test_groups_say_when_flows_are_consumed(text, architecture):
    _, dag, _ = made(text, model_of(100, 300, 200, 100), setting_of(architecture))
    first, second = run_without_network(dag, 2)
    followers = {t.name: [*dag.followers[t.name]] for t in dag.transfers}
    for group in dag.groups:
        needed_s = []
        for name in group.transfers:
            now = [first[later][0] for later in followers[name]]
            now += [second[later][0] for later in dag.next_followers[name]]
            needed_s.append(min(now))
        assert [each - needed_s[0] for each in needed_s] == pytest.approx(list(group.offsets_s), abs=1e-9)
    if architecture == "parameter-server" and "bytescheduler" in text and "barrier" not in text:
        pulls = next(group for group in dag.groups if group.kind == "ps-pull")
        assert pulls.offsets_s[-1] == pytest.approx(0.3)  # the last of four layers goes forward three passes later


@pytest.mark.parametrize(("text", "architecture"), CASES)
def test_every_transfer_is_held_but_pulls_that_follow_their_push(text, architecture):
    plan, dag, discipline = made(text, model_of(100, 300, 200, 100), setting_of(architecture))
    held = {name for task in discipline.tasks for name in task.transfers}
    free = {t.name for t in dag.transfers} - held
    expected = {t.name for t in dag.transfers if t.name.startswith("ps-pull")} if plan.pull_with_push else set()
    assert free == expected


def test_one_worker_has_nothing_to_reduce():
    _, dag, discipline = made("bytescheduler", model_of(100, 200), setting_of("ring", 1))
    assert not dag.transfers
    assert not discipline.tasks


def test_servers_share_a_tensor_or_take_turns():
    model = model_of(1000, 1000)
    _, dag, _ = made("fifo", model, setting_of("parameter-server", 1, 3))
    assert [t.size_bytes for t in dag.transfers if t.coflow == "ps-push l0"] == [333, 333, 334]
    _, dag, _ = made("p3(slice=250 B)", model, setting_of("parameter-server", 1, 3))
    pushes = [t for t in dag.transfers if t.name.startswith("ps-push")]
    assert [t.dst_rank for t in pushes] == [1, 2, 3, 1, 2, 3, 1, 2]
    assert {t.size_bytes for t in pushes} == {250}


def test_servers_spend_the_models_update_on_their_shares():
    _, dag, _ = made("p3(slice=250 B)", model_of(1000, 500), setting_of("parameter-server", 2, 2))
    spent = {step.name: step.duration_s for step in dag.computes if step.kind == "update"}
    assert spent["u2 l0#0"] == pytest.approx(0.05 / 4)
    assert sum(spent.values()) == pytest.approx(0.1)


def test_a_tensorflow_server_hands_out_nothing_before_all_is_updated():
    _, dag, _ = made("fifo(framework=tensorflow)", model_of(100, 100), setting_of("parameter-server", 2, 1))
    pulls = [t for t in dag.transfers if t.name.startswith("ps-pull")]
    assert {t.after for t in pulls} == {("all u2",)}
    assert set(dag.by_name["all u2"].after) == {"u2 l0", "u2 l1"}


def test_dear_gathers_one_group_ahead_after_all_is_scattered():
    _, dag, _ = made("dear(layers=1)", model_of(100, 100, 100), setting_of("ring", 2))
    by_name = dag.by_name
    assert by_name["dp-all-gather b2 0->1"].after == ()  # l0: at the beginning
    assert by_name["dp-all-gather b1 0->1"].after == ()  # l1: while l0 goes forward, once l0 is gathered
    assert by_name["dp-all-gather b0 0->1"].after == ("f0 l0",)  # l2: when l1 goes forward
    for bucket in ("b0", "b1", "b2"):
        assert dag.previous[f"dp-all-gather {bucket} 0->1"] == ("all r0",)
    assert set(by_name["all r0"].after) >= {f"dp-reduce-scatter {bucket} 0->1" for bucket in ("b0", "b1", "b2")}


def test_on_one_stream_a_task_ends_with_what_arrives():
    _, _, discipline = made("ddp", model_of(100), setting_of("ring", 3))
    first = discipline.tasks[0]
    assert first.transfers == ("dp-all-reduce b0 0->1",)
    assert set(first.ends) == {"dp-all-reduce b0 0->1", "dp-all-reduce b0 2->0"}
    _, _, discipline = made("bytescheduler", model_of(100), setting_of("ring", 3))
    assert discipline.tasks[0].ends == discipline.tasks[0].transfers


def test_what_is_too_much_is_refused_before_it_is_made():
    big = model_of(10**12, 10**12)
    with pytest.raises(BeyondBoundsError, match="parts of tensors are asked for"):
        job_schedulers.module("bytescheduler").plan(big, setting_of("ring"), partition_bytes=1000)
    many = model_of(*[10**6] * 50)
    with pytest.raises(BeyondBoundsError, match="steps in an iteration"):
        made("bytescheduler(partition=4 kB)", many, setting_of("ring", 64))


def test_a_scaled_job_has_a_scaled_discipline():
    _, dag, discipline = made("bytescheduler(partition=64 B, credit=100 B)", model_of(640), setting_of("ring"))
    small = scaling.scale(dag, bandwidth=8, time=2)
    scaled = scaling.scale_discipline(discipline, bandwidth=8, time=2)
    scaled.check(small)
    assert scaled.window.credit_bytes == 25
    assert {task.size_bytes for task in scaled.tasks} == {16}
    assert scaling.scale_discipline(discipline, bandwidth=1e6, time=1).window.credit_bytes == 1


def test_a_plan_that_forgets_bytes_is_refused():
    model = model_of(100, 200)
    plan = job_schedulers.load("fifo").plan(TensorModel(model.tensors[:1]), Setting("ring", 2))
    with pytest.raises(InputError, match="units carry 0 bytes of l1, which has 200"):
        build_job_dag(model, plan, Setting("ring", 2))


def test_names_tell_computation_from_transfers():
    _, dag, _ = made("bytescheduler(partition=64 B)", model_of(100), setting_of("ring", 2))
    kinds = {step.kind for step in dag.steps if isinstance(step, Compute)}
    assert kinds == {"forward", "backward", "update"}
    assert dag.transfers[0].coflow == "dp-all-reduce l0#0"


@pytest.mark.parametrize(
    ("text", "architecture", "colocated"),
    [(*case, False) for case in CASES] + [(*case, True) for case in CASES if case[1] == "parameter-server"],
)
def test_nothing_waits_for_ever_whatever_takes_how_long(text, architecture, colocated):
    setting = setting_of(architecture, colocated=colocated)
    _, dag, discipline = made(text, model_of(200, 100, 150), setting)
    job = Job("job", dag, tuple(f"h{rank}" for rank in range(dag.ranks)), 3, discipline=discipline)
    for seed in range(5):
        run_by_lot(job, Random(seed))


def run_by_lot(job, random):
    """Run a job whose steps end in random order; every rank has a gate of its own, as on hosts of their own."""
    progress = JobProgress(job)
    gates = [Gate(job, [rank]) for rank in range(job.dag.ranks)]
    running: list[tuple[int, str]] = []
    released: dict[tuple[int, str], int] = defaultdict(int)

    def begin(steps):
        for iteration, name in steps:
            step = job.dag.by_name[name]
            if isinstance(step, Compute):
                running.append((iteration, name))
            else:
                release(gates[step.src_rank].ready(iteration, name))

    def release(steps):
        for key in steps:
            released[key] += 1
            running.append(key)

    begin(progress.start())
    while running:
        iteration, name = running.pop(random.randrange(len(running)))
        begin(progress.finish(iteration, name))
        step = job.dag.by_name[name]
        if not isinstance(step, Compute):
            for rank in (step.src_rank, step.dst_rank):
                release(gates[rank].ended(iteration, name))
    assert progress.done, "; ".join(gate.why_waiting() for gate in gates)
    assert set(released.values()) == {1}
    assert len(released) == job.iterations * len(job.dag.transfers)
