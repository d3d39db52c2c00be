"""Job schedulers in experiment files and on the command line: what is accepted, and how the rest is refused."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest

from echelon.experiment import schema
from echelon.experiment.scheduler_texts import with_schedulers
from echelonflow.errors import InputError
from echelonflow.model.units import format_size
from tests.unit.test_experiments import YAML

GIVEN = {
    "name": "job",
    "paradigm": "data-parallel",
    "ranks": 2,
    "layers": 3,
    "forward": "10 ms",
    "backward": "20 ms",
    "parameter": "1 MB",
    "scheduler": "bytescheduler(partition=250 kB, credit=500 kB)",
}
SERVED = {
    **{key: value for key, value in GIVEN.items() if key != "ranks"},
    "paradigm": "parameter-server",
    "workers": 2,
    "servers": 1,
    "scheduler": "p3(slice=250 kB)",
}
PIPELINE = {"name": "other", "paradigm": "pipeline", "stages": 2, "micro_batches": 2, "forward": "1 s", "activation": "1 MB"}  # fmt: skip


def experiment_of(*jobs):
    network = {"topology": "single-switch", "hosts": 4, "rate": "100 Mbit/s"}
    return {"name": "good", "network": network, "jobs": [copy.deepcopy(job) for job in jobs], "policies": ["fair"]}


def faults(*jobs):
    with pytest.raises(InputError) as caught:
        schema.check(experiment_of(*jobs), Path("file.yaml"))
    heading, *lines = str(caught.value).splitlines()
    return lines or [heading]


@pytest.mark.parametrize(
    ("entry", "tasks"),
    [(GIVEN, 2 * 12), ({**GIVEN, "algorithm": "reduce-scatter"}, 4 * 12), (SERVED, 3 * 12), ({**SERVED, "colocated": True}, 12 + 12)],
)  # fmt: skip
def test_a_job_has_the_discipline_of_its_scheduler(entry, tasks):
    (job,) = schema.check(experiment_of(entry), Path("file.yaml")).jobs
    assert job.discipline is not None
    assert job.discipline.scheduler == entry["scheduler"]
    assert len(job.discipline.tasks) == tasks
    job.discipline.check(job.dag)


def test_a_measured_model_can_have_one():
    entry = {"name": "vgg", "paradigm": "data-parallel", "profile": "vgg16-b64-h100", "ranks": 2, "scheduler": "ddp"}
    found = schema.check(experiment_of(entry), Path("file.yaml"))
    names = {step.name for step in found.jobs[0].dag.steps}
    assert any(name.startswith("f0 ") for name in names)
    assert "dp-all-reduce b0 0->1" in names
    words = found.notes[0].facts[0]
    assert words.startswith("job scheduler ddp: ")
    assert words.endswith(" MB), 1 at a time; sizes before scaling")
    sizes = [task.size_bytes for task in found.jobs[0].discipline.tasks if task.rank == 0]
    assert f"{len(sizes)} tasks on rank 0 ({', '.join(map(format_size, sizes))})" in words


def test_sizes_are_those_of_the_job_before_it_is_scaled():
    entry = {**GIVEN, "scaling": {"time": 2.0, "bandwidth": 20}}
    (job,) = schema.check(experiment_of(entry), Path("file.yaml")).jobs
    assert len(job.discipline.tasks) == 2 * 12  # 1 MB in parts of 250 kB, as without scaling
    assert job.discipline.window.credit_bytes == 50_000
    assert {task.size_bytes for task in job.discipline.tasks} == {25_000}
    assert {transfer.size_bytes for transfer in job.dag.transfers} == {25_000}


def test_a_job_without_one_has_none():
    entry = {key: value for key, value in GIVEN.items() if key != "scheduler"}
    (job,) = schema.check(experiment_of(entry), Path("file.yaml")).jobs
    assert job.discipline is None


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        (
            {**PIPELINE, "scheduler": "p3"},
            "jobs.0.scheduler: paradigm pipeline takes none; data-parallel and parameter-server do, or leave it away",
        ),
        (
            {**GIVEN, "scheduler": "bytesheduler"},
            "jobs.0.scheduler: unknown job scheduler 'bytesheduler'; did you mean 'bytescheduler'?",
        ),
        (
            {**GIVEN, "scheduler": "bytescheduler(partition=0 B)"},
            "jobs.0.scheduler: bytescheduler(partition=0 B): partition: '0 B' must be greater than 0",
        ),
        (
            {**GIVEN, "scheduler": "bytescheduler(partition=2 MB)"},
            "partition: 2 MB is beyond the largest tensor, so nothing would be cut; at most 1000000 B would do",
        ),
        (
            {**GIVEN, "scheduler": "bytescheduler(partition=250 kB"},
            "jobs.0.scheduler: YAML ends a text at a comma between brackets; put it in quotes",
        ),
        ({**GIVEN, "scheduler": "p3"}, "it is for parameter-server, and ring takes bytescheduler"),
        (
            {**GIVEN, "scheduler": 3},
            "jobs.0.scheduler: 3 is not a job scheduler, its options in brackets; write such as",
        ),
        ({**GIVEN, "bucket": "1 MB"}, "jobs.0.bucket: does not go with a scheduler, which decides it; leave it away"),
        ({**GIVEN, "serial": True}, "jobs.0.serial: does not go with a scheduler"),
        ({**GIVEN, "algorithm": "rng"}, "jobs.0.algorithm: 'rng' is not one of ring, ring-steps"),
        ({**GIVEN, "parameter": ["1 MB"]}, "parameter: 1 values for 3 layers"),
        ({**GIVEN, "schedular": "p3"}, "jobs.0.schedular: unknown key; did you mean 'scheduler'?"),
        ({**SERVED, "servers": 0}, "jobs.0.servers: 0 is not a whole number of at least 1"),
        (
            {**SERVED, "workers": 1, "colocated": True},
            "jobs.0.servers: 1 co-located with 1 workers; there are at least 2 workers",
        ),
        (
            {"name": "job", "import": {"format": "job", "files": ["x.json"]}, "scheduler": "p3"},
            "jobs.0.scheduler: does not go with an import",
        ),
        (
            {"name": "job", "trace": {"format": "sincronia", "file": "x"}, "scheduler": "p3"},
            "jobs.0.scheduler: does not go with a trace",
        ),
    ],
)
def test_a_fault_is_named_by_its_place_with_what_would_do(entry, line):
    assert any(line in found for found in faults(entry)), faults(entry)


def test_all_faults_of_an_entry_are_named_at_once():
    found = faults({**GIVEN, "bucket": "1 MB", "forward": "1 MB", "ranks": 0})
    assert {line.split(": ")[1] for line in found} == {"jobs.0.bucket", "jobs.0.forward", "jobs.0.ranks"}
    assert len(found) == 3


def test_more_partitions_than_there_may_be_steps_are_refused():
    assert (
        "parts of tensors are asked for; the bound is 300,000"
        in faults({**GIVEN, "parameter": "10 GB", "scheduler": "bytescheduler(partition=4 kB)"})[0]
    )


def test_the_command_line_gives_one_to_every_job_that_takes_it():
    data = experiment_of(GIVEN, PIPELINE, {**SERVED, "name": "served"})
    changed = with_schedulers(data, ["fifo"])
    assert [job.get("scheduler") for job in changed["jobs"]] == ["fifo", None, "fifo"]
    assert data["jobs"][0]["scheduler"] == GIVEN["scheduler"]


def test_the_command_line_gives_one_to_a_job_by_its_name():
    data = experiment_of(GIVEN, {**SERVED, "name": "served"})
    changed = with_schedulers(data, ["served=bytescheduler(partition=1 MB, credit=2 MB)"])
    assert [job["scheduler"] for job in changed["jobs"]] == [
        GIVEN["scheduler"],
        "bytescheduler(partition=1 MB, credit=2 MB)",
    ]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("fivo", "--scheduler unknown job scheduler 'fivo'; did you mean 'fifo'?"),
        ("nobody=fifo", "--scheduler nobody=fifo: there is no job 'nobody'; there is: other"),
        (
            "fifo",
            "--scheduler fifo: no job takes a job scheduler; those of paradigm data-parallel and parameter-server do",
        ),
    ],
)
def test_the_command_line_refuses_what_fits_no_job(text, words):
    with pytest.raises(InputError) as caught:
        with_schedulers(experiment_of(PIPELINE), [text])
    assert str(caught.value).startswith(words)


def test_what_is_no_list_of_jobs_is_left_to_the_check():
    assert with_schedulers({"jobs": 3}, ["fifo"]) == {"jobs": 3}


def test_schedulers_lists_every_one_with_its_options(echelon):
    done = echelon("schedulers")
    assert done.returncode == 0
    for words in (
        "bytescheduler  Partitions by layer in a window of credit: ByteScheduler. [parameter-server, all-reduce]",
        "partition=a size such as 25 MB (default 4 MB)",
        "form=one of faithful, fixed (default fixed)",
        "[ring, reduce-scatter]",
    ):
        assert words in done.stdout
    assert echelon("schedulers", "--help").returncode == 0


def test_check_says_what_puts_a_job_in_order(echelon, tmp_path):
    path = tmp_path / "e.yaml"
    YAML().dump(experiment_of(GIVEN, PIPELINE), path)
    done = echelon("check", path)
    assert done.returncode == 0, done.stderr
    assert "bytescheduler(partition=250 kB, credit=500 kB) puts what it sends in order: 24 tasks of" in done.stdout
    done = echelon("check", path, "--scheduler", "job=fifo")
    assert "fifo puts what it sends in order: 6 tasks of all ranks together" in done.stdout


@pytest.mark.parametrize("command", [["run", "--backend", "fluid"], ["check"], ["bound"]])
def test_a_scheduler_that_is_none_ends_with_2_and_one_message(echelon, tmp_path, command):
    path = tmp_path / "e.yaml"
    YAML().dump(experiment_of(GIVEN), path)
    done = echelon(*command, path, "--scheduler", "fivo")
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "unknown job scheduler 'fivo'; did you mean 'fifo'?" in done.stderr


def test_a_resumed_experiment_keeps_its_schedulers(echelon, tmp_path):
    done = echelon("run", "--resume", tmp_path, "--scheduler", "fifo")
    assert done.returncode == 2
    assert "--resume takes everything from its folder" in done.stderr
