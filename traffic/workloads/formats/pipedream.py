"""PipeDream's profiled model graphs: time, activation and parameter bytes of every layer, and who feeds whom.

Source: msr-fiddle/pipedream, graph/graph.py and profiler. The graph says what the model is; how it is trained (stages,
micro-batches, replicas) are options.

A model, not a job: `paradigm` (pipedream, gpipe, pipeline-1f1b with `stages`; data-parallel with `ranks`) and
`micro_batches` make it one. `tick` is 1 ms. Stages are contiguous and balanced; what crosses a boundary is every
output that a later stage needs. Nodes called Input load data and are dropped; stage_id is ignored. Both are reported.
"""

from __future__ import annotations

import itertools
import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from echelonflow.errors import InputError
from echelonflow.model.dag import JobDag
from echelonflow.model.units import format_duration, format_size
from traffic.workloads import paradigms
from traffic.workloads.formats import _files
from traffic.workloads.formats._account import AS_FLOWS, SHARES, Account
from traffic.workloads.formats._iteration import MAX_STEPS, network_bytes
from traffic.workloads.formats._layers import only, positive_tick
from traffic.workloads.formats._report import Imported, Report
from traffic.workloads.paradigms._layers import BUCKET_BYTES, given_layers
from traffic.workloads.profile import balanced_cuts

SUMMARY = "PipeDream profile graph: one file per model"
LOOKS_LIKE = re.compile(rb"\s*node\w+ -- .*forward_compute_time=")
EXAMPLE_FILES = {
    "w.txt": """\
node1 -- Input -- forward_compute_time=9.000, backward_compute_time=0.000, activation_size=600.0, parameter_size=0.000
node2 -- Conv2d(3, 64) -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=1000.0, parameter_size=400.000
node3 -- ReLU -- forward_compute_time=1.000, backward_compute_time=2.000, activation_size=[500.0; 20.0], parameter_size=0.000
node4 -- Linear -- forward_compute_time=3.000, backward_compute_time=6.000, activation_size=40.0, parameter_size=8000.000
	node1 -- node2
	node2 -- node3
	node2 -- node4
	node3 -- node4
"""
}
EXAMPLE = {"stages": 2}

_FIELDS = ("forward_compute_time", "backward_compute_time", "activation_size", "parameter_size")
_MICRO_BATCHES = "every micro-batch does what the graph has once"
_MOST_NODES = 100_000
_MOST_EDGES = 1_000_000
_MOST_CUTS = 20_000_000
"""Layers squared times stages that are tried at most: finding balanced stages takes so many additions."""


@dataclass
class _Node:
    """A layer as profiled: seconds and bytes for one micro-batch."""

    name: str
    text: str
    line: int
    forward_s: float
    backward_s: float
    activation_bytes: int
    parameter_bytes: int
    feeds: list[_Node] = field(default_factory=list)
    waits_for: int = 0


def read(
    paths: Sequence[Path],
    *,
    paradigm: Literal["pipedream", "gpipe", "pipeline-1f1b", "data-parallel"] = "pipedream",
    stages: int | None = None,
    micro_batches: int = 4,
    ranks: int | None = None,
    tick_s: float = 1e-3,
) -> Imported:
    """The model in the one graph file of `paths`, trained by `paradigm`.

    A pipeline has `stages` balanced stages of consecutive layers; what crosses a boundary is every output that a later stage
    needs, handed on from stage to stage. `data-parallel` has `ranks` replicas. `tick_s` is the unit of the file's
    times in seconds (PipeDream writes milliseconds). Raises InputError naming file and line.
    """
    path = only(paths, "a PipeDream graph")
    positive_tick(path, tick_s)
    account = Account()
    nodes, dropped = _read_graph(path, tick_s, account)
    layers = _in_order(path, nodes)
    if paradigm == "data-parallel":
        if ranks is None or stages is not None:
            raise InputError(f"{path}: data-parallel needs ranks (the number of replicas) and takes no stages")
        options = _replicas(path, layers, ranks, micro_batches, account)
    else:
        if stages is None or ranks is not None:
            raise InputError(f"{path}: {paradigm} needs stages (each is a rank) and takes no ranks")
        options = _pipeline(path, layers, stages, micro_batches, account)
    if _most_steps(options) > MAX_STEPS:
        raise InputError(
            f"{path}: the job would have more than {MAX_STEPS:,} steps, which is the limit; set fewer micro_batches or ranks"
        )
    try:
        dag: JobDag = paradigms.build(paradigm, options)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    dag.parameters.update({"imported": "pipedream", "file": path.name})
    forward_s, backward_s = sum(n.forward_s for n in layers), sum(n.backward_s for n in layers)
    read_lines = (
        f"{path}: {len(nodes)} nodes, {sum(len(n.feeds) for n in nodes)} edges",
        f"forward {format_duration(forward_s)}, backward {format_duration(backward_s)}",
        f"parameters {format_size(sum(n.parameter_bytes for n in layers))}",
    )
    assumed = [
        f"paradigm {paradigm}, {dag.ranks} ranks, {micro_batches} micro-batches an iteration",
        f"one unit of time is {tick_s:g} s (tick); times and bytes are those of one micro-batch",
        "the optimiser takes no time; gradients of activations are as large as activations",
    ]
    report = Report.of(account, dag, source=str(path), read=read_lines, dropped=dropped, assumed=assumed)
    return Imported(dag, report)


