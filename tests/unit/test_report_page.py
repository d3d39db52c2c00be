"""report.html as a file: its data, its headline, what others wrote in it, and what it says only where that is so."""

from __future__ import annotations

import base64
import json
import re

import msgspec
import numpy as np
import pytest
from typer.testing import CliRunner

from echelon.cli.main import app
from echelonflow.records.manifest import read_manifest, write_manifest
from results import colours
from results.analysis.statistics import Estimate
from results.analysis.summary import PolicyResult, Summary, read_summary
from results.folder import analyse
from results.report.charts import digits_for, short, spread
from results.report.charts.rates import BINS, _sent_in_bins
from results.report.headline import headline
from results.report.html import _is_papers_figure
from results.report.page import _static as static
from results.report.page import embedded
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_run, write_experiment

HOSTILE = ["</script><script>alert(1)</script>", "<!--<script>", "]]>", "\u2028", "&amp;", "'\"`${x}"]


def charts_of(text):
    (found,) = re.findall(r'<script type="application/json" id="charts">(.*?)</script>', text, re.DOTALL)
    return json.loads(found)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    network = paper_network()
    jobs = [paper_job(network, 2)]
    names = ["fair", "echelonflow"]
    runs = [synthetic_run(jobs, network, name, 0, index) for index, name in enumerate(names)]
    root = write_experiment(tmp_path_factory.mktemp("report") / "run", network, jobs, names, runs)
    analyse(root)
    return root


def test_the_data_in_the_page_are_those_of_the_run(report):
    text = (report / "report.html").read_text()
    charts = charts_of(text)
    kinds = {chart["kind"] for chart in charts.values()}
    assert kinds - {"budget"} == {"gantt", "times", "cdf", "classes", "links", "decisions"}
    assert all(f'id="{name}"' in text for name in charts)
    summary = read_summary(report / "summary.json")
    (times,) = [chart for chart in charts.values() if chart["kind"] == "times"]
    assert times["found"][0] == [[short(r.iteration_s.median), None, None] for r in summary.results]
    for place, policy in enumerate(("fair", "echelonflow")):
        gantt = charts[f"gantt-{place}"]
        assert gantt["policy"] == policy
        assert len(gantt["row"]) == 2 * (6 + 3)  # both iterations: six computations and three flows each
        assert set(gantt["iteration"]) == {0, 1}
        late = [f - i for f, i in zip(gantt["finish"], gantt["ideal"], strict=True) if i is not None]
        worst = max(row["tardiness_s"] for row in rows_of(report, policy))
        assert max(late) == pytest.approx(worst, abs=1e-5)


def test_what_is_late_has_its_colour_from_one_place(report):
    for chart in charts_of((report / "report.html").read_text()).values():
        if chart["kind"] == "gantt":
            assert chart["red"] == colours.LATE
    for script in ("report.js", "across.js"):
        assert colours.LATE.lower() not in static(script).lower()


def rows_of(root, policy):
    lines = (root / "flows.csv").read_text().splitlines()
    head = lines[0].split(",")
    rows = [dict(zip(head, line.split(","), strict=True)) for line in lines[1:]]
    return [{**row, "tardiness_s": float(row["tardiness_s"])} for row in rows if row["policy"] == policy]


def test_the_experiment_can_be_saved_from_the_page_and_runs(report, tmp_path):
    text = (report / "report.html").read_text()
    (data,) = re.findall(r'href="data:application/yaml;base64,([^"]+)"', text)
    saved = base64.b64decode(data).decode()
    assert saved.startswith("# The experiment as it was run")
    done = CliRunner().invoke(
        app, ["run", "experiments/pipeline.yaml", "--backend", "fluid", "--out", str(tmp_path / "a")]
    )
    assert done.exit_code == 0
    text = (tmp_path / "a" / "report.html").read_text()
    (data,) = re.findall(r'href="data:application/yaml;base64,([^"]+)"', text)
    (tmp_path / "saved.yaml").write_bytes(base64.b64decode(data))
    again = [
        "run",
        str(tmp_path / "saved.yaml"),
        "--backend",
        "fluid",
        "--pictures",
        "none",
        "--out",
        str(tmp_path / "b"),
    ]
    assert CliRunner().invoke(app, again).exit_code == 0
    assert (tmp_path / "a" / "summary.json").read_text() == (tmp_path / "b" / "summary.json").read_text()
    assert "echelon run experiment.yaml --backend fluid" in text
    assert "The paper's Fig. 2" in text


