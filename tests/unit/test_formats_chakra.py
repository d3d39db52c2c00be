"""Chakra traces: the wire format, what nodes become, and our own jobs there and back."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, iteration_times_without_network, run_without_network
from tests.unit.format_files import chakra_file, chakra_ring, coll, comp, recv, send, write
from traffic.workloads import formats, paradigms
from traffic.workloads.formats import _chakra_messages as messages
from traffic.workloads.formats import _protobuf as wire
from traffic.workloads.formats._account import Amount
from traffic.workloads.formats._chakra_messages import Node


def read(paths, **options):
    return formats.read("chakra", paths, options)


def test_the_wire_format_is_that_of_the_specification():
    # Examples of protobuf.dev/programming-guides/encoding.
    assert wire.number_field(1, 150) == b"\x08\x96\x01"
    assert wire.bytes_field(2, b"testing") == b"\x12\x07testing"
    assert wire.varint(-2) == b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"
    assert list(wire.read_packed(b"\x03\x8e\x02\x9e\xa7\x05")) == [3, 270, 86942]


@given(st.integers(-(1 << 63), (1 << 63) - 1))
def test_numbers_come_back(number):
    value, end = wire.read_varint(wire.varint(number) + b"more", 0)
    assert wire.signed(value) == number
    assert end == len(wire.varint(number))


def test_attributes_of_every_type_and_packed_dependencies_are_read(tmp_path):
    # name, then one value each: float 5, sint64 17 (zigzag), fixed32 19, bool 27, and a list, which is left out.
    def attribute(name, value):
        return wire.bytes_field(10, wire.bytes_field(1, name.encode()) + value)

    node = (
        wire.number_field(1, 9) + wire.bytes_field(2, b"n") + wire.number_field(3, 4) + wire.number_field(4, 1)
        + wire.bytes_field(5, wire.varint(2) + wire.varint(300)) + wire.number_field(7, 77)
        + attribute("f", wire.varint(5 << 3 | 5) + b"\x00\x00\xc0\x3f") + attribute("z", wire.number_field(17, 3))
        + attribute("x", wire.varint(19 << 3 | 5) + b"\x05\x00\x00\x00") + attribute("b", wire.number_field(27, 1))
        + attribute("l", wire.bytes_field(8, b"\x01\x02"))
    )  # fmt: skip
    head = wire.bytes_field(1, b"0.0.4")
    path = write(tmp_path, "t.0.et", b"".join(wire.varint(len(m)) + m for m in (head, node)))
    _, (found,) = messages.read(path)
    assert (found.id, found.name, found.type, found.after, found.duration_us) == (9, "n", 4, [1, 2, 300], 77)
    assert found.attributes == {"f": 1.5, "z": -2, "x": 5, "b": True}


def test_collectives_become_flows_between_what_computes_before_and_after(tmp_path):
    dag = read(chakra_ring(tmp_path)).dag
    assert dag.by_name["n2 k2 0->1"].after == ("r0 n1 c1",)
    assert set(dag.by_name["r1 n3 c3"].after) >= {"n2 k2 0->1", "n2 k2 1->0"}
    assert dag.by_name["r0 n4 s4 to r1"].size_bytes == 1000
    # The receiver's own wait delays who waits for the data, not the data.
    assert dag.by_name["r0 n4 s4 to r1"].after == ("r0 n3 c3",)
    assert set(dag.by_name["r1 n5 c5"].after) == {"r0 n4 s4 to r1", "r1 n3 c3"}
    assert iteration_times_without_network(dag, 2) == [pytest.approx(4e-5), pytest.approx(4e-5)]


def test_computations_of_a_rank_take_turns_unless_asked_otherwise(tmp_path):
    path = chakra_file(tmp_path, 0, [comp(1, us=30), comp(2, us=10), comp(3, 2, us=5)])
    assert iteration_times_without_network(read([path]).dag, 1)[0] == pytest.approx(45e-6)
    assert iteration_times_without_network(read([path], compute="as-written").dag, 1)[0] == pytest.approx(30e-6)


def test_taking_turns_closes_no_cycle_across_ranks(tmp_path):
    # Rank 0's first computation needs what rank 1 sends only after it got what rank 0's second one made.
    files = [
        chakra_file(tmp_path, 0, [recv(1, 1), comp(2, 1), comp(3), send(4, 1, 3)]),
        chakra_file(tmp_path, 1, [recv(1, 0), send(2, 0, 1)]),
    ]
    dag = read(files).dag
    times = run_without_network(dag)[0]
    assert times["r0 n3 c3"][1] <= times["r0 n2 c2"][0]


def test_messages_match_by_tag_and_order(tmp_path):
    files = [
        chakra_file(tmp_path, 0, [send(1, 1, size=10, tag=7), send(2, 1, size=20, tag=8), send(3, 1, size=30, tag=7)]),
        chakra_file(
            tmp_path,
            1,
            [recv(1, 0, size=20, tag=8), recv(2, 0, size=10, tag=7), recv(3, 0, size=30, tag=7), comp(4, 1)],
        ),
    ]
    dag = read(files).dag
    assert [s.after for s in dag.computes if s.name == "r1 n4 c4"] == [("r0 n2 s2 to r1",)]
    assert [(g.name, len(g.transfers)) for g in dag.groups] == [("sends 0->1", 3)]


def test_all_gathers_are_one_echelonflow_with_offsets_from_the_dag(tmp_path):
    nodes = [coll(1, comm_type=2), comp(2, 1, us=30), coll(3, comm_type=2), comp(4, 2, 3)]
    dag = read([chakra_file(tmp_path, rank, nodes) for rank in range(2)]).dag
    (group,) = dag.groups
    assert group.offsets_s == pytest.approx((0, 0, 30e-6, 30e-6))
    assert len({t.coflow for t in dag.transfers}) == 2
    alone = read([chakra_file(tmp_path, rank, nodes) for rank in range(2)], grouping="collective").dag
    assert len(alone.groups) == 2


def test_process_groups_are_the_ranks_that_name_them_or_those_of_a_file(tmp_path):
    files = [chakra_file(tmp_path, rank, [coll(1, pg_name=str(rank % 2))]) for rank in range(4)]
    dag = read(files).dag
    assert {(t.src_rank, t.dst_rank) for t in dag.transfers} == {(0, 2), (2, 0), (1, 3), (3, 1)}
    groups = write(tmp_path, "groups.json", json.dumps({"0": [0, 2], "1": [1, 3]}))
    assert read(files, groups=str(groups)).dag == dag
    wrong = write(tmp_path, "wrong.json", json.dumps({"0": [0, 1], "1": [2, 3]}))
    with pytest.raises(InputError, match="rank 2 is not in process group '0'"):
        read(files, groups=str(wrong))
    nonsense = write(tmp_path, "nonsense.json", json.dumps({"0": [0, 9]}))
    with pytest.raises(InputError, match="different ranks from 0 to 3"):
        read(files, groups=str(nonsense))


def test_what_is_not_on_the_network_is_passed_on_and_said(tmp_path):
    barrier = coll(3, 2, comm_type=9, size=0)
    load = Node(2, "load", messages.MEM_LOAD, [1], 0, {"tensor_size": 64})
    cpu = Node(4, "op", messages.COMP, [3], 50, {"is_cpu_op": True})
    files = [chakra_file(tmp_path, rank, [comp(1), load, barrier, cpu, comp(5, 4)]) for rank in range(2)]
    found = read(files)
    assert found.dag.by_name["r0 n5 c5"].after == ("r0 n1 c1",)
    assert sorted(words.split(":")[0] for words in found.report.dropped) == [
        "2 barriers", "2 computations on the CPU", "2 memory loads without time",
    ]  # fmt: skip
    kept = read(files, cpu_ops="keep").dag
    assert iteration_times_without_network(kept, 1)[0] == pytest.approx(70e-6)


def by_control(node, *ids):
    """`node`, which waits for others by control too."""
    node.after += ids
    node.control |= set(ids)
    return node


def test_control_dependencies_that_lead_nowhere_are_let_go_and_counted(tmp_path):
    """Converters of PyTorch's traces leave such ones; Chakra's feeder resolves data dependencies alone."""
    nodes = [comp(1), by_control(comp(2, 1), 2, 77, 78), by_control(coll(3), 2, 79), comp(4, 3)]
    files = [chakra_file(tmp_path, rank, nodes) for rank in range(2)]
    found = read(files)
    words = "8 control dependencies on nodes that are not in the file, or on the node itself: let go"
    assert found.report.dropped == (words,)
    whole = [comp(1), comp(2, 1), by_control(coll(3), 2), comp(4, 3)]
    assert found.dag == read([chakra_file(tmp_path, rank, whole) for rank in range(2)]).dag
    assert found.dag.by_name["n3 k3 0->1"].after == ("r0 n2 c2",)  # control dependencies that are there hold
    both = [by_control(comp(1, 77), 77)]
    both[0].control = set()
    with pytest.raises(InputError, match="waits for node 77, which is not in the file"):
        read([chakra_file(tmp_path, rank, both) for rank in range(2)])


def test_data_alone_is_followed_if_asked(tmp_path):
    cycle = [by_control(comp(1), 3), comp(2, 1), comp(3, 2)]
    path = chakra_file(tmp_path, 0, cycle)
    with pytest.raises(
        InputError, match=r"a cycle through .*; set control to drop if it is one of control dependencies"
    ):
        read([path])
    found = read([path], control="drop")
    assert found.report.dropped == ("1 control dependencies: data dependencies are followed alone (control)",)
    assert iteration_times_without_network(found.dag, 1)[0] == pytest.approx(30e-6)


def test_calls_on_the_cpu_that_start_a_collective_are_none(tmp_path):
    call = Node(2, "c10d::allreduce_", messages.COMM_COLL, [1], 7, {"is_cpu_op": True})
    files = [chakra_file(tmp_path, rank, [comp(1), call, coll(3, 2)]) for rank in range(2)]
    found = read(files)
    assert found.report.balance.job == Amount(2 * 4096, pytest.approx(20e-6), 1)
    assert any("1" not in words and "on the CPU" in words for words in found.report.dropped)


def test_collectives_of_one_rank_are_reported(tmp_path):
    files = [chakra_file(tmp_path, rank, [comp(1), coll(2, 1, pg_name=str(rank)), comp(3, 2)]) for rank in range(2)]
    found = read(files)
    assert not found.dag.transfers
    assert found.report.dropped == ("2 all-reduces in groups of one rank: nobody to send to",)
    assert found.dag.by_name["r0 n3 c3"].after == ("r0 n1 c1",)


def test_the_account_of_traces_is_that_of_a_hand(tmp_path):
    balance = read(chakra_ring(tmp_path)).report.balance
    # Two nodes of one all-reduce and both ends of a message; 20 and 40 us of computations.
    assert balance.read == Amount(2 * 4096 + 2 * 1000, pytest.approx(60e-6), 4)
    assert balance.job == Amount(2 * 4096 + 1000, pytest.approx(60e-6), 2)


def test_operations_become_time_at_a_given_rate_only(tmp_path):
    path = chakra_file(tmp_path, 0, [comp(1, us=0, num_ops=3000)])
    with pytest.raises(InputError, match=r"node 1 .'c1'.: has 3000 operations and no duration; set flops"):
        read([path])
    assert iteration_times_without_network(read([path], flops=1e6).dag, 1)[0] == pytest.approx(0.003)


def test_packed_files_are_unpacked(tmp_path):
    plain = chakra_ring(tmp_path)
    packed = [write(tmp_path, f"z.{rank}.et.gz", gzip.compress(path.read_bytes())) for rank, path in enumerate(plain)]
    assert read(packed).dag == read(plain).dag


JOBS = {
    "gpipe": {"stages": 3, "micro_batches": 4, "forward_s": 1 / 3, "backward_s": 0.1234567891, "activation_bytes": 1001},
    "pipeline-1f1b": {"stages": 2, "micro_batches": 3, "forward_s": 0.1, "backward_s": 0.2, "activation_bytes": 77},
    "data-parallel": {"ranks": 4, "layers": 3, "forward_s": 0.1, "backward_s": 0.2, "parameter_bytes": 10007, "bucket_bytes": 11000},
}  # fmt: skip


@pytest.mark.parametrize("paradigm", JOBS)
def test_a_job_comes_back_from_chakra_as_it_was(tmp_path, paradigm):
    dag = paradigms.build(paradigm, JOBS[paradigm])
    back = read(formats.write_chakra(dag, tmp_path / "j"))
    assert back.dag == dag  # times, sizes, dependencies, groups, offsets, weights, following iterations: all
    assert back.dag.parameters.keys() == dag.parameters.keys()
    assert not back.report.dropped


def test_other_readers_find_ordinary_nodes_in_what_we_write(tmp_path):
    dag = paradigms.build("gpipe", JOBS["gpipe"])
    for rank, path in enumerate(formats.write_chakra(dag, tmp_path / "j")):
        _, nodes = messages.read(path)
        ids = {node.id for node in nodes}
        assert len(ids) == len(nodes)
        assert all(set(node.after) <= ids for node in nodes)
        sends = [node for node in nodes if node.type == messages.COMM_SEND]
        assert all({"comm_size", "comm_dst", "comm_tag"} <= node.attributes.keys() for node in sends)
        assert len(sends) == sum(t.src_rank == rank for t in dag.transfers)
        computed = [s for s in dag.computes if s.rank == rank]
        assert [n.duration_us for n in nodes if n.type == messages.COMP] == [
            round(s.duration_s * 1e6) for s in computed
        ]


def test_a_job_that_no_rank_could_follow_is_not_written(tmp_path):
    dag = paradigms.build("gpipe", JOBS["gpipe"])
    told = tuple(
        s if not isinstance(s, Compute) or s.rank else Compute(s.name, 2, s.duration_s, s.after, s.kind)
        for s in dag.steps
    )
    broken = type(dag)(dag.ranks, told, dag.groups, dag.next_iteration)
    with pytest.raises(InputError, match="which a trace of rank"):
        formats.write_chakra(broken, tmp_path / "j")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("nodes", "words"),
    [
        ([[comp(1), coll(2, 1)], [comp(1)]], "t.0.et: node 2 .'k2'.: rank 1 has no such collective"),
        ([[coll(1)], [coll(1, size=1)]], "t.1.et: node 1 .'k1'.: is another collective or size than rank 0"),
        ([[coll(1)], [coll(1, comm_type=6)]], "is another collective or size"),
        ([[coll(1, comm_type=77)], [coll(1, comm_type=77)]], "node 1 .'k1'.: is comm_type 77; there is: 0 all-reduce"),
        ([[coll(1, comm_type=4)], [coll(1, comm_type=4)]], "is SCATTER, which names no root"),
        ([[coll(1, size=0)], [coll(1, size=0)]], "a collective has 0 bytes"),
        ([[coll(1, size=-5)], [coll(1, size=-5)]], "comm_size is -5"),
        ([[send(1, 1)], [comp(1)]], "t.0.et: node 1 .'s1'.: rank 1 does not receive it"),
        ([[comp(1)], [recv(1, 0)]], "t.1.et: node 1 .'r1'.: rank 0 does not send it"),
        ([[send(1, 1, size=5)], [recv(1, 0, size=6)]], "receives 6 bytes where t.0.et, node 1, sends 5"),
        ([[send(1, 1, size=0)], [recv(1, 0, size=0)]], "a message has 0 bytes"),
        ([[send(1, 2)], [comp(1)]], "comm_dst is rank 2, whose file is missing"),
        ([[send(1, 0)], [comp(1)]], "goes to the rank that it comes from"),
        ([[comp(1, 5)], [comp(1)]], "t.0.et: node 1 .'c1'.: waits for node 5, which is not in the file"),
        ([[comp(1, 1)], [comp(1)]], "waits for itself"),
        ([[comp(1, 2), comp(2, 1)], [comp(1)]], "cycle through"),
        ([[coll(1, 2, comm_type=9), coll(2, 1, comm_type=9), comp(3)], [coll(1, comm_type=9), coll(2, comm_type=9)]], "cycle through"),
        ([[recv(1, 1), send(2, 1, 1)], [recv(1, 0), send(2, 0, 1)]], "cycle through"),
        ([[comp(1), comp(1)], [comp(1)]], "there are two nodes of this id"),
        ([[Node(1, "x", 12)], [comp(1)]], "node type 12 is not known"),
        ([[Node(1, "x", messages.METADATA)], [Node(1, "x", messages.METADATA)]], "neither time nor bytes"),
        ([[comp(1, us=1 << 60)], [comp(1)]], "which is no time that a job takes"),
    ],
)  # fmt: skip
def test_traces_at_fault_are_refused_with_file_and_node(tmp_path, nodes, words):
    with pytest.raises(InputError, match=words) as caught:
        read([chakra_file(tmp_path, rank, found) for rank, found in enumerate(nodes)])
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_that_do_not_belong_together_are_refused(tmp_path):
    zero, one = chakra_ring(tmp_path)
    other = chakra_file(tmp_path, 1, [comp(1)], name="u")
    two = chakra_file(tmp_path, 2, [comp(1)])
    for paths, words in [
        ([], "no Chakra traces"),
        ([one], "the file of rank 0 is missing: t.0.et"),
        ([zero, two], "the file of rank 1 is missing"),
        ([zero, zero], "rank 0 has two files"),
        ([zero, other], "different traces: t, u"),
        ([write(tmp_path, "trace.et", b"x")], "is not called NAME.<rank>.et"),
    ]:
        with pytest.raises(InputError, match=words):
            read(paths)


def test_a_missing_last_rank_of_our_own_job_is_noticed(tmp_path):
    traces = formats.write_chakra(paradigms.build("gpipe", JOBS["gpipe"]), tmp_path / "j")
    with pytest.raises(InputError, match="the job has 3 ranks and there are 2 files"):
        read(traces[:2])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is empty"),
        (b"\x05ab", "its metadata: ends within a message"),
        (b"\xff\xff", "its metadata: ends within a number"),
        (b"\xff" * 12, "a number is longer than 64 bits"),
        (b"{}", "its metadata"),
        (b"\x1f\x8bnot really", "cannot be unpacked|cut off"),
        (gzip.compress(b"x" * 1000, mtime=0)[:-9], "cut off"),
        (gzip.compress(b"", mtime=0), "is empty .unpacked."),
    ],
)
def test_files_of_another_kind_are_refused(tmp_path, data, words):
    with pytest.raises(InputError, match=words):
        read([write(tmp_path, "t.0.et", data)])


def test_a_file_called_gz_must_be_packed(tmp_path):
    path = write(tmp_path, "t.0.et.gz", chakra_ring(tmp_path)[0].read_bytes())
    with pytest.raises(InputError, match=r"is called .gz and is not packed by gzip"):
        read([path])


def test_more_nodes_than_the_limit_are_refused(monkeypatch, tmp_path):
    paths = chakra_ring(tmp_path)
    monkeypatch.setattr(messages, "MAX_NODES", 2)
    with pytest.raises(InputError, match="is one more than 2, which is the limit") as caught:
        read(paths)
    assert str(paths[0]) in str(caught.value)
