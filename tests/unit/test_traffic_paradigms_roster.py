"""Each paradigm is what its paper says; what holds for all of them is in test_traffic_paradigms_all.py."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from echelonflow.errors import InputError
from echelonflow.model import arrangement
from echelonflow.model.dag import (
    JobDag,
    iteration_times_without_network,
    run_without_network,
)
from tests.unit.paradigm_cases import CASES, MEASURED, STAGES, built, in_all_iterations, placed, sent_bytes
from traffic.agent.plan import check_observable
from traffic.workloads import paradigms
from traffic.workloads.paradigms._layers import given_layers
from traffic.workloads.paradigms._schedules import order

FROM_PROFILE = {
    "data-parallel": {"ranks": 8},
    "parameter-server": {"workers": 3, "servers": 2},
    "gpipe": {"stages": 4, "micro_batches": 4},
    "pipeline": {"stages": 4, "micro_batches": 4},
    "pipeline-1f1b": {"stages": 4, "micro_batches": 4},
    "interleaved-1f1b": {"stages": 4, "chunks": 2, "micro_batches": 4},
    "pipedream": {"stages": 4, "micro_batches": 4},
    "tensor-parallel": {"ranks": 4},
    "fsdp": {"ranks": 4},
    "zero": {"ranks": 4, "stage": 1},
    "expert-parallel": {"ranks": 4, "top_k": 2},
    "hybrid": {"tensor": 2, "pipeline": 2, "data": 2, "micro_batches": 2},
}


def from_profile(name: str, **changes) -> JobDag:
    return paradigms.load(name).from_profile(MEASURED, **{**FROM_PROFILE[name], **changes})


@given(
    st.sampled_from(["data-parallel", "fsdp", "zero", "parameter-server", "tensor-parallel", "expert-parallel"]),
    st.integers(2, 6),
    st.lists(st.tuples(st.floats(0.01, 5), st.floats(0.01, 5), st.integers(6, 10_000)), min_size=1, max_size=6),
    st.integers(1, 20_000),
)
@settings(max_examples=40, deadline=None)
def test_layers_of_any_size(name, ranks, layers, bucket_bytes):
    forward_s, backward_s, size_bytes = map(list, zip(*layers, strict=True))
    options = {"layers": len(layers), "forward_s": forward_s, "backward_s": backward_s}
    options |= {"workers": ranks} if name == "parameter-server" else {"ranks": ranks}
    if name == "tensor-parallel":
        size_bytes = [size_bytes[0]] * len(layers)  # what goes backward is as large as what the layer before put out
    sizes = {"tensor-parallel": "activation_bytes", "expert-parallel": "dispatch_bytes"}.get(name, "parameter_bytes")
    options[sizes] = size_bytes
    if sizes == "parameter_bytes" and name != "fsdp":
        options["bucket_bytes"] = bucket_bytes
    dag = paradigms.build(name, options)
    check_observable(placed(dag))
    assert in_all_iterations(placed(dag, 2)) == Counter({step.name: 2 for step in dag.steps})
    rounds_of = {"tensor-parallel": 4, "expert-parallel": 4, "fsdp": 3}.get(name, 2)
    per_byte = ranks if name == "parameter-server" else ranks - 1  # in and out of the server; around the ring
    halves = 2 if name == "tensor-parallel" else 1  # an all-reduce is two collectives
    assert sum(sent_bytes(dag).values()) == sum(size_bytes) * rounds_of * halves * per_byte
    # The computation of all layers is there, whatever was cut where.
    own = [c.duration_s for c in dag.computes if c.rank == 0 or name == "parameter-server"]
    share = {"tensor-parallel": 1 / ranks, "parameter-server": ranks}.get(name, 1)
    assert sum(own) == pytest.approx((sum(forward_s) + sum(backward_s)) * share)


@given(st.integers(2, 5), st.integers(1, 9), st.integers(2, 3), st.floats(0.1, 3), st.floats(0.1, 3))
@settings(max_examples=40, deadline=None)
def test_pipelines_without_network_are_the_textbook_bubble(stages, micro_batches, chunks, forward_s, backward_s):
    options = {"stages": stages, "forward_s": forward_s, "backward_s": backward_s, "activation_bytes": 7}
    unit_s = forward_s + backward_s
    for name in ("gpipe", "pipeline-1f1b"):
        dag = paradigms.build(name, {**options, "micro_batches": micro_batches})
        assert iteration_times_without_network(dag, 1)[0] == pytest.approx((micro_batches + stages - 1) * unit_s)
    # (p - 1) / (v m) of the ideal time is bubble, not (p - 1) / m (Narayanan et al., SC 2021, section 2.2).
    bunches = micro_batches * stages
    dag = paradigms.build("interleaved-1f1b", {**options, "micro_batches": bunches, "chunks": chunks})
    assert iteration_times_without_network(dag, 1)[0] == pytest.approx((bunches * chunks + stages - 1) * unit_s)
    dag = paradigms.build("pipedream", {**options, "micro_batches": micro_batches})
    assert iteration_times_without_network(dag, 3)[1:] == pytest.approx([micro_batches * unit_s] * 2)


@given(st.integers(1, 8), st.integers(1, 12))
@settings(deadline=None)
def test_1f1b_holds_as_few_micro_batches_as_it_can(stages, micro_batches):
    for stage in range(stages):
        for schedule, expected in (("1f1b", min(micro_batches, stages - stage)), ("gpipe", micro_batches)):
            held = list(
                itertools.accumulate(1 if v.forward else -1 for v in order(schedule, stages, stage, micro_batches))
            )
            assert max(held) == expected
            assert held[-1] == 0


@pytest.mark.parametrize("name", ["pipeline-1f1b", "pipedream"])
def test_in_flight_when_run(name):
    options = {**STAGES, "update_s": 0.0}
    dag = paradigms.build(name, options)
    run = run_without_network(dag)[0]
    for stage in range(4):
        starts = [run[f"f{stage} m{m}"][0] for m in range(8)]
        ends = [run[f"b{stage} m{m}"][1] for m in range(8)]
        # PipeDream is cut out of its steady state: what is ahead of the first backward pass has begun before.
        ahead = 3 - stage if name == "pipedream" else 0
        most = max(ahead + sum(s <= t for s in starts) - sum(e <= t for e in ends) for t in starts)
        assert most == min(8, 4 - stage)


def test_pipedream_sends_ahead_what_the_neighbour_needs_a_place_later():
    dag = paradigms.build("pipedream", {**STAGES, "update_s": 0.0})
    assert dag.by_name["f1 m3"].after == ("b1 m2", "pp-forward 0->1 m2")
    assert ("pp-forward 0->1 m7", "f1 m0") in dag.next_iteration
    assert all(group.offsets_s == pytest.approx([3.0 * m for m in range(8)]) for group in dag.groups)


def test_1f1b_is_not_equation_6():
    dag = paradigms.build("pipeline-1f1b", STAGES)
    # Stage 1 of 4 runs three forward from 1 on; its first backward ends at 1 + 2 + 1 + 3 * 2 = 10, then one for one.
    by_name = {group.name: group for group in dag.groups}
    assert by_name["pp-forward 0->1"].offsets_s == pytest.approx([0, 1, 2, 9, 12, 15, 18, 21])
    assert by_name["pp-forward 0->1"].transfers[0] == "pp-forward 0->1 m0"


def test_interleaved_groups_hold_all_parts_of_two_neighbours_and_close_the_circle():
    dag = built("interleaved-1f1b")
    by_name = {group.name: group for group in dag.groups}
    assert {"pp-forward 3->0", "pp-backward 0->3"} <= set(by_name)
    assert len(by_name["pp-forward 0->1"].transfers) == 2 * 8
    assert len(by_name["pp-forward 3->0"].transfers) == 8
    for group in dag.groups:
        assert list(group.offsets_s) == sorted(group.offsets_s)


@pytest.mark.parametrize("window", [1, 2, 3])
def test_fsdp_is_equation_7_but_for_the_turn(window):
    n, forward_s, backward_s = 5, 1.0, 2.5
    options = {"ranks": 4, "layers": n, "forward_s": forward_s, "backward_s": backward_s, "parameter_bytes": 1000}
    found = {}
    for name in ("derived", "eq7"):
        dag = paradigms.build("fsdp", {**options, "window": window, "arrangement": name})
        (group,) = [g for g in dag.groups if g.kind == "fsdp-all-gather"]
        of_gather = defaultdict(set)
        for flow, offset_s in zip(group.transfers, group.offsets_s, strict=True):
            of_gather[dag.by_name[flow].coflow].add(offset_s)
        assert len(of_gather) == 2 * n
        assert all(len(offsets) == 1 for offsets in of_gather.values())  # a Coflow's flows are wanted at once
        found[name] = [offsets.pop() for offsets in of_gather.values()]
    assert found["eq7"] == pytest.approx(arrangement.fsdp(n, forward_s, backward_s))
    assert found["derived"][:n] == pytest.approx(found["eq7"][:n])
    early_s = backward_s - forward_s
    assert [eq7 - own for eq7, own in zip(found["eq7"][n:], found["derived"][n:], strict=True)] == pytest.approx(
        [early_s] * n
    )


def test_fsdp_keeps_no_more_than_its_window():
    dag = built("fsdp")
    gather = next(t for t in dag.transfers if t.coflow == "fsdp-all-gather 4")
    assert gather.after == (f"c2 r{gather.src_rank}",)
    first = next(t for t in dag.transfers if t.coflow == "fsdp-all-gather 1")
    assert run_without_network(dag)[0][first.name][0] == 0.0  # ready at once, needed a layer later
    assert dag.offset_s[first.name] == 1.0


def test_closed_forms_of_a_measured_model():
    parameters = sum(layer.parameter_bytes for layer in MEASURED.layers)
    outputs = [layer.activation_bytes for layer in MEASURED.layers]
    blocks = [layer.activation_bytes for layer in MEASURED.layers if layer.kind == "block"]

    def per_rank(name, kind="", **changes):
        return list(sent_bytes(from_profile(name, **changes), kind).values())

    assert per_rank("data-parallel") == pytest.approx([2 * 7 / 8 * parameters] * 8, abs=100)
    assert per_rank("zero") == pytest.approx([2 * 3 / 4 * parameters] * 4, abs=100)
    assert per_rank("fsdp") == pytest.approx([3 * 3 / 4 * parameters] * 4, abs=100)
    assert per_rank("parameter-server", "ps-push") == pytest.approx([parameters] * 3, abs=100)
    assert per_rank("parameter-server", "ps-pull") == pytest.approx([3 * parameters / 2] * 2, abs=100)
    # Megatron: two all-reduces per block and direction; one after the embedding, one before the head.
    assert per_rank("tensor-parallel") == pytest.approx([2 * 3 / 4 * (4 * sum(blocks) + outputs[0] + outputs[-2])] * 4)
    # Every other block has experts: two all-to-alls forward, two backward, of two copies of each token.
    assert per_rank("expert-parallel", "ep-") == pytest.approx([3 / 4 * 4 * 2 * sum(blocks[1::2])] * 4)
    hybrid = from_profile("hybrid")
    assert sum(sent_bytes(hybrid, "dp-").values()) == pytest.approx(8 * parameters / 2 / 2 * 2 * (1 / 2), abs=100)
    assert sum(sent_bytes(hybrid, "pp-").values()) == 2 * 2 * 2 * 2 * outputs[5]  # directions, micro-batches, T, D
    all_reduced = 2 * 2 * (1 / 2) * 2 * 2 * (4 * sum(blocks) + outputs[0] + outputs[-2])  # T, M, D; 2 (n - 1) / n
    assert sum(sent_bytes(hybrid, "tp-").values()) == pytest.approx(all_reduced)


def test_ranks_of_a_3d_job_talk_to_those_they_should():
    dag = built("hybrid")  # rank = t + 2 d + 4 s
    pairs = defaultdict(set)
    for t in dag.transfers:
        pairs[dag.group_of[t.name].kind].add((t.src_rank, t.dst_rank))
    assert pairs["tp-forward"] == pairs["tp-backward"] == {(a, a ^ 1) for a in range(8)}
    assert pairs["dp-all-reduce"] == {(a, a ^ 2) for a in range(8)}
    assert pairs["pp-forward"] == {(a, a + 4) for a in range(4)}
    assert pairs["pp-backward"] == {(a + 4, a) for a in range(4)}


def test_a_3d_job_without_tensor_and_data_is_the_pipeline():
    options = {"micro_batches": 6, "forward_s": 1.0, "backward_s": 2.0, "activation_bytes": 1000, "update_s": 0.5}
    for schedule, name in (("gpipe", "gpipe"), ("1f1b", "pipeline-1f1b")):
        whole = paradigms.build(
            "hybrid",
            {"tensor": 1, "pipeline": 4, "data": 1, "layers": 4, "parameter_bytes": 9, "schedule": schedule, **options},
        )
        plain = paradigms.build(name, {"stages": 4, **options})
        assert iteration_times_without_network(whole, 3) == pytest.approx(iteration_times_without_network(plain, 3))
        assert {g.name: g.offsets_s for g in whole.groups} == {g.name: g.offsets_s for g in plain.groups}


def test_buckets_are_filled_from_the_last_layer_and_reduced_once_complete():
    dag = built("data-parallel")
    sizes = {t.coflow: t.size_bytes for t in dag.transfers}
    assert list(sizes.values()) == [3000, 3000, 1500]  # 2 * 3/4 of 2000, 2000, 1000: layers 4 and 3, 2 and 1, 0
    run = run_without_network(dag)[0]
    starts = sorted({run[t.name][0] for t in dag.transfers})
    assert starts == [5 + 4, 5 + 8, 5 + 10]
    assert run["u r0"][0] == 15.0


def test_serial_buckets_wait_for_each_other():
    dag = built("data-parallel, serial")
    ring = {t.coflow: t for t in dag.transfers if t.src_rank == 0}
    (_, first), (_, second) = list(ring.items())[:2]
    assert first.name in second.after


def test_zero_1_keeps_gradients_until_the_end():
    for stage, expected in ((1, [15.0]), (2, [9.0, 13.0, 15.0])):
        dag = paradigms.build("zero", {**CASES["zero"], "stage": stage})
        run = run_without_network(dag)[0]
        scatters = {
            run[t.name][0] for t in dag.transfers if dag.group_of[t.name].name.startswith("zero-reduce-scatter")
        }
        assert sorted(scatters) == expected
        gathers = {run[t.name][0] for t in dag.transfers if dag.group_of[t.name].name.startswith("zero-all-gather")}
        assert gathers == {15.0 + 5 * 0.5 / 4}  # after the update of a quarter of the weights


def test_a_parameter_server_beside_a_worker_sends_it_nothing():
    dag = built("parameter-server, beside")
    assert dag.ranks == 3
    # Three buckets with parameters; server 0 and 1 hold half of each, worker 2 none.
    assert sent_bytes(dag, "ps-pull")[2] == 0
    assert len([t for t in dag.transfers if dag.group_of[t.name].name.startswith("ps-pull b0")]) == 2 * 2
    assert ("u0 b0", "f0 b0") in dag.next_iteration


def test_layers_without_parameters_have_no_bucket_but_are_computed():
    layers = given_layers(5, forward_s=1.0, backward_s=2.0, parameter_bytes=[0, 7, 1000, 0, 9])
    buckets = layers.buckets(range(5), 8)
    assert [(b.first, b.last, b.size_bytes) for b in buckets] == [(4, 4, 9), (2, 2, 1000), (1, 1, 7)]
    assert [b.size_bytes for b in layers.buckets(range(5), 9)] == [9, 1000, 7]  # 9 bytes are enough
    assert layers.buckets(range(1), 8) == []
    dag = built("parameter-server, beside")
    assert sum(c.duration_s for c in dag.computes if c.rank == 2) == 15.0


@pytest.mark.parametrize(
    ("name", "change", "words"),
    [
        ("data-parallel", {"ranks": 1}, "ranks: 1 is too few"),
        ("data-parallel", {"forward_s": [1.0]}, "forward: 1 values for 5 layers"),
        ("data-parallel", {"algorithm": "halving-doubling", "ranks": 3}, "power of two"),
        ("parameter-server", {"colocated": True, "servers": 4}, "4 co-located with 3 workers"),
        ("parameter-server", {"workers": 0}, "workers: 0"),
        ("pipeline-1f1b", {"stages": 1}, "stages: 1 is too few"),
        ("interleaved-1f1b", {"chunks": 1}, "at least 2 are needed, or use 1f1b"),
        ("interleaved-1f1b", {"micro_batches": 6}, "6 is no multiple of 4"),
        ("pipedream", {"activation_bytes": [1, 2]}, "activation: 2 values for 3 boundaries"),
        ("tensor-parallel", {"ranks": 1}, "ranks: 1 is too few"),
        ("fsdp", {"window": 0}, "window: 0 is too few"),
        ("expert-parallel", {"expert_every": 6}, "leaves none of 5 layers"),
        ("expert-parallel", {"expert_share": 1.0}, "between 0 and 1"),
        ("hybrid", {"pipeline": 6}, "cannot be cut into 6 stages"),
        ("hybrid", {"tensor": 0}, "tensor: 0"),
        ("hybrid", {"chunks": 2}, "need the interleaved schedule"),
    ],
)
def test_bad_options_are_named(name, change, words):
    with pytest.raises(InputError, match=words):
        paradigms.build(name, {**CASES[name], **change})
