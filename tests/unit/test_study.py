"""The study: orders of flows, resumable collection, cases that can be made again."""

from __future__ import annotations

import itertools
import json
import math

import pytest
from typer.testing import CliRunner

from echelon.cli.main import app
from echelon.study import (
    all_sections,
    arrivals,
    closed,
    compare,
    contenders,
    document,
    few_queues,
    flow_orders,
    sensitivity,
    steady_cases,
    store,
)
from echelon.study.section import Section
from echelonflow.errors import InputError
from echelonflow.model import topologies
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.scheduling import policies
from results.analysis import statistics
from simulator.fluid import simulate

NETWORK = topologies.build("single-switch", {"hosts": 2, "rate_bps": 8e6})


def two_flows(name="a"):
    """Released together; the consumer of `long` works 1 s, that of `short` 10 s: short should go first."""
    size = round(NETWORK.capacity_Bps[0])
    steps = (
        Transfer("long", 0, 1, 3 * size, "long"), Transfer("short", 0, 1, size, "short"),
        Compute("after long", 1, 1.0, ("long", "after short")), Compute("after short", 1, 10.0, ("short",)),
    )  # fmt: skip
    return Job(name, JobDag(2, steps, (Group("g", "t", ("short", "long"), (0.0, 10.0)),)), ("h1", "h2"))


def iteration_s(record):
    return max(c.finish_s for c in record.computes)


def test_an_order_is_followed_to_the_letter():
    job = two_flows()
    found = simulate([job], NETWORK, flow_orders.by_order([job], [("a", "long"), ("a", "short")]))
    assert {f.flow: round(f.finish_s, 4) for f in found.flows} == {"long": 3.0, "short": 4.0}
    assert iteration_s(found) == pytest.approx(15.0)


def test_the_best_order_is_found_among_all():
    job = two_flows()
    best = flow_orders.best([job], NETWORK, flow_orders.all_of([job]), iteration_s)
    assert best.order == (("a", "short"), ("a", "long"))
    assert best.value == pytest.approx(12.0)
    assert best.tried == 2 == flow_orders.number_of_orders([job])[0]


def test_orders_of_groups_keep_their_flows_in_order_of_ideal_finish():
    jobs = [two_flows("a"), two_flows("b")]
    found = list(flow_orders.by_groups(jobs))
    assert len(found) == 2 == flow_orders.number_of_orders(jobs)[1]
    assert found[0] == (("a", "short"), ("a", "long"), ("b", "short"), ("b", "long"))


def test_without_flows_there_is_no_order():
    silent = Job("s", JobDag(1, (Compute("c", 0, 1.0),)), ("h1",))
    with pytest.raises(InputError, match="no order of flows to try"):
        flow_orders.best([silent], NETWORK, [], iteration_s)


def test_the_roster_finds_every_policy():
    names = contenders.roster()
    assert {policies.load(name).name.split("(")[0] for name in names} == set(policies.names())
    assert "echelonflow(order=remaining,within=paced)" in names
    assert len(set(names)) == len(names)


@pytest.fixture
def sections():
    chosen = [s for s in closed.sections(0.01) if s.name in (closed.GROUPS, closed.TINY)]
    return [Section(s.name, s.cases, s.draw, lambda case: {"words": [float(len(case.jobs))]}) for s in chosen]


def test_a_study_goes_on_where_it_was_stopped(tmp_path, sections):
    path = tmp_path / "deep" / "study.jsonl"
    assert store.collect(path, sections, 0.0, print) == 4
    assert store.collect(path, sections, 1e6, print) == 0
    assert store.collect(path, sections, 1e6, print) == 0
    assert len(path.read_text().splitlines()) == 4
    found = store.load(path)
    assert found[closed.GROUPS, 1].scores["words"][0] == len(closed.groups_case(1).jobs)
    assert {case.code for case in found.values()} == {store.measuring_code()}


def test_workers_find_the_same(tmp_path):
    sections = [section for section in closed.sections(0.01) if section.name == closed.ONE_JOB]
    found = []
    for workers in (1, 2):
        path = tmp_path / f"{workers}.jsonl"
        assert store.collect(path, sections, 1e6, print, workers=workers) == 0
        found.append({key: case.scores for key, case in store.load(path).items()})
    assert found[0] == found[1]


