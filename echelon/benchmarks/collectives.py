"""Bus bandwidth of collectives, each alone on eight hosts behind one switch, as nccl-tests define it.

algbw = S / t, where S is the buffer that nccl-tests name (traffic/workloads/collectives.py). busbw = algbw times 2 (n -
1) / n for an all-reduce, and times (n - 1) / n for the others. So whatever the collective, busbw is at best the rate of
a link. Time t runs from the moment at which the first rank is ready to the last byte's arrival, by packets: decisions
and TCP's start are in it. So are acknowledgements: every host here sends as much as it receives, and the
acknowledgements of what it receives take a share of the link that it sends by. What is left is the most that any
transport with acknowledgements can reach. It is told with the figures.
"""

from __future__ import annotations

import json
import statistics
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._emulated import emulate, validity
from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelonflow.errors import RunError
from echelonflow.model import topologies
from echelonflow.model.dag import JobDag, to_dict
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import Classes, read_outcome
from echelonflow.wire.classes import CONTROL_CLASS
from results.analysis.statistics import Estimate, estimate
from results.analysis.valid_rows import rows
from traffic.workloads.collectives import Algorithm, Collective
from traffic.workloads.dag_builder import DagBuilder

HOSTS = 8
RATE_BPS = 30e6
SIZE_BYTES = 8_000_000
"""A ring all-reduce of it takes 4 s on the links, the others 2 s."""
ITERATIONS = 3
PAUSE_S = 1.0
"""From a collective's end at a rank to that rank's next one."""
LIMITS = {
    "max_moved_iteration": 0.05, "max_moved_exposed": 0.1,
    "max_unexplained_iteration": 0.15, "max_unexplained_exposed": 0.25,
}  # fmt: skip
"""All ranks wake at once here, on few processors one after the other. What that costs counts against the bandwidth, and so
does what nothing explains: it is what is measured here."""
LEAST_SHARE = 0.9


@dataclass(frozen=True, slots=True)
class Case:
    """A collective by an algorithm; `must` if it is held to `LEAST_SHARE`, else it is reported."""

    collective: Collective
    algorithm: Algorithm
    must: bool = True

    @property
    def job(self) -> str:
        return f"{self.collective}-{self.algorithm}"

    @property
    def bus_factor(self) -> float:
        """Bus over algorithm bandwidth: nccl-tests, doc/PERFORMANCE.md."""
        return (2 if self.collective == "all-reduce" else 1) * (HOSTS - 1) / HOSTS


CASES = (
    Case("all-reduce", "ring"),
    Case("all-gather", "ring"),
    Case("reduce-scatter", "ring"),
    Case("all-to-all", "direct"),
    Case("all-reduce", "halving-doubling", must=False),  # six rounds that wait for each other
)


def run(repeat: int, say: Say, execute: Callable[[Experiment, Say], Path] = emulate) -> list[Figure]:
    """Bus bandwidth of every case over `repeat` runs, as a share of the links' payload rate.

    `execute` runs the experiment and says where its folder is. RunError if it failed.
    """
    with tempfile.TemporaryDirectory(prefix="echelon-collectives-") as folder:
        experiment = collectives_experiment(Path(folder), repeat)
    root = execute(experiment, say)
    payload_Bps = min(experiment.network.capacity_Bps)
    figures = []
    for case in CASES:
        found = bus_bandwidth_Bps(root, case)
        share = found.median / payload_Bps
        interval = (
            "" if found.low is None or found.high is None else f" [{found.low / 1e6:.3f}, {found.high / 1e6:.3f}]"
        )
        figures.append(
            Figure(
                f"{case.collective} ({case.algorithm}), bus bandwidth of {HOSTS} ranks",
                f"{found.median / 1e6:.3f} MB/s{interval}, {share:.1%} of the payload rate",
                f"over {LEAST_SHARE:.0%}" if case.must else "reported",
                share > LEAST_SHARE if case.must else None,
            )
        )
    return [*figures, *_acknowledgements(root), validity(root)]


