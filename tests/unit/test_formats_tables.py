"""Tables of layers (ASTRA-sim, SimAI) and PipeDream's graphs: the loops, groups of ranks and cuts, by hand."""

from __future__ import annotations

import pytest

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, iteration_times_without_network, run_without_network
from tests.unit.format_files import ASTRA, PIPEDREAM, SIMAI, write
from traffic.workloads import formats
from traffic.workloads.formats import _layers, pipedream
from traffic.workloads.formats._account import Amount

DATA = "DATA\n2\na -1 10 NONE 0 20 NONE 0 30 ALLREDUCE 400 5\nb -1 1 NONE 0 2 NONE 0 3 ALLREDUCE 80 0\n"


def read(folder, name, text, **options):
    return formats.read(name, [write(folder, "w.txt", text)], options)


def flows(dag, word):
    """(source, destination, bytes) of the transfers whose name has `word`."""
    return sorted((t.src_rank, t.dst_rank, t.size_bytes) for t in dag.transfers if word in t.name)


def test_data_parallel_reduces_while_it_goes_on_and_waits_a_layer_at_a_time(tmp_path):
    dag = read(tmp_path, "astra-sim", DATA, ranks=2, tick_s=1.0).dag
    # forward a b, then backward: b's input and weight gradient, a's; only a's update comes after its all-reduce.
    assert iteration_times_without_network(dag, 2) == [
        pytest.approx(10 + 1 + 2 + 3 + 20 + 30 + 5),
        pytest.approx(66 + 5),
    ]
    first, second = run_without_network(dag, 2)
    assert first["1 b weight-gradient r0"] == (13, 16)
    assert first["0 a weight-gradient update r0 g0"] == (66, 71)
    assert second["0 a forward r0"][0] == 71
    # Ring all-reduce of S among 2 ranks: each sends S.
    assert flows(dag, "0 a weight") == [(0, 1, 400), (1, 0, 400)]
    waits = dag.by_name["1 b weight-gradient all-reduce 0->1"].after
    assert waits == ("1 b weight-gradient r0",)
    assert "1 b weight-gradient all-reduce 0->1" not in dag.by_name["0 a input-gradient r0"].after
    assert "1 b weight-gradient all-reduce 0->1" in dag.previous["1 b forward r0"]


def test_model_parallel_collectives_block_and_ranks_are_grouped_by_the_header(tmp_path):
    dag = read(tmp_path, "astra-sim", ASTRA, ranks=4, gather_size="total").dag
    # Groups of two neighbours for model parallelism, every second rank for data parallelism.
    assert {(s, d) for s, d, _ in flows(dag, "forward all-gather")} == {(0, 1), (1, 0), (2, 3), (3, 2)}
    assert {(s, d) for s, d, _ in flows(dag, "weight-gradient all-reduce")} == {(0, 2), (2, 0), (1, 3), (3, 1)}
    assert dag.by_name["1 dense forward r0"].after == ("0 embedding forward update r0 g0",)
    assert dag.by_name["1 dense weight-gradient r0"].after == ("1 dense input-gradient update r0 g0",)


def test_a_gather_is_a_shard_or_the_total_as_asked(tmp_path):
    total = read(tmp_path, "astra-sim", ASTRA, ranks=4, gather_size="total")
    shard = read(tmp_path, "astra-sim", ASTRA, ranks=4, gather_size="shard")
    # Two ranks gather 4096 bytes in all, or 4096 each: (n - 1) S, in two groups.
    assert sum(size for *_, size in flows(total.dag, "gather")) == 2 * 4096
    assert sum(size for *_, size in flows(shard.dag, "gather")) == 2 * 8192
    assert any("shard (gather_size)" in words for words in shard.report.assumed)


def test_times_beyond_counting_are_refused(tmp_path):
    endless = DATA.replace("-1 10", "-1 1e308")  # of one rank that is a number, of two no more
    with pytest.raises(InputError, match=r"w\.txt: computations take longer together than can be counted"):
        read(tmp_path, "astra-sim", endless, ranks=2, tick_s=1.0)


