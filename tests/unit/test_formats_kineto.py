"""PyTorch profiler traces: what is taken from NCCL's and Gloo's events, and how ranks are put together."""

from __future__ import annotations

import gzip
import json

import pytest

from echelonflow.errors import InputError
from echelonflow.model.dag import iteration_times_without_network
from tests.unit.format_files import (
    GLOO_STEP,
    NCCL_STEP,
    annotation,
    gloo,
    kernel,
    kineto,
    kineto_files,
    nccl,
    operator,
    write,
)
from traffic.workloads import formats
from traffic.workloads.formats._account import Amount

US = 1e-6


def read(paths, **options):
    return formats.read("kineto", paths, options)


def of_events(folder, *events_by_rank, backend="nccl", **options):
    paths = [
        write(folder, f"k{rank}.json", json.dumps(kineto(events, rank, len(events_by_rank), backend)))
        for rank, events in enumerate(events_by_rank)
    ]
    return read(paths, **options)


def computes(dag, rank=0):
    return [round(s.duration_s / US, 3) for s in dag.computes if s.rank == rank]


def test_collectives_wait_for_what_was_computed_and_gradients_are_needed_at_the_end(tmp_path):
    dag = read(kineto_files(tmp_path, NCCL_STEP)).dag
    # 10 + 5 us before the first all-reduce, 8 while it ran (its own time does not count), 4 after the last one.
    assert computes(dag) == [15, 8, 4]
    first, second = "0 all-reduce 0->1", "1 all-reduce 0->1"
    before, between, end = (s.name for s in dag.computes if s.rank == 0)
    assert dag.by_name[first].after == (before,)
    assert dag.by_name[second].after == (between,)
    assert dag.by_name[between].after == (before,)
    assert {first, second} <= set(dag.by_name[end].after)
    # float and half: 4 and 2 bytes an element; a ring of two sends S each way.
    assert [dag.by_name[name].size_bytes for name in (first, second)] == [4000, 1000]


def test_what_tensor_parallelism_reduces_is_needed_at_once(tmp_path):
    events = [kernel(0, 5), nccl(10, 5), kernel(20, 5), nccl(30, 5), kernel(40, 5)]
    dag = of_events(tmp_path, events, events, reduced="at-once").dag
    assert "0 all-reduce 0->1" in dag.by_name["r0 compute 2"].after


def test_gaps_count_if_asked(tmp_path):
    dag = read(kineto_files(tmp_path, NCCL_STEP), compute="elapsed").dag
    assert sum(computes(dag)) == pytest.approx(73)


def test_gloo_is_read_from_its_annotations_and_calls_are_no_computation(tmp_path):
    dag = read(kineto_files(tmp_path, GLOO_STEP, "gloo")).dag
    assert computes(dag) == [20, 15, 10]
    assert [(t.name, t.size_bytes) for t in dag.transfers if t.src_rank == 0] == [
        ("0 all-reduce 0->1", 4000),
        ("1 all-gather 0->1", 400),
    ]


def test_gloo_collectives_are_in_the_order_of_their_calls_whatever_their_threads_did(tmp_path):
    early = [gloo(10, 5, "all_reduce", [5], tid=2, call=1), gloo(12, 5, "broadcast", [6], tid=3, call=2)]
    late = [gloo(15, 5, "all_reduce", [5], tid=2, call=1), gloo(12, 5, "broadcast", [6], tid=3, call=2)]
    dag = of_events(tmp_path, early, late, backend="gloo").dag
    assert sorted(t.size_bytes for t in dag.transfers) == [20, 20, 24]


def test_messages_find_their_peers_in_the_calls(tmp_path):
    sender = [operator(0, 9, "c10d::send", **{"Concrete Inputs": ["", "", "1", "0"]}), gloo(1, 4, "send", [64], tid=1)]
    receiver = [
        operator(0, 9, "c10d::recv_", **{"Concrete Inputs": ["", "", "0", "0"]}),
        gloo(1, 4, "recv", [64], tid=1),
        operator(20, 7),
    ]
    dag = of_events(tmp_path, sender, receiver, backend="gloo").dag
    assert [(t.src_rank, t.dst_rank, t.size_bytes) for t in dag.transfers] == [(0, 1, 256)]
    assert dag.transfers[0].name in dag.computes[-1].after


