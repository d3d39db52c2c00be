"""Where the time goes: from a release to its first packet, from the end of a flow to the next one, and to a new mark.

Rings and pipelines of 2, 8 and 16 hosts on both frameworks; then 1, 10 and 50 flows whose marks change in mid-flight
at once. `--only 'ring-8-*'` measures a part: parts are named ring-HOSTS-FRAMEWORK, pipeline-HOSTS-FRAMEWORK and
marks-NUMBER. Runs count whether or not their verdict is valid: what is judged here is the machinery, not the policy.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import carry_out, new_folder, percentile
from echelon.benchmarks._latency_runs import LatencyOfRun, latencies
from echelon.experiment import schema
from echelonflow.errors import InputError, RunError
from results.analysis.hand_overs import HandOver
from results.analysis.latency import STEPS, Beginning

HOSTS = {2: "100 Mbit/s", 8: "30 Mbit/s", 16: "20 Mbit/s"}
FRAMEWORKS = ("ryu", "os-ken")
MARKS = (1, 10, 50)
AHEAD_MUST_MS = (1.0, 3.0)
"""Release to first packet of flows that were decided ahead, with 8 hosts: median and 95th percentile."""
HAND_OVER_MUST_MS = 5.0
DECIDED_AHEAD_MUST = 0.9
"""Of flows from the second iteration on."""
_ITERATIONS = 4
_TURN_S = 0.3
_TURNS = 6
"""So often classes can be told apart by moving flows down alone."""
_PACED_BY_FABRIC = """
import numpy as np

from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.fill import max_min


def allocate(snapshot):
    '''Flows within a leaf and the one across leaves go first by turns; the one across can never fill a host's link.'''
    across = np.diff(snapshot.path_start) > 2
    began_s = (snapshot.release_s if across.all() else snapshot.release_s[~across]).min()
    turn = min(int((snapshot.now_s - began_s) / TURN_S + 1e-6), TURNS)
    rank = np.zeros(snapshot.flows, np.int64)
    if turn:
        rank[across if turn % 2 == 0 else ~across] = 1
    rates = max_min(snapshot, np.arange(snapshot.flows), np.ones(snapshot.flows), snapshot.capacity_Bps.copy())
    until_s = began_s + (turn + 1) * TURN_S if turn < TURNS else np.inf
    return Allocation(rates, rank, until_s)
