"""The timeline: slices of a track never overlap, arrows follow the DAG, counters add up.

Perfetto's own trace processor is a program that has to be downloaded. So its rules are held here: slices of a track are
disjoint in whole nanoseconds, however a reader rounds; an arrow's ends lie in slices. Where the program is at hand, and
ECHELON_TRACE_PROCESSOR names it, it reads the same timelines.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import os
import tarfile
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.records.run_record import FlowRecord
from echelonflow.scheduling import policies
from results.analysis.context import open_folder
from results.analysis.shown import ShownRun
from results.folder import analyse
from results.report.timeline import write_timeline
from results.report.timeline_counters import QUEUED, SENDING, host_counters
from simulator.fluid import simulate
from tests.unit.test_old_runs import OLDEST
from traffic.workloads import paradigms

NETWORK = topologies.build("single-switch", {"hosts": 4, "rate_bps": 1e8})


def two_jobs():
    """A pipeline and an all-reduce on the same four hosts, so that two jobs' ranks share each host."""
    pipeline = paradigms.build(
        "gpipe",
        {"stages": 4, "micro_batches": 3, "forward_s": 0.0123456789, "backward_s": 0.02, "activation_bytes": 123_457},
    )
    ring = {"ranks": 4, "layers": 3, "forward_s": 0.01, "backward_s": 0.02, "parameter_bytes": 300_001}
    reduce = paradigms.build("data-parallel", {**ring, "bucket_bytes": 300_001, "algorithm": "ring-steps"})
    return [Job("pipe", pipeline, NETWORK.hosts, 3), Job("ring", reduce, NETWORK.hosts, 3)]


@dataclass(frozen=True)
class World:
    """A timeline, and what is to be in it."""

    path: Path
    jobs: Sequence[Job]
    tracks: int
    """It has more of them than that."""

    @functools.cached_property
    def events(self):
        return json.loads(self.path.read_text())["traceEvents"]

    @property
    def classes(self):
        """Counters of what arrived by class, which simulations have none of."""
        return {event["name"] for event in self.events if event["ph"] == "C"} - {QUEUED, SENDING}


def simulated(folder):
    jobs = two_jobs()
    runs = [ShownRun.of(name, simulate(jobs, NETWORK, policies.load(name)), jobs) for name in ("fair", "srpt")]
    write_timeline(folder / "timeline.json", runs, jobs)
    return World(folder / "timeline.json", jobs, 16)


def recorded(folder):
    """A run of two policies on real packets, two hosts each, whose computations end late now and then."""
    with tarfile.open(OLDEST) as archive:
        archive.extractall(folder)
    analyse(folder, pictures="none")
    return World(folder / "timeline.json", open_folder(folder).jobs, 7)


@pytest.fixture(scope="module", params=[simulated, recorded], ids=lambda make: make.__name__)
def world(request, tmp_path_factory):
    return request.param(tmp_path_factory.mktemp("timeline"))


@pytest.fixture(scope="module")
def events(world):
    return world.events


def slices(events):
    return [event for event in events if event["ph"] == "X"]


@pytest.mark.parametrize(
    "to_ns", [lambda us: int(us * 1000), lambda us: round(us * 1000), lambda us: math.ceil(us * 1000)]
)
def test_slices_of_a_track_never_overlap_however_a_reader_rounds(world, to_ns):
    tracks = defaultdict(list)
    for event in slices(world.events):
        start_ns = to_ns(event["ts"])
        tracks[event["pid"], event["tid"]].append((start_ns, start_ns + to_ns(event["dur"])))
    assert len(tracks) > world.tracks
    for spans in tracks.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(spans))


def test_ranks_of_two_jobs_on_one_host_have_tracks_of_their_own(events):
    named = {(e["pid"], e["tid"]): e["args"]["name"] for e in events if e["name"] == "thread_name"}
    for event in slices(events):
        thread = named[event["pid"], event["tid"]]
        expected = f"{event['args']['job']} rank " if event["cat"] == "compute" else "sends"
        assert thread.startswith(expected)


