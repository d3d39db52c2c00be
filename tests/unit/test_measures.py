"""Measures of jobs and of all together: by hand, and as they stand in the tables of a run."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
import random

import msgspec
import pytest

from echelon.cases import random_jobs
from echelon.experiment import schema
from echelon.running import explaining, runner
from echelon.running.stages import Asked
from echelon.running.yardsticks import yardsticks_of
from echelonflow.errors import InputError
from echelonflow.model.clock import least_iteration_s
from echelonflow.model.counting import ALL, STEADY, Counting
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.measured import Measured, Settings
from echelonflow.records.calibration import write_calibration
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest, write_manifest
from echelonflow.records.yardsticks import NO_YARDSTICKS, Yardsticks, read_yardsticks, write_yardsticks
from echelonflow.scheduling import policies
from results.analysis.blame import ends_by_job_s
from results.analysis.counted import counted_of
from results.analysis.measures import jain, job_measures, run_measures
from results.analysis.rows import run_rows
from results.folder import analyse
from results.report.table import summary_table
from simulator.fluid import simulate
from tests.unit.synthetic_run import paper_job, synthetic_run, write_experiment
from tests.unit.test_blame import NETWORK, sender
from tests.unit.test_counting import EXPERIMENT
from tests.unit.test_results_budget import GOOD_LINKS, LATE, LOAD, folder
from tests.unit.test_results_budget import NETWORK as BUDGET_NETWORK


def measured(jobs, policy="fair", counting=ALL, yardsticks=NO_YARDSTICKS):
    """The measures of each job, and of all together, in a simulation."""
    record = simulate(jobs, NETWORK, policies.load(policy))
    rows = run_rows(record, jobs)
    counted = counted_of(rows.iterations, jobs, counting)
    each = job_measures(record, rows, jobs, counted, yardsticks)
    return each, run_measures(each, rows, jobs, counted, yardsticks)


def test_two_jobs_that_share_a_link_in_halves():
    """Each computes 1 s on one of its two GPUs, then sends for 2 s what takes 1 s alone."""
    yardsticks = Yardsticks(alone_s={"a": (2.0, 2.0, 2.0), "b": (2.0, 2.0, 2.0)}, bound_s=2.5, bound_kind="batch")
    jobs, together = measured([sender("a", "h1"), sender("b", "h2")], yardsticks=yardsticks)
    for each in jobs.values():
        assert each.iterations == 3
        assert each.iteration_s == each.iteration_median_s == pytest.approx(3.0, abs=1e-4)
        assert each.completion_s == pytest.approx(9.0, abs=1e-4)
        assert each.slowdown == each.completion_slowdown == pytest.approx(1.5, abs=1e-4)
        assert each.gpu_share == pytest.approx(1 / 6, abs=1e-4)
        assert each.exposed_s == pytest.approx(2.0, abs=1e-4)
    assert together.jobs == 2
    assert together.jain == pytest.approx(1.0)
    assert together.slowdown_worst == pytest.approx(1.5, abs=1e-4)
    assert together.to_gain_share == pytest.approx(1 / 6, abs=1e-4)
    assert together.bound_kind == "batch"


def test_percentiles_and_the_worst_are_over_what_counts():
    """b runs beside the first two of a's iterations, which take longer for it."""
    jobs = [sender("a", "h1", iterations=6), sender("b", "h2", iterations=2)]
    each, together = measured(jobs, yardsticks=Yardsticks(alone_s={"a": (2.0,) * 6, "b": (2.0,) * 2}))
    assert each["a"].iteration_median_s == pytest.approx(2.0, abs=1e-4)
    assert each["a"].iteration_p95_s == pytest.approx(3.0, abs=1e-4)
    assert (together.slowdown_worst_job, together.slowdown_worst) == ("b", pytest.approx(1.5, abs=1e-4))
    slowdowns = [each[name].slowdown for name in "ab"]
    assert together.jain == pytest.approx(sum(slowdowns) ** 2 / 2 / sum(s * s for s in slowdowns))
    assert together.iterations == 8
    assert together.iterations_mean_s == pytest.approx((4 * 2.0 + 4 * 3.0) / 8, abs=1e-4)
    assert together.jobs_mean_s == pytest.approx((14 / 6 + 3.0) / 2, abs=1e-4)
    later, _ = measured(jobs, counting=Counting(from_s=6.5))
    assert set(later) == {"a"}
    assert later["a"].iterations == 3
    assert later["a"].iteration_s == pytest.approx(2.0, abs=1e-4)
    assert later["a"].completion_s == pytest.approx(14.0, abs=1e-4)


