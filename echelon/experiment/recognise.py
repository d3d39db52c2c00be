"""Files that are no experiments and are given as one: which kind they are, and the command or the lines that take them."""

from __future__ import annotations

import re
import zlib
from pathlib import Path

from echelonflow.records.folder import RunFiles, RunFolder
from traffic.workloads import formats, traces

_EXPERIMENT = re.compile(rb"""^[{ \t]*["']?(name|network|jobs|policies|repeats)["']?[ \t]*:""", re.MULTILINE)
_SCHEMA = re.compile(rb'^\s*\{\s*"schema"\s*:\s*"(echelon-[a-z0-9-]+)"')
_PROFILE = "echelon-profile"
_POLICY = re.compile(rb"^def allocate\(", re.MULTILINE)
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 1 << 16


def looks_like_experiment(content: bytes) -> bool:
    """Whether any line begins with a key of experiments."""
    return _EXPERIMENT.search(content) is not None


def other_file(path: Path, content: bytes) -> str | None:
    """What the file at `path`, which begins with `content`, is instead of an experiment; None where it may be one."""
    head = _unpacked(content[:_HEAD_BYTES])
    record = _SCHEMA.match(head)
    if record and record[1].decode() == _PROFILE:
        return f"is a profile of a model; name it in a job: `profile: {path}`, or print it: `echelon profile --show {path}`"
    if not head.lstrip().startswith(b"{") and _EXPERIMENT.search(head):
        return None
    found = formats.recognised(head)
    if found is not None:
        return f"is no experiment but {formats.load(found).SUMMARY.partition(':')[0]}; {_way_in(found, path)}"
    if record:
        return f"is a record of a run ({record[1].decode()}), no experiment; `echelon report {path.parent}` reads its folder"
    kinds = (
        (_POLICY.search(head), f"is a policy, no experiment; name it beside one: `echelon run FILE --policy {path}`"),
        (content.startswith(_GZIP), "is packed by gzip; unpack it, an experiment is a text file"),
        (b"\0" in head, "is a binary file; an experiment is a text file in YAML"),
    )
    return next((words for so, words in kinds if so), None)


def other_folder(path: Path) -> str:
    """What the folder at `path` is, and what to name instead."""
    if RunFolder(path).manifest.exists() or RunFiles(path).plan.exists():
        return f"is the folder of a run, no experiment; `echelon report {path}` reads it again"
    inside = sorted(each.name for each in path.glob("*.y*ml"))
    if not inside:
        return "is a folder without experiments; name an experiment file (YAML)"
    return f"is a folder; name an experiment in it, such as {path / inside[0]}"


def _way_in(name: str, path: Path) -> str:
    if name in traces.names():
        entry = f"trace: {{format: {name}, file: {path.name}}}"
        return f"simulate it so: `jobs: [{{name: mine, {entry}}}]` on topology big-switch"
    entry = f"import: {{format: {name}, files: [{path.name}]}}"
    return f"import it so: `jobs: [{{name: mine, {entry}}}]` (its options: `echelon convert --formats`)"


def _unpacked(head: bytes) -> bytes:
    """The beginning of what is packed by gzip; `head` itself where it is not."""
    if not head.startswith(_GZIP):
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD_BYTES)
    except zlib.error:
        return head