def test_nccl_messages_and_records_by_external_id(tmp_path):
    told = {
        "External id": 5,
        "Collective name": "send",
        "In msg nelems": 8,
        "Out msg nelems": 8,
        "dtype": "Float",
        "Dst Rank": 1,
    }
    record = operator(0, 1, "record_param_comms", **told)
    bare = kernel(10, 5, "ncclKernel_SendRecv", **{"External id": 5})
    dag = of_events(tmp_path, [record, bare], [nccl(10, 5, "recv", 8, **{"Src Rank": 0}), kernel(20, 3)]).dag
    assert [(t.src_rank, t.dst_rank, t.size_bytes) for t in dag.transfers] == [(0, 1, 32)]


def test_one_file_stands_for_all_ranks_only_if_asked(tmp_path):
    path = kineto_files(tmp_path, NCCL_STEP)[:1]
    with pytest.raises(InputError, match="the file of rank 1 is missing"):
        read(path)
    found = read(path, symmetric=True)
    assert found.dag.ranks == 2
    assert "all 2 ranks do what the one in the file does (symmetric)" in found.report.assumed


def test_a_step_is_chosen_and_what_lies_outside_is_said(tmp_path):
    events = [annotation(0, 50, "ProfilerStep#1"), nccl(10, 5), kernel(20, 4), annotation(50, 50, "ProfilerStep#2"), nccl(60, 5), kernel(70, 9), nccl(90, 5)]  # fmt: skip
    last = of_events(tmp_path, events, events)
    assert len(last.dag.groups) == 2
    assert "2 collectives of other steps (step)" in last.report.dropped
    assert len(of_events(tmp_path, events, events, step="1").dag.groups) == 1
    assert len(of_events(tmp_path, events, events, step="all").dag.groups) == 3
    with pytest.raises(InputError, match="there is no step '7'; there is: 1, 2"):
        of_events(tmp_path, events, events, step="7")


def test_the_account_of_traces_is_that_of_a_hand(tmp_path):
    balance = read(kineto_files(tmp_path, NCCL_STEP)).report.balance
    # Of each rank: all-reduces of 4000 and 1000 bytes, kernels of 10 + 5 + 8 + 4 us.
    assert balance.read == Amount(2 * 5000, pytest.approx(2 * 27 * US), 4)
    assert balance.job == Amount(2 * 5000, pytest.approx(2 * 27 * US), 2)
    # 73 us from the first kernel to the last: 46 more.
    elapsed = read(kineto_files(tmp_path, NCCL_STEP), compute="elapsed").report.balance
    assert [cause.amount.compute_s for cause in elapsed.causes if "gaps" in cause.words] == [pytest.approx(92 * US)]
    alone = read(kineto_files(tmp_path, NCCL_STEP)[:1], symmetric=True).report.balance
    assert (alone.read, alone.job) == (Amount(5000, pytest.approx(27 * US), 2), balance.job)


def test_time_that_is_no_computation_of_its_own_is_named(tmp_path):
    on_gpu = [nccl(10, 5), kernel(20, 10), kernel(25, 10), {**kernel(40, 3), "cat": "gpu_memcpy"}]
    causes = {c.words: c.amount.compute_s for c in of_events(tmp_path, on_gpu, on_gpu).report.balance.causes}
    assert causes["kernels that ran at the same time"] == pytest.approx(-10 * US)
    assert causes["copies on the GPU: they leave the cores free"] == pytest.approx(-6 * US)
    on_cpu = read(kineto_files(tmp_path, GLOO_STEP, "gloo")).report.balance
    causes = {c.words: c.amount.compute_s for c in on_cpu.causes}
    assert causes["calls of collectives on the CPU: they may wait"] == pytest.approx(-10 * US)


def test_barriers_are_dropped_and_said(tmp_path):
    events = [nccl(5, 1, "barrier", 0), nccl(10, 5), kernel(20, 4)]
    found = of_events(tmp_path, events, events)
    assert any("2 barriers" in words for words in found.report.dropped)
    assert len(found.dag.groups) == 1


