"""Traces of jobs: what is read, made short under the same load, and what of that a simulation comes to."""

from __future__ import annotations

from pathlib import Path

import pytest

from echelon.experiment import schema
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.model.iterations import durations_s
from echelonflow.scheduling import policies
from results.analysis.rows import iteration_rows
from simulator.fluid import simulate
from traffic.workloads import job_traces
from traffic.workloads.job_patterns import PATTERNS, dag_of
from traffic.workloads.job_traces import TracedJob
from traffic.workloads.trace_cut import cut, load

HEAD = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,"
    "resource_time_0,resource_time_1,resource_time_2,priority\n"
)
LINES = (
    "0,1,5000,1000,dqn,128,490000,1000,490,446,8,0,1\n"
    "2,8,11000,4000,vgg16,16,856000,0,214,82,75,66,0\n"
    "1,4,7000,20,bert,4,3800,4000,190,0.5,163,18,0\n"
)


def trace(tmp_path: Path, lines: str = LINES, head: str = HEAD) -> Path:
    path = tmp_path / "trace.csv"
    path.write_text(head + lines, encoding="utf-8")
    return path


def test_muris_traces_are_read_in_order_of_submission_with_times_in_seconds(tmp_path: Path):
    found = job_traces.read("muri", trace(tmp_path), {})
    assert [job.name for job in found.jobs] == ["0", "1", "2"]
    assert found.jobs[2] == TracedJob("2", 8, 11.0, 4000, pytest.approx(0.214), pytest.approx(0.066), "vgg16")
    assert found.jobs[0].network_s == 0.0


@pytest.mark.parametrize(
    ("lines", "head", "words"),
    [
        ("", HEAD, "has no jobs"),
        (LINES, HEAD.replace("num_gpu", "gpus"), "line 1: has no column 'num_gpu'"),
        ("0,0,0,1,m,1,1,1,1,1,1,0,0\n", HEAD, "line 2: num_gpu is '0'; a whole number from 1"),
        ("0,1,-5,1,m,1,1,1,1,1,1,0,0\n", HEAD, "line 2: submit_time is '-5'"),
        ("0,1,0,1,m,1,1,1,nan,1,1,0,0\n", HEAD, "line 2: iteration_time is 'nan'"),
        ("0,1,0,1,m,1,1,1,0,1,1,0,0\n", HEAD, "line 2: iteration_time is 0"),
        ("0,2,0,1,m,1,1,1,5,1,1,9,0\n", HEAD, "line 2: an iteration of 0.005 s is 0.009 s on the network"),
        ("0,1\n", HEAD, "line 2: "),
        (LINES + LINES[:47] + "\n", HEAD, "line 5: job 0 is there twice"),
    ],
)
def test_a_trace_that_is_not_as_it_should_be_is_refused_by_line(tmp_path: Path, lines: str, head: str, words: str):
    with pytest.raises(InputError, match=words):
        job_traces.read("muri", trace(tmp_path, lines, head), {})


JOBS = [TracedJob(str(i), 1 + i % 4, 100.0 + 10.0 * i, 50 * (i + 1), 0.5, 0.1) for i in range(20)]


@pytest.mark.parametrize(
    ("options", "speed_up"),
    [({"cut": 10.0}, 1.0), ({"most_iterations": 30}, 1.0), ({"cut": 1000.0, "most_iterations": 3}, 1.0), ({}, 5.0),
     ({"cut": 10.0, "speed_up": 2.0}, 2.0)],
)  # fmt: skip
def test_fewer_iterations_and_closer_arrivals_keep_the_load_and_speeding_up_raises_it(options, speed_up):
    made, dropped = cut(JOBS, **{"speed_up": speed_up, **options})
    assert load(made) == pytest.approx(load(JOBS) * speed_up)
    assert made[0].arrival_s == 0.0
    assert all(job.iterations >= 1 for job in made)
    assert dropped


def test_what_was_cut_is_told():
    made, dropped = cut(JOBS, most_jobs=10, cut=100.0)
    assert len(made) == 10
    assert dropped[0] == "10 jobs, all but the first 10 to arrive"
    assert "2,722 of 2,750 iterations, of 10 jobs; 2 jobs have one left" in dropped[1]
    with pytest.raises(InputError, match="jobs: 30 are asked for; the trace has 20"):
        cut(JOBS, most_jobs=30)


@pytest.mark.parametrize("pattern", sorted(PATTERNS))
@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_alone_on_links_of_the_stated_rate_an_iteration_takes_what_the_trace_says(pattern: str, gpus: int):
    traced = TracedJob("0", gpus, 0.0, 3, 0.214, 0.066)
    network = topologies.build("single-switch", {"hosts": gpus, "rate_bps": 1e9})
    dag = dag_of(traced, pattern, min(network.capacity_Bps))
    job = Job("j", dag, network.hosts, 3)
    rows = iteration_rows(simulate([job], network, policies.load("fair")), [job])
    ends = [row.finish_s for row in rows]
    assert durations_s(ends) == pytest.approx([0.214] * 3, rel=1e-5)
    assert [row.exposed_s for row in rows] == pytest.approx([0.066] * 3, rel=1e-5)


def test_a_job_of_one_gpu_computes_alone():
    dag = dag_of(TracedJob("0", 1, 0.0, 3, 0.49, 0.0), "ring", 1e8)
    assert (len(dag.transfers), dag.computes[0].duration_s) == (0, pytest.approx(0.49))


TRACED = """
name: traced
network: {topology: single-switch, hosts: 8, rate: 1 Gbit/s}
jobs:
  - name: muri
    job_trace: {format: muri, file: trace.csv, rate: 1 Gbit/s, cut: 500}
policies: [fair]
"""


def experiment(tmp_path: Path, text: str = TRACED) -> schema.Experiment:
    path = tmp_path / "traced.yaml"
    path.write_text(text, encoding="utf-8")
    return schema.load(path)


def test_an_experiment_has_the_jobs_of_a_trace_and_says_what_was_made_of_them(tmp_path: Path):
    trace(tmp_path)
    found = experiment(tmp_path)
    assert [(job.name, job.dag.ranks, job.iterations) for job in found.jobs] == [
        ("muri-0", 1, 2), ("muri-1", 4, 1), ("muri-2", 8, 8)
    ]  # fmt: skip
    assert found.queue is not None
    (notes,) = found.notes
    assert any(line.startswith("dropped") for line in notes.imported)
    assert any("load 1226 GPUs in the trace, 1226 here" in line for line in notes.imported)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("rate: 1 Gbit/s, cut", "rate: 0 bit/s, cut", "job_trace.rate: '0 bit/s' must be greater than 0"),
        (", rate: 1 Gbit/s, cut: 500", "", "job_trace.rate: missing"),
        ("file: trace.csv", "file: nowhere.csv", "there is no file .*get the traces from the public repository"),
        ("cut: 500", "cut: 500, pattern: star", "there is no pattern 'star'"),
        ("cut: 500", "jobs: 9", "jobs: 9 are asked for; the trace has 3"),
        ("format: muri", "format: murry", "unknown job trace format 'murry'"),
        ("name: muri", "name: muri\n    paradigm: gpipe", "paradigm: does not go with a job trace"),
        ("hosts: 8", "hosts: 4", "has 8 ranks and would wait for ever"),
        ("name: traced", "name: traced\nstretch: 2", "stretch: does not go with a job trace"),
    ],
)
def test_a_job_trace_that_cannot_be_is_refused(tmp_path: Path, before: str, after: str, words: str):
    trace(tmp_path)
    with pytest.raises(InputError, match=words):
        experiment(tmp_path, TRACED.replace(before, after))