def test_cases_of_other_code_are_measured_again_unless_kept(tmp_path, sections):
    path = tmp_path / "study.jsonl"
    store.collect(path, sections, 1e6, print)
    lines = [json.loads(line) | {"code": "older"} for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert store.collect(path, sections, 0.0, print, keep=True) == 0
    assert store.collect(path, sections, 0.0, print) == 4


def test_a_case_is_kept_with_its_orders_of_flows(tmp_path):
    order = (("a", "long"), ("a", "short"))
    case = store.Measured(closed.TINY, 0, "made up", "code", {"fair": [2.0], order: [1.0], order[::-1]: [3.0]})
    path = tmp_path / "study.jsonl"
    path.write_text(json.dumps(case.to_dict()) + "\n")
    assert store.load(path) == {(closed.TINY, 0): case}


def test_a_line_that_is_no_case_is_named(tmp_path):
    path = tmp_path / "study.jsonl"
    path.write_text('{"section": "groups"}\n')
    with pytest.raises(InputError, match="line 1: is not a measured case"):
        store.load(path)


def test_a_case_is_the_same_whenever_it_is_drawn():
    for section in all_sections.sections(0.01):
        assert section.draw(1).jobs == section.draw(1).jobs


def test_no_order_beats_the_bound_on_a_tiny_case():
    case = closed.tiny_case(0)
    scores = closed.measure_all_orders(case)
    tried = [values[0] for values in compare.order_scores(scores).values()]
    assert len(tried) == flow_orders.number_of_orders(case.jobs)[0]
    assert min(tried) >= scores["bound"][0] * (1 - 1e-6)


def made_up(number, names, factor=1.0):
    """Scores where every policy takes 2 s, EchelonFlow `factor` times as long; the bound is 1 s."""
    scores = {name: [2.0, 1.0, 3.0 + number] for name in names}
    return scores | {name: [2.0 * factor, 1.0, 2.0 + number] for name in names if "echelon" in name} | {"bound": [1.0]}


def made_up_times(names):
    """Scores of two jobs where every policy takes 2 and 4 s, `clock` half of it; alone they need 1 s each."""
    halved = {name: [1.0, 2.0, 9.0] for name in names if name.startswith(("clock", "lookahead"))}
    return {name: [2.0, 4.0, 9.0] for name in names} | halved | {"alone": [1.0, 1.0]}


@pytest.fixture
def measured():
    found = {}
    for section in all_sections.sections(0.01):
        for number in range(2):
            if section.name.startswith("steady state"):
                names = [*steady_cases.policies_compared(), *steady_cases.policies_on_fabrics()]
                names += [steady_cases.LOOKAHEAD, *steady_cases.LOOKAHEAD_PARTS]
                at_levels = itertools.product((contenders.FAIR, *sensitivity.policies_compared()), sensitivity.levels())
                names += itertools.starmap(sensitivity.key, at_levels)
                ways = (few_queues.policies_compared(), few_queues.foldings(), few_queues.CLASSES)
                names += [*few_queues.policies_compared(), *itertools.starmap(few_queues.key, itertools.product(*ways))]
                scores = made_up_times(names) | {"bound": [1.0, 1.5]}
                found[section.name, number] = store.Measured(section.name, number, "made up", "code", scores)
                continue
            if section.name.startswith("arrivals"):
                scores = {name: times[:2] for name, times in made_up_times(arrivals.policies_compared()).items()}
                found[section.name, number] = store.Measured(section.name, number, "made up", "code", scores)
                continue
            if section.name == closed.GROUPS:
                scores = {n: [v[0]] for n, v in made_up(number, contenders.roster()).items()}
            elif section.name in (closed.ONE_JOB, closed.TWO_JOBS):
                scores = made_up(number, ["fair", "echelonflow", "order 0"], 0.5)
                del scores["bound"]
            else:
                scores = made_up(number, contenders.compared(), 0.5)
            if section.name == closed.TINY:
                order = tuple(flow_orders.flow_names(closed.tiny_case(number).jobs))
                scores[order] = [1.0, 0.5, 9.0]
                scores[order[::-1]] = [1.5, 0.5, 1.0]
            found[section.name, number] = store.Measured(section.name, number, "made up", "code", scores)
    return found


def test_the_document_says_what_was_measured(tmp_path, measured):
    written = document.write(tmp_path, measured, list(all_sections.sections(0.01)))
    assert [path.name for path in written] == ["results.md", *(f"{name}.png" for name in document.PICTURES)]
    text = written[0].read_text()
    assert "mixed jobs' iterations take 0.500 [0.500, 0.500] of what they take under fair sharing" in text
    assert "`clock` takes 0.500 [0.500, 0.500] of fair sharing" in text
    assert "`clock` is 20.0% above the bound in the mean, `lookahead` 20.0%; fair sharing is 140.0% above it" in text
    assert (
        "`lookahead` takes 1.000 of the best named policy of each case (1.000 to 1.000; longer in 0 of 2 cases)" in text
    )
    assert (
        "takes 2.00 times its least time alone under `clock` (mean over cases). It takes 2.00 times that under `lookahead`, 4.00 under"
        in text
    )
    assert "Measured by code code " in text
    assert f"against Coflow `collective` {2 * 19} / 0 / 0 times" in text
    assert "is 100.0% above the lower bound" in text
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    assert ["profile error 50.0%", *["1.000 [1.000, 1.000]"] * 3, "0.500 [0.500, 0.500]"] in rows
    folded = itertools.product(few_queues.foldings(), range(1, 9))
    assert {(f"`{way}`", str(classes)) for way, classes in folded} <= {tuple(row[:2]) for row in rows}
    assert contenders.default_form() in sensitivity.policies_compared()
    assert ["orders of one job", "4", "100.0%", "0.0%", "0.0%", "2 of 2", "0.0%"] in rows
    assert "Least tardy: tardiness 1000.0, mean iteration 1500.0" in text
    assert "iterations are 50.0% longer" in text
    assert "{" not in text


def test_a_study_that_has_hardly_begun_is_not_written(tmp_path, measured):
    del measured[closed.MIXED, 0]
    with pytest.raises(InputError, match="section 'mixed' of the study has 1 measured cases; 2 are needed"):
        document.write(tmp_path, measured, list(all_sections.sections(0.01)))


def test_the_command_stops_at_its_limit_and_says_what_is_left(tmp_path):
    arguments = ["study", "--data", str(tmp_path / "s.jsonl"), "--docs", str(tmp_path / "docs"), "--limit", "0"]
    found = CliRunner().invoke(app, arguments)
    assert found.exit_code == 0, found.output
    assert "cases are left; run again to go on" in found.output
    assert not (tmp_path / "docs").exists()


def test_the_command_writes_what_is_there(tmp_path, measured):
    data = tmp_path / "s.jsonl"
    data.write_text("".join(json.dumps(case.to_dict()) + "\n" for case in measured.values()))
    arguments = ["study", "--data", str(data), "--docs", str(tmp_path / "docs"), "--limit", "0", "--keep"]
    assert CliRunner().invoke(app, arguments).exit_code == 0
    text = (tmp_path / "docs" / "results.md").read_text()
    assert f"{len(measured)} of {sum(section.cases for section in all_sections.sections())} random cases" in text
    assert "versions of the code" not in text


def test_agreement_counts_pairs_that_differ():
    case = {"a": [1.0, 0, 1.0], "b": [2.0, 0, 2.0], "c": [2.0, 0, 3.0], "d": [1.5, 0, 4.0], "e": [9.0, 0, 4.0]}
    found = compare.agreement([case])
    assert (found.shorter, found.equal, found.longer) == (6, 1, 2)  # d against e is as tardy: no pair
    assert (found.best_is_best, found.worst_loss) == (1, 0.0)
    assert compare.loss_of_least_tardy({"a": [3.0, 0, 1.0], "b": [2.0, 0, 2.0]}) == pytest.approx(0.5)


def test_no_ratio_beyond_1_is_no_chance_and_every_one_alike_is_certain():
    cases = [{"a": [1.0], "b": [1.0], "c": [2.0]}, {"a": [1.0], "b": [1.0], "c": [2.0]}]
    assert compare.p_value(cases, "a", "b") == 1.0
    assert compare.p_value(cases, "c", "b") == 0.0


def test_a_p_value_is_students():
    cases = [{"a": [math.exp(x)], "b": [1.0]} for x in (0.1, 0.2, 0.3)]
    # t = 0.2 / (0.1 / sqrt 3) = 3.4641 with two degrees of freedom: 1 - t / sqrt(t^2 + 2), both sides
    assert compare.p_value(cases, "a", "b") == pytest.approx(1 - 3.4641 / math.sqrt(3.4641**2 + 2), rel=1e-3)


def test_holm_multiplies_the_smallest_by_their_number_and_never_turns_their_order():
    assert statistics.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert statistics.holm([0.9, 0.8]) == [1.0, 1.0]