def test_process_groups_are_those_of_the_event_or_of_the_header(tmp_path):
    cut = {"Process Group Ranks": "[0, 1, ...]"}
    dag = of_events(tmp_path, [nccl(5, 1, **cut), kernel(9, 1)], [nccl(5, 1, **cut), kernel(9, 1)]).dag
    assert len(dag.transfers) == 2
    lost = {**cut, "Process Group Name": "9", "Group size": 5}
    with pytest.raises(InputError, match="does not say which ranks take part"):
        of_events(tmp_path, [nccl(5, 1, **lost)], [nccl(5, 1, **lost)])


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([nccl(1, 5, "teleport")], r"traceEvents\[0\] .'ncclDevKernel_teleport'.: unknown collective 'teleport'"),
        ([nccl(1, 5, dtype="Quarter")], "unknown data type 'Quarter'"),
        ([nccl(1, 5, elements=0)], "has 0 bytes; set empty to drop"),
        ([nccl(1, 5, elements=-3)], "are no whole numbers"),
        ([nccl(float("nan"), 5)], r"traceEvents\[0\].*are no times"),
        ([nccl(1, -5)], "are no times"),
        ([nccl("now", 5)], "are no times"),
        ([kernel(1, 5, "ncclKernel_AllReduce")], "does not say the collective's size"),
        ([nccl(1, 5), gloo(1, 5, "all_reduce", [4])], "of both NCCL and Gloo"),
        ([gloo(1, 5, "all_reduce", ["x"])], "is no list of whole numbers"),
        ([gloo(1, 5, "all_reduce", [1 << 62, 1 << 62])], "which no network carries"),
        ([annotation(1, 5, "gloo:all_reduce")], "record the trace with record_shapes=True"),
        ([gloo(1, 5, "send", [4])], "does not say between which ranks"),
        ([kernel(1, 5)], "has no collectives of NCCL or Gloo"),
        ([5], r"traceEvents\[0\]: is no event"),
    ],
)
def test_traces_at_fault_are_refused_with_file_and_event(tmp_path, events, words):
    with pytest.raises(InputError, match=words) as caught:
        of_events(tmp_path, events, events)
    assert str(tmp_path / "k0.json") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_ranks_that_do_different_things_are_refused(tmp_path):
    one = [nccl(1, 5), kernel(9, 1)]
    with pytest.raises(InputError, match="rank 1 has no collective to match this all-reduce"):
        of_events(tmp_path, [*one, nccl(12, 3)], one)
    with pytest.raises(InputError, match="is a all-reduce of 8000 bytes where another rank has a all-reduce of 4000"):
        of_events(tmp_path, one, [nccl(1, 5, elements=2000)])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"[]", "has no list traceEvents"),
        (b'{"traceEvents": 5}', "has no list traceEvents"),
        (b'{"traceEvents": [', "line 1: is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b"\xff\xfe", "line 1: is not text"),
        (b"", "is empty"),
        (gzip.compress(json.dumps(kineto(NCCL_STEP)).encode(), mtime=0)[:-20], "cut off"),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, data, words):
    with pytest.raises(InputError, match=words):
        read([write(tmp_path, "k.json", data)])


def test_ranks_must_be_said_and_differ(tmp_path):
    old = {"traceEvents": NCCL_STEP}
    path = write(tmp_path, "old.json", json.dumps(old))
    with pytest.raises(InputError, match=r"has no distributedInfo.world_size; set ranks"):
        read([path])
    with pytest.raises(InputError, match=r"has no distributedInfo.rank; set symmetric"):
        read([path], ranks=2)
    assert read([path], ranks=2, symmetric=True).dag.ranks == 2
    twice = kineto_files(tmp_path, NCCL_STEP)[:1] * 2
    with pytest.raises(InputError, match="is of rank 0, as is"):
        read(twice)


def test_a_step_takes_as_long_as_it_computed(tmp_path):
    found = read(kineto_files(tmp_path, NCCL_STEP))
    assert iteration_times_without_network(found.dag, 2) == [pytest.approx(27 * US)] * 2