def test_what_is_not_known_is_left_out():
    each, together = measured([sender("a"), sender("b", "h2")], yardsticks=Yardsticks(alone_s={"a": (2.0,) * 3}))
    assert each["a"].slowdown is not None
    assert each["b"].slowdown is None
    assert (together.jain, together.slowdown_worst, together.bound_s, together.to_gain_share) == (None,) * 4


def test_tardiness_is_summed_by_weight_over_groups():
    steps = (
        Compute("c", 0, 1.0),
        Transfer("t", 0, 1, round(NETWORK.capacity_Bps[0]), "t", ("c",)),
        Transfer("u", 0, 1, round(NETWORK.capacity_Bps[0]), "u", ("c",)),
    )
    groups = (Group("g", "", ("t",), (0.0,), 3.0), Group("h", "", ("u",), (0.0,)))
    job = Job("a", JobDag(2, steps, groups, (("t", "c"), ("u", "c"))), ("h1", "h2"), 2)
    each, together = measured([job])  # both end 2 s after their release, which is when they were to
    assert each["a"].tardiness_sum_s == pytest.approx(4 * 2.0, abs=1e-4)
    assert together.tardiness_sum_s == pytest.approx(8.0, abs=1e-4)


def test_jains_index():
    assert jain([2.0, 2.0, 2.0]) == pytest.approx(1.0)
    assert jain([1.0, 0.0, 0.0, 0.0]) == pytest.approx(0.25)
    assert jain([]) is None


def experiment(tmp_path, extra=""):
    path = tmp_path / "two.yaml"
    path.write_text(EXPERIMENT + extra)
    return schema.load(path)


def test_a_job_alone_is_simulated_by_itself_from_zero(tmp_path):
    asked = experiment(tmp_path)
    late = dataclasses.replace(asked, jobs=(asked.jobs[0], dataclasses.replace(asked.jobs[1], start_s=3.0)))
    found = yardsticks_of(late)
    for job in asked.jobs:
        record = simulate([job], asked.network, policies.load("fair"))
        assert sum(found.alone_s[job.name]) == pytest.approx(ends_by_job_s(record, [job])[job.name][-1])
        assert len(found.alone_s[job.name]) == job.iterations


@pytest.mark.parametrize("seed", range(4))
def test_no_policy_is_better_than_a_bound(seed, tmp_path):
    case = random_jobs.draw(random.Random(seed), random_jobs.TOPOLOGIES[seed % 2], jobs=2, iterations=6)
    asked = dataclasses.replace(experiment(tmp_path), jobs=case.jobs, network=case.network)
    kinds = {}
    for counting in (ALL, STEADY):
        found = yardsticks_of(dataclasses.replace(asked, counting=counting))
        kinds[found.bound_kind] = found.bound_s
    assert set(kinds) == {"batch", "steady"}
    found = yardsticks_of(asked)
    for policy in ("fair", "echelonflow", "srpt"):
        record = simulate(case.jobs, case.network, policies.load(policy))
        rows = run_rows(record, case.jobs)
        counted = counted_of(rows.iterations, case.jobs, ALL)
        each = job_measures(record, rows, case.jobs, counted, found)
        assert run_measures(each, rows, case.jobs, counted, found).to_gain_share > -1e-6
    alone_s = sum(least_iteration_s(job, case.network) for job in case.jobs) / len(case.jobs)
    assert all(bound_s >= alone_s * (1 - 1e-6) for bound_s in kinds.values())


