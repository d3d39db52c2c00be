"""Experiment files with faults in them: a job that can be run or messages in our own words, soon and in little memory.

Every case goes through the reader that `echelon run` has, up to the jobs that would be run. Children of this process do
that, which have all modules loaded: a case has 10 s and 1 GB, and one that takes more loses its child.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._in_children import MOST_BYTES, MOST_S, Judged, Outcome, Tally, tallied, within_limits
from echelon.cases import mutations
from echelon.experiment import schema, yaml_file
from echelon.places import EXPERIMENTS
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.scheduling import policies

CASES_OF_A_REPEAT = 2_000
"""Of either kind: the 5 repeats of `echelon bench` make 10,000."""
LAYERS = Path(topologies.__file__).parent / "three-layer.csv"
KINDS = ("structured", "byte-level")
FOREIGN = re.compile(
    r"pydantic|ruamel|msgspec|Input should|NoneType|Traceback|KeyError|ValueError|TypeError|AttributeError|object is not|"
    r"object has no|not supported between|invalid literal|out of range|unhashable|could not convert|while (scanning|parsing)|"
    r"<class |valid dictionary|must be str|positional argument|\bdict\b|\bNone\b|\bTrue\b|\bFalse\b|Errno|tag:yaml"
)
"""Words of Python and of libraries, which are no user's."""
MORE = """
name: more
network: {topology: leaf-spine, leaves: 2, spines: 2, hosts_per_leaf: 2, rate: 50 Mbit/s, fabric_rate: 40 Mbit/s, mtu: 9000 B,
          gpus_per_host: 8, routing: ecmp(seed=7), rates: {h1: 10 Mbit/s, l2-p1: 20 Mbit/s}}
placement: spread
jobs:
  - {name: a, paradigm: fsdp, ranks: 4, layers: 3, forward: [1 s, 2 s, 1 s], backward: 2 s, parameter: 2 s of link, window: 1, placement: [h1, h1, h2, h3]}
  - {name: b, import: {format: coflow-benchmark, files: ["shuf*.txt"], coflows: 3}, start: 2 s, weight: 2, iterations: 2}
  - {name: c, paradigm: parameter-server, workers: 3, servers: 1, layers: 2, forward: 1 s, backward: 1 s, parameter: 1 MB, placement: ring-aware}
policies: [fair, coflow(grouping=group), "echelonflow(order=remaining)", aalo]
repeats: 2
seed: 3
time_unit: 1 s
emulation: {datapath: userspace, tso: false, progress_interval: 20 ms, decisions: wait, limits: {max_late_p99_s: 0.01}}
fluid: {classes: 7, decision_latency: 5 ms, undecided: last-class, burst: 2 ms}
faults:
  - {fault: link-rate, link: [h1, l1], rate: 40 %, at: 1 s, for: 2 s}
  - {fault: slowdown, host: h2, factor: 2, at: 500 ms}
"""
ARRIVING = """
name: arriving
network: {topology: fat-tree, k: 4, rate: 1 Gbit/s, gpus_per_host: 2}
placement: packed
queue: backfill
arrivals: {process: poisson, every: 200 ms, seed: 3}
jobs:
  - {name: a, paradigm: gpipe, stages: 3, micro_batches: 3, forward: 1 s, backward: 2 s, activation: 1 MB, count: 3, jitter: 5 %}
  - {name: b, paradigm: fsdp, ranks: 4, layers: 3, forward: 1 s, backward: 2 s, parameter: 1 MB, stragglers: {ranks: [2], slowdown: 1.3}}
  - {name: c, job_trace: {format: muri, file: cluster/muri/trace1.csv, rate: 1 Gbit/s, pattern: all-to-all, jobs: 2, cut: 10, most_iterations: 5},
     stragglers: {count: 1, slowdown: 2}}
background:
  - {name: noise, load: 10 %, size: 1 MB, sizes: heavy-tailed, for: 2 s, hosts: [h1, h2, h5], seed: 2}
policies: [fair, echelonflow]
"""
"""What no shipped experiment has."""
JOBS = """job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,resource_time_1,resource_time_2
0,1,5000,1000,dqn,128,490000,1000,490,446,8,0
1,4,7000,20,bert,4,3800,4000,190,0.5,163,18
2,8,11000,4000,vgg16,16,856000,0,214,82,75,66
"""
"""It stands for a trace that is not published with this project."""


