"""docs/columns.md documents every column that a run writes or prints, and none that it does not."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from echelon.documents import columns
from echelon.experiment import schema, yaml_file
from echelon.running import runner
from results.analysis.columns import columns_of, to_json
from results.folder import analyse
from results.report.table import summary_table
from tests.unit.synthetic_run import (
    explain_runs,
    paper_job,
    paper_network,
    synthetic_runs,
    write_experiment,
    write_swap,
)

PAGE = (columns.DOCS / "columns.md").read_text(encoding="utf-8")
EXPERIMENTS = columns.DOCS.parent / "experiments"
ESTIMATED = (
    "iteration_p95_s", "iterations_p95_s", "completion_s", "slowdown", "slowdown_worst", "jain", "gpu_share",
    "tardiness_sum_s", "to_gain_share",
)  # fmt: skip
COMPARED = ("iteration_difference_s", "exposed_difference_s", "speedup")
MOVED = ("computation", "hindered", "links", "unexplained")


def documented(part):
    """Names in the first column of a made part of the page."""
    _, _, rest = PAGE.partition(columns.begin(part))
    table, _, _ = rest.partition(columns.END)
    return re.findall(r"^\| `([^`]+)` ", table, re.MULTILINE)


@pytest.fixture(scope="module")
def emulated(tmp_path_factory):
    network = paper_network()
    jobs = [paper_job(network)]
    names = ["fifo", "echelonflow"]
    runs = synthetic_runs(jobs, network, names, 2)
    root = write_experiment(tmp_path_factory.mktemp("emulated") / "run", network, jobs, names, runs)
    write_swap(root, runs[-1], 2.0, "fair")
    explain_runs(root, network, jobs)
    return root, analyse(root, pictures="none")


def simulated(path, root):
    _, summary = runner.run(schema.load(path), root, "fluid", lambda _: None, pictures="none")
    return root, summary


@pytest.fixture(scope="module")
def arriving(tmp_path_factory):
    folder = tmp_path_factory.mktemp("arriving")
    experiment = yaml_file.read(EXPERIMENTS / "pipeline.yaml").data
    experiment["jobs"][0]["count"] = 2
    path = folder / "arriving.yaml"
    path.write_text(json.dumps({**experiment, "arrivals": {"process": "even", "every": "3 s"}, "queue": "fifo"}))
    return simulated(path, folder / "run")


@pytest.fixture(scope="module")
def fluid(tmp_path_factory):
    return simulated(EXPERIMENTS / "pipeline.yaml", tmp_path_factory.mktemp("fluid") / "run")


@pytest.fixture(scope="module")
def faulty(tmp_path_factory):
    return simulated(EXPERIMENTS / "faults.yaml", tmp_path_factory.mktemp("faulty") / "run")


@pytest.fixture(scope="module")
def trace(tmp_path_factory):
    return simulated(EXPERIMENTS / "traces" / "shuffles.yaml", tmp_path_factory.mktemp("trace") / "run")


def head(path: Path):
    with path.open(encoding="utf-8") as file:
        return next(csv.reader(file))


def printed(summary):
    """Heads of the printed table: its second line."""
    return re.split(r"  +", summary_table(summary).splitlines()[1])


def test_the_page_is_what_the_code_says():
    assert columns.with_all_made(PAGE) == PAGE, "make it again: python -m echelon.documents.columns"


@pytest.mark.parametrize("kind", ["emulated", "fluid"])
def test_tables_of_runs_are_documented(kind, request):
    root, summary = request.getfixturevalue(kind)
    for name in ("iterations.csv", "groups.csv", "flows.csv", "jobs.csv", "runs.csv", "links.csv", "blame.csv"):
        assert head(root / name) == documented(name)
    assert printed(summary) == documented("printed: jobs")
    for line in (root / "decisions.jsonl").read_text().splitlines():
        assert list(json.loads(line)) == documented("decisions.jsonl")
    assert ((root / "decisions.jsonl").stat().st_size > 0) == (kind == "emulated")


def test_the_table_of_comparisons_is_documented(emulated):
    lines = summary_table(emulated[1]).splitlines()
    after = lines.index("compared with fifo, pair by pair:")
    assert re.split(r"  +", lines[after + 1].strip()) == documented("printed: comparisons")


def test_the_table_of_budgets_is_documented(emulated):
    lines = summary_table(emulated[1]).splitlines()
    after = lines.index("where the time went:")
    # How far iterations scatter stands there only where somebody had to ask: this run keeps all limits.
    assert re.split(r"  +", lines[after + 1].strip()) == [
        name for name in documented("printed: budgets") if name != "scatter"
    ]


def test_the_table_of_blame_is_documented(emulated):
    lines = summary_table(emulated[1], blame=True).splitlines()
    after = lines.index("on the critical path:")
    assert re.split(r"  +", lines[after + 1].strip()) == documented("printed: blame")


def test_the_table_of_all_jobs_together_is_documented(tmp_path):
    _, summary = simulated(EXPERIMENTS / "paradigms" / "gpipe-shared.yaml", tmp_path / "run")
    lines = summary_table(summary).splitlines()
    after = lines.index("all jobs together:")
    assert re.split(r"  +", lines[after + 1].strip()) == documented("printed: all jobs together")


def test_the_table_of_swaps_is_documented(emulated):
    lines = summary_table(emulated[1]).splitlines()
    after = lines.index("policies swapped in mid-run, which count for neither:")
    assert re.split(r"  +", lines[after + 1].strip()) == documented("printed: swaps")


def test_tables_of_jobs_that_arrive_are_documented(arriving):
    root, summary = arriving
    assert head(root / "arrivals.csv") == documented("arrivals.csv")
    lines = summary_table(summary).splitlines()
    after = lines.index("from arrival to end:")
    assert re.split(r"  +", lines[after + 1].strip()) == documented("printed: completions")


def test_tables_of_a_trace_are_documented(trace):
    root, summary = trace
    assert head(root / "coflows.csv") == documented("coflows.csv")
    assert printed(summary) == documented("printed: Coflows")


def objects(summary):
    """Every object in summary.json with the part of the page that describes it."""
    yield "summary.json", summary
    for result in summary["results"]:
        yield "summary.json: results", result
        for name in ("iteration_s", "exposed_s", "tardiness_s"):
            yield "summary.json: estimates", result[name]
        if result["predicted"]:
            yield "summary.json: figures", result["predicted"]
        if result["budget"]:
            yield "summary.json: budgets", result["budget"]
        yield from (("summary.json: blame", blame) for blame in result["blame"])
    yield from (("summary.json: together", result) for result in summary["together"])
    for comparison in summary["comparisons"]:
        yield "summary.json: comparisons", comparison
        for name in COMPARED:
            yield "summary.json: estimates", comparison[name]
    for run in summary["runs"]:
        yield "summary.json: runs", run
        yield from (("summary.json: figures", figures) for figures in run["jobs"].values())
        yield from (("summary.json: budgets", budget) for budget in run["budgets"].values())
        for moved in run["effects"].values():
            yield "summary.json: effects", moved
            yield from (("summary.json: effects, each", moved[name]) for name in MOVED)
        yield from (("summary.json: parts", part) for part in run["parts"])
        yield from (("summary.json: measures", measures) for measures in run["measures"].values())
        if run["together"]:
            yield "summary.json: run together", run["together"]
        if run["control"]:
            yield "summary.json: control", run["control"]
        if run["fidelity"]:
            yield "summary.json: fidelity", run["fidelity"]
        yield from (("summary.json: faults", fault) for fault in run["faults"])
    yield from (("summary.json: completions", result) for result in summary["completions"])
    for result in summary["coflows"]:
        yield "summary.json: coflows", result
        yield from (("summary.json: kinds", kind) for kind in result["kinds"])


def test_every_object_of_the_summaries_is_documented(emulated, fluid, faulty, trace, arriving):
    seen = set()
    for root, _ in (emulated, fluid, faulty, trace, arriving):
        for part, found in objects(json.loads((root / "summary.json").read_text())):
            assert list(found) == documented(part), part
            assert not [key for key, value in found.items() if isinstance(value, dict) and key not in
                        ("iteration_s", "exposed_s", "tardiness_s", "predicted", "jobs", "budget", "budgets", "fidelity",
                         *COMPARED, *ESTIMATED, *MOVED, "effects", "measures", "together", "control")]  # fmt: skip
            seen.add(part)
    assert seen == {part for part in columns.WRITTEN if part.startswith("summary.json")}


def test_nothing_on_the_page_is_of_another_table():
    parts = re.findall(r"^<!-- (.+): made by", PAGE, re.MULTILINE)
    assert sorted(parts) == sorted([*columns.WRITTEN, *columns.PRINTED])
    for part in parts:
        assert documented(part) == columns.names(part)


@pytest.mark.parametrize("part", columns.WRITTEN)
def test_every_column_says_what_it_means_and_where_it_comes_from(part):
    for kind in columns.WRITTEN[part]:
        for column in columns_of(kind):
            assert len(column.meaning) > 10, column.name
            assert column.source, f"{kind.__name__}.{column.name} does not end in 'From ...' or 'Computed.'"


def test_a_column_without_a_description_is_refused():
    @dataclass
    class Bare:
        told: int
        """A number. From the test."""
        untold: int

    with pytest.raises(ValueError, match="Bare: no docstring says what is in untold"):
        columns_of(Bare)


def test_records_of_every_kind_are_rows():
    class Point(msgspec.Struct):
        x_bytes: int
        """A place. From the test."""

    assert [(column.name, column.unit, column.source) for column in columns_of(Point)] == [
        ("x_bytes", "bytes", "the test")
    ]
    assert to_json({"points": (Point(1), Point(2))}) == {"points": [{"x_bytes": 1}, {"x_bytes": 2}]}


def test_units_come_from_names():
    @dataclass
    class Row:
        spent_ms: float
        """A time. Computed."""
        bytes_wrong: tuple[str, ...]
        """Texts. Computed."""
        busy_share: float
        """A share with no source"""

    found = [(column.unit, column.meaning, column.source) for column in columns_of(Row)]
    assert found == [
        ("ms", "A time.", "computed"), ("", "Texts.", "computed"), ("0 to 1", "A share with no source.", ""),
    ]  # fmt: skip
