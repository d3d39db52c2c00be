"""Job schedulers: what each makes of a model, held to its promises and to the rules of the original."""

from __future__ import annotations

import doctest
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.errors import InputError
from tests.unit.tensor_cases import CASES, RATE_Bps, model_of, models, setting_of, settings_of
from traffic.workloads import job_schedulers
from traffic.workloads.job_schedulers import ddp, dear
from traffic.workloads.paradigms._layers import given_layers
from traffic.workloads.tensors import PARAMETER_SERVER, Setting, TensorModel, check_credit, cut, of_layers

FEW = settings(max_examples=25, deadline=None)
RING = setting_of("ring")
SERVED = setting_of(PARAMETER_SERVER)


def plan(text, model, setting=RING):
    return job_schedulers.load(text).plan(model, setting)


def sizes(found):
    return [unit.size_bytes for unit in found.units]


def tensors(found):
    return [[i for i, _ in unit.parts] for unit in found.units]


def test_the_roster():
    assert {"bytescheduler", "ddp", "dear", "fifo", "p3", "random", "tac", "tic"} <= set(job_schedulers.names())


@pytest.mark.parametrize("name", job_schedulers.names())
def test_each_names_its_source_and_where_it_differs(name):
    module = job_schedulers.module(name)
    assert "**Differs.**" in module.__doc__
    assert re.search(r"\((?:\w+ )?(?:19|20)\d\d\)", module.SOURCE), "a source has a year"
    assert job_schedulers.load(name).summary == module.__doc__.partition("\n")[0]


@pytest.mark.parametrize(("text", "architecture"), CASES)
@FEW
@given(st.data())
def test_promises_are_kept(text, architecture, data):
    model, setting = data.draw(models()), data.draw(settings_of(architecture))
    scheduler = job_schedulers.load(text)
    found, promises = scheduler.plan(model, setting), scheduler.promises
    if promises.whole_tensors:
        assert sorted(i for unit in tensors(found) for i in unit) == list(range(len(model.tensors)))
    if promises.keeps_order:
        priorities = [unit.priority for unit in found.units]
        assert priorities == sorted(priorities)
        assert found.window.overdraw
    if promises.waits_by_layer:
        assert not found.barrier


@pytest.mark.parametrize(("text", "architecture"), CASES)
@FEW
@given(st.data())
def test_units_come_in_the_order_in_which_they_are_ready(text, architecture, data):
    model, setting = data.draw(models()), data.draw(settings_of(architecture))
    first = [unit.first_tensor for unit in plan(text, model, setting).units]
    assert first == sorted(first, reverse=True)


@pytest.mark.parametrize(
    ("framework", "architecture", "barrier", "pulls_wait"),
    [
        ("auto", "ring", True, False),
        ("auto", PARAMETER_SERVER, False, False),
        ("mxnet", "tree", False, False),
        ("pytorch", PARAMETER_SERVER, True, False),
        ("tensorflow", "ring", True, False),
        ("tensorflow", PARAMETER_SERVER, False, True),
    ],
)
def test_fifo_has_the_barrier_of_its_framework(framework, architecture, barrier, pulls_wait):
    found = plan(f"fifo(framework={framework})", model_of(10, 20), setting_of(architecture))
    assert (found.barrier, found.pulls_wait) == (barrier, pulls_wait)
    assert found.window.slots == 1
    assert [unit.name for unit in found.units] == ["l1", "l0"]


def pytorch_buckets(sizes_bytes, limits):
    """PyTorch's rule in the words of `compute_bucket_assignment_by_size`: add, then close if the limit is reached."""
    found, bucket, size, limit = [], [], 0, iter(limits)
    now = next(limit)
    for i, each in sizes_bytes:
        bucket.append(i)
        size += each
        if size >= now:
            found.append(bucket)
            bucket, size = [], 0
            now = next(limit, now)
    return [*found, bucket] if bucket else found


@FEW
@given(models(), st.integers(1, 300), st.integers(1, 600))
def test_ddps_buckets_are_pytorchs(model, first, bucket):
    numbered = [(i, tensor.size_bytes) for i, tensor in enumerate(model.tensors)]
    rebuilt = plan(f"ddp(first={first} B, bucket={bucket} B)", model)
    assert tensors(rebuilt) == pytorch_buckets(numbered[::-1], [first, bucket])
    registered = plan(f"ddp(first={first} B, bucket={bucket} B, order=registered)", model)
    assert [sorted(unit) for unit in tensors(registered)] == pytorch_buckets(numbered, [first, bucket])[::-1]


