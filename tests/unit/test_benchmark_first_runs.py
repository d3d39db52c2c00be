"""The benchmark of first runs: what it takes for good, what it demands on which machine, and that it goes on."""

from __future__ import annotations

import subprocess

import msgspec
import pytest

from echelon.benchmarks import first_runs
from echelon.benchmarks.first_runs import BUSY, CALM, FirstRun, Median, Outcome, figures
from echelonflow.errors import InputError, RunError
from results.analysis.summary import write_summary
from results.folder import analyse
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_run, write_experiment


def outcome(name="pipeline", *times_s, valid=True, policies=("fair", "echelonflow"), predicted_s=(8.49, 7.99)):
    times_s = times_s or (8.5, 8.0)
    medians = tuple(
        Median(policy=policy, job="p", iteration_s=time_s, predicted_s=fluid_s)
        for policy, time_s, fluid_s in zip(policies, times_s, predicted_s, strict=True)
    )
    return Outcome(name=name, valid=valid, runs=2, valid_runs=2, reasons=(), medians=medians)


GPT2 = outcome("gpt2-pipeline", 2.9, 2.3, predicted_s=(2.9, 2.3))


def a_run(*outcomes, **changes):
    good = FirstRun(
        part=CALM, revision="abc", exit_code=0, duration_s=200.0, installed_s=60.0, stolen_share=0.03,
        said_beforehand=False, outcomes=outcomes or (outcome(), GPT2), last_line="verdict: valid",
    )  # fmt: skip
    return msgspec.structs.replace(good, **changes)


@pytest.mark.parametrize(
    ("run", "good"),
    [
        (a_run(), True),
        (a_run(exit_code=3), False),
        (a_run(outcome("pipeline", 8.5, 8.2), GPT2), False),  # 2.5 % over theory
        (a_run(outcome("pipeline", 8.5, None), GPT2), False),
        (a_run(outcome(), outcome("gpt2-pipeline", 2.9, 2.4, predicted_s=(2.9, 2.3))), False),
        (a_run(outcome(valid=False), GPT2), False),
        (a_run(outcome()), False),  # the other one left nothing
    ],
)
def test_a_run_is_good_if_all_of_it_is(run, good):
    assert run.good is good


def named(found, words):
    (figure,) = [figure for figure in found if words in figure.what]
    return figure


def test_on_a_quiet_machine_every_run_must_be_good():
    assert named(figures([a_run(), a_run(stolen_share=0.1)]), "good runs (valid").ok is True
    missed = named(figures([a_run(), a_run(exit_code=3)]), "good runs (valid")
    assert (missed.measured, missed.ok) == ("1 of 2", False)


def test_on_a_noisy_one_most_must_be_and_all_must_have_said_so():
    noisy = [a_run(part=BUSY, said_beforehand=True)] * 8 + [a_run(stolen_share=0.3, exit_code=3)] * 2
    found = figures(noisy)
    assert (named(found, "beside a busy loop").measured, named(found, "beside a busy loop").ok) == ("8 of 10", True)
    assert (named(found, "said so").measured, named(found, "said so").ok) == ("8 of 10", False)
    assert named(figures(noisy[1:]), "beside a busy loop").ok is False


def test_between_the_two_nothing_is_demanded():
    found = figures([a_run(stolen_share=0.15, exit_code=3)])
    assert (named(found, "more stolen").measured, named(found, "more stolen").ok) == ("0 of 1", None)


def test_time_counts_where_nothing_else_runs():
    found = figures([a_run(duration_s=300.0), a_run(duration_s=400.0), a_run(duration_s=380.0), a_run(part=BUSY)])
    assert (named(found, "time of").measured, named(found, "time of").ok) == ("380 s, 400 s", False)


def test_it_goes_on_with_the_runs_that_are_missing(tmp_path):
    done, said = [], []

    def carry_out(part, stem):
        if len(done) == 3:
            raise RunError("interrupted")
        done.append(stem.name)
        return a_run(part=part, said_beforehand=part == BUSY)

    with pytest.raises(RunError, match="interrupted"):
        first_runs.run(1, said.append, tmp_path, (), carry_out)
    assert done == ["undisturbed-1", "undisturbed-2", "busy-loop-1"]
    assert said[0] == "undisturbed-1; 4 of 4 are left, which take about 20 min"
    assert said[2] == "undisturbed-2; 3 of 4 are left, which take about 10 min"
    done.clear()
    found = first_runs.run(1, said.append, tmp_path, (), carry_out)
    assert done == ["busy-loop-2"]
    assert [figure.ok for figure in found if figure.ok is not None] == [True] * 4
    with pytest.raises(InputError, match="--only calm: there is: undisturbed, busy-loop"):
        first_runs.run(1, said.append, tmp_path, ["calm"], carry_out)


@pytest.fixture
def repository(tmp_path):
    """A repository whose run.sh leaves run folders that were made before, and says what the real one says."""
    made = tmp_path / "made"
    network = paper_network()
    write_experiment(
        made, network, [paper_job(network)], ["fair"], [synthetic_run([paper_job(network)], network, "fair", 0)]
    )
    write_summary(made / "summary.json", analyse(made, pictures="none"))
    root = tmp_path / "repository"
    root.mkdir()
    (root / "run.sh").write_text(
        "#!/bin/sh\necho 'setup: ready: Python'\nmkdir -p results/runs/one\n"
        f"cp {made}/summary.json results/runs/one/\n"
        f"echo '{first_runs.BEFOREHAND} 4.0% now'\necho 'verdict: INVALID'\nexit 3\n"
    )
    (root / "run.sh").chmod(0o755)
    for command in (
        ["init", "-q"],
        ["add", "."],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first"],
    ):
        subprocess.run(["git", "-C", str(root), *command], check=True)
    return root


@pytest.mark.parametrize("part", [CALM, BUSY])
def test_a_fresh_clone_is_run_and_what_it_left_is_read(tmp_path, repository, part):
    found = first_runs.first_run(part, tmp_path / f"{part}-1", repository)
    assert (found.part, found.exit_code, found.said_beforehand, found.last_line) == (part, 3, True, "verdict: INVALID")
    assert found.installed_s is not None
    assert [one.name for one in found.outcomes] == ["synthetic"]
    assert found.outcomes[0].medians[0].iteration_s is not None
    assert len(found.revision) == 40
    left = {path.name for path in tmp_path.iterdir()} - {"made", "repository"}
    assert left == {f"{part}-1.log", f"{part}-1-runs"}  # it was not good, so that its runs are kept


def test_what_is_no_repository_cannot_be_cloned(tmp_path):
    with pytest.raises(RunError, match="git clone"):
        first_runs.first_run(CALM, tmp_path / "x", tmp_path / "nothing")