def test_arrows_lead_from_producer_over_flow_to_consumer(world):
    events = world.events
    begun = {event["id"]: event for event in events if event["ph"] == "s"}
    ended = {event["id"]: event for event in events if event["ph"] == "f"}
    assert begun
    assert begun.keys() == ended.keys()
    assert len(begun) == sum(event["ph"] == "s" for event in events)  # no identity twice
    dags = {job.name: job.dag for job in world.jobs}

    def step_at(event):
        (found,) = [
            one
            for one in slices(events)
            if (one["pid"], one["tid"]) == (event["pid"], event["tid"])
            and one["ts"] <= event["ts"] <= one["ts"] + one["dur"]
        ]
        name = found["name"].rpartition(" to " if found["cat"] == "flow" else " (")[0]
        return found["args"]["job"], found["args"]["iteration"], name, found

    kinds = set()
    for identity, event in list(begun.items())[:: 7 if len(begun) > 100 else 1]:
        job, iteration, first, begin = step_at(event)
        other, later, second, end = step_at(ended[identity])
        assert other == job
        dag = dags[job]
        assert first in (dag.by_name[second].after if later == iteration else dag.previous[second])
        assert begin["ts"] + begin["dur"] <= end["ts"] + 0.01
        kinds.add((begin["cat"], end["cat"]))
    assert {("compute", "flow"), ("flow", "compute")} <= kinds


def test_counters_return_to_nought_and_hold_what_was_sent(world):
    last = {}
    for event in world.events:
        if event["ph"] == "C":
            last[event["pid"], event["name"]] = event
    assert {name for _, name in last} == {QUEUED, SENDING} | world.classes
    assert bool(world.classes) == (world.jobs[0].name == "pipeline"), "packets were captured of the recorded run alone"
    for event in last.values():
        assert next(iter(event["args"].values())) == pytest.approx(0, abs=0.01)


def test_what_waits_falls_at_the_rate_at_which_it_is_sent():
    def flow(release_s, start_s, finish_s):
        return FlowRecord(
            "j", 0, "f", "g", "k", "c", "h1", "h2", 1, 2, 1_000_000, 0.0, release_s, start_s, finish_s, 0, 0
        )

    (counted,) = host_counters([flow(0.0, 1.0, 3.0), flow(2.0, 2.0, 4.0)]).values()
    queued = [(time_s, series["kB"]) for name, time_s, series in counted if name == QUEUED]
    sending = [(time_s, series["Mbit/s"]) for name, time_s, series in counted if name == SENDING]
    assert queued == [(0.0, 1000.0), (1.0, 1000.0), (2.0, 1500.0), (3.0, 500.0), (4.0, 0.0)]
    assert sending == [(0.0, 0.0), (1.0, 4.0), (2.0, 8.0), (3.0, 4.0), (4.0, 0.0)]


PROGRAM = "ECHELON_TRACE_PROCESSOR"
"""The variable that names Perfetto's trace_processor_shell on this machine."""


@pytest.fixture
def processed(world):
    """Asks Perfetto's trace processor of a timeline, in SQL; skipped where it is not at hand."""
    perfetto = pytest.importorskip("perfetto.trace_processor", reason="the Python package perfetto is not installed")
    program = os.environ.get(PROGRAM)
    if not program:
        pytest.skip(f"{PROGRAM} names no trace_processor_shell, and the package would download one")
    config = perfetto.TraceProcessorConfig(bin_path=program)
    with perfetto.TraceProcessor(trace=str(world.path), config=config) as processor:
        yield lambda words: list(processor.query(words))


def test_perfetto_takes_every_slice_arrow_and_counter(world, processed):
    errors = processed("select name, value from stats where severity in ('error', 'data_loss') and value > 0")
    assert [(row.name, row.value) for row in errors] == []
    phases = Counter(event["ph"] for event in world.events)
    for table, phase in (("slice where dur > 0", "X"), ("flow", "s"), ("counter", "C")):
        expected = len([one for one in slices(world.events) if one["dur"] > 0]) if phase == "X" else phases[phase]
        (row,) = processed(f"select count(*) as n from {table}")
        assert row.n == expected > 0, table
    (row,) = processed(
        "select count(*) as n from slice a join slice b using (track_id) "
        "where a.id < b.id and a.ts < b.ts + b.dur and b.ts < a.ts + a.dur"
    )
    assert row.n == 0, "slices of a track overlap"