def _acknowledgements(root: Path) -> list[Figure]:
    """What acknowledgements took of the links, as queues counted it; nothing of runs without queues (simulated ones)."""
    counted = [read_outcome(run.outcome).classes for run in RunFolder(root).runs()]
    share = acknowledged_share(counted)
    what = "acknowledgements of the other direction, of all that links carried"
    return [] if share is None else [Figure(what, f"{share:.1%}; busbw is at most {1 - share:.1%}", "", None)]


def acknowledged_share(counted: Iterable[Classes]) -> float | None:
    """The control class's share of the bytes of all egresses in some runs; None where nothing was counted."""
    by_class: dict[int, int] = defaultdict(int)
    for classes in counted:
        for counters in classes.values():
            for number, counter in counters.items():
                by_class[number] += counter.bytes
    carried_bytes = sum(by_class.values())
    return by_class[CONTROL_CLASS] / carried_bytes if carried_bytes else None


def collectives_experiment(folder: Path, repeat: int) -> Experiment:
    """One job per case, one after the other; their DAGs go through job files in `folder`."""
    network = topologies.build("single-switch", {"hosts": HOSTS, "rate_bps": RATE_BPS})
    jobs: list[dict[str, object]] = []
    start_s = 0.0
    for case in CASES:
        path = folder / f"{case.job}.json"
        path.write_text(json.dumps(to_dict(collective_dag(case))), encoding="utf-8")
        jobs.append(
            {
                "name": case.job,
                "import": {"format": "job", "files": [str(path)]},
                "iterations": ITERATIONS,
                "start": f"{start_s:.3f} s",
            }
        )
        start_s += _slot_s(case, network.capacity_Bps[0])
    data = {
        "name": "collectives",
        "title": "Collectives, one after the other",
        "network": {"topology": "single-switch", "hosts": HOSTS, "rate": f"{RATE_BPS / 1e6:g} Mbit/s"},
        "jobs": jobs,
        "policies": ["fair"],
        "repeats": repeat,
        "emulation": {"limits": LIMITS},
    }
    return schema.check(data, folder / "collectives.yaml")


def collective_dag(case: Case) -> JobDag:
    """One iteration: every rank is ready, the collective, a pause at every rank once it is over there."""
    builder = DagBuilder(HOSTS)
    ready = [builder.beside(rank, f"ready {rank}", 0.0, ()) for rank in range(HOSTS)]
    inputs = [(step,) for step in ready]
    group = builder.group("c", case.collective)
    over = builder.collective("c", case.collective, case.algorithm, range(HOSTS), SIZE_BYTES, inputs, group)
    for rank, first in enumerate(ready):
        builder.next_iteration(builder.beside(rank, f"over {rank}", PAUSE_S, over[rank]), first)
    return builder.dag({})


def _slot_s(case: Case, rate_Bps: float) -> float:
    """Time set aside for a case: what it takes at `LEAST_SHARE` of the payload rate, and a second to settle."""
    return ITERATIONS * (SIZE_BYTES * case.bus_factor / (rate_Bps * LEAST_SHARE) + PAUSE_S) + 1.0


def bus_bandwidth_Bps(root: Path, case: Case) -> Estimate:
    """Over the valid runs in `root`: each run counts with the median of its iterations. RunError if none is complete."""
    released_s: dict[tuple[str, str], list[float]] = defaultdict(list)
    arrived_s: dict[tuple[str, str], list[float]] = defaultdict(list)
    for flow in _flows_of(root, case):
        key = flow["repeat"], flow["iteration"]
        released_s[key].append(float(flow["release_s"]))
        arrived_s[key].append(float(flow["pcap_finish_s"]))
    by_run: dict[str, list[float]] = defaultdict(list)
    for (repeat, iteration), arrived in arrived_s.items():
        took_s = max(arrived) - min(released_s[repeat, iteration])
        by_run[repeat].append(SIZE_BYTES / took_s * case.bus_factor)
    found = estimate([statistics.median(rates_Bps) for rates_Bps in by_run.values()])
    if found is None:
        raise RunError(f"{case.job}: no valid run has packets of it; see {root}")
    return found


def _flows_of(root: Path, case: Case) -> Iterator[dict[str, str]]:
    return (flow for flow in rows(root, "flows") if flow["job"] == case.job and flow["pcap_finish_s"])
