"""A run's time is explained cause by cause, and it is judged by what its machine added and by what nothing explains."""

from __future__ import annotations

import dataclasses

import msgspec
import pytest

from echelon.running import explaining
from echelon.running.stages import Asked
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.measured import Measured, Settings
from echelonflow.records.budget import Budgets, ExplainedRun, read_budgets, write_budgets
from echelonflow.records.calibration import write_calibration
from echelonflow.records.folder import RunFolder
from echelonflow.records.outcome import ClassCounters, Load, LoadWindow
from results.analysis.budget import PARTS, JobBudget, budgets, mean
from results.analysis.effects import effects, judge_effects
from results.analysis.figures import JobFigures
from results.analysis.limits import Limits
from results.folder import analyse
from results.report.table import summary_table
from tests.unit.synthetic_run import (
    ZERO_MONOTONIC_S,
    calibration,
    explain_runs,
    paper_job,
    paper_network,
    synthetic_run,
    write_experiment,
)

NETWORK = paper_network()
POLICIES = ("fifo", "echelonflow")
"""They serve one flow at a time, so that packets which are made up at a constant rate are those of the simulation."""
LOAD = Load(cpu_busy=0.3, cpu_busy_max=0.5, switch_thread_busy=0.2, switch_thread_busy_max=0.4)


def key(step, iteration=0):
    return ("pipeline", iteration, step)


def links(*errors):
    """A calibration that found each link off by so much, in the order of the network's."""
    (attempt,) = calibration(0.0).attempts
    (one,) = attempt.links
    found = tuple(
        msgspec.structs.replace(
            one, path=link.name, links=(link.name,), error=error, measured_Bps=one.declared_Bps * (1 + error)
        )
        for link, error in zip(NETWORK.links, errors, strict=True)
    )
    return msgspec.structs.replace(
        calibration(0.0), attempts=(msgspec.structs.replace(attempt, links=found, burst_s=0.0),)
    )


GOOD_LINKS = links(0.0, 0.0, 0.0, 0.0)


def folder(root, measured=None, *, policies=POLICIES, found=GOOD_LINKS, change=None, iterations=1):
    """Runs that measured what is given, explained."""
    jobs = [paper_job(NETWORK, iterations)]
    runs = [synthetic_run(jobs, NETWORK, name, 0, index, measured) for index, name in enumerate(policies)]
    for run in runs:
        run.outcome.load = LOAD
        run.segment_bytes = 500  # small ones, as the links are slow: what passes them is counted in whole segments
        if change is not None:
            change(run)
    write_experiment(root, NETWORK, jobs, policies, runs)
    write_calibration(root / "calibration.json", found)
    return explain_runs(root, NETWORK, jobs)


def analysed(root):
    return analyse(root, pictures="none")


LATE = Measured(
    late_s={key("p0"): 0.011, key("p1"): 0.004, key("c0"): 0.002, key("c2"): 0.030, key("p1", 1): 0.020},
    release_s={key("x0"): 0.011, key("x1"): 0.004, key("x1", 1): 0.020},
    settings=Settings(
        first_s={key("x0"): 0.003, key("x1"): 0.007, key("x2"): 0.0004, key("x0", 1): 0.005},
        arrival_s={key("x1"): 0.0008, key("x2", 1): 0.0012},
        acknowledged_s={key("x0"): 0.002},
    ),
)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_run_that_was_late_by_known_times_is_explained_to_the_microsecond(tmp_path, policy):
    carried = tuple(rate * (1 - 0.004 * (i + 1)) for i, rate in enumerate(NETWORK.capacity_Bps))
    measured = dataclasses.replace(LATE, carried_Bps=carried)
    root = folder(
        tmp_path / "run", measured, policies=(policy,), found=links(-0.004, -0.008, -0.012, -0.016), iterations=2
    )
    (run,) = analysed(root).runs
    budget = run.budgets["pipeline"]
    assert abs(budget.unexplained_s) < 1e-6
    assert budget.ideal_s == pytest.approx(8.0, abs=1e-4)
    # Of two iterations the first releases x0 late by 11 ms, and its last computation is noticed 30 ms late.
    assert budget.computation_s > 0.005
    assert budget.decisions_s > 0.001
    # The narrowest link on the way carries 1.6 % less, and six of eight seconds are sent over it.
    assert budget.links_s == pytest.approx(6 * (1 / 0.984 - 1), rel=1e-3)
    assert run.valid, run.reasons