"""


def run(repeat: int, say: Say, only: Sequence[str] = ()) -> list[Figure]:
    """`repeat` runs of each policy in each part; InputError if `only` fits no part, RunError if a part did not run."""
    chosen = [part for part in parts() if not only or any(fnmatch(part, pattern) for pattern in only)]
    if not chosen:
        raise InputError(f"--only fits no part; there is: {', '.join(parts())}")
    figures = []
    with tempfile.TemporaryDirectory(prefix="echelon-latency-") as scratch:
        for part in chosen:
            folder = new_folder()
            say(f"{part}: {folder}")
            experiment = schema.check(experiment_of(part, repeat, Path(scratch)), Path(f"{part}.yaml"))
            carry_out(experiment, folder, say)
            runs = list(latencies(folder))
            if not runs:
                raise RunError(f"{part}: no run was completed; see {folder}")
            figures += figures_of(part, runs)
    return figures


def parts() -> list[str]:
    """What can be measured by itself."""
    worlds = [f"{job}-{hosts}-{name}" for job in ("ring", "pipeline") for hosts in HOSTS for name in FRAMEWORKS]
    return [*worlds, *(f"marks-{number}" for number in MARKS)]


def experiment_of(part: str, repeat: int, scratch: Path) -> dict[str, Any]:
    """The experiment file of a part; files that it needs are written to `scratch`."""
    kind, number, *framework = part.split("-", 2)
    common = {
        "name": part,
        "repeats": repeat,
        "emulation": {"confirm_rules": True, "framework": framework[0] if framework else FRAMEWORKS[0]},
    }
    if kind == "marks":
        return {**common, **_marks(int(number), scratch)}
    job: dict[str, Any] = {"name": kind, "iterations": _ITERATIONS}
    if kind == "ring":
        job |= {
            "paradigm": "data-parallel", "ranks": int(number), "layers": 4, "forward": "20 ms", "backward": "60 ms",
            "parameter": "80 ms of link", "update": "20 ms", "bucket": "80 ms of link",
        }  # fmt: skip
    else:
        job |= {
            "paradigm": "gpipe", "stages": int(number), "micro_batches": 4, "forward": "60 ms", "backward": "60 ms",
            "activation": "80 ms of link", "gradient": "30 ms of link",
        }  # fmt: skip
    return {
        **common,
        "network": {"topology": "single-switch", "hosts": int(number), "rate": HOSTS[int(number)]},
        "jobs": [job],
        "policies": ["coflow", "echelonflow"],
    }


def _marks(number: int, scratch: Path) -> dict[str, Any]:
    """So many flows from h1 to h2, and one to h3 beyond a fabric of a tenth; a policy that turns their order round."""
    rate_Bps, fabric_share = 12e6, 0.1
    duration_s = (_TURNS + 1.5) * _TURN_S
    names = [f"f{i}" for i in range(number)]
    within = round(rate_Bps * duration_s / number)
    sizes = {**dict.fromkeys(names, within), "across": round(rate_Bps * fabric_share * duration_s)}
    steps: list[dict[str, Any]] = [
        {"name": "begin", "compute": 0, "duration_s": 0.05, "kind": "forward", "after": []},
        *(
            {"name": name, "transfer": [0, 2 if name == "across" else 1], "size_bytes": size, "group": name,
             "coflow": name, "after": ["begin"]}
            for name, size in sizes.items()
        ),
        {"name": "end", "compute": 1, "duration_s": 0.05, "kind": "update", "after": names},
        {"name": "back", "transfer": [1, 0], "size_bytes": 10_000, "group": "back", "coflow": "back", "after": ["end"]},
        {"name": "end across", "compute": 2, "duration_s": 0.05, "kind": "update", "after": ["across"]},
    ]  # fmt: skip
    groups = [
        {"name": n, "kind": "marks", "weight": 1.0, "transfers": [n], "offsets_s": [0.0]} for n in (*sizes, "back")
    ]
    dag = {
        "schema": "echelon-job", "version": 1, "ranks": 3, "steps": steps, "groups": groups,
        "next_iteration": [["back", "begin"]], "parameters": {},
    }  # fmt: skip
    (scratch / "marks.json").write_text(json.dumps(dag), encoding="utf-8")
    policy = scratch / "turns.py"
    policy.write_text(f"TURN_S, TURNS = {_TURN_S}, {_TURNS}\n{_PACED_BY_FABRIC}", encoding="utf-8")
    return {
        "network": {
            "topology": "leaf-spine", "leaves": 2, "spines": 1, "hosts_per_leaf": 2,
            "rate": "100 Mbit/s", "fabric_rate": "10 Mbit/s",
        },
        "jobs": [
            {
                "name": "marks", "import": {"format": "job", "files": [str(scratch / "marks.json")]}, "iterations": 3,
                "placement": ["h1", "h2", "h3"],
            }
        ],
        "policies": [str(policy)],
    }  # fmt: skip


def figures_of(part: str, runs: Sequence[LatencyOfRun]) -> list[Figure]:
    """What all runs of a part show together."""
    if part.startswith("marks"):
        return _of_marks(part, runs)
    begun = [each for run in runs for each in run.beginnings]
    free = [each for each in begun if each.free]
    waited = [each for each in free if each.held or not each.ahead]
    figures = [*_steps(f"{part}, flows that waited", waited), *_ahead(part, begun)]
    for policy in dict.fromkeys(run.policy for run in runs):
        found = [each for run in runs if run.policy == policy for each in run.hand_overs]
        figures += _of_hand_overs(f"{part}, {policy}", found)
    return figures


def _steps(whose: str, begun: Sequence[Beginning]) -> list[Figure]:
    figures = []
    for name in STEPS:
        values = [took_s * 1e3 for each in begun if (took_s := each.step_s(name)) is not None]
        if values:
            figures.append(Figure(f"{whose}: {name}", words(values), "", None))
    return figures


def _ahead(part: str, begun: Sequence[Beginning]) -> list[Figure]:
    ahead = [each for each in begun if each.ahead]
    later = [each for each in begun if each.flow[1] > 0]
    share = sum(each.ahead for each in later) / len(later) if later else 0.0
    corrected = sum(each.corrected for each in ahead)
    figures = [
        Figure(
            f"{part}: flows decided ahead, from the second iteration on",
            f"{share:.0%} of {len(later)}",
            f"over {DECIDED_AHEAD_MUST:.0%}",
            share > DECIDED_AHEAD_MUST,
        ),
        Figure(f"{part}: corrected, of those decided ahead", f"{corrected} of {len(ahead)}", "", None),
    ]
    values = [
        took_s * 1e3
        for each in ahead
        if each.free and not each.held and (took_s := each.step_s("release to first packet")) is not None
    ]
    if values:
        median_ms, p95_ms = AHEAD_MUST_MS
        good = statistics.median(values) < median_ms and percentile(values, 0.95) < p95_ms
        figures.append(
            Figure(
                f"{part}, flows that started ahead: release to first packet",
                words(values),
                f"median {median_ms:g} ms, p95 {p95_ms:g} ms" if "-8-" in part else "",
                good if "-8-" in part else None,
            )
        )
    return figures


def _of_hand_overs(whose: str, found: Sequence[HandOver]) -> list[Figure]:
    figures = []
    for which, waited in (("next one waited for its turn", True), ("next one released at its end", False)):
        values = [each.took_s * 1e3 for each in found if each.waited == waited]
        if values:
            figures.append(
                Figure(
                    f"{whose}: end of a flow to full rate of the next on the link, {which}",
                    words(values),
                    f"median {HAND_OVER_MUST_MS:g} ms",
                    statistics.median(values) < HAND_OVER_MUST_MS,
                )
            )
    return figures


def _of_marks(part: str, runs: Sequence[LatencyOfRun]) -> list[Figure]:
    number = int(part.rpartition("-")[2])
    changes = [change for run in runs for change in run.mark_changes if change.marks == number]
    if not changes:
        return [Figure(f"{part}: changes of as many marks at once", "0", "some", False)]
    seen = [change.first_s for change in changes if change.first_s]
    shown = {
        "decided to first packet with a new mark, of any flow": [min(each) for each in seen],
        "decided to first packet with its new mark, of every flow": [took_s for each in seen for took_s in each],
        "longest time without a packet, after the decision": [change.gap_s for change in changes],
        "longest time without a packet, before the decision": [change.gap_before_s for change in changes],
    }
    return [
        Figure(f"{part}: {what}", words([value * 1e3 for value in values_s]), "", None)
        for what, values_s in shown.items()
        if values_s
    ]


def words(values_ms: list[float]) -> str:
    """Median, 95th and 99th percentile, and of how many."""
    shown = " / ".join(
        f"{value:.2f}"
        for value in (statistics.median(values_ms), percentile(values_ms, 0.95), percentile(values_ms, 0.99))
    )
    return f"{shown} ms ({len(values_ms)})"
