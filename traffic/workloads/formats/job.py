"""Our own job files (docs/job.schema.json): what `echelon convert` writes.

`docs/job.schema.json` is the JSON schema of a job (and of one placed on hosts), version 1; `echelon convert --schema`
prints it. Names that do not exist, cycles, and groups that do not list their flows are refused as well, which a
schema cannot say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from echelonflow.errors import InputError
from echelonflow.model.dag import from_dict
from traffic.workloads.formats import _files
from traffic.workloads.formats._account import Account
from traffic.workloads.formats._iteration import MAX_STEPS
from traffic.workloads.formats._job_schema import EchelonJob, PlacedJob
from traffic.workloads.formats._layers import only
from traffic.workloads.formats._report import Imported, Report
from traffic.workloads.schema_faults import in_a_line

SUMMARY = "a job file of this project (docs/job.schema.json)"
LOOKS_LIKE = re.compile(rb'\s*\{\s*"schema"\s*:\s*"echelon-job"')


def read(paths: Sequence[Path]) -> Imported:
    """The job in the one file of `paths`; InputError naming file and every fault's place in it (the first five)."""
    path = only(paths, "a job file")
    data = _files.read_json(path)
    dropped = []
    if isinstance(data, dict) and "dag" in data:
        _check(path, PlacedJob, data)
        dropped.append(
            f"name, placement, iterations, weight and start of job {_files.shown(data['name'])}: a DAG has none"
        )
        if data.get("discipline") is not None:
            scheduler = _files.shown(data["discipline"]["scheduler"])
            dropped.append(f"the order and window of its job scheduler {scheduler}: a DAG has none")
        if data.get("draws") is not None:
            dropped.append("how its computations vary (jitter, stragglers): a DAG says how long they take")
        if data.get("after") is not None:
            dropped.append(f"that it comes after job {_files.shown(data['after'])}: a DAG comes after none")
        data = data["dag"]
    else:
        _check(path, EchelonJob, data)
    if len(data["steps"]) > MAX_STEPS:
        raise InputError(f"{path}: the job has more than {MAX_STEPS:,} steps, which is the limit")
    try:
        dag = from_dict(data)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    read_lines = (
        f"{path}: {dag.ranks} ranks, {len(dag.computes)} computations, {len(dag.transfers)} transfers in {len(dag.groups)} groups",
    )
    return Imported(dag, Report.of(_account(data), dag, source=str(path), read=read_lines, dropped=dropped))


def _account(data: dict[str, Any]) -> Account:
    """What the file lists."""
    account, coflows = Account(), set()
    for step in data["steps"]:
        account.found(size_bytes=step.get("size_bytes", 0), compute_s=float(step.get("duration_s", 0.0)))
        if "transfer" in step:
            coflows.add(step["coflow"])
    account.found(communications=len(coflows))
    return account


def _check(path: Path, model: type[BaseModel], data: Any) -> None:
    try:
        model.model_validate(data)
    except ValidationError as error:
        raise InputError(f"{path}: is no echelon-job of version 1: {in_a_line(error)}") from None
