"""An experiment to watch, as its file would make it: one job, or one whose names are hostile; and progress of it."""

from __future__ import annotations

from echelon.experiment import schema
from echelonflow.records.progress import LinksCarried, Running
from echelonflow.wire.classes import CLASSES

RATE_BPS = 8e6
RUNNING = Running(run=1, of=6, policy="echelonflow", repeat=0, expected_s=10.0)


def experiment(tmp_path, job="pipeline", name="watched", network="{topology: dumbbell, hosts: 4, rate: 8 Mbit/s}"):
    """A checked experiment of two iterations of one job on four hosts."""
    path = tmp_path / "watched.yaml"
    path.write_text(
        f"name: {name}\nnetwork: {network}\n"
        f"jobs:\n- {{name: {job!r}, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 1 s, activation: 1 MB, "
        "iterations: 2}\npolicies: [fair, echelonflow]\n"
    )
    return schema.load(path)


def carried(experiment, time_s, **by_link):
    """A reading of all links: of those named `a__b` bytes by class, of others nothing."""
    said = {link.name: (0,) * CLASSES for link in experiment.network.links}
    said.update({name.replace("__", "->"): tuple(sent) for name, sent in by_link.items()})
    return LinksCarried(time_s, tuple(said[link.name] for link in experiment.network.links))
