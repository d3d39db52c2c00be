"""Writes experiments/job-schedulers/: `python -m echelon.documents.job_scheduler_files [PATTERN...]`.

A dozen files have one job each: a setting of the grid of `echelon bench job-schedulers`. They are scaled so that a run takes
some 20 s on links of 50 Mbit/s, or a few times that (`LONGER`). Its job scheduler has the options that the tuner finds best in fluid simulation, among
partitions that take long enough to be sent on packets. Files whose names begin with "shared-" have several jobs on the same
hosts. Takes some seconds for each file; nothing else is read.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from echelon.benchmarks._job_scheduler_cells import (
    BYTESCHEDULER,
    FIFO,
    MODELS,
    Key,
    measured_one,
    model_of,
    setting_of,
    space_of,
    tuned,
)
from echelon.benchmarks._job_scheduler_matrix import FOLDER
from echelon.benchmarks.job_schedulers import fits
from echelon.tuning.space import Point, Space
from echelon.tuning.trials import with_options
from echelonflow.files import write_whole
from traffic.workloads.one_of_each import bound
from traffic.workloads.tensors import PARAMETER_SERVER

WORKERS = 4
RUN_S = 20.0
ITERATIONS = 5
LINK_MBIT = 50
LEAST_FLOW_S = 0.03
"""What a partition takes on an idle link at least: less is lost in what a decision and the start of a transfer take."""
LONGER = {Key("BERT-large", PARAMETER_SERVER, WORKERS, 100, 0.0): 4}
"""Settings whose files are so many times as long, with the same partitions. Four workers and four servers meet here on links
that are full at both ends. TCP needs about a tenth of a second to find its shares there, as long as one of these partitions
takes in the other files. Runs were 1.3 to 1.5 % of an iteration off max-min sharing, and are 0.1 % off with this."""
_BANDS = {"VGG-16": (40, 100), "ResNet-50": (10, 25), "BERT-large": (40, 100)}
"""Gbit/s at which communication takes some 40 to 330 % of a model's computation."""
DOZEN = tuple(
    Key(model, architecture, WORKERS, gbit, 0.0)
    for model, bands in _BANDS.items()
    for architecture in (PARAMETER_SERVER, "ring")
    for gbit in bands
)
SHARED = {"shared-two": ("VGG-16", "ResNet-50"), "shared-three": ("VGG-16", "ResNet-50", "BERT-large")}
SHARED_GBIT, SHARED_TIME = 40, 30
POLICIES = ("fair", "srpt", "coflow(grouping=collective)", "coflow(grouping=group)", "crux", "echelonflow")
_TIED = """\
# Computations and bytes are those of measured profiles (NVIDIA H100), scaled: links of {link} Mbit/s stand for {gbit:g} Gbit/s,
# and all ratios are kept."""


@dataclass(frozen=True)
class _Scaled:
    """How a setting becomes an experiment."""

    time: float
    bandwidth: float

    def words(self) -> str:
        return f"{{time: {self.time:g}, bandwidth: {self.bandwidth:g}}}"


def tuned_point(key: Key) -> Point:
    """The partition and credit that the tuner finds for the file of `key`."""
    model, setting, scaled = model_of(key.model), setting_of(key), _scaled(key)
    assert setting.rate_Bps is not None  # the setting of a key has one
    least_s = LEAST_FLOW_S * _longer(key)
    least_bytes = round(float(f"{least_s / scaled.time * setting.rate_Bps:.2g}"))
    usual = space_of(model)
    most_bytes = max(usual.partition_bytes[1], 2 * least_bytes)
    partitions = (least_bytes, min(most_bytes, model.largest_bytes))
    tried = tuned(key, Space(partitions, (least_bytes, max(usual.credit_bytes[1], most_bytes))))
    return min(tried, key=tried.__getitem__)


def _scaled(key: Key) -> _Scaled:
    fifo_s = measured_one(key, FIFO)
    return _Scaled(float(f"{_longer(key) * RUN_S / ITERATIONS / fifo_s:.2g}"), key.gbit * 1000 / LINK_MBIT)


