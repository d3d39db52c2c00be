"""The benchmarks of paradigms and collectives, on made-up recordings of fluid runs: what they measure, miss and survive."""

from __future__ import annotations

import csv
import dataclasses
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from echelon import benchmarks
from echelon.benchmarks import _closed_forms, _paradigm_figures, collectives, paradigms, sensitivity
from echelon.benchmarks._paradigm_figures import ALONE, SHARED
from echelon.benchmarks._paradigm_files import POLICIES, files
from echelon.experiment import schema
from echelon.running.manifest import manifest
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_VALID, InputError, RunError
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import write_manifest
from echelonflow.records.outcome import ClassCounters, Load
from echelonflow.records.seal import write_seal
from results.analysis.figures import JobFigures
from results.analysis.side_by_side import Cell, pairs_apart
from results.analysis.statistics import Estimate
from results.analysis.summary import PolicyResult
from results.folder import analyse
from tests.unit.synthetic_run import synthetic_run, write_experiment
from traffic.agent.plan import check_observable

FILES = files(())


def silent(words):
    pass


class Recorded:
    """Carries out experiments by making up recordings of fluid runs; `change` may spoil the runs of one."""

    def __init__(self, change=None):
        self.change = change
        self.carried_out = []

    def __call__(self, experiment, root, say):
        self.carried_out.append(experiment.name)
        runs = []
        for repeat in range(experiment.repeats):
            for policy in experiment.policies:
                run = synthetic_run(experiment.jobs, experiment.network, policy, repeat, len(runs))
                runs.append(replace(run, segment_bytes=60_000))
        if self.change is not None:
            self.change(experiment, runs)
        write_experiment(root, experiment.network, experiment.jobs, experiment.policies, runs)
        # Flows are made up at their mean rate, so that links carry more than they can for a while, and less later.
        told = replace(experiment, limits=replace(experiment.limits, max_carried_error=1.0))
        write_manifest(RunFolder(root).manifest, manifest(told, "emulation", {}))
        write_seal(RunFolder(root))
        summary = analyse(root, pictures="none")
        return EXIT_VALID, summary


def named(figures, words):
    (found,) = [figure for figure in figures if words in figure.what]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_closed_forms_are_what_the_dag_sends(path):
    experiment = schema.load(path)
    for job, spec in zip(experiment.jobs, experiment.source["jobs"], strict=True):
        sent, flows = Counter(), Counter()
        for transfer in job.dag.transfers:
            sent[transfer.src_rank] += transfer.size_bytes
            flows[transfer.src_rank] += 1
        expected = _closed_forms.sent_bytes(spec, min(experiment.network.capacity_Bps))
        if expected is None:
            pytest.skip(f"{spec['paradigm']} has no closed form for this")
        assert len(expected) == job.dag.ranks
        for rank, size_bytes in enumerate(expected):
            assert abs(sent[rank] - size_bytes) <= flows[rank]
            assert size_bytes > 1e5  # so a byte a flow is next to nothing


@pytest.mark.parametrize(
    "changes",
    [
        {"colocated": True, "workers": 3, "servers": 2, "paradigm": "parameter-server"},
        {"paradigm": "expert-parallel", "ranks": 4, "gradients": True, "expert_every": 2, "top_k": 2},
        {"paradigm": "hybrid", "tensor": 2, "pipeline": 2, "data": 2, "micro_batches": 3},
    ],
    ids=lambda changes: changes["paradigm"],
)
def test_closed_forms_with_other_options(changes):
    spec = {"name": "job", "profile": "gpt2-small-cpu", **changes}
    network = {"topology": "single-switch", "hosts": 8, "rate": "30 Mbit/s"}
    data = {"name": "x", "network": network, "jobs": [spec], "policies": ["fair"]}
    (job,) = schema.check(data, Path("x.yaml")).jobs
    sent = Counter()
    for transfer in job.dag.transfers:
        sent[transfer.src_rank] += transfer.size_bytes
    assert [sent[rank] for rank in range(job.dag.ranks)] == pytest.approx(_closed_forms.sent_bytes(spec, 1e6), rel=1e-6)


def test_what_has_no_formula_has_no_closed_form():
    options = {"stages": 2, "micro_batches": 2}
    for entry in (
        {"paradigm": "pipeline", "profile": "gpt2-small-cpu", **options},
        {"paradigm": "gpipe", "forward": "1 s", "backward": "1 s", "activation": "1 MB", **options},
        {
            "paradigm": "hybrid", "profile": "gpt2-small-cpu", "tensor": 1, "pipeline": 2, "data": 1, "micro_batches": 2,
            "schedule": "interleaved", "chunks": 2,
        },
    ):  # fmt: skip
        assert _closed_forms.sent_bytes({"name": "x", **entry}, 1e6) is None


