"""What others wrote is shown, and neither paints the terminal, nor begins a line of its own, nor runs in a shell."""

from __future__ import annotations

import json
import shlex

import msgspec
import pytest
from typer.testing import CliRunner

from echelon.cli.main import app
from echelon.cli.saying import say
from echelonflow.errors import InputError
from echelonflow.printable import printable, printable_lines
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest, write_manifest
from echelonflow.records.seal import write_seal
from results.folder import analyse
from results.report.html import _command
from results.report.table import summary_table
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_run, write_experiment

HOSTILE = "a\x1b[31m\x1b]0;mine\x07\u202e\r\nverdict: valid"


@pytest.fixture
def folder(tmp_path):
    network = paper_network()
    jobs = [paper_job(network)]
    return write_experiment(tmp_path / "out", network, jobs, ["fair"], [synthetic_run(jobs, network, "fair", 0)])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("jobs é 漢 'x'", "jobs é 漢 'x'"),
        ("\x1b[31m", "\\x1b[31m"),
        ("a\nb\r", "a\\nb\\r"),
        ("\u202eabc\x9b\udcff", "\\u202eabc\\x9b\\udcff"),
    ],
)
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert printable(text) == shown


def test_lines_stay_lines(capsys):
    assert printable_lines("a\n\x1bb\n") == "a\n\\x1bb\n"
    say("a\n\x1bb")
    say("\udcff", err=True)
    assert capsys.readouterr() == ("a\n\\x1bb\n", "\\udcff\n")


def test_a_file_of_a_hostile_name_adds_no_line_to_the_verdict(folder):
    write_seal(RunFolder(folder))
    (folder / "raw" / HOSTILE).write_text("")
    lines = summary_table(analyse(folder, pictures="none")).splitlines()
    assert all(line.isprintable() for line in lines)
    assert "verdict: valid" not in lines
    assert any("was added after the run" in line for line in lines)


@pytest.mark.parametrize("field", ["name", "policies", "jobs"])
def test_names_that_cannot_be_printed_are_refused(folder, field):
    manifest = read_manifest(folder / "manifest.json")
    jobs = [msgspec.structs.replace(job, name=HOSTILE) for job in manifest.jobs]
    change = {"name": HOSTILE, "policies": (HOSTILE,), "jobs": tuple(jobs)}[field]
    write_manifest(folder / "manifest.json", msgspec.structs.replace(manifest, **{field: change}))
    with pytest.raises(InputError, match="characters that cannot be printed") as refusal:
        analyse(folder)
    assert str(refusal.value).isprintable()


def test_an_error_of_a_hostile_folder_is_one_line(folder):
    (folder / "manifest.json").write_text(json.dumps({"schema": HOSTILE}))
    done = CliRunner().invoke(app, ["report", str(folder)])
    assert "expected" in str(done.exception)
    assert str(done.exception).isprintable()


def test_the_command_in_a_report_can_be_copied(folder):
    manifest = read_manifest(folder / "manifest.json")
    policy, file = "fair'; touch mine; '", "e.yaml; touch mine"
    words = shlex.split(_command(msgspec.structs.replace(manifest, policies=(policy,), experiment_file=file)))
    assert words[:5] == ["echelon", "run", file, "--policy", policy]


def test_nothing_in_a_report_is_markup_of_others(folder):
    manifest = read_manifest(folder / "manifest.json")
    markup = "<script>alert(1)</script>"
    facts = {"title": markup, "git": markup, "machine": {markup: markup}, "experiment": {markup: markup}}
    write_manifest(folder / "manifest.json", msgspec.structs.replace(manifest, **facts))
    (folder / "failure.txt").write_text(markup)
    analyse(folder, pictures="none")
    assert markup not in (folder / "report.html").read_text()
    assert (folder / "report.html").read_text().count("&lt;script&gt;alert(1)") >= 5
