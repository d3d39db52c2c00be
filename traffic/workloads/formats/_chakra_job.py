"""One of our own jobs as Chakra traces, and back without loss.

Computations become COMP nodes, transfers a COMM_SEND and a COMM_RECV node. Chakra says durations in whole microseconds and
knows nothing of groups, Coflows and following iterations: these travel in attributes of their own, which other
readers ignore.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from echelonflow.errors import InputError
from echelonflow.model.dag import Compute, Group, JobDag, Transfer, check_members
from traffic.workloads.formats._chakra_messages import COMM_RECV, COMM_SEND, COMP, Node, Value, encode

MARK: Final = "echelon_job"
GROUP, COFLOW, KIND, DURATION = "echelon_group", "echelon_coflow", "echelon_kind", "echelon_duration_s"


def encode_job(dag: JobDag) -> list[bytes]:
    """The trace files of `dag`, one per rank.

    Node 2k stands for step k (at its source, if it is a transfer), node 2k + 1 for its arrival. Raises InputError for a step that
    waits for something which its rank cannot notice: a rank's trace names nodes of its own only.
    """
    index = {step.name: i for i, step in enumerate(dag.steps)}
    nodes: list[list[Node]] = [[] for _ in range(dag.ranks)]
    for i, step in enumerate(dag.steps):
        rank = step.rank if isinstance(step, Compute) else step.src_rank
        after = [_seen_by(rank, dag.by_name[before], index[before], step.name) for before in step.after]
        if isinstance(step, Compute):
            attributes: dict[str, Value] = {"is_cpu_op": False, KIND: step.kind, DURATION: float(step.duration_s)}
            nodes[rank].append(Node(2 * i, step.name, COMP, after, round(step.duration_s * 1e6), attributes))
            continue
        common: dict[str, Value] = {
            "is_cpu_op": False, "comm_size": step.size_bytes, "comm_src": step.src_rank, "comm_dst": step.dst_rank, "comm_tag": i,
        }  # fmt: skip
        nodes[rank].append(
            Node(
                2 * i,
                step.name,
                COMM_SEND,
                after,
                0,
                {**common, GROUP: dag.group_of[step.name].name, COFLOW: step.coflow},
            )
        )
        nodes[step.dst_rank].append(Node(2 * i + 1, step.name, COMM_RECV, [], 0, common))
    mark = json.dumps(
        {
            "ranks": dag.ranks,
            "groups": [dataclasses.asdict(group) for group in dag.groups],
            "next_iteration": dag.next_iteration,
            "parameters": dag.parameters,
        }
    )
    short = json.dumps({"ranks": dag.ranks})
    return [encode({MARK: mark if rank == 0 else short}, iter(found)) for rank, found in enumerate(nodes)]


def marked(files: Sequence[Path], metadata: Sequence[Mapping[str, Value]]) -> dict[str, Any] | None:
    """What `encode_job` wrote beside the nodes, None for traces that it did not write (InputError where it is damaged)."""
    if not any(MARK in each for each in metadata):
        return None
    found: list[dict[str, Any]] = []
    for path, each in zip(files, metadata, strict=True):
        try:
            mark = json.loads(str(each[MARK]))
        except (KeyError, ValueError, RecursionError):
            mark = None
        if not isinstance(mark, dict) or type(mark.get("ranks")) is not int:
            raise InputError(f"{path}: its metadata has no readable {MARK}, as other files of this trace have")
        if mark["ranks"] != len(files):
            raise InputError(
                f"{path}: the job has {mark['ranks']} ranks and there are {len(files)} files; a rank's file is missing"
            )
        found.append(mark)
    return found[0]


def restored(dag: JobDag, mark: Mapping[str, Any], order: Sequence[str], path: Path) -> JobDag:
    """`dag`, its steps in `order`, with the groups and following iterations of `mark`.

    Raises InputError naming the file where they do not fit.
    """
    if sorted(order) != sorted(dag.by_name):
        raise InputError(f"{path}: its metadata has {MARK}, and the nodes are not those of such a job")
    try:
        steps = tuple(dag.by_name[name] for name in order)
        groups = tuple(
            Group(g["name"], g["kind"], tuple(g["transfers"]), tuple(map(float, g["offsets_s"])), float(g["weight"]))
            for g in mark["groups"]
        )
        pairs = tuple((str(a), str(b)) for a, b in mark["next_iteration"])
        found = dataclasses.replace(
            dag, steps=steps, groups=groups, next_iteration=pairs, parameters=dict(mark["parameters"])
        )
        check_members(found, {transfer: group.name for transfer, group in dag.group_of.items()})
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: its metadata's {MARK} is malformed: {error!r}") from None
    return found


def _seen_by(rank: int, before: Compute | Transfer, index: int, waiting: str) -> int:
    """The node of `rank`'s trace that stands for the end of step `before`."""
    if isinstance(before, Transfer) and rank == before.dst_rank:
        return 2 * index + 1
    if rank == (before.rank if isinstance(before, Compute) else before.src_rank):
        return 2 * index
    raise InputError(
        f"step {waiting!r} on rank {rank} waits for {before.name!r} of other ranks, which a trace of rank {rank} cannot say"
    )