def test_nothing_late_is_nothing_added(tmp_path):
    for run in analysed(folder(tmp_path / "run", Measured(settings=Settings()))).runs:
        budget = run.budgets["pipeline"]
        added = [getattr(budget, field) for field, _ in PARTS[1:]]
        assert added == pytest.approx([0] * len(added), abs=1e-6)
        assert run.valid


def test_computations_that_are_late_and_move_nothing_do_no_harm(tmp_path):
    """One step in three ended 10 ms late, which was invalid; the iteration took 10 ms of 8 s longer."""
    late_s = {key("p0"): 0.01, key("p1"): 0.01}
    measured = dataclasses.replace(LATE, late_s=late_s, release_s={key("x0"): 0.01, key("x1"): 0.01})

    def busy(run):
        run.outcome.load = msgspec.structs.replace(LOAD, cpu_busy=0.99, cpu_busy_max=1.0)

    summary = analysed(folder(tmp_path / "run", measured, change=busy))
    assert summary.valid, summary.reasons
    assert summary.runs[0].fidelity.late_p99_s > 0.005


def test_late_computations_that_move_the_iteration(tmp_path):
    measured = Measured(late_s={key("p0"): 0.3}, release_s={key("x0"): 0.3}, settings=Settings())

    def stolen(run):
        windows = (
            LoadWindow(ZERO_MONOTONIC_S, ZERO_MONOTONIC_S + 1, 0.3, 0.0, 0.0),
            LoadWindow(ZERO_MONOTONIC_S + 1, ZERO_MONOTONIC_S + 2, 0.9, 0.5, 0.25),
        )
        run.outcome.load = msgspec.structs.replace(LOAD, cpu_stolen=0.1, cpu_others=0.05, windows=windows)

    summary = analysed(folder(tmp_path / "run", measured, policies=("echelonflow",), change=stolen))
    (reason,) = summary.reasons
    assert "the machine moved iterations of job pipeline by 3.6% (limit 2%)" in reason
    assert "late computations +300.0 ms" in reason
    assert "50% of the processors were stolen by the host, and 25% taken by other programs" in reason
    assert "verdict: INVALID" in summary_table(summary)


def exchange_job():
    """Two hosts that send each other as much as links carry in two seconds, at once."""
    size_bytes = round(2 * NETWORK.capacity_Bps[0])
    steps = (
        Transfer("x0", 0, 1, size_bytes, "x0", ()),
        Transfer("x1", 1, 0, size_bytes, "x1", ()),
        Compute("c0", 0, 1.0, ("x0", "x1"), "forward"),
    )
    return Job("exchange", JobDag(2, steps, (Group("x", "exchange", ("x0", "x1"), (0.0, 0.0)),), ()), ("h1", "h2"), 1)