def run(repeat: int, say: Say) -> list[Figure]:
    """2,000 cases of either kind for each repeat."""
    figures = []
    with tempfile.TemporaryDirectory(prefix="echelon-mutated-") as folder:
        seeds = Seeds(Path(folder))
        for kind in KINDS:
            tally = measured(seeds, kind, repeat * CASES_OF_A_REPEAT, say)
            figures += figures_of(kind, tally)
    return figures


def figures_of(kind: str, tally: Tally) -> list[Figure]:
    """The figures of one kind of cases."""
    what = f"{tally.cases:,} {kind} mutants"
    share = f"{tally.good / max(tally.cases, 1):.0%} can be run all the same"
    found = [
        Figure(f"{what}, tracebacks", str(tally.faults["traceback"]), f"0 ({share})", tally.faults["traceback"] == 0)
    ]
    longest = f"{tally.longest_s:.1f} s"
    found.append(Figure(f"{what}, the longest", longest, f"{MOST_S:.0f} s", tally.faults["time"] == 0))
    most = f"{tally.most_bytes / 1e6:.0f} MB"
    found.append(Figure(f"{what}, the most memory", most, f"{MOST_BYTES / 1e6:.0f} MB", tally.faults["memory"] == 0))
    words = tally.faults["words"] + tally.faults["form"]
    found.append(Figure(f"{what}, messages in others' words or without a place", str(words), "0", words == 0))
    return found


class Seeds:
    """The experiments that are mutated, and a folder with the files that they name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        files = [
            path
            for path in sorted(EXPERIMENTS.rglob("*.yaml"))
            if path.stem != "coflowsim" and path.parent.name != "live"
        ]  # its trace takes 0.3 s
        trace = EXPERIMENTS / "traces" / "shuffles.txt"
        shutil.copy(trace, folder)
        shutil.copy(trace, folder / "FB2010-1Hr-150-0.txt")
        # The small trace stands for Facebook's, which is not published with this project.
        self.texts = [
            *(path.read_bytes().replace(b"coflows: 100", b"coflows: 10") for path in files),
            MORE.encode(),
            ARRIVING.encode(),
        ]
        for name, text in (("muri/trace1.csv", JOBS), ("lingjun/topo.csv", LAYERS.read_text(encoding="utf-8"))):
            (folder / "cluster" / name).parent.mkdir(parents=True)
            (folder / "cluster" / name).write_text(text, encoding="utf-8")
        self.variables = {"COFLOW_BENCHMARK": str(folder), "ECHELON_DATA": str(folder)}
        """Of the environment: they say where those files are."""
        self.trees = [self._read(text) for text in self.texts]

    def _read(self, text: bytes) -> dict[str, Any]:
        path = self.folder / "seed.yaml"
        path.write_bytes(text)
        return yaml_file.read(path).data

    def case(self, kind: str, seed: int) -> bytes:
        """The mutant of a kind and seed."""
        if kind == "structured":
            return mutations.structured(self.trees, seed).encode("utf-8", "surrogatepass")
        return mutations.bytewise(self.texts, seed)


def measured(seeds: Seeds, kind: str, cases: int, say: Say) -> Tally:
    """Read mutants 0 to `cases` - 1 of a kind."""
    os.environ.update(seeds.variables)
    for name in policies.names():  # so that no child has to load them
        policies.load(name)

    def read(number: int) -> Judged:
        return _read(seeds.folder / f"case-{os.getpid()}.yaml", seeds.case(kind, number))

    return tallied(read, kind, cases, say)


def read_case(path: Path, content: bytes) -> Outcome:
    """Write `content` to `path` and read it as `echelon run` does, in this process."""
    return within_limits(lambda _: _read(path, content), 0)


def _read(path: Path, content: bytes) -> Judged:
    path.write_bytes(content)
    try:
        schema.load(path)
    except InputError as error:
        return *_judged(path, str(error)), False
    return "", "", True


def _judged(path: Path, message: str) -> tuple[str, str]:
    """What is wrong with a message: a library's words, no place, lines without end."""
    heading, *lines = message.split("\n")
    foreign = FOREIGN.search(message.replace(str(path.parent), ""))
    if foreign:
        return "words", f"{foreign[0]!r} in {message[:300]!r}"
    if not heading.startswith(str(path)) or any(not line.startswith("  ") for line in lines) or len(message) > 100_000:
        return "form", repr(message[:300])
    if not all(line.isprintable() for line in (heading, *lines)):
        return "form", repr(message[:300])
    return "", ""