def test_a_bound_that_would_take_long_is_the_cheap_one(tmp_path, monkeypatch):
    asked = experiment(tmp_path)
    assert yardsticks_of(asked).bound_kind == "batch"
    monkeypatch.setattr("echelon.running.yardsticks.MOST_BOUND_FLOWS", 3)
    cheap = yardsticks_of(asked)
    assert cheap.bound_kind == "alone"
    monkeypatch.setattr("echelon.running.yardsticks.MOST_STEPS", 3)
    assert yardsticks_of(asked).alone_s == {}


def test_between_two_moments_and_under_faults_nothing_is_bounded(tmp_path):
    assert yardsticks_of(experiment(tmp_path, "window: 1 ms to 2 s\n")).bound_s is None
    crash = "faults: [{fault: crash, at: 10 ms, host: h1}]\n"
    assert yardsticks_of(experiment(tmp_path, crash)).bound_s is None


def test_yardsticks_are_read_as_they_were_written(tmp_path):
    found = Yardsticks(alone_s={"a": (1.0, 2.0)}, bound_s=1.5, bound_kind="alone")
    write_yardsticks(tmp_path / "yardsticks.json", found)
    assert read_yardsticks(tmp_path / "yardsticks.json") == found
    assert read_yardsticks(tmp_path / "none.json") is None
    (tmp_path / "yardsticks.json").write_text("{")
    with pytest.raises(InputError):
        read_yardsticks(tmp_path / "yardsticks.json")


def table(root, name):
    with (root / name).open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    folder = tmp_path_factory.mktemp("simulated")
    _, summary = runner.run(experiment(folder), folder / "run", "fluid", lambda _: None, pictures="few")
    return folder / "run", summary


def test_tables_of_a_simulated_run(simulated):
    root, summary = simulated
    jobs, runs = table(root, "jobs.csv"), table(root, "runs.csv")
    assert [(row["policy"], row["job"]) for row in jobs] == [(p, j) for p in ("fair", "fifo") for j in "ab"]
    assert {row["valid"] for row in (*jobs, *runs)} == {"true"}
    for row in runs:
        slowdowns = [float(each["slowdown"]) for each in jobs if each["policy"] == row["policy"]]
        assert float(row["slowdown_worst"]) == pytest.approx(max(slowdowns), abs=1e-6)
        assert float(row["jain"]) == pytest.approx(jain(slowdowns), abs=1e-6)
        assert row["decisions"] == ""
    assert {row["link"] for row in table(root, "links.csv")} >= {"h1->s1", "h2->s1", "s1->h3"}
    assert all(float(row["peak_share"]) <= 1.000001 for row in table(root, "links.csv"))
    for row in jobs:
        mine = [
            each for each in table(root, "blame.csv") if (each["policy"], each["job"]) == (row["policy"], row["job"])
        ]
        assert sum(float(each["blamed_s"]) for each in mine) == pytest.approx(float(row["iteration_s"]), abs=1e-5)
    assert "on the critical path:" in summary_table(summary, blame=True)
    assert "on the critical path:" not in summary_table(summary)
    assert "all jobs together:" in summary_table(summary)


def test_the_report_has_them_too(simulated):
    root, _ = simulated
    html = (root / "report.html").read_text()
    for words in ("All jobs together", "On the critical path", "What iterations were spent on", "the whole batch"):
        assert words in html
    assert (root / "figures" / "blame.png").stat().st_size > 1000


def test_a_folder_without_yardsticks_or_blame_can_still_be_analysed(simulated, tmp_path):
    root, _ = simulated
    for path in ("manifest.json", "runs.json"):
        (tmp_path / path).write_bytes((root / path).read_bytes())
    runs = json.loads((tmp_path / "runs.json").read_text())
    for run in runs["runs"]:
        del run["blame"], run["links"], run["digest"]
    (tmp_path / "runs.json").write_text(json.dumps(runs))
    summary = analyse(tmp_path, pictures="none")
    (first, *_) = summary.results
    assert first.iteration_s is not None
    assert (first.slowdown, first.blame) == (None, ())
    assert table(tmp_path, "blame.csv") == []
    assert {row["peak_share"] for row in table(tmp_path, "links.csv")} == {""}