def test_hosts_of_a_job_without_closed_form_are_left_out(tmp_path):
    network = {"topology": "single-switch", "hosts": 4, "rate": "30 Mbit/s"}
    known = {"name": "known", "paradigm": "data-parallel", "profile": "gpt2-small-cpu", "ranks": 3}
    unknown = {"name": "unknown", "paradigm": "pipeline", "profile": "gpt2-small-cpu", "stages": 2, "micro_batches": 1}
    jobs = [known, {**unknown, "placement": ["h1", "h4"]}]
    data = {"name": "x", "network": network, "jobs": jobs, "policies": ["fair"]}
    found = _paradigm_figures.closed_form_bytes(schema.check(data, tmp_path / "x.yaml"))
    assert set(found) == {"h2", "h3"}


@pytest.mark.slow  # whole run folders are written and analysed
def test_perfect_recordings_miss_nothing(tmp_path):
    execute = Recorded()
    figures = paradigms.run(2, silent, tmp_path, ["gpipe", "zero"], execute)
    assert execute.carried_out == ["gpipe", "zero"]
    missed = [figure.what for figure in figures if figure.ok is False]
    assert missed == ["flows decided ahead, from the second iteration on"]  # recordings have none
    assert named(figures, "median over 8 ").measured == "0.0%"
    pairs = re.fullmatch(r"(\d+) of (\d+)", named(figures, "in the same order").measured)
    assert pairs is not None
    assert int(pairs[1]) == int(pairs[2]) >= 3  # fluid has coflow(grouping=group) far behind the others
    assert named(figures, "closed form").measured == f"{(4 + 8) * 8} of {(4 + 8) * 8}"
    assert named(figures, "valid runs").measured == "16 of 16"
    with (tmp_path / "paradigms.csv").open() as file:
        table = list(csv.DictReader(file))
    assert {(row["experiment"], row["policy"]) for row in table} == {
        (name, policy) for name in ("gpipe", "zero") for policy in POLICIES
    }
    for row in table:
        assert float(row["exposed_s"]) == pytest.approx(float(row["exposed_fluid_s"]), rel=1e-6)
        assert float(row["exposed_low_s"]) <= float(row["exposed_s"]) + 1e-6
    page = (tmp_path / "paradigms.md").read_text()
    assert [line.count("|") for line in page.splitlines() if line.startswith("| zero")] == [7, 7, 7]
    assert "echelonflow" in (tmp_path / "paradigms.svg").read_text()


@pytest.mark.slow  # whole run folders are written and analysed
def test_it_goes_on_where_it_was_stopped_and_runs_again_what_is_asked_differently(tmp_path):
    paradigms.run(1, silent, tmp_path, ["gpipe"], Recorded())
    again = Recorded()
    figures = paradigms.run(1, silent, tmp_path, ["gpipe", "pipedream"], again)
    assert again.carried_out == ["pipedream"]
    assert named(figures, "experiments with").measured == "2 of 2"
    more = Recorded()
    paradigms.run(2, silent, tmp_path, ["gpipe"], more)
    assert more.carried_out == ["gpipe"]
    assert sorted(path.name for path in (tmp_path / "paradigm-runs").iterdir()) == ["gpipe.1", "gpipe.2", "pipedream.1"]


@pytest.mark.slow  # whole run folders are written and analysed
def test_jobs_alone_and_beside_a_rival_have_figures_and_tables_of_their_own(tmp_path):
    said = []
    figures = paradigms.run(1, said.append, tmp_path, ["gpipe", "pipedream-shared"], Recorded())
    assert said[0] == "0 of 2 experiments are measured; the others take about 5 min"
    assert said[-2] == "2 of 2 experiments are measured; the others take about 0 min"
    alone = named(figures, "alone: exposed communication off fluid, median over 4 ")
    shared = named(figures, "beside a rival: exposed communication off fluid, median over 8 ")
    assert (alone.must, shared.must) == ("at most 3 % (goal 1.5 %)", "at most 3 % (goal 2 %)")
    assert "gpipe" in (tmp_path / "paradigms.md").read_text()
    assert "rival" in (tmp_path / "paradigms-shared.md").read_text()
    assert named(figures, "measured on").measured.startswith("unknown number of processors, Linux unknown, ")