def test_what_a_policy_does_not_run_is_dropped_and_said(tmp_path):
    text = ASTRA.replace("HYBRID_TRANSFORMER", "MODEL")
    found = read(tmp_path, "astra-sim", text, ranks=4)
    assert any("1 weight-gradient collectives" in words for words in found.report.dropped)
    assert not flows(found.dag, "weight-gradient all-reduce")


def test_a_micro_benchmark_runs_row_after_row(tmp_path):
    text = "MICRO\n2\nx -1 5 NONE 0 5 NONE 0 5 ALLREDUCE 100 2\nx -1 5 NONE 0 5 NONE 0 5 ALLTOALL 100 2\n"
    dag = read(tmp_path, "astra-sim", text, ranks=4, tick_s=1.0).dag
    assert iteration_times_without_network(dag, 1) == [14]
    assert flows(dag, "all-to-all") == sorted((i, j, 25) for i in range(4) for j in range(4) if i != j)


def test_the_new_header_says_ranks_and_expert_groups(tmp_path):
    found = read(tmp_path, "simai", SIMAI)
    dag = found.dag
    assert dag.ranks == 8  # 16 GPUs, two pipeline stages
    assert any("1 of 2 pipeline stages" in words and "512 bytes" in words for words in found.report.dropped)
    # TP 2, EP 2, DP_EP 2: rank = t + 2 (e + 2 d).
    assert {(s, d) for s, d, _ in flows(dag, "attention forward all-reduce")} == {
        (i, i ^ 1) for i in range(8)
    }  # fmt: skip
    assert {(s, d) for s, d, _ in flows(dag, "moe forward all-to-all")} == {(i, i ^ 2) for i in range(8)}
    assert {(s, d) for s, d, _ in flows(dag, "grads")} == {(i, i ^ 4) for i in range(8)}


def test_the_old_header_needs_the_number_of_ranks(tmp_path):
    old = (
        SIMAI.replace("ep: 2 pp: 2 vpp: 1 ga: 1 all_gpus: 16 ", "")
        .replace(" pp_comm 512", "")
        .replace("_DP_EP", "")
        .replace("_EP", "")
    )
    with pytest.raises(InputError, match="line 1: the header does not say all_gpus; set ranks"):
        read(tmp_path, "simai", old)
    assert read(tmp_path, "simai", old, ranks=4).dag.ranks == 4


AGAIN = {
    "simai": SIMAI.replace("checkpoints: 0 checkpoint_initiates: 0", "checkpoints: 1 0 checkpoint_initiates: 1 2"),
    "astra-sim": """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 checkpoints: 1 0 checkpoint_initiates: 1 2
3
attention -1 100 ALLREDUCE 4096 200 ALLREDUCE 4096 300 NONE 0 0
moe -1 100 ALLTOALL 8192 200 ALLTOALL 8192 300 NONE 0 0
grads -1 1 NONE 0 1 NONE 0 1 REDUCESCATTER 1600 100
""",
}
"""The same layers: before the backward pass of the last one, the two before it are computed again."""


@pytest.mark.parametrize("name", AGAIN)
def test_layers_from_the_checkpoint_up_to_the_one_that_asks_are_computed_again(tmp_path, name):
    options = {"ranks": 8, "tick_s": 1.0}
    found = read(tmp_path, name, AGAIN[name], **options)
    dag = found.dag
    again = [s.name for s in dag.steps if isinstance(s, Compute) and s.rank == 0 and "again r0" in s.name]
    assert again == ["0 attention forward again r0", "1 moe forward again r0"]
    assert dag.by_name["2 grads input-gradient r0"].after[0].startswith("1 moe forward again all-to-all")
    plain = read(tmp_path, name, AGAIN[name].replace("checkpoint_initiates: 1 2", "checkpoint_initiates: 0"), **options)
    # Two forward passes more on each of 8 ranks; an all-reduce and an all-to-all in 4 groups of two ranks.
    before, after = plain.report.balance.job, found.report.balance.job
    assert after.compute_s - before.compute_s == pytest.approx(8 * 200)
    assert after.size_bytes - before.size_bytes == 4 * (2 * 4096 + 8192)
    assert after.communications - before.communications == 4 * 2
    (cause,) = [cause for cause in found.report.balance.causes if "computed again" in cause.words]
    assert (cause.kind, cause.things, cause.amount) == ("added", 2, Amount(4096 + 8192, 200.0, 2))


