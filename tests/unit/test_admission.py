"""Jobs that wait for GPUs: who is admitted when, where it runs, and what the records and tables say of it."""

from __future__ import annotations

import csv
import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest
from typer.testing import CliRunner

from echelon.cli.main import app
from echelon.experiment import schema
from echelon.experiment.extent import check_emulation
from echelon.running import runner
from echelonflow.errors import InputError, RunError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Job, JobDag
from echelonflow.records.run_record import Admitted, RunRecord, as_run
from echelonflow.records.runs import load_runs, save_runs
from echelonflow.scheduling import policies
from simulator.admission import Admission, Queue
from simulator.fluid import simulate
from traffic.workloads import paradigms

NETWORK = topologies.build("single-switch", {"hosts": 4, "rate_bps": 1e9})
GPUS = {"h1": 1, "h2": 1, "h3": 1, "h4": 1}


def first_free(free: Mapping[str, int], job: Job) -> tuple[str, ...] | None:
    hosts = [host for host, gpus in free.items() for _ in range(gpus)]
    return tuple(hosts[: job.dag.ranks]) if len(hosts) >= job.dag.ranks else None


def job(name: str, ranks: int, arrival_s: float = 0.0, lasts_s: float = 1.0, iterations: int = 1) -> Job:
    dag = JobDag(ranks, tuple(Compute(f"c{rank}", rank, lasts_s) for rank in range(ranks)))
    return Job(name, dag, (), iterations, start_s=arrival_s)


def run(jobs: list[Job], *, backfill: bool = False, policy: str = "fair") -> RunRecord:
    return simulate(jobs, NETWORK, policies.load(policy), queue=Queue(first_free, GPUS, backfill=backfill))


def starts(record: RunRecord) -> dict[str, float]:
    return {name: admitted.start_s for name, admitted in record.admitted.items()}


def test_jobs_begin_in_order_of_arrival_as_soon_as_there_is_room():
    record = run([job("a", 3), job("b", 2, 0.1), job("c", 1, 0.2), job("d", 4, 0.3)])
    assert starts(record) == pytest.approx({"a": 0.0, "b": 1.0, "c": 1.0, "d": 2.0})
    assert record.admitted["b"] == Admitted(0.1, 1.0, ("h1", "h2"))
    assert record.end_s == pytest.approx(3.0)


def test_with_backfilling_a_small_job_overtakes_one_that_does_not_fit():
    jobs = [job("a", 3), job("b", 2, 0.1), job("c", 1, 0.2)]
    assert starts(run(jobs)) == pytest.approx({"a": 0.0, "b": 1.0, "c": 1.0})
    assert starts(run(jobs, backfill=True)) == pytest.approx({"a": 0.0, "b": 1.0, "c": 0.2})


def test_a_job_with_hosts_of_its_own_does_not_wait_and_its_gpus_are_not_given_away():
    placed = dataclasses.replace(job("own", 2), placement=("h1", "h2"))
    record = run([placed, job("a", 2), job("b", 2, 0.1)])
    assert starts(record) == pytest.approx({"a": 0.0, "b": 1.0})
    assert set(record.admitted["a"].placement) == {"h3", "h4"}


@pytest.mark.parametrize("policy", ["fair", "coflow", "echelonflow", "clock", "crux", "cassini"])
def test_flows_of_jobs_that_come_and_go_are_scheduled_by_every_kind_of_policy(policy):
    dag = paradigms.load("data-parallel").build(
        ranks=2, layers=2, forward_s=0.01, backward_s=0.02, parameter_bytes=1_000_000
    )
    jobs = [Job(f"dp{i}", dag, (), 2, start_s=0.01 * i) for i in range(5)]
    record = run(jobs, policy=policy)
    assert len(record.flows) == 5 * 2 * len(dag.transfers)
    assert len(record.admitted) == 5
    hosts = {flow.job: {flow.src_host, flow.dst_host} for flow in record.flows}
    assert all(set(record.admitted[name].placement) == mine for name, mine in hosts.items())


def test_a_placement_that_takes_what_is_not_free_fails_the_run():
    queue = Queue(lambda _, __: ("h1", "h1"), GPUS)
    admission = Admission(queue)
    admission.arrive(0, job("a", 2))
    with pytest.raises(RunError, match="job a: its placement put 2 ranks on h1, h1"):
        admission.admit()