def test_ddps_first_bucket_is_the_small_one():
    model = model_of(*[10 * 2**20] * 6, 2**19, 2**19)
    assert tensors(plan("ddp", model)) == [[7, 6], [5, 4, 3], [2, 1, 0]]
    assert tensors(plan("ddp(order=registered)", model)) == [[7, 6, 5, 4], [3, 2, 1], [0]]
    assert plan("ddp", model).barrier


def test_random_orders_are_seeded():
    model = model_of(*[10] * 30)
    first, again, other = (plan(f"random(seed={seed})", model) for seed in (1, 1, 2))
    assert first.units == again.units
    assert first.units != other.units
    assert sorted(unit.priority for unit in first.units) == list(range(30))


def test_p3_cuts_slices_of_40_000_elements_and_puts_the_first_layer_first():
    model = model_of(4 * 40_000 * 3, 4 * 90_000, 4 * 10)
    found = plan("p3", model, SERVED)
    assert sizes(found) == [40, 160_000, 160_000, 40_000, 160_000, 160_000, 160_000]
    assert [unit.priority for unit in found.units] == [2, 1, 1, 1, 0, 0, 0]
    assert [unit.name for unit in found.units][:3] == ["l2", "l1#0", "l1#1"]
    assert found.window.slots == SERVED.servers


def test_bytescheduler_counts_in_bytes_what_the_original_counts_in_elements():
    model = model_of(40_000_000, 10_000_000)
    found = plan("bytescheduler", model)
    assert max(sizes(found)) == 4 * 1_000_000
    assert found.window.credit_bytes == 4 * 4_000_000
    assert found.window.overdraw
    assert sizes(found)[:3] == [3_333_333, 3_333_333, 3_333_334]  # evenly, as the original cuts


def test_bytescheduler_faithful_has_priority_layer_times_1000_plus_part():
    model = model_of(*[4_000_000 * 3] * 2)
    found = plan("bytescheduler(form=faithful)", model)
    assert [unit.priority for unit in found.units] == [1000, 1001, 1002, 0, 1, 2]
    assert [unit.priority for unit in plan("bytescheduler", model).units] == [3, 4, 5, 0, 1, 2]


def test_bytescheduler_faithful_mixes_layers_of_over_1000_partitions_and_fixed_does_not():
    model = model_of(4_000_000 * 1100, 4_000_000 * 2)
    by_layer = {
        form: {i: [unit.priority for unit in plan(f"bytescheduler(form={form})", model).units if unit.parts[0][0] == i] for i in (0, 1)}
        for form in ("faithful", "fixed")
    }  # fmt: skip
    assert max(by_layer["faithful"][0]) > min(by_layer["faithful"][1])
    assert max(by_layer["fixed"][0]) < min(by_layer["fixed"][1])


def test_bytescheduler_faithful_does_not_use_the_partition_that_is_tuned():
    model = model_of(32_000_000)
    assert len(plan("bytescheduler(form=faithful, partition=16 MB)", model).units) == 8
    assert len(plan("bytescheduler(form=fixed, partition=16 MB)", model).units) == 2
    assert plan("bytescheduler(form=faithful, credit=8 MB)", model).window.credit_bytes == 8_000_000


def test_dears_groups_stay_below_their_bytes():
    model = model_of(9, 2, 4, 1, 3)
    assert tensors(plan("dear(bucket=7 B)", model)) == [[3, 4], [1, 2], [0]]
    assert tensors(plan("dear(layers=2)", model)) == [[4], [2, 3], [0, 1]]
    assert [unit.priority for unit in plan("dear(layers=2)", model).units] == [2, 1, 0]


def test_tic_breaks_the_tie_of_the_first_two_layers_only_when_fixed():
    model = model_of(*[10] * 4)
    assert [unit.priority for unit in plan("tic(form=faithful)", model).units] == [3, 2, 0, 0]
    assert [unit.priority for unit in plan("tic", model).units] == [3, 2, 1, 0]
    assert [unit.priority for unit in plan("tac", model).units] == [3, 2, 1, 0]