def test_a_policy_that_computes_nothing_again_says_so(tmp_path):
    text = AGAIN["astra-sim"].replace("_FWD_IN_BCKWD", "")
    found = read(tmp_path, "astra-sim", text, ranks=8)
    assert "checkpoint_initiates: HYBRID_TRANSFORMER computes nothing again" in found.report.dropped
    assert not [step for step in found.dag.steps if "again" in step.name]


@pytest.mark.parametrize(
    ("checkpoints", "words"),
    [
        ("checkpoints: 0 checkpoint_initiates: 1 1", "names layer 1; one of checkpoints before it"),
        ("checkpoints: 1 1 checkpoint_initiates: 1 1", "names layer 1; one of checkpoints before it"),
        ("checkpoints: 1 0 checkpoint_initiates: 2 2 1", "names layer 1, which lies between layer 2 and the checkpoint 0"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("name", AGAIN)
def test_layers_that_no_loop_could_compute_again_are_refused(tmp_path, name, checkpoints, words):
    text = AGAIN[name].replace("checkpoints: 1 0 checkpoint_initiates: 1 2", checkpoints)
    with pytest.raises(InputError, match=f"line 1: checkpoint_initiates {words}"):
        read(tmp_path, name, text, ranks=8)


@pytest.mark.parametrize(
    ("policy", "model_group"), [("HYBRID_DATA_MODEL", {0, 1, 2, 3}), ("HYBRID_MODEL_DATA", {0, 2, 4, 6})]
)
def test_hybrid_policies_divide_ranks_as_astra_sim_does(tmp_path, policy, model_group):
    text = ASTRA.replace("HYBRID_TRANSFORMER", policy).replace("group: 2", "group: 4")
    dag = read(tmp_path, "astra-sim", text, ranks=8).dag
    assert {dst for src, dst, _ in flows(dag, "forward all-gather 0 ")} == model_group
    assert {dst for src, dst, _ in flows(dag, "weight-gradient all-reduce")} == set(range(8))
    others = {frozenset((src, dst)) for src, dst, _ in flows(dag, "weight-gradient all-reduce")}
    inside = [pair for pair in others if pair <= model_group]
    assert not inside


@pytest.mark.parametrize(("name", "text"), [("astra-sim", ASTRA), ("simai", SIMAI)])
def test_the_weight_gradient_waits_for_the_collective_before_it_or_goes_on_beside_it(tmp_path, name, text):
    options = {"ranks": 8, "tick_s": 1.0}
    layer, before = ("1 dense", "0 embedding") if name == "astra-sim" else ("1 moe", "0 attention")
    blocking = read(tmp_path, name, text, **options)
    overlapped = read(tmp_path, name, text, input_gradient="overlapped", **options)
    computed = f"{layer} input-gradient r0"
    assert overlapped.dag.by_name[f"{layer} weight-gradient r0"].after == (computed,)
    assert computed not in blocking.dag.by_name[f"{layer} weight-gradient r0"].after
    # The layer before waits for both.
    backward = f"{before} input-gradient r0" if name == "simai" else f"{before} weight-gradient r0"
    waits = overlapped.dag.by_name[backward].after
    assert f"{layer} weight-gradient r0" in waits
    assert any(f"{layer} input-gradient" in step and step != computed for step in waits)
    assert overlapped.report.balance == blocking.report.balance
    assert any("beside the collective" in words for words in overlapped.report.assumed)


def test_collectives_in_groups_of_one_rank_are_reported(tmp_path):
    # As AICB's ZeRO-3 without tensor parallelism: the input gradient's all-gathers are among TP ranks.
    rows = "".join(f"l{i} -1 10 NONE 0 10 ALLGATHER 4096 1 NONE 0 5\n" for i in range(12))
    text = f"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 1 checkpoints: 0 checkpoint_initiates: 0\n12\n{rows}"
    found = read(tmp_path, "simai", text, ranks=4)
    assert not found.dag.transfers
    assert "12 all-gathers in groups of one rank: nobody to send to" in found.report.dropped
    (cause,) = [cause for cause in found.report.balance.causes if "one rank" in cause.words]
    assert cause.amount == Amount(-12 * 4096, 0.0, -12)
    assert "12 update times of layers: none of their collectives runs" in found.report.dropped


@pytest.mark.parametrize("name", ["astra-sim", "simai"])
def test_bytes_beside_no_collective_are_dropped_and_said(tmp_path, name):
    text = (ASTRA if name == "astra-sim" else SIMAI).replace("NONE\t0", "NONE\t7")
    found = read(tmp_path, name, text, ranks=8)
    count = text.count("NONE\t7")
    assert f"{count} NONEs with bytes: they name no collective" in found.report.dropped
    (cause,) = [cause for cause in found.report.balance.causes if "NONEs" in cause.words]
    assert cause.amount == Amount(-7 * count, 0.0, 0)


def test_fields_of_the_header_that_are_not_known_are_dropped_and_said(tmp_path):
    text = SIMAI.replace("all_gpus: 16", "all_gpus: 16 mode: 1 version: 0.5 phase: decode")
    found = read(tmp_path, "simai", text)
    assert [words for words in found.report.dropped if "it is not known" in words] == [
        f"field {key!r} of the header: it is not known" for key in ("mode", "version", "phase", "decode")
    ]
    assert found.dag == read(tmp_path, "simai", SIMAI).dag


def test_the_account_of_a_table_is_that_of_a_hand(tmp_path):
    balance = read(tmp_path, "astra-sim", ASTRA, ranks=4, tick_s=1.0).report.balance
    # Compute times and update times as written; an all-gather and two all-reduces.
    assert balance.read == Amount(4096 + 1024 + 2048, 1000 + 10 + 5 + 2000 + 3000 + 4000 + 5, 3)
    # A layer's second update; all of that on four ranks.
    assert balance.job.compute_s == 4 * (balance.read.compute_s + 5)
    # Shards of 4096 from two ranks each, and all-reduces in rings of two: (n - 1) S and 2 (n - 1) S, in two groups each.
    assert balance.job.size_bytes == 2 * (2 * 4096 + 2 * 1024 + 2 * 2048)
    assert balance.job.communications == 2 * 3
    assert balance.unexplained == Amount()


def test_computations_that_a_policy_does_not_run_are_dropped_and_said(tmp_path):
    text = "MICRO\n1\nx -1 5 NONE 0 6 NONE 0 7 ALLREDUCE 100 2\n"
    found = read(tmp_path, "astra-sim", text, ranks=4, tick_s=1.0)
    assert found.report.dropped == (
        "1 forward computations: MICRO does not run them", "1 input-gradient computations: MICRO does not run them",
    )  # fmt: skip
    assert found.report.balance.job.compute_s == 4 * (7 + 2)


def test_collectives_of_0_bytes_are_refused_or_dropped_as_asked(tmp_path):
    text = ASTRA.replace("ALLGATHER\t4096", "ALLGATHER\t0")
    with pytest.raises(InputError, match="line 3: the forward ALLGATHER has 0 bytes"):
        read(tmp_path, "astra-sim", text, ranks=4)
    found = read(tmp_path, "astra-sim", text, ranks=4, empty="drop")
    assert "1 collectives of 0 bytes (empty=drop)" in found.report.dropped


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("astra-sim", "", "is empty"),
        ("astra-sim", "DATA\n", "line 2: the file ends where"),
        ("astra-sim", PIPEDREAM, "line 1: 'node1' is no policy"),
        ("astra-sim", "HYBRID_DLRM\t4\n1\nx\n", "line 1: 'HYBRID_DLRM' is no policy"),
        ("astra-sim", DATA.replace("2\na", "3\na"), "line 4: the header .line 2. says 3 layers and there are 2"),
        ("astra-sim", DATA.replace("2\na", "many\na"), "line 2: 'many' stands where the number of layers"),
        ("astra-sim", DATA.replace("ALLREDUCE 400", "ALLREDUCED 400"), "line 3: unknown collective 'ALLREDUCED'"),
        ("astra-sim", DATA.replace("ALLREDUCE 400", "ALLREDUCE_EP 400"), "line 3: unknown collective 'ALLREDUCE_EP'"),
        ("astra-sim", DATA.replace("ALLREDUCE 400", "ALLREDUCE -400"), "line 3: the weight-gradient bytes"),
        ("astra-sim", DATA.replace("ALLREDUCE 400", "ALLREDUCE 0.5"), "line 3: the weight-gradient bytes"),
        ("astra-sim", DATA.replace("NONE 0 20", "NONE -7 20"), "line 3: the forward bytes are no whole number"),
        ("astra-sim", DATA.replace("-1 10", "-1 nan"), "line 3: 'nan' stands where the forward compute time"),
        ("astra-sim", DATA.replace("-1 10", "-1 -10"), "line 3: the forward compute time is -10"),
        ("astra-sim", DATA.replace(" 400 5", " 400"), "line 3: ends where the update time was expected"),
        ("astra-sim", DATA.replace(" 400 5", " 400 5 6"), "line 3: '6' stands where the line was expected to end"),
        ("astra-sim", DATA.replace("a -1", "a\xff -1").encode("latin-1"), "line 3: is not text: byte 0xff"),
        ("astra-sim", ASTRA.replace("model_parallel_NPU_group: 2", ""), "line 1: the header has no model_parallel_NPU_group"),
        ("astra-sim", ASTRA.replace("group: 2", "group: 3"), "4 ranks cannot be divided"),
        ("simai", SIMAI.replace("ep: 2", "ep: 0"), "line 1: ep is 0"),
        ("simai", SIMAI.replace("ep: 2", "ep: 2.5"), "line 1: '2.5' stands in ep, where a whole number"),
        ("simai", SIMAI.replace("ep: 2", "ep: 2 ep: 2"), "line 1: the header names 'ep' twice"),
        ("astra-sim", ASTRA.replace("group: 2", "group: two"), "line 1: model_parallel_NPU_group has 0 numbers"),
        ("simai", SIMAI.replace("ep: 2", "ep:"), "line 1: ep has 0 numbers"),
        ("simai", SIMAI.replace("checkpoints: 0", "checkpoints: 2 1"), "line 1: checkpoints has a count"),
        ("simai", SIMAI.replace("checkpoints: 0", "checkpoints: 1 9"), "line 1: checkpoints names a layer beyond"),
        ("simai", SIMAI.replace("all_gpus: 16", "all_gpus: 15"), "15 ranks cannot be divided"),
        ("simai", SIMAI.replace("all_gpus: 16", "all_gpus: 1600000000000"), "set fewer ranks"),
    ],
)  # fmt: skip
def test_tables_at_fault_are_refused_with_file_and_line(tmp_path, name, text, words):
    options = {"ranks": 4} if name == "astra-sim" else {}
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, name, text, **options)
    assert str(tmp_path / "w.txt") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_graph_is_cut_into_balanced_stages_and_hands_on_what_later_ones_need(tmp_path):
    found = read(tmp_path, "pipedream", PIPEDREAM, stages=2, micro_batches=3, paradigm="gpipe")
    # Layers of 3, 3 and 9 ms: the cut is after ReLU, and both Conv2d's and ReLU's outputs cross it.
    assert flows(found.dag, "pp-forward") == [(0, 1, 1520)] * 3
    assert iteration_times_without_network(found.dag, 1)[0] == pytest.approx(0.002 + 3 * 0.003 + 3 * 0.006 + 0.004)
    assert found.report.balance.job.size_bytes == 2 * 3 * 1520
    assert found.report.dropped == (
        "node1 ('Input', 9 ms, 600 B): loading data, no layer",
        "parameters of layers: stages do not send them",
    )