def _longer(key: Key) -> int:
    return LONGER.get(key, 1)


def alone_text(key: Key, point: Point) -> str:
    """The file with one job in the setting of `key`, with these options."""
    model, setting, scaled, fifo_s = model_of(key.model), setting_of(key), _scaled(key), measured_one(key, FIFO)
    scheduler = with_options(BYTESCHEDULER, point)
    ideal = bound(model, setting)
    served = key.architecture == PARAMETER_SERVER
    ranks = [f"workers: {key.workers}", f"servers: {key.workers}"] if served else [f"ranks: {key.workers}"]
    carried = "four parameter servers" if served else "a ring all-reduce"
    title = f"{key.model}, four workers and {carried}, {key.gbit:g} Gbit/s"
    could = f"{ideal.intensity:.0%} of computation. Ideal overlap would be {fifo_s / ideal.least_s:.2f} times as fast as fifo."
    return "\n".join(
        [
            f"# {title}.",
            "#",
            *_TIED.format(link=LINK_MBIT, gbit=key.gbit).split("\n"),
            f"# Communication takes {could}",
            "# Partition and credit are what the tuner finds in fluid simulation.",
            "# Written by `python -m echelon.documents.job_scheduler_files`.",
            f"name: {key.name}",
            f"title: {title}",
            *_network(2 * key.workers if served else key.workers),
            "jobs:",
            f"  - name: {key.model.lower()}",
            f"    paradigm: {'parameter-server' if served else 'data-parallel'}",
            f"    profile: {MODELS[key.model]}",
            *(f"    {line}" for line in ranks),
            f"    scheduler: {scheduler}",
            f"    iterations: {ITERATIONS}",
            f"    scaling: {scaled.words()}",
            "policies:",
            "  - fair",
            "",
        ]
    )


def shared_text(name: str, models: Sequence[str]) -> str:
    """The file with a job for each of `models`, all on the same hosts."""
    scaled = _Scaled(SHARED_TIME, SHARED_GBIT * 1000 / LINK_MBIT)
    title = f"{', '.join(models[:-1])} and {models[-1]} on the same four hosts"
    lines = [
        f"# {title}: job schedulers beside network policies.",
        "#",
        *_TIED.format(link=LINK_MBIT, gbit=SHARED_GBIT).split("\n"),
        "# Each job has the number of iterations that keeps it busy about as long as the others.",
        "# Written by `python -m echelon.documents.job_scheduler_files`.",
        f"name: {name}",
        f"title: {title}",
        *_network(WORKERS),
        "jobs:",
    ]
    for model in models:
        fifo_s = measured_one(Key(model, "ring", WORKERS, SHARED_GBIT, 0.0), FIFO)
        lines += [
            f"  - name: {model.lower()}",
            "    paradigm: data-parallel",
            f"    profile: {MODELS[model]}",
            f"    ranks: {WORKERS}",
            "    scheduler: fifo",
            f"    iterations: {max(round(RUN_S / scaled.time / fifo_s), 3)}",
            f"    scaling: {scaled.words()}",
        ]
    return "\n".join([*lines, "policies:", *(f"  - {policy}" for policy in POLICIES), ""])


def _network(hosts: int) -> list[str]:
    return ["network:", "  topology: single-switch", f"  hosts: {hosts}", f"  rate: {LINK_MBIT} Mbit/s"]


def main(folder: Path = FOLDER, only: Sequence[str] = ()) -> None:
    """Write all files, or those whose names fit one of the patterns."""
    folder.mkdir(parents=True, exist_ok=True)
    for key in DOZEN:
        if fits(key.name, only):
            write_whole(folder / f"{key.name}.yaml", alone_text(key, tuned_point(key)))
    for name, models in SHARED.items():
        if fits(name, only):
            write_whole(folder / f"{name}.yaml", shared_text(name, models))


if __name__ == "__main__":
    main(only=sys.argv[1:])