@pytest.mark.parametrize(
    ("text", "setting", "message"),
    [
        ("bytescheduler(partition=0 B)", RING, "partition: '0 B' must be greater than 0"),
        ("bytescheduler(credit=0 MB)", RING, "credit: '0 MB' must be greater than 0"),
        ("bytescheduler(partition=2 GB)", RING, "at most 300 B would do"),
        ("bytescheduler(credit=2 GB)", RING, "at most 400 B would do, which bounds nothing"),
        ("bytescheduler(partition=3 B)", RING, "at least 4 B would do"),
        ("bytescheduler(partition=90 B, credit=50 B, overdraw=false)", RING, "at least 75 B would do"),
        ("bytescheduler(partitoin=4 MB)", RING, "partitoin: unknown key; did you mean 'partition'?"),
        ("bytescheduler(form=broken)", RING, "form: 'broken' is not one of faithful, fixed"),
        ("bytescheduler(partition=4)", RING, "4 is not a size: write a number and a unit"),
        ("bytescheduler(partition=4 MB", RING, "write such as 'bytescheduler(partition=4 MB)'"),
        ("bytesheduler", RING, "unknown job scheduler 'bytesheduler'; did you mean 'bytescheduler'?"),
        ("p3(slice=1 GB)", SERVED, "slice: 1 GB is beyond the largest tensor"),
        ("p3", RING, "does not go with ring; it is for parameter-server, and ring takes bytescheduler, ddp"),
        ("ddp", SERVED, "and parameter-server takes bytescheduler, fifo, p3, random"),
        ("dear", setting_of("tree"), "it is for ring, reduce-scatter"),
        ("random(seed=0)", RING, "seed: 0 is not a whole number of at least 1"),
        ("tac", Setting("ring", 2), "needs the rate of a link"),
    ],
)
def test_bad_input_is_refused_with_what_would_do(text, setting, message):
    with pytest.raises(InputError) as caught:
        plan(text, model_of(300, 100), setting)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_two_faults_are_two_lines():
    with pytest.raises(InputError) as caught:
        job_schedulers.load("bytescheduler(partition=0 B, credit=much)")
    assert [line.partition(": ")[2].partition(":")[0] for line in str(caught.value).split("\n")] == [
        "partition",
        "credit",
    ]


def test_defaults_fit_every_model():
    for text, architecture in CASES:
        if "(" not in text:
            assert plan(text, model_of(300, 100), setting_of(architecture)).units


@FEW
@given(models(), st.integers(8, 500), st.sampled_from([1, 4, 8]), st.booleans())
def test_parts_are_no_larger_than_asked_for_and_none_is_too_small(model, partition, least, evenly):
    for i, parts in cut(model, partition, least, evenly=evenly):
        assert sum(parts) == model.tensors[i].size_bytes
        assert min(parts) >= min(least, model.tensors[i].size_bytes)
        assert max(parts) < partition + max(least, 1) or len(parts) == model.tensors[i].size_bytes // least


def test_a_credit_of_the_whole_model_is_not_too_much():
    model = model_of(300, 100)
    check_credit("credit", 400, model, default_bytes=1)
    with pytest.raises(InputError, match="beyond all tensors together"):
        check_credit("credit", 401, model, default_bytes=1)


def test_a_layer_without_parameters_is_computed_with_its_neighbour():
    layers = given_layers(
        5,
        forward_s=[1.0, 2.0, 4.0, 8.0, 16.0],
        backward_s=[10.0, 20.0, 40.0, 80.0, 160.0],
        update_s=[0.0, 3.0, 0.0, 5.0, 0.0],
        parameter_bytes=[0, 100, 0, 200, 0],
    )
    model = of_layers(layers, ["in", "a", "relu", "b", "out"])
    assert [tensor.name for tensor in model.tensors] == ["a", "b"]
    assert [tensor.forward_s for tensor in model.tensors] == [7.0, 24.0]
    assert [tensor.backward_s for tensor in model.tensors] == [70.0, 240.0]
    assert [tensor.update_s for tensor in model.tensors] == [3.0, 5.0]
    assert model.compute_s == sum(layers.forward_s) + sum(layers.backward_s)
    with pytest.raises(InputError, match="no layer has parameters"):
        of_layers(given_layers(2, forward_s=1.0, backward_s=1.0))


def test_tac_takes_times_from_bytes_and_the_link():
    slow, fast = (Setting(PARAMETER_SERVER, 4, 2, rate_Bps) for rate_Bps in (RATE_Bps, 1e12))
    assert slow.carried_bytes(100) == 200
    assert setting_of("ring").carried_bytes(100) == 150
    for setting in (slow, fast):
        assert [unit.priority for unit in plan("tac", model_of(300, 100), setting).units] == [1, 0]


@pytest.mark.parametrize("module", [ddp, dear])
def test_worked_examples(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def test_a_model_of_one_tensor_goes_through_all_of_them():
    for text, architecture in CASES:
        assert sum(sizes(plan(text, TensorModel(model_of(200).tensors), setting_of(architecture)))) == 200
