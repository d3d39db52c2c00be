"""Small files of every format that is imported, made here: others' files are not ours to publish."""

from __future__ import annotations

import gzip
import json
import tempfile
from pathlib import Path

from echelon.experiment.import_jobs import GIVEN
from echelonflow.options import bind
from traffic.workloads import formats
from traffic.workloads.formats import _chakra_messages as chakra
from traffic.workloads.formats._chakra_messages import Node

ASTRA, SIMAI, PIPEDREAM, FACEBOOK, SINCRONIA = (
    formats.load(name).EXAMPLE_FILES["w.txt"]
    for name in ("astra-sim", "simai", "pipedream", "coflow-benchmark", "sincronia")
)


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


def examples(folder):
    """Of every format that has files of its own to try: (name, paths, options)."""
    found = []
    for name in formats.names():
        module = formats.load(name)
        if hasattr(module, "EXAMPLE_FILES"):
            paths = [write(folder, f"{name}.{file}", text) for file, text in module.EXAMPLE_FILES.items()]
            found.append((name, paths, bind(module.read, getattr(module, "EXAMPLE", {}), given=GIVEN)))
    return found


def valid_files(folder):
    """For every format: (name, paths, options) that import without a fault."""
    return [
        *examples(folder),
        ("pipedream", [write(folder, "p.txt", PIPEDREAM)], {"paradigm": "data-parallel", "ranks": 3}),
        ("chakra", chakra_ring(folder), {}),
        ("kineto", kineto_files(folder, NCCL_STEP), {}),
        ("kineto", kineto_files(folder, GLOO_STEP, "gloo")[:1], {"symmetric": True}),
    ]


with tempfile.TemporaryDirectory() as _folder:
    CASES = {f"{place}-{name}": place for place, (name, _, _) in enumerate(valid_files(Path(_folder)))}
"""Which of `valid_files` is what; our own job files are tried on all of them."""