def test_acknowledgements_beside_data_of_the_other_direction(tmp_path):
    """They are not the machine's fault: the run is valid, though they move it by more than a machine may."""
    share, job = 0.04, exchange_job()
    run = synthetic_run([job], NETWORK, "fair", 0, 0, Measured(settings=Settings(), acknowledgement_share=share))
    run.segment_bytes = 500
    size_bytes = job.dag.transfers[0].size_bytes
    back = ClassCounters(round(share * size_bytes), size_bytes // 500)
    for host in NETWORK.hosts:
        run.outcome.classes[f"{host}-eth0"] = {0: back, 1: ClassCounters(size_bytes, size_bytes // 500)}
    root = write_experiment(tmp_path / "run", NETWORK, [job], ("fair",), [run])
    write_calibration(root / "calibration.json", GOOD_LINKS)
    (found,) = analysed(explain_runs(root, NETWORK, [job])).runs
    budget = found.budgets["exchange"]
    assert budget.ideal_s == pytest.approx(3.0, abs=1e-4)
    assert budget.acknowledgements_s == pytest.approx(2 * share, rel=0.01)
    assert abs(budget.unexplained_s) < 1e-3
    assert budget.hindered_s == pytest.approx(0, abs=1e-6)
    assert budget.links_s == pytest.approx(0, abs=1e-6)
    assert found.valid, found.reasons


def test_links_that_carry_less_as_they_were_calibrated(tmp_path):
    carried = tuple(0.9 * rate for rate in NETWORK.capacity_Bps)
    measured = Measured(settings=Settings(), carried_Bps=carried)
    summary = analysed(folder(tmp_path / "run", measured, found=links(-0.1, -0.1, -0.1, -0.1)))
    assert [run.valid for run in summary.runs] == [False, False]
    assert all("link rates +" in reason for reason in summary.reasons)


def test_a_calibration_that_the_host_held_up_says_nothing_of_links(tmp_path):
    """Runs before and after it were equally long, and half the links were found two in a hundred too slow."""
    found = links(-0.02, -0.02, -0.02, -0.02)
    disturbed = msgspec.structs.replace(
        found, attempts=tuple(msgspec.structs.replace(each, stolen_share=0.28) for each in found.attempts)
    )
    good = Measured(settings=Settings())
    (first, *_) = analysed(folder(tmp_path / "disturbed", good, found=disturbed)).results
    assert first.budget is not None
    assert first.budget.links_s == 0
    slow = Measured(settings=Settings(), carried_Bps=tuple(0.98 * rate for rate in NETWORK.capacity_Bps))
    (first, *_) = analysed(folder(tmp_path / "quiet", slow, found=found)).results
    assert first.budget is not None
    assert first.budget.links_s > 0.01


def test_a_calibration_that_other_programs_held_up_says_nothing_of_links(tmp_path):
    """Tests ran beside it on the same processors. All 15 runs that followed came out as theory has them, and were invalid."""
    found = links(-0.0285, -0.0285, -0.0285, -0.0285)
    summary = analysed(folder(tmp_path / "run", Measured(settings=Settings()), found=found, iterations=4))
    assert summary.valid, summary.reasons
    assert all(run.budgets["pipeline"].links_s < 0.01 for run in summary.runs)


def test_links_that_carry_less_after_they_were_calibrated(tmp_path):
    carried = tuple(0.9 * rate for rate in NETWORK.capacity_Bps)
    summary = analysed(folder(tmp_path / "run", Measured(settings=Settings(), carried_Bps=carried)))
    assert [run.valid for run in summary.runs] == [False, False]
    assert all("job pipeline" in reason for reason in summary.reasons)
    assert all("link h1->s1 carried 90% while flows waited for it" in reason for reason in summary.reasons)
    assert all(run.budgets["pipeline"].links_s > 0.5 for run in summary.runs)


def test_a_link_that_is_off_and_that_nobody_uses_refuses_nothing(tmp_path):
    unused = [0.0 if link.dst == "h2" or link.src == "h1" else -0.037 for link in NETWORK.links]
    assert min(unused) == -0.037
    summary = analysed(folder(tmp_path / "run", Measured(settings=Settings()), found=links(*unused)))
    assert summary.valid, summary.reasons


def test_what_nothing_explains(tmp_path):
    """Computations begin half a second after what they wait for has come, and no record says why."""

    def later(run):
        def moved(time_s):
            return time_s + 0.5 if time_s > 3.5 else time_s

        record = run.record
        record.computes = [
            dataclasses.replace(c, start_s=moved(c.start_s), finish_s=moved(c.start_s) + c.finish_s - c.start_s)
            for c in record.computes
        ]

    root = folder(tmp_path / "run", Measured(settings=Settings()), policies=("fifo",), change=later)
    (run,) = analysed(root).runs
    (reason,) = [reason for reason in run.reasons if "explain" in reason]
    assert "iterations of job pipeline took 8.500 s, +6.3% off the 8.000 s that the measured causes explain" in reason
    assert "(limit 2%)" in reason
    assert "queues dropped" in reason


def test_a_budget_of_an_earlier_run_explains_nothing(tmp_path):
    root = folder(tmp_path / "run", Measured(settings=Settings()))
    path = RunFolder(root).budget
    known = read_budgets(path).runs
    earlier = {label: msgspec.structs.replace(run, zero_monotonic_s=1.0) for label, run in known.items()}
    write_budgets(path, Budgets(earlier))
    assert all("budget.json tells of an earlier run" in reason for reason in analysed(root).reasons)
    explain_runs(root, NETWORK, [paper_job(NETWORK)])
    assert read_budgets(path).runs == known
    write_budgets(path, Budgets({"fifo-r0": known["fifo-r0"]}))
    (reason,) = analysed(root).reasons
    assert reason.startswith("echelonflow-r0: the run could not be explained: budget.json does not tell of it")
    path.write_text("{")
    assert any("budget.json: is not JSON" in reason for reason in analysed(root).reasons)


def test_what_is_explained_is_not_explained_again(tmp_path, monkeypatch):
    root = folder(tmp_path / "run", Measured(settings=Settings()))
    before = RunFolder(root).budget.read_bytes()
    monkeypatch.setattr("echelon.running.explaining.explained_run", None)
    explain_runs(root, NETWORK, [paper_job(NETWORK)])
    assert RunFolder(root).budget.read_bytes() == before


def test_several_processes_find_what_one_does(tmp_path):
    root = folder(tmp_path / "run", LATE)
    path = RunFolder(root).budget
    before = path.read_bytes()
    path.unlink()
    explaining.explain(RunFolder(root), Asked([paper_job(NETWORK)], NETWORK), processes=2)
    assert path.read_bytes() == before


def test_times_that_cannot_be_explain_nothing(tmp_path):
    root = folder(tmp_path / "run", Measured(settings=Settings()))
    path = RunFolder(root).budget
    known = read_budgets(path).runs
    strange = msgspec.structs.replace(known["fifo-r0"], links_s={"pipeline": 1e308})
    write_budgets(path, Budgets({**known, "fifo-r0": strange}))
    summary = analysed(root)
    assert any("tells of times that cannot be in fifo-r0" in reason for reason in summary.reasons)
    assert [run.valid for run in summary.runs] == [False, True]


def test_a_policy_that_fails_in_the_simulation_is_named(tmp_path):
    root = folder(tmp_path / "run", Measured(settings=Settings()), policies=("fifo",))
    failed = ExplainedRun(run_index=0, zero_monotonic_s=ZERO_MONOTONIC_S, failure="policy x.py: too slow")
    write_budgets(RunFolder(root).budget, Budgets({"fifo-r0": failed}))
    assert analysed(root).reasons == ("fifo-r0: the run could not be explained: policy x.py: too slow",)


def test_folders_from_before_budgets_are_judged_by_their_load_and_prediction(tmp_path):
    def busy(run):
        run.outcome.load = msgspec.structs.replace(LOAD, cpu_busy=0.99)

    root = folder(tmp_path / "run", Measured(settings=Settings()), policies=("fifo",), change=busy)
    assert analysed(root).valid
    RunFolder(root).budget.unlink()
    (reason,) = analysed(root).reasons
    assert "processors were busy 99%" in reason


def test_the_table_shows_where_the_time_went(tmp_path):
    summary = analysed(folder(tmp_path / "run", LATE))
    lines = summary_table(summary).splitlines()
    begin = lines.index("where the time went:")
    assert lines[begin + 1].split("  ")[0] == "policy"
    assert [line.split()[0] for line in lines[begin + 3 : begin + 5]] == list(POLICIES)


class TestBudgets:
    ONE = JobBudget(
        ideal_s=8.0, computation_s=0.1, decisions_s=0.2, hindered_s=0.05, acknowledgements_s=0.4, links_s=-0.1,
        unexplained_s=0.3, iteration_s=8.9, exposed_s=4.9,
    )  # fmt: skip

    def test_parts_add_up(self):
        one = self.ONE
        assert sum(getattr(one, field) for field, _ in PARTS) == pytest.approx(one.iteration_s)
        assert one.explained_s == pytest.approx(8.6)

    def test_no_cause_makes_up_for_another(self, fidelity):
        still = dataclasses.replace(self.ONE, unexplained_s=0.0, exposed_s=8.6, iteration_s=8.6)
        (reason,) = judge_effects(effects({"a": still}), fidelity, Limits(max_moved_exposed=1))
        assert "moved iterations of job a by 2.9% (limit 2%)" in reason  # 0.25 s of 8.6 s

    def test_the_mean_adds_up_too(self):
        other = dataclasses.replace(self.ONE, unexplained_s=0.1, iteration_s=8.7)
        assert mean([self.ONE, other]) == dataclasses.replace(self.ONE, unexplained_s=0.2, iteration_s=8.8)
        assert mean([]) is None

    def test_jobs_that_were_not_simulated_have_none(self):
        figures = {"a": JobFigures(1.0, 0.5, None)}
        assert budgets(None, figures) == {}
        assert budgets(ExplainedRun(run_index=0, zero_monotonic_s=0.0, ideal_s={"a": 1.0}), figures) == {}

    def test_exposed_communication_that_is_next_to_nothing(self, fidelity):
        """7 ms of 1 s are told from nothing by nobody, though there are only 10 ms of exposed communication."""
        still = dict.fromkeys(("computation_s", "decisions_s", "hindered_s", "acknowledgements_s", "links_s"), 0.0)
        small = JobBudget(ideal_s=0.996, unexplained_s=0.004, iteration_s=1.0, exposed_s=0.014, **still)
        found = effects({"a": small})
        assert found["a"].least_exposed_s(0.03) == pytest.approx(0.166)
        assert judge_effects(found, fidelity, Limits()) == []
        more = dataclasses.replace(small, unexplained_s=0.006, ideal_s=0.994)
        assert len(judge_effects(effects({"a": more}), fidelity, Limits())) == 1

    @pytest.fixture
    def fidelity(self, tmp_path):
        return analysed(folder(tmp_path / "run", policies=("fifo",))).runs[0].fidelity