@pytest.mark.parametrize("field", ["blamed_s", "job", "other"])
def test_blame_that_cannot_be_is_named(simulated, tmp_path, field):
    root, _ = simulated
    for path in ("manifest.json", "runs.json"):
        (tmp_path / path).write_bytes((root / path).read_bytes())
    runs = json.loads((tmp_path / "runs.json").read_text())
    runs["runs"][0]["blame"][0][field] = 1e300 if field == "blamed_s" else "nobody"
    del runs["runs"][0]["digest"]
    (tmp_path / "runs.json").write_text(json.dumps(runs))
    assert any("blames" in reason for reason in analyse(tmp_path, pictures="none").reasons)


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    root = folder(tmp_path_factory.mktemp("emulated") / "run", LATE, iterations=2)
    write_yardsticks(RunFolder(root).yardsticks, Yardsticks(alone_s={"pipeline": (8.0, 8.0)}))
    return root, analyse(root, pictures="none")


def test_an_emulated_run_is_blamed_by_the_simulation_that_explains_it(emulated):
    _, summary = emulated
    for run in summary.runs:
        (figures,) = run.jobs.values()
        causes = {each.cause for each in run.blame}
        assert causes >= {"computation", "communication", "enforcement", "unexplained"}
        (rest,) = [each.blamed_s for each in run.blame if each.cause == "unexplained"]
        assert rest == pytest.approx(run.budgets["pipeline"].unexplained_s)
        assert sum(each.blamed_s for each in run.blame) == pytest.approx(figures.iteration_s, rel=1e-12)
    for result in summary.results:
        assert result.slowdown.median == pytest.approx(result.iteration_s.median / 8.0)


def test_the_control_plane_of_an_emulated_run(emulated):
    root, _ = emulated
    for row in table(root, "runs.csv"):
        assert int(row["decisions"]) == int(row["settings"]) == 6  # one for each flow
        assert (float(row["decision_p50_ms"]), float(row["decision_p95_ms"])) == (0.5, 0.5)
        assert (row["messages"], row["rules"]) == ("0", "")
        assert math.isclose(float(row["gpu_share"]), 6 / 2 / float(row["jobs_mean_s"]), rel_tol=1e-3)


def test_an_emulated_run_is_explained_over_the_iterations_that_count(tmp_path):
    """A computation of the first iteration is 0.4 s late, and none of the second, which alone counts."""
    counting = Counting(from_s=7.0)
    jobs = [paper_job(BUDGET_NETWORK, 2)]
    measured = Measured(
        late_s={("pipeline", 0, "p0"): 0.4}, release_s={("pipeline", 0, "x0"): 0.4}, settings=Settings()
    )
    run = synthetic_run(jobs, BUDGET_NETWORK, "fifo", 0, 0, measured)
    run.outcome.load, run.segment_bytes = LOAD, 500
    root = write_experiment(tmp_path / "run", BUDGET_NETWORK, jobs, ["fifo"], [run])
    write_calibration(root / "calibration.json", GOOD_LINKS)
    path = RunFolder(root).manifest
    write_manifest(path, msgspec.structs.replace(read_manifest(path), counting=counting))
    explaining.explain(RunFolder(root), Asked(jobs, BUDGET_NETWORK, counting=counting), processes=1)
    (found,) = analyse(root, pictures="none").runs
    assert found.measures["pipeline"].iterations == 1
    budget = found.budgets["pipeline"]
    assert budget.computation_s == pytest.approx(0.0, abs=1e-6)
    assert budget.unexplained_s == pytest.approx(0.0, abs=1e-6)
    assert sum(each.blamed_s for each in found.blame) == pytest.approx(8.0, abs=1e-3)
