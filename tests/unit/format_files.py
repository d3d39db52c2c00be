"""Small files of every format that is imported, made here: others' files are not ours to publish."""

from __future__ import annotations

import gzip
import json

from traffic.workloads.formats import _chakra_messages as chakra
from traffic.workloads.formats._chakra_messages import Node

ASTRA = """\
HYBRID_TRANSFORMER	model_parallel_NPU_group: 2
2
embedding	-1	1000	ALLGATHER	4096	0	NONE	0	10	NONE	0	5
dense	-1	2000	NONE	0	3000	ALLREDUCE	1024	4000	ALLREDUCE	2048	5
"""

SIMAI = """\
HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 2 vpp: 1 ga: 1 all_gpus: 16 checkpoints: 0 \
checkpoint_initiates: 0 pp_comm 512
3
attention	-1	100	ALLREDUCE	4096	200	ALLREDUCE	4096	300	NONE	0	0
moe	-1	100	ALLTOALL_EP	8192	200	ALLTOALL_EP	8192	300	NONE	0	0
grads	-1	1	NONE	0	1	NONE	0	1	REDUCESCATTER_DP_EP	1600	100
"""

PIPEDREAM = """\
node1 -- Input -- forward_compute_time=9.000, backward_compute_time=0.000, activation_size=600.0, parameter_size=0.000
node2 -- Conv2d(3, 64) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=1000.0, parameter_size=400.000
node3 -- ReLU -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=[500.0; 20.0], parameter_size=0.000
node4 -- Linear -- forward_compute_time=3.000, backward_compute_time=6.000, activation_size=40.0, parameter_size=8000.000
	node1 -- node2
	node2 -- node3
	node2 -- node4
	node3 -- node4
"""

FACEBOOK = "4 3\n7 0 2 0 1 2 2:3 3:1\n8 1000 1 0 2 0:5 1:0.5\n9 1000 2 2 3 1 0:1\n"
SINCRONIA = "3 2\n1 0 3 2 2 0 1 1.5 0 2 0.1 1 2 2\n2 250 1 1 1 2 0 1\n"


def write(folder, name, content):
    """Write text or bytes to `folder`/`name` and return the path."""
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def chakra_file(folder, rank, nodes, metadata=None, name="t"):
    return write(folder, f"{name}.{rank}.et", chakra.encode(metadata or {}, iter(nodes)))


def comp(node_id, *after, us=10, **attributes):
    return Node(node_id, f"c{node_id}", chakra.COMP, list(after), us, {"is_cpu_op": False, **attributes})


def coll(node_id, *after, comm_type=0, size=4096, **attributes):
    return Node(
        node_id,
        f"k{node_id}",
        chakra.COMM_COLL,
        list(after),
        0,
        {"comm_type": comm_type, "comm_size": size, **attributes},
    )


def send(node_id, dst, *after, size=1000, tag=0):
    attributes = {"comm_size": size, "comm_dst": dst, "comm_tag": tag}
    return Node(node_id, f"s{node_id}", chakra.COMM_SEND, list(after), 0, attributes)


def recv(node_id, src, *after, size=1000, tag=0):
    attributes = {"comm_size": size, "comm_src": src, "comm_tag": tag}
    return Node(node_id, f"r{node_id}", chakra.COMM_RECV, list(after), 0, attributes)


def chakra_ring(folder):
    """Two ranks: compute, an all-reduce, compute, and a message from 0 to 1."""
    return [
        chakra_file(folder, 0, [comp(1), coll(2, 1), comp(3, 2), send(4, 1, 3)]),
        chakra_file(folder, 1, [comp(1, us=20), coll(2, 1), comp(3, 2), recv(4, 0, 3), comp(5, 4)]),
    ]


def kernel(ts, dur, name="gemm", **args):
    return {"ph": "X", "cat": "kernel", "name": name, "pid": 0, "tid": 7, "ts": ts, "dur": dur, "args": args}


def nccl(ts, dur, collective="allreduce", elements=1000, dtype="Float", **args):
    told = {
        "Collective name": collective,
        "In msg nelems": elements,
        "Out msg nelems": elements,
        "Group size": 2,
        "dtype": dtype,
        "Process Group Name": "0",
        "Process Group Ranks": "[0, 1]",
    }
    return kernel(ts, dur, f"ncclDevKernel_{collective}", **{**told, **args})


def annotation(ts, dur, name, tid=1, **args):
    return {"ph": "X", "cat": "user_annotation", "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur, "args": args}


def gloo(ts, dur, name, dims, dtype="float", tid=2, call=0):
    return annotation(
        ts, dur, f"gloo:{name}", tid, **{"Input Dims": [dims], "Input type": [dtype], "Record function id": call}
    )


def operator(ts, dur, name="aten::mm", tid=1, **args):
    return {"ph": "X", "cat": "cpu_op", "name": name, "pid": 0, "tid": tid, "ts": ts, "dur": dur, "args": args}


def kineto(events, rank=0, world=2, backend="nccl"):
    group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": world, "ranks": list(range(world))}
    info = {"backend": backend, "rank": rank, "world_size": world, "pg_count": 1, "pg_config": [group]}
    return {"schemaVersion": 1, "distributedInfo": info, "displayTimeUnit": "ms", "traceEvents": events}


NCCL_STEP = [
    annotation(0, 100, "ProfilerStep#3"),
    kernel(1, 10),
    kernel(15, 5),
    nccl(20, 15),
    kernel(22, 8),
    nccl(40, 20, elements=500, dtype="Half"),
    kernel(70, 4),
    {"ph": "M", "name": "process_name"},
]

GLOO_STEP = [
    annotation(0, 100, "ProfilerStep#0"),
    operator(5, 20),
    operator(8, 4, "aten::copy_"),
    gloo(30, 9, "all_reduce", [10, 100], call=7),
    operator(40, 20),
    operator(45, 5, "c10d::allreduce_"),
    gloo(70, 3, "all_gather", [50], dtype="double", call=9),
    operator(80, 10),
]


def kineto_files(folder, events, backend="nccl"):
    return [
        write(folder, f"k{rank}.json.gz", gzip.compress(json.dumps(kineto(events, rank, 2, backend)).encode()))
        for rank in range(2)
    ]


def valid_files(folder):
    """For every format: (name, paths, options) that import without a fault."""
    return [
        ("astra-sim", [write(folder, "a.txt", ASTRA)], {"ranks": 4}),
        ("simai", [write(folder, "s.txt", SIMAI)], {}),
        ("pipedream", [write(folder, "p.txt", PIPEDREAM)], {"stages": 2}),
        ("pipedream", [write(folder, "p.txt", PIPEDREAM)], {"paradigm": "data-parallel", "ranks": 3}),
        ("chakra", chakra_ring(folder), {}),
        ("kineto", kineto_files(folder, NCCL_STEP), {}),
        ("kineto", kineto_files(folder, GLOO_STEP, "gloo")[:1], {"symmetric": True}),
        ("coflow-benchmark", [write(folder, "f.txt", FACEBOOK)], {}),
        ("sincronia", [write(folder, "c.txt", SINCRONIA)], {"megabyte_bytes": 1_000_000}),
    ]