def test_what_is_left_to_measure_is_reckoned_by_what_took_how_long(monkeypatch, tmp_path):
    now = iter([0.0, 400.0])
    monkeypatch.setattr(paradigms.time, "monotonic", lambda: next(now))
    monkeypatch.setattr(paradigms, "expected_s", lambda experiment: {"gpipe": 200.0, "zero": 300.0}[experiment.name])
    gpipe, zero = (schema.load(path) for path in files(["gpipe", "zero"]))
    left = paradigms.Left([gpipe, zero], tmp_path)
    assert left.words() == "0 of 2 experiments are measured; the others take about 8 min"
    left.done(gpipe)
    assert left.words() == "1 of 2 experiments are measured; the others take about 10 min"


@pytest.mark.slow  # whole run folders are written and analysed
def test_invalid_runs_are_left_out_and_a_policy_without_any_valid_one_is_missed(tmp_path):
    def spoil(experiment, runs):
        for run in runs:
            fair = run.record.policy == "fair"
            if (fair and run.record.repeat == 0) or (experiment.name == "pipedream" and fair):
                run.outcome.load = Load(cpu_busy=1.0)

    said = []
    figures = paradigms.run(2, said.append, tmp_path, ["gpipe", "pipedream"], Recorded(spoil))
    assert named(figures, "valid runs").measured == "13 of 16"
    covered = named(figures, "experiments with")
    assert (covered.measured, covered.ok) == ("1 of 2; not pipedream", False)
    assert named(figures, "median over 7 ").ok


def test_what_fails_is_said_and_does_not_end_the_rest(tmp_path):
    good = Recorded()

    def execute(experiment, root, say):
        if experiment.name == "gpipe":
            raise RunError("a switch died")
        _, summary = good(experiment, root, say)
        return EXIT_FAILED, dataclasses.replace(summary, reasons=("the experiment failed: the agent on h1 died",))

    said = []
    figures = paradigms.run(1, said.append, tmp_path, ["gpipe", "pipedream"], execute)
    assert "gpipe: not measured: a switch died" in said
    assert "pipedream: the experiment failed: the agent on h1 died" in said
    assert named(figures, "experiments with").measured == "1 of 2; not gpipe"


def test_an_interrupt_ends_it(tmp_path):
    def execute(experiment, root, say):
        _, summary = Recorded()(experiment, root, say)
        return EXIT_INTERRUPTED, summary

    with pytest.raises(RunError, match="interrupted; the same command goes on"):
        paradigms.run(1, silent, tmp_path, ["gpipe", "pipedream"], execute)


def test_nothing_valid_is_an_error(tmp_path):
    def spoil(experiment, runs):
        for run in runs:
            run.outcome.load = Load(cpu_busy=1.0)

    with pytest.raises(RunError, match="not one valid run"):
        paradigms.run(1, silent, tmp_path, ["gpipe"], Recorded(spoil))


def test_unknown_parts_are_refused(tmp_path):
    with pytest.raises(InputError, match="--only gpip: fits none of data-parallel, expert-parallel, "):
        paradigms.run(1, silent, tmp_path, ["gpip"], Recorded())
    with pytest.raises(InputError, match="--only: forms is measured as a whole"):
        benchmarks.run_benchmarks(["forms"], 1, None, Console(quiet=True), ["gpipe"])


ABOUT_TO_TIE = """
name: about-to-tie
network: {topology: single-switch, hosts: 2, rate: 100 Mbit/s}
jobs:
  - {name: small, paradigm: gpipe, stages: 2, micro_batches: 1, forward: 1 s, backward: 1 s, activation: SMALL}
  - {name: large, paradigm: gpipe, stages: 2, micro_batches: 1, forward: 1 s, backward: 1 s, activation: 10 MB}
policies: [POLICY]
"""
"""Both jobs send at the same time over the same links; Coflow lets the smaller one go first."""


@pytest.mark.parametrize(
    ("small", "policy", "hinges"),
    [("9.999 MB", "coflow", True), ("5 MB", "coflow", False), ("9.999 MB", "fair", False)],
)
def test_an_answer_that_hinges_on_a_tie_is_found(tmp_path, small, policy, hinges):
    path = tmp_path / "tie.yaml"
    path.write_text(ABOUT_TO_TIE.replace("SMALL", small).replace("POLICY", policy))
    found = {moved.job: moved for moved in sensitivity.moved_by(schema.load(path), policy, 20)}
    assert set(found) == {"small", "large"}
    assert all(len(moved.by) == 20 for moved in found.values())
    assert (max(moved.farthest for moved in found.values()) > sensitivity.MOST_WORST) is hinges


def test_firmness_has_a_figure_for_each_experiment_and_one_over_all():
    figures = sensitivity.run(1, silent, ["gpipe"])
    assert [figure.what.split(":")[0] for figure in figures] == ["gpipe", "median over all 4 (experiment, job, policy)"]
    assert figures[0].ok is True
    assert "(gpt2, " in figures[0].measured


