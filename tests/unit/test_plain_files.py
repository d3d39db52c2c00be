"""Run folders of others: what is neither a file nor a folder is refused before anything is read or written."""

from __future__ import annotations

import json
import os
import socket

import pytest

from echelon.cli.replay import replay
from echelon.running import resuming
from echelonflow.errors import InputError
from echelonflow.records.assignment import AssignedRun
from echelonflow.records.folder import RunFolder
from echelonflow.records.plain_files import check_plain
from results.folder import analyse
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_run, write_experiment


@pytest.fixture
def folder(tmp_path):
    """An emulated experiment of one run, and a file beside it that nobody may change."""
    (tmp_path / "victim").write_text("before")
    network = paper_network()
    jobs = [paper_job(network)]
    return write_experiment(tmp_path / "out", network, jobs, ["fair"], [synthetic_run(jobs, network, "fair", 0)])


COMMANDS = pytest.mark.parametrize("command", [analyse, resuming.begun, replay])


@COMMANDS
@pytest.mark.parametrize(
    "name", ["summary.json", "report.html", "seal.json", "pcap/more", "raw/fair-r0/agents/h1.jsonl"]
)
def test_nothing_is_read_or_written_through_a_link(folder, command, name):
    (folder / name).unlink(missing_ok=True)
    (folder / name).symlink_to(folder.parent / "victim")
    with pytest.raises(InputError, match=f"{name}: is a link; a run folder holds files and folders only"):
        command(folder)
    assert (folder.parent / "victim").read_text() == "before"


def test_no_picture_is_drawn_in_a_folder_elsewhere(folder):
    elsewhere = folder.parent / "elsewhere"
    elsewhere.mkdir()
    (folder / "figures").symlink_to(elsewhere)
    with pytest.raises(InputError, match="figures: is a link"):
        analyse(folder)
    assert not list(elsewhere.iterdir())


@COMMANDS
@pytest.mark.parametrize("name", ["manifest.json", "failure.txt", "seal.json", "raw/fair-r0/run.json"])
def test_a_pipe_does_not_hang_anybody(folder, command, name):
    (folder / name).unlink(missing_ok=True)
    os.mkfifo(folder / name)
    with pytest.raises(InputError, match=f"{name}: is a pipe"):
        command(folder)


def test_sockets_of_a_killed_controller_and_a_link_to_the_whole_folder_are_no_obstacle(tmp_path, monkeypatch):
    (tmp_path / "out").mkdir()
    (tmp_path / "link").symlink_to("out")
    monkeypatch.chdir(tmp_path / "out")  # a path of a socket is short
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("control.sock")
        check_plain(tmp_path / "link")
    check_plain(tmp_path / "nowhere")


@pytest.mark.parametrize(
    ("name", "remains"),
    [("manifest.json", False), ("prediction.json", True), ("raw/fair-r0/run.json", True)],
)
def test_a_file_with_a_hole_of_a_terabyte_is_not_read(folder, name, remains):
    os.truncate(folder / name, 1 << 40)
    if not remains:
        with pytest.raises(InputError, match=r"manifest\.json: is longer than 4 GiB, which no record is"):
            analyse(folder)
        return
    reasons = analyse(folder, pictures="none").reasons
    assert any(f"{name}: is longer than 4 GiB, which no record is" in reason for reason in reasons)


@pytest.mark.parametrize("agent", ["h1", "h2"])
def test_a_log_with_a_hole_of_a_terabyte_makes_its_run_invalid(folder, agent):
    os.truncate(folder / "raw" / "fair-r0" / "agents" / f"{agent}.jsonl", 1 << 40)
    summary = analyse(folder, pictures="none")
    assert not summary.valid
    assert any(f"{agent}.jsonl: is longer than 4 GiB" in reason for reason in summary.reasons)


@pytest.mark.parametrize("name", ["", "raw", "pcap", "/", "..", "raw/", "raw/../../other"])
def test_what_a_seal_names_is_no_obstacle_for_going_on(folder, name):
    sealed = {name: {"size_bytes": 1, "sha256": "0"}}
    (folder / "seal.json").write_text(json.dumps({"schema": "echelon-seal", "version": 1, "files": sealed}))
    run = AssignedRun(0, "other", "other-r0", 0, "priority", 1.0)
    assert [each.label for each in resuming.left([run], RunFolder(folder))] == ["other-r0"]
