"""Tables of layers (ASTRA-sim, SimAI) and PipeDream's graphs: the loops, groups of ranks and cuts, by hand."""

from __future__ import annotations

import pytest

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, iteration_times_without_network, run_without_network
from tests.unit.format_files import ASTRA, PIPEDREAM, SIMAI, write
from traffic.workloads import formats
from traffic.workloads.formats import _layers, pipedream

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


def test_checkpointed_layers_are_computed_again_before_their_backward_pass(tmp_path):
    text = SIMAI.replace("checkpoints: 0 checkpoint_initiates: 0", "checkpoints: 1 0 checkpoint_initiates: 1 1")
    dag = read(tmp_path, "simai", text, tick_s=1.0).dag
    again = [s.name for s in dag.steps if isinstance(s, Compute) and s.rank == 0 and "again r0" in s.name]
    assert again == ["0 attention forward again r0", "1 moe forward again r0"]
    assert dag.by_name["1 moe input-gradient r0"].after[0].startswith("1 moe forward again all-to-all")


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
        ("astra-sim", DATA.replace("NONE 0 20", "NONE 7 20"), "line 3: the forward collective is NONE and has 7 bytes"),
        ("astra-sim", DATA.replace("-1 10", "-1 nan"), "line 3: 'nan' stands where the forward compute time"),
        ("astra-sim", DATA.replace("-1 10", "-1 -10"), "line 3: the forward compute time is -10"),
        ("astra-sim", DATA.replace(" 400 5", " 400"), "line 3: ends where the update time was expected"),
        ("astra-sim", DATA.replace(" 400 5", " 400 5 6"), "line 3: '6' stands where the line was expected to end"),
        ("astra-sim", DATA.replace("a -1", "a\xff -1").encode("latin-1"), "line 3: is not text: byte 0xff"),
        ("astra-sim", ASTRA.replace("model_parallel_NPU_group: 2", ""), "line 1: the header has no model_parallel_NPU_group"),
        ("astra-sim", ASTRA.replace("group: 2", "group: 3"), "4 ranks cannot be divided"),
        ("simai", SIMAI.replace("ep: 2", "ep: 0"), "line 1: ep is 0"),
        ("simai", SIMAI.replace("ep: 2", "zp: 2"), "line 1: unknown field 'zp'"),
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
    assert found.report.bytes_in == 2 * 3 * 1520
    assert found.report.dropped == ("node1 ('Input', 9 ms, 600 B): loading data, no layer",)


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