def test_only_the_papers_figure_is_called_so(report):
    assert "The paper's Fig. 2" not in (report / "report.html").read_text()
    manifest = read_manifest(report / "manifest.json")
    job = {
        "name": "x",
        "paradigm": "pipeline",
        "stages": 2,
        "micro_batches": 3,
        "forward": "1 s",
        "activation": "2 s of link",
    }
    for change, told in (({}, True), ({"micro_batches": 4}, False), ({"backward": "1 s"}, False)):
        changed = msgspec.structs.replace(manifest, experiment={"jobs": [{**job, **change}]})
        assert _is_papers_figure(changed) == told
    assert not _is_papers_figure(msgspec.structs.replace(manifest, experiment={"jobs": [job, job]}))
    assert not _is_papers_figure(msgspec.structs.replace(manifest, experiment=None))


@pytest.mark.parametrize("text", HOSTILE)
def test_data_in_a_page_end_no_element(text):
    written = embedded({"name": text})
    assert not re.search("[<>&\u2028\u2029]", written)
    assert json.loads(written) == {"name": text}


def test_a_policy_of_a_hostile_name_is_text_everywhere(tmp_path):
    network = paper_network()
    jobs = [paper_job(network)]
    root = write_experiment(tmp_path / "run", network, jobs, ["fair"], [synthetic_run(jobs, network, "fair", 0)])
    manifest = read_manifest(root / "manifest.json")
    hostile = "./</script><script>alert(1)</script>.py"
    change = {"title": hostile, "machine": {hostile: hostile}, "experiment": {hostile: hostile}}
    write_manifest(root / "manifest.json", msgspec.structs.replace(manifest, **change))
    analyse(root)
    text = (root / "report.html").read_text()
    assert text.count("<script") == text.count("</script>") == 3
    assert "alert(1)</script>" not in text
    assert text.count("&lt;script&gt;alert(1)") >= 4


def result(policy, job, median, runs=1):
    return PolicyResult(
        policy, job, runs, runs, None if median is None else Estimate(median, None, None, runs), None, None, None, None
    )


def summary_of(*results):
    return Summary("x", "fluid", None, (), results, ())


def test_the_headline_says_who_is_faster_by_how_much():
    found = headline(summary_of(result("fair", "a", 8.5), result("coflow", "a", 10.0), result("echelonflow", "a", 8.0)))
    assert found == (
        "echelonflow is the fastest of 3 policies: an iteration takes 8.000 s, 5.9 % less than the 8.500 s under fair."
    )
    assert headline(summary_of(result("fair", "a", 8.0), result("coflow", "a", 10.0))).startswith(
        "fair is the faster of 2 policies: under coflow, the next, an iteration takes 10.000 s, 25.0 % more than the 8.000 s"
    )
    two = headline(
        summary_of(
            result("fair", "a", 2.0), result("fair", "b", 1.0), result("clock", "a", 1.0), result("clock", "b", 0.5)
        )
    )
    assert "iterations of 2 jobs take 50.0 % less time than under fair in the geometric mean" in two
    assert "a 1.000 s against 2.000 s, b 0.500 s against 1.000 s" in two


def test_the_headline_of_one_policy_and_of_none():
    assert headline(summary_of(result("fair", "a", 2.998), result("fair", "b", 4.208))) == (
        "Under fair an iteration takes 2.998 s (a), 4.208 s (b)."
    )
    assert "no valid run" in headline(summary_of(result("fair", "a", None, 0)))
    assert "no valid run of fair" in headline(
        summary_of(result("fair", "a", None, 0), result("clock", "a", 1.0), result("srpt", "a", 2.0))
    )
    assert "as fast as" in headline(summary_of(result("fair", "a", 1.0), result("clock", "a", 1.0)))


def test_numbers_of_a_page_are_short_and_places_are_spread():
    assert short(1 / 3) == 0.333333
    assert short(float("nan")) is None
    assert spread(5, 10) == [0, 1, 2, 3, 4]
    assert spread(1000, 3) == [0, 500, 999] or spread(1000, 3) == [0, 499, 999]
    assert digits_for(10.0) == 5
    assert digits_for(1e-5) == 11


def test_what_links_carried_adds_up():
    flows = np.array([(0.0, 2.0, 100.0), (1.0, 3.0, 50.0), (-1.0, 1.0, 80.0), (2.5, 2.5000001, 7.0)])
    edges_s = np.linspace(0.0, 4.0, BINS + 1)
    found = _sent_in_bins(flows, edges_s)
    assert found.sum() == pytest.approx(100 + 50 + 40 + 7, rel=1e-4)
    assert found.min() >= 0
    assert found[-1] == pytest.approx(0, abs=1e-6)