def _pipeline(path: Path, layers: Sequence[_Node], stages: int, micro_batches: int, account: Account) -> dict[str, Any]:
    """Options of a pipeline paradigm; `account` is told what it sends and computes of what the graph has."""
    if not 2 <= stages <= len(layers):
        raise InputError(
            f"{path}: {len(layers)} layers cannot be cut into {stages} stages; set stages to 2 to {len(layers)}"
        )
    if len(layers) ** 2 * stages > _MOST_CUTS:
        raise InputError(f"{path}: {len(layers)} layers in {stages} stages are too many to balance; set fewer stages")
    cuts = balanced_cuts([n.forward_s + n.backward_s for n in layers], stages)
    parts = [layers[a:b] for a, b in itertools.pairwise(cuts)]
    position = {n.name: i for i, n in enumerate(layers)}
    crossing = []
    for cut in cuts[1:-1]:
        size = sum(n.activation_bytes for n in layers[:cut] if any(position[f.name] >= cut for f in n.feeds))
        if not size:
            raise InputError(
                f"{path}: line {layers[cut - 1].line}: nothing crosses the boundary after {layers[cut - 1].name}; set stages to another number"
            )
        crossing.append(size)
    _account_for_stages(layers, sum(crossing), stages, micro_batches, account)
    options: dict[str, Any] = {
        "stages": stages,
        "micro_batches": micro_batches,
        "forward_s": [sum(n.forward_s for n in part) for part in parts],
        "backward_s": [sum(n.backward_s for n in part) for part in parts],
        "activation_bytes": crossing,
    }
    return options


def _account_for_stages(
    layers: Sequence[_Node], crossing_bytes: int, stages: int, micro_batches: int, account: Account
) -> None:
    """Tell the account what a pipeline does: `crossing_bytes` pass all its boundaries forward in a micro-batch."""
    account.dropped(
        "parameters of layers: stages do not send them", things=0, size_bytes=sum(n.parameter_bytes for n in layers)
    )
    account.counted(
        "activations as often as they cross a boundary of stages",
        size_bytes=crossing_bytes - sum(n.activation_bytes for n in layers),
        communications=stages - 1,
    )
    account.added(
        "gradients of activations, as large: the way back", things=0, size_bytes=crossing_bytes, communications=stages - 1
    )  # fmt: skip
    account.counted(
        _MICRO_BATCHES,
        size_bytes=(micro_batches - 1) * 2 * crossing_bytes,
        compute_s=(micro_batches - 1) * _compute_s(layers),
        communications=(micro_batches - 1) * 2 * (stages - 1),
    )


def _compute_s(layers: Sequence[_Node]) -> float:
    return sum(n.forward_s + n.backward_s for n in layers)


def _replicas(path: Path, layers: Sequence[_Node], ranks: int, micro_batches: int, account: Account) -> dict[str, Any]:
    """Options of data parallelism; `account` is told what it sends and computes of what the graph has."""
    if ranks < 2:
        raise InputError(f"{path}: ranks is {ranks}; replicas are at least 2")
    if not sum(n.parameter_bytes for n in layers):
        raise InputError(f"{path}: no layer has parameters, so there is nothing to reduce")
    options: dict[str, Any] = {
        "ranks": ranks,
        "layers": len(layers),
        "micro_batches": micro_batches,
        "forward_s": [n.forward_s for n in layers],
        "backward_s": [n.backward_s for n in layers],
        "parameter_bytes": [n.parameter_bytes for n in layers],
        "bucket_bytes": BUCKET_BYTES,
    }
    _account_for_replicas(layers, ranks, micro_batches, account)
    return options


def _account_for_replicas(layers: Sequence[_Node], ranks: int, micro_batches: int, account: Account) -> None:
    """Tell the account what data parallelism does: an all-reduce of every layer's gradients."""
    account.dropped(
        "activations of layers: replicas do not send them", things=0, size_bytes=sum(n.activation_bytes for n in layers)
    )
    model = given_layers(
        len(layers), forward_s=0.0, backward_s=0.0, parameter_bytes=[n.parameter_bytes for n in layers]
    )
    buckets = model.buckets(range(len(layers)), BUCKET_BYTES)
    account.added("all-reduces of buckets of gradients, as large as parameters", communications=len(buckets), things=0)
    for bucket in buckets:
        size_bytes = bucket.size_bytes
        account.counted(AS_FLOWS, size_bytes=network_bytes("all-reduce", ranks, size_bytes) - size_bytes)
        if size_bytes < ranks:
            padding_bytes = network_bytes("all-reduce", ranks, ranks - size_bytes)
            account.added(SHARES, things=padding_bytes, size_bytes=padding_bytes)
    account.counted(_MICRO_BATCHES, compute_s=(micro_batches - 1) * _compute_s(layers))
    account.counted("every replica computes all layers", compute_s=(ranks - 1) * micro_batches * _compute_s(layers))