def test_a_graph_trains_as_replicas_too(tmp_path):
    found = read(tmp_path, "pipedream", PIPEDREAM, ranks=4, micro_batches=1, paradigm="data-parallel")
    assert sum(t.size_bytes for t in found.dag.transfers) == 2 * 3 * 8400
    assert iteration_times_without_network(found.dag, 1)[0] == pytest.approx(0.015)


def test_the_unit_of_time_is_an_option(tmp_path):
    ms = read(tmp_path, "pipedream", PIPEDREAM, stages=2)
    us = read(tmp_path, "pipedream", PIPEDREAM, stages=2, tick_s=1e-6)
    assert iteration_times_without_network(us.dag, 1)[0] == pytest.approx(
        iteration_times_without_network(ms.dag, 1)[0] / 1000
    )
    assert any("0.001 s (tick)" in words for words in ms.report.assumed)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (ASTRA, "line 1: is neither"),
        (PIPEDREAM[:500], "line 5: is neither"),
        (PIPEDREAM.replace("node3 -- node4", "node4 -- node2"), "line 2: there is a cycle through node2"),
        (PIPEDREAM.replace("node3 -- node4", "node3 -- node9"), "line 8: an edge names 'node9'"),
        (PIPEDREAM.replace("node3 -- ReLU", "node2 -- ReLU"), "line 3: there are two nodes called 'node2'"),
        (PIPEDREAM.replace("time=3.000", "time=nan"), "line 4: forward_compute_time is 'nan'"),
        (PIPEDREAM.replace("time=3.000", "time=-3"), "line 4: forward_compute_time is '-3'"),
        (PIPEDREAM.replace(", parameter_size=8000.000", ""), "line 4: parameter_size is ''"),
        (PIPEDREAM.replace("activation_size=40.0", "activation_size=0.5"), "line 4: activation_size and parameter_size are bytes"),
        (PIPEDREAM.replace("activation_size=1000.0", "activation_size=0").replace("[500.0; 20.0]", "0"), "nothing crosses the boundary"),
        ("\n".join(PIPEDREAM.split("\n")[:1]), "no node that is a layer"),
    ],
)  # fmt: skip
def test_graphs_at_fault_are_refused_with_file_and_line(tmp_path, text, words):
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, "pipedream", text, stages=2)
    assert str(tmp_path / "w.txt") in str(caught.value)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "needs stages"),
        ({"stages": 9}, "set stages to 2 to 3"),
        ({"stages": 2, "ranks": 2}, "takes no ranks"),
        ({"paradigm": "data-parallel"}, "needs ranks"),
        ({"paradigm": "data-parallel", "ranks": 1}, "at least 2"),
        ({"stages": 2, "micro_batches": 10**9}, "limit"),
    ],
)
def test_ways_to_train_a_graph_that_do_not_fit_are_refused(tmp_path, options, words):
    with pytest.raises(InputError, match=words):
        read(tmp_path, "pipedream", PIPEDREAM, **options)


@pytest.mark.parametrize(
    ("module", "limit", "name", "text", "words"),
    [
        (pipedream, "_MOST_EDGES", "pipedream", PIPEDREAM, "line 8: more than 3 edges"),
        (pipedream, "_MOST_NODES", "pipedream", PIPEDREAM, "line 4: more than 3 nodes"),
        (_layers, "_MOST_LINES", "astra-sim", ASTRA, "more than 3 lines"),
    ],
)
def test_tables_beyond_the_limit_are_refused_while_they_are_read(
    monkeypatch, tmp_path, module, limit, name, text, words
):
    options = {"stages": 2} if name == "pipedream" else {"ranks": 4, "gather_size": "total"}
    read(tmp_path, name, text, **options)
    monkeypatch.setattr(module, limit, 3)
    with pytest.raises(InputError, match=words) as caught:
        read(tmp_path, name, text, **options)
    assert str(tmp_path / "w.txt") in str(caught.value)
