"""Ryu against os-ken: iteration times of pipeline.yaml and decision times, taken in turns."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import emulate, iteration_times_s, percentile
from echelon.experiment import schema
from echelon.places import EXPERIMENTS

FILE = EXPERIMENTS / "pipeline.yaml"
FRAMEWORKS = ("ryu", "os-ken")
TOLERANCE = 0.02


def run(repeat: int, say: Say) -> list[Figure]:
    """pipeline.yaml, `repeat` times each policy on each framework, by turns so that both see the same machine."""
    times_s: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in FRAMEWORKS}
    decisions_ms: dict[str, list[float]] = {name: [] for name in FRAMEWORKS}
    for turn in range(repeat):
        for framework in FRAMEWORKS:
            say(f"turn {turn + 1} of {repeat}: {framework}")
            folder = emulate(schema.load(FILE, {"repeats": 1, "emulation": {"framework": framework}}), say)
            for policy, found in iteration_times_s(folder).items():
                times_s[framework][policy] += found.values()
            decisions_ms[framework] += _decision_times_ms(folder)
    return [*_iterations(times_s), *_decisions(decisions_ms)]


def _iterations(times_s: dict[str, dict[str, list[float]]]) -> list[Figure]:
    figures = []
    for policy in times_s[FRAMEWORKS[0]]:
        ryu_s, osken_s = (statistics.median(times_s[framework][policy]) for framework in FRAMEWORKS)
        apart = osken_s / ryu_s - 1
        figures.append(
            Figure(
                f"{policy}: iteration on os-ken against Ryu",
                f"{osken_s:.3f} s against {ryu_s:.3f} s, {apart:+.1%}",
                f"within {TOLERANCE:.0%}",
                abs(apart) <= TOLERANCE,
            )
        )
    return figures


def _decisions(decisions_ms: dict[str, list[float]]) -> list[Figure]:
    return [
        Figure(
            f"{framework}: event to messages sent, median and 99th percentile",
            f"{statistics.median(values):.2f} ms, {percentile(values, 0.99):.2f} ms ({len(values)} decisions)",
            "",
            None,
        )
        for framework, values in decisions_ms.items()
    ]


def _decision_times_ms(folder: Path) -> list[float]:
    """Of decisions that something waited for: those made ahead of time wait for nothing."""
    lines = map(json.loads, (folder / "decisions.jsonl").read_text().splitlines())
    return [line["total_ms"] for line in lines if not line.get("ahead")]
