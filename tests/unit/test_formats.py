"""What every importer holds to: jobs that run, bytes that are all there, files that say what was done."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import msgspec
import pytest
from pydantic import ValidationError

from echelon.documents import format_pages
from echelon.experiment import schema as experiments_schema
from echelon.experiment.import_jobs import GIVEN, import_files
from echelonflow.errors import InputError, RunError
from echelonflow.model.dag import Job, derived_offsets, from_dict, to_dict
from echelonflow.model.discipline import Discipline, TaskSpec, Window
from echelonflow.options import bind_text
from echelonflow.records.placed_job import PlacedJob as PlacedJobRecord
from tests.unit.format_files import ASTRA, CASES, PIPEDREAM, chakra_ring, valid_files, write
from traffic.agent.plan import check_observable
from traffic.workloads import formats, paradigms
from traffic.workloads.dag_builder import DagBuilder
from traffic.workloads.formats import _files
from traffic.workloads.formats._account import Account, Amount
from traffic.workloads.formats._job_schema import EchelonJob, PlacedJob
from traffic.workloads.formats._report import Report

DOCS = Path(__file__).parents[2] / "docs"


def test_every_format_is_tried():
    assert {case.partition("-")[2] for case in CASES} == set(formats.names()) - {"job"}


def test_the_page_is_made_of_the_modules():
    page = (DOCS / "formats.md").read_text(encoding="utf-8")
    assert format_pages.with_all_made(page) == page, "make it again: python -m echelon.documents.format_pages"


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_an_imported_job_can_be_run_by_agents_and_accounts_for_its_bytes(tmp_path, case):
    name, paths, options = valid_files(tmp_path)[case]
    imported = formats.read(name, paths, options)
    dag, report = imported.dag, imported.report
    check_observable(Job("j", dag, tuple(f"h{rank}" for rank in range(dag.ranks)), iterations=2))
    balance = report.balance
    assert balance.job.size_bytes == sum(t.size_bytes for t in dag.transfers) > 0
    assert balance.job.compute_s == pytest.approx(sum(s.duration_s for s in dag.computes))
    assert balance.read.size_bytes > 0
    assert balance.unexplained == Amount()
    assert dag.next_iteration
    assert report.read
    assert report.assumed


def _hurried(dag):
    """A computation that takes no time."""
    victim = next(step for step in dag.computes if step.duration_s)
    return victim, dataclasses.replace(victim, duration_s=0.0)


def _swollen(dag):
    """A flow with a byte more."""
    victim = dag.transfers[-1]
    return victim, dataclasses.replace(victim, size_bytes=victim.size_bytes + 1)


def _torn(dag):
    """A flow that is of another collective than it was."""
    victim = dag.transfers[-1]
    alone = sum(flow.coflow == victim.coflow for flow in dag.transfers) == 1
    return victim, dataclasses.replace(victim, coflow=dag.transfers[0].coflow if alone else "torn off")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("harm", [_hurried, _swollen, _torn])
def test_no_importer_hands_back_a_job_that_is_not_what_was_read(tmp_path, monkeypatch, case, harm):
    name, paths, options = valid_files(tmp_path)[case]
    made = DagBuilder.dag

    def harmed(*arguments):
        dag = made(*arguments)
        victim, other = harm(dag)
        return dataclasses.replace(dag, steps=tuple(other if step is victim else step for step in dag.steps))

    monkeypatch.setattr(DagBuilder, "dag", harmed)
    with pytest.raises(RunError, match="for which there is no cause; this is a fault of the importer") as caught:
        formats.read(name, paths, options)
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_an_account_says_every_difference_with_its_cause():
    dag = paradigms.build(
        "gpipe", {"stages": 2, "micro_batches": 1, "forward_s": 1.0, "backward_s": 1.0, "activation_bytes": 900}
    )
    account = Account()
    account.found(size_bytes=1000, compute_s=2.5, communications=3)
    account.dropped("barriers: they carry no bytes", communications=1)
    account.dropped("loads: nothing is sent", size_bytes=100, compute_s=0.25)
    account.dropped("loads: nothing is sent", compute_s=0.25)
    account.counted("each way", size_bytes=900)
    account.added("backward passes", compute_s=2.0)
    report = Report.of(account, dag, source="x", read=["x: a model"], dropped=["a picture of it"])
    assert report.lines() == [
        "read     x: a model",
        "dropped  1 barriers: they carry no bytes",
        "         2 loads: nothing is sent",
        "         a picture of it",
        "assumed  nothing",
        "account  bytes  computation  collectives  and messages",
        "         1,000        2.5 s            3  read",
        "             0            0           -1  dropped: 1 barriers",
        "          -100       -0.5 s            0  dropped: 2 loads",
        "          +900            0            0  each way",
        "             0         +2 s            0  added: 1 backward passes",
        "         1,800          4 s            2  in the job",
        "             0            0            0  without a cause",
    ]
    account.found(size_bytes=7)
    with pytest.raises(RunError, match=r"x: the job has -7 bytes, \+0 s of computation and \+0 collectives"):
        account.balance("x", dag)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_groups_list_their_flows_as_they_are_consumed(tmp_path, case):
    name, paths, options = valid_files(tmp_path)[case]
    dag = formats.read(name, paths, options).dag
    offsets = derived_offsets(dag)
    for group in dag.groups:
        assert list(group.offsets_s) == pytest.approx([offsets[name] for name in group.transfers])
        assert list(group.offsets_s) == sorted(group.offsets_s)
        assert group.offsets_s[0] == 0


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_what_is_imported_survives_our_own_file_and_chakra(tmp_path, case):
    name, paths, options = valid_files(tmp_path)[case]
    dag = formats.read(name, paths, options).dag
    (path,) = formats.write_job(dag, tmp_path / "job.json")
    again = formats.read("job", [path], {}).dag
    assert again == dag
    traces = formats.write_chakra(again, tmp_path / "job")
    assert [trace.name for trace in traces] == [f"job.{rank}.et" for rank in range(dag.ranks)]
    back = formats.read("chakra", traces, {}).dag
    assert back == dag
    assert json.loads(json.dumps(to_dict(back))) == json.loads(json.dumps(to_dict(dag)))


def test_what_a_job_scheduler_decided_is_named_where_it_is_left_out(tmp_path):
    dag = paradigms.build(
        "gpipe", {"stages": 2, "micro_batches": 2, "forward_s": 1.0, "backward_s": 1.0, "activation_bytes": 9}
    )
    task = TaskSpec("first", 0, 9, 1, (dag.transfers[0].name,))
    held = Job("j", dag, ("h1", "h2"), discipline=Discipline("fifo", Window(slots=1), (task,)))
    path = tmp_path / "placed.json"
    path.write_bytes(msgspec.json.encode(PlacedJobRecord.of(held)))
    found = formats.read("job", [path], {})
    assert found.dag == dag
    assert any("order and window of its job scheduler 'fifo'" in line for line in found.report.dropped), found.report


def test_the_published_schema_is_the_one_that_job_files_are_checked_by():
    published = json.loads((DOCS / "job.schema.json").read_text(encoding="utf-8"))
    assert published == formats.job_schema(), "write it anew: echelon convert --schema > docs/job.schema.json"


def test_the_schema_has_every_field_that_is_written():
    dag = paradigms.build(
        "gpipe", {"stages": 2, "micro_batches": 2, "forward_s": 1.0, "backward_s": 1.0, "activation_bytes": 9}
    )
    plain = json.loads(json.dumps(to_dict(dag)))
    EchelonJob.model_validate(plain)
    placed = json.loads(msgspec.json.encode(PlacedJobRecord.of(Job("j", dag, ("h1", "h2"), 2, 1.5, 0.5))))
    PlacedJob.model_validate(placed)
    task = TaskSpec("first", 0, 9, 1, (dag.transfers[0].name,))
    held = Job("j", dag, ("h1", "h2"), discipline=Discipline("fifo", Window(slots=1), (task,)))
    placed = json.loads(msgspec.json.encode(PlacedJobRecord.of(held)))
    assert PlacedJob.model_validate(placed).model_dump(exclude={"dag"})["discipline"] == placed["discipline"]
    for part in (plain, plain["steps"][0], plain["groups"][0]):
        for key in set(part) - {"parameters"}:
            lacking = {k: v for k, v in part.items() if k != key}
            broken = json.loads(json.dumps(plain).replace(json.dumps(part), json.dumps(lacking), 1))
            with pytest.raises(ValidationError):
                EchelonJob.model_validate(broken)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "version"),
        ({"schema": "other"}, "schema"),
        ({"steps": []}, "steps"),
        ({"steps": [{"name": "a", "compute": 0, "duration_s": "1", "kind": "x", "after": []}]}, "steps.0.compute.duration_s"),
        ({"steps": [{"name": "a", "transfer": [0, 1], "size_bytes": 1.5, "group": "", "coflow": "", "after": []}]}, "size_bytes"),
        ({"steps": [{"name": "a"}]}, "steps.0"),
        ({"steps": [{"name": "a", "compute": 0, "duration_s": 1, "kind": "x", "after": ["a"]}]}, "cycle"),
        ({"surplus": 1}, "surplus"),
    ],
)  # fmt: skip
def test_a_job_file_at_fault_is_refused_with_the_place(tmp_path, change, words):
    good = {
        "schema": "echelon-job", "version": 1, "ranks": 1, "groups": [], "next_iteration": [], "parameters": {},
        "steps": [{"name": "a", "compute": 0, "duration_s": 1.0, "kind": "x", "after": []}],
    }  # fmt: skip
    assert from_dict(good) == formats.read("job", [write(tmp_path, "good.json", json.dumps(good))], {}).dag
    path = write(tmp_path, "bad.json", json.dumps({**good, **change}))
    with pytest.raises(InputError, match=words) as caught:
        formats.read("job", [path], {})
    assert str(path) in str(caught.value)


def test_options_of_the_command_line_become_what_the_format_takes():
    def typed(name, texts):
        return bind_text(formats.load(name).read, texts, given=GIVEN)

    assert typed("astra-sim", {"ranks": "4", "tick": "10 us", "gather_size": "total"}) == {
        "ranks": 4, "tick_s": pytest.approx(1e-5), "gather_size": "total",
    }  # fmt: skip
    assert typed("kineto", {"symmetric": "true", "step": "5"}) == {"symmetric": True, "step": "5"}
    assert typed("chakra", {"flops": "1e12"}) == {"flops": 1e12}
    with pytest.raises(InputError, match=r"ranks: '4\.5' is not a whole number"):
        typed("astra-sim", {"ranks": "4.5"})


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "ranks: missing"),
        ({"ranks": 4, "speed": 3}, "speed: unknown key"),
        ({"ranks": 4, "gather_size": "some"}, "gather_size"),
        ({"ranks": 4, "tick": "0 s"}, "tick is 0 s"),
        ({"ranks": 4, "tick": "3"}, "tick"),
    ],
)
def test_options_at_fault_are_named(tmp_path, options, words):
    with pytest.raises(InputError, match=words):
        import_files("astra-sim", [write(tmp_path, "a.txt", ASTRA)], options)


def test_unknown_formats_are_refused_with_those_that_there_are():
    with pytest.raises(InputError, match="unknown format 'onnx'; there is: astra-sim, chakra"):
        formats.read("onnx", [], {})


def test_the_command_converts_says_what_it_did_and_refuses_what_it_cannot(tmp_path, echelon):
    graph = write(tmp_path, "g.txt", PIPEDREAM)
    out = tmp_path / "job.json"
    done = echelon("convert", "--from", "pipedream", graph, "--set", "stages=2", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "node1" in done.stdout
    assert "loading data" in done.stdout
    assert re.search(r"^account  +bytes +computation +collectives  and messages$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +0 +0 +0  without a cause$", done.stdout, re.MULTILINE)
    assert formats.read("job", [out], {}).dag.ranks == 2
    before = out.read_bytes()
    write(tmp_path, "g.txt", PIPEDREAM[:300])
    done = echelon("convert", "--from", "pipedream", graph, "--set", "stages=2", "--out", out)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"{graph}: line" in done.stderr
    assert out.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["g.txt", "job.json"]


def test_commands_that_import_for_an_experiment_say_what_became_of_the_files(tmp_path, echelon):
    write(tmp_path, "g.txt", PIPEDREAM)
    job = {"name": "x", "import": {"format": "pipedream", "files": ["g.txt"], "stages": 2}}
    experiment = write(tmp_path, "e.yaml", json.dumps({**EXPERIMENT, "jobs": [job]}))
    done = echelon("check", experiment)
    assert re.search(r"^ +account +bytes +computation +collectives  and messages$", done.stdout, re.MULTILINE)
    assert re.search(r"^ +0 +0 +0  without a cause$", done.stdout, re.MULTILINE)
    done = echelon("run", experiment, "--backend", "fluid", "--out", tmp_path / "out")
    assert done.returncode == 0, done.stderr
    assert "job x: dropped parameters of layers: stages do not send them" in done.stderr


def test_a_place_that_cannot_be_written_to_leaves_nothing(tmp_path):
    dag = formats.read("chakra", chakra_ring(tmp_path), {}).dag
    (tmp_path / "x.1.et").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        formats.write_chakra(dag, tmp_path / "x")
    assert not [p.name for p in tmp_path.iterdir() if p.name.endswith(".part")]
    with pytest.raises(InputError, match="cannot be written"):
        formats.write_job(dag, tmp_path / "nowhere" / "x.json")


@pytest.mark.parametrize("name", ["job", "chakra"])
def test_what_could_not_be_read_again_is_not_written(tmp_path, monkeypatch, name):
    dag = formats.read("chakra", chakra_ring(tmp_path), {}).dag
    write_it, limit = (formats.write_job, "MAX_JSON_BYTES") if name == "job" else (formats.write_chakra, "MAX_BYTES")
    before = sorted(tmp_path.iterdir())
    written = write_it(dag, tmp_path / "fits")
    longest = max(path.stat().st_size for path in written)
    monkeypatch.setattr(_files, limit, longest - 1)
    with pytest.raises(InputError, match="are read; name what you convert in the experiment file itself"):
        write_it(dag, tmp_path / "long")
    assert sorted(tmp_path.iterdir()) == sorted([*before, *written])
    if name == "job":  # one limit for both
        with pytest.raises(InputError, match="which is the limit"):
            formats.read("job", written, {})


EXPERIMENT = {
    "name": "imported",
    "network": {"topology": "single-switch", "hosts": 2, "rate": "100 Mbit/s"},
    "policies": ["fair"],
}


def test_an_experiment_names_files_directly(tmp_path):
    write(tmp_path, "g.txt", PIPEDREAM)
    job = {"name": "x", "import": {"format": "pipedream", "files": ["g.txt"], "stages": 2}, "iterations": 2}
    found = experiments_schema.check({**EXPERIMENT, "jobs": [job]}, tmp_path / "e.yaml")
    assert found.jobs[0].dag.ranks == 2
    assert any("loading data" in line for line in found.notes[0].dropped)
    assert found.notes[0].imported[-1].endswith("without a cause")
    starred = {**job, "import": {**job["import"], "files": ["*.txt"]}, "scaling": {"bandwidth": 2, "time": 4}}
    scaled = experiments_schema.check({**EXPERIMENT, "jobs": [starred]}, tmp_path / "e.yaml")
    assert scaled.jobs[0].dag.transfers[0].size_bytes == 2 * found.jobs[0].dag.transfers[0].size_bytes


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        (
            {"import": {"format": "pipedream", "files": ["none.txt"], "stages": 2}},
            "jobs.0.import: file: there is no file",
        ),
        ({"import": {"format": "pipedream", "files": ["*.none"], "stages": 2}}, "no file is called"),
        ({"import": {"format": "pipedream", "files": ["g.txt"], "stage": 2}}, "jobs.0.import: stage: unknown key"),
        ({"import": {"format": "pipedream", "files": []}}, "jobs.0.import.files"),
        (
            {"import": {"format": "pipedream", "files": ["g.txt"], "stages": 2}, "paradigm": "gpipe"},
            "paradigm: does not go",
        ),
        ({"import": {"format": "pipedream", "files": ["g.txt"], "stages": 2}, "stages": 2}, "stages: does not go"),
    ],
)
def test_an_experiment_that_imports_wrongly_is_refused(tmp_path, entry, words):
    write(tmp_path, "g.txt", PIPEDREAM)
    with pytest.raises(InputError, match=words):
        experiments_schema.check({**EXPERIMENT, "jobs": [{"name": "x", **entry}]}, tmp_path / "e.yaml")