def test_a_job_for_which_no_room_is_ever_found_is_named():
    with pytest.raises(RunError, match="job a waits for ever for 2 GPUs"):
        simulate([job("a", 2)], NETWORK, policies.load("fair"), queue=Queue(lambda _, __: None, GPUS))


def test_a_job_without_a_placement_needs_a_queue():
    with pytest.raises(InputError, match="job a has no placement, and there is no queue"):
        simulate([job("a", 2)], NETWORK, policies.load("fair"))


def test_records_say_where_jobs_ran_and_keep_it(tmp_path: Path):
    jobs = [job("a", 3), job("b", 2, 0.1)]
    record = run(jobs)
    save_runs(tmp_path / "runs.json", [record])
    (kept,) = load_runs(tmp_path / "runs.json")
    assert kept == record
    ran = as_run(jobs, kept)
    assert [(each.placement, each.start_s) for each in ran] == [(("h1", "h2", "h3"), 0.0), (("h1", "h2"), 1.0)]
    kept.admitted.pop("b")
    with pytest.raises(InputError, match="does not say where job b was placed"):
        as_run(jobs, kept)


QUEUED = """
name: queued
network: {topology: single-switch, hosts: 4, rate: 100 Mbit/s}
queue: fifo
arrivals: {process: poisson, every: 100 ms, seed: 3}
jobs:
  - {name: pp, paradigm: pipeline, stages: 3, micro_batches: 2, forward: 50 ms, activation: 100 kB, count: 4}
policies: [fair, echelonflow]
"""
PP = "{name: NAME, paradigm: pipeline, stages: 2, micro_batches: 2, forward: 50 ms, activation: 1 kB}"


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "queued.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_an_experiment_says_when_each_job_arrived_began_and_ended(tmp_path: Path):
    experiment = schema.load(written(tmp_path, QUEUED))
    assert [each.name for each in experiment.jobs] == ["pp-1", "pp-2", "pp-3", "pp-4"]
    code, summary = runner.run(experiment, tmp_path / "out", "fluid", lambda _: None, pictures="none")
    assert code == 0
    with (tmp_path / "out" / "arrivals.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["policy"] == "fair"]
    ends = [float(row["end_s"]) for row in rows]
    assert [float(row["start_s"]) for row in rows[1:]] == pytest.approx(ends[:-1])  # one at a time has room
    for row in rows:
        assert float(row["completion_s"]) == pytest.approx(float(row["end_s"]) - float(row["arrival_s"]), abs=1e-5)
        assert float(row["waited_s"]) == pytest.approx(float(row["start_s"]) - float(row["arrival_s"]), abs=1e-5)
    first, second = summary.completions
    assert (first.policy, second.policy) == ("fair", "echelonflow")
    assert first.average_s == pytest.approx(sum(float(row["completion_s"]) for row in rows) / 4, abs=1e-5)


def test_what_waits_for_gpus_is_not_emulated(tmp_path: Path):
    experiment = schema.load(written(tmp_path, QUEUED))
    with pytest.raises(InputError, match="queue: 4 jobs wait for GPUs"):
        check_emulation(experiment.network, experiment.jobs, 1, 2)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("stages: 3", "stages: 5", "has 5 ranks and would wait for ever: the cluster has 4 GPUs"),
        ("queue: fifo", "queue: lifo", "'lifo' is not one of fifo, backfill"),
        ("every: 100 ms", "every: 0 s", "arrivals.every: '0 s' must be greater than 0"),
        ("count: 4", "count: 0", "0 is not a whole number from 1 to 10,000"),
        ("count: 4", "count: 4, placement: nowhere", "unknown placement"),
        ("policies", "faults: [{fault: crash, at: 1 s, host: h1}]\npolicies", "faults: do not go with a queue"),
        ("count: 4}", "count: 2}\n  - " + PP.replace("NAME", "pp-1"), "two jobs are called 'pp-1'"),
    ],
)
def test_a_queue_that_cannot_be_is_refused(tmp_path: Path, before: str, after: str, words: str):
    with pytest.raises(InputError, match=words):
        schema.load(written(tmp_path, QUEUED.replace(before, after)))


def test_a_check_says_who_waits_and_from_when(tmp_path: Path):
    found = CliRunner().invoke(app, ["check", str(written(tmp_path, QUEUED))])
    assert found.exit_code == 0
    lines = [line.strip() for line in found.stdout.splitlines()]
    assert lines.count("waits for GPUs") == 1
    assert sum(line.startswith("waits for GPUs, from 0.") for line in lines) == 3
    assert not any(line.startswith("jobs ") for line in lines)