def _most_steps(options: Mapping[str, Any]) -> int:
    """No fewer than the steps of the job that a paradigm makes of `options`: 4 for each micro-batch, layer and rank."""
    per_rank: int = 4 * options["micro_batches"] * options.get("layers", 1)
    return per_rank * int(options.get("stages") or options["ranks"])


def _read_graph(path: Path, tick_s: float, account: Account) -> tuple[list[_Node], list[str]]:
    """All nodes but the inputs, tied by the edges, and words on what was dropped beside them."""
    nodes: dict[str, _Node] = {}
    inputs: list[_Node] = []
    dropped: list[str] = []
    staged = False
    edges: list[tuple[int, str, str]] = []
    for number, text in enumerate(_files.read_text(path).split("\n"), 1):
        parts = text.strip().split(" -- ")
        if parts == [""]:
            continue
        if len(parts) == 2 and "=" not in parts[1]:
            if len(edges) >= _MOST_EDGES:
                raise InputError(f"{path}: line {number}: more than {_MOST_EDGES:,} edges, which is the limit")
            edges.append((number, parts[0], parts[1]))
            continue
        node = _node(path, number, parts, tick_s)
        staged |= parts[-1].startswith("stage_id=")
        if node.name in nodes:
            raise InputError(f"{path}: line {number}: there are two nodes called {_files.shown(node.name)}")
        if len(nodes) >= _MOST_NODES:
            raise InputError(f"{path}: line {number}: more than {_MOST_NODES:,} nodes, which is the limit")
        nodes[node.name] = node
    for number, src, dst in edges:
        for name in (src, dst):
            if name not in nodes:
                raise InputError(f"{path}: line {number}: an edge names {_files.shown(name)}, which is no node")
        nodes[src].feeds.append(nodes[dst])
    inputs = [n for n in nodes.values() if n.text.startswith("Input")]
    kept = [n for n in nodes.values() if not n.text.startswith("Input")]
    for node in nodes.values():
        size_bytes = node.activation_bytes + node.parameter_bytes
        account.found(size_bytes=size_bytes, compute_s=node.forward_s + node.backward_s)
    for node in inputs:
        lost = f"{node.name} ({_files.shown(node.text)}, {format_duration(node.forward_s)}, {format_size(node.activation_bytes)})"
        account.dropped(
            f"{lost}: loading data, no layer",
            things=0,
            size_bytes=node.activation_bytes + node.parameter_bytes,
            compute_s=node.forward_s + node.backward_s,
        )
    if staged:
        dropped.append("stage_id of nodes: stages are cut anew")
    if not kept:
        raise InputError(f"{path}: there is no node that is a layer; this is no PipeDream graph")
    for node in kept:
        for fed in node.feeds:
            fed.waits_for += 1
    return kept, dropped


def _node(path: Path, number: int, parts: Sequence[str], tick_s: float) -> _Node:
    where = f"{path}: line {number}"
    place = next((i for i, part in enumerate(parts) if part.startswith(_FIELDS[0] + "=")), None)
    if place is None or place < 2:
        raise InputError(
            f"{where}: is neither 'node -- what it is -- {_FIELDS[0]}=..., ...' nor an edge 'node -- node'"
        )
    fields = dict(part.partition("=")[::2] for part in parts[place].split(", "))
    values = []
    for name in _FIELDS:
        numbers = [_files.finite(each) for each in fields.get(name, "").strip("[]").split("; ")]
        if any(n is None or n < 0 for n in numbers):
            raise InputError(
                f"{where}: {name} is {_files.shown(fields.get(name, ''))}; a number of at least 0 was expected"
            )
        values.append(sum(n for n in numbers if n is not None))
    sizes = [_files.whole(value) for value in values[2:]]
    if sizes[0] is None or sizes[1] is None:
        raise InputError(f"{where}: {_FIELDS[2]} and {_FIELDS[3]} are bytes; whole numbers were expected")
    return _Node(
        parts[0], " -- ".join(parts[1:place]), number, values[0] * tick_s, values[1] * tick_s, sizes[0], sizes[1]
    )


def _in_order(path: Path, nodes: Sequence[_Node]) -> list[_Node]:
    """The layers so that each comes after those that feed it (InputError on a cycle)."""
    waiting = {n.name: n.waits_for for n in nodes}
    ready = deque(n for n in nodes if not n.waits_for)
    done: list[_Node] = []
    while ready:
        node = ready.popleft()
        done.append(node)
        for fed in node.feeds:
            waiting[fed.name] -= 1
            if not waiting[fed.name]:
                ready.append(fed)
    if len(done) < len(nodes):
        stuck = next(n for n in nodes if waiting[n.name])
        raise InputError(f"{path}: line {stuck.line}: there is a cycle through {stuck.name}; a model's graph has none")
    return done