def cell(policy, exposed_s, fluid_s, experiment="x"):
    figures = JobFigures(fluid_s + 1, fluid_s, 0.1)
    found = None if exposed_s is None else Estimate(exposed_s, exposed_s - 0.1, exposed_s + 0.1, 3)
    valid_runs = 0 if found is None else 3
    return Cell(experiment, PolicyResult(policy, "gpt2", 3, valid_runs, found, found, found, figures, 1.0))


def test_differences_that_are_too_large_are_missed():
    near = [cell(policy, 1.01, 1.0, name) for policy in ("a", "b") for name in ("x", "y")]
    far = cell("c", 1.2, 1.0)
    median, worst, _ = _paradigm_figures._against_fluid(ALONE, [*near, far])
    assert (median.ok, worst.ok) == (True, False)
    assert worst.measured == "+20.0% (x: gpt2, c)"
    median, worst, _ = _paradigm_figures._against_fluid(ALONE, [cell("a", 0.93, 1.0), cell("b", 0.93, 1.0)])
    assert (median.ok, worst.ok) == (False, True)


def test_limits_are_those_of_the_setting():
    found = [cell(policy, 1.005, 1.0) for policy in ("a", "b", "c")] + [cell("d", 1.11, 1.0)]
    for setting, worst_is_near in ((ALONE, False), (SHARED, True)):
        median, worst, _ = _paradigm_figures._against_fluid(setting, found)
        assert (median.ok, worst.ok) == (True, worst_is_near)


def test_order_counts_where_fluid_tells_policies_apart():
    a, b, c = cell("a", 2.0, 1.0), cell("b", 1.9, 1.07), cell("c", 1.5, 2.0)
    pairs = pairs_apart([a, b, c], 0.08)
    assert [(pair.first, pair.second, pair.same_order) for pair in pairs] == [("a", "c", False), ("b", "c", False)]
    _, _, order = _paradigm_figures._against_fluid(ALONE, [a, b, c])
    assert order.ok is False
    assert order.measured.startswith("0 of 2; not x: gpt2: a before c")
    assert pairs_apart([a, cell("d", None, 3.0)], 0.08) == []


def test_collectives_reach_the_payload_rate_in_fluid(tmp_path):
    def execute(experiment, say):
        Recorded()(experiment, tmp_path / "run", say)
        return tmp_path / "run"

    figures = collectives.run(2, silent, execute)
    assert all(figure.ok in (True, None) for figure in figures), figures
    for figure in figures[: len(collectives.CASES)]:
        assert "100.0% of the payload rate" in figure.measured
    assert sum(figure.ok is True for figure in figures) == 4


def test_acknowledgements_are_told_as_a_share_of_all_that_links_carried():
    one = {"h1-eth0": {0: ClassCounters(100), 1: ClassCounters(8_000)}, "s1-eth1": {0: ClassCounters(100)}}
    other = {"h1-eth0": {0: ClassCounters(0), 7: ClassCounters(1_800)}}
    assert collectives.acknowledged_share([one, other]) == 0.02
    assert collectives.acknowledged_share([]) is None


def test_collectives_are_each_alone(tmp_path):
    experiment = collectives.collectives_experiment(tmp_path, 3)
    assert experiment.repeats == 3
    jobs = sorted(experiment.jobs, key=lambda job: job.start_s)
    rate_Bps = experiment.network.capacity_Bps[0]
    for job, case, later in zip(jobs, collectives.CASES, [*jobs[1:], None], strict=True):
        check_observable(job)
        per_rank = Counter()
        for transfer in job.dag.transfers:
            per_rank[transfer.src_rank] += transfer.size_bytes
        assert [per_rank[rank] for rank in range(8)] == [collectives.SIZE_BYTES * case.bus_factor] * 8
        least_s = job.iterations * collectives.SIZE_BYTES * case.bus_factor / rate_Bps
        assert later is None or later.start_s > job.start_s + least_s / collectives.LEAST_SHARE


def test_a_slow_collective_is_missed(tmp_path):
    def execute(experiment, say):
        Recorded()(experiment, tmp_path / "run", say)
        path = tmp_path / "run" / "flows.csv"
        lines = list(csv.DictReader(path.open()))
        for line in lines:
            if line["job"] == "all-to-all-direct":
                line["pcap_finish_s"] = float(line["pcap_finish_s"]) + 0.5
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, lines[0])
            writer.writeheader()
            writer.writerows(lines)
        return tmp_path / "run"

    missed = [figure.what for figure in collectives.run(1, silent, execute) if figure.ok is False]
    assert missed == ["all-to-all (direct), bus bandwidth of 8 ranks"]
