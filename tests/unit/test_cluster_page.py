"""What docs/cluster.md says of a run on packets: how far it is off fluid, and whether policies come in the same order."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from echelon.cli.main import app
from echelon.documents import cluster_page
from echelonflow.errors import InputError
from results.analysis.summary import read_summary
from results.folder import analyse
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_runs, write_experiment

ARRIVING = """
name: arriving
network: {topology: single-switch, hosts: 4, rate: 100 Mbit/s, gpus_per_host: 1}
jobs:
  - {name: a, paradigm: data-parallel, ranks: 4, layers: 2, forward: 10 ms, backward: 20 ms, parameter: 500 kB, iterations: 4, count: 3}
arrivals: {process: poisson, every: 10 ms, seed: 3}
queue: fifo
policies: [fair, srpt]
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    network = paper_network()
    jobs = [paper_job(network, 2)]
    names = ["fair", "echelonflow"]
    runs = synthetic_runs(jobs, network, names, 2)
    root = write_experiment(tmp_path_factory.mktemp("cluster") / "run", network, jobs, names, runs)
    return root, analyse(root)


def test_the_page_has_what_the_summary_says(run):
    root, summary = run
    text = cluster_page.measured(root)
    assert "4 runs of 2 policies. " in text.replace("\n", " ")
    for result in summary.results:
        line = next(
            each
            for each in text.splitlines()
            if each.startswith(f"| `{result.policy}`") and "%" in each.rsplit("|", 2)[1]
        )
        assert f"{result.predicted.exposed_s:.3f}" in line
        off = result.exposed_s.median / result.predicted.exposed_s - 1
        assert float(line.rsplit("|", 2)[1].strip(" %")) == pytest.approx(100 * off, abs=0.06)


def test_pairs_that_are_apart_in_fluid_are_compared_on_packets():
    fluid_s = {"fair": 2.0, "coflow": 1.5, "clock": 1.45}
    same = cluster_page._in_words([0.01, -0.05], fluid_s, {"fair": [2.1], "coflow": [1.6], "clock": [1.7]})
    assert "3.0% off fluid in the median over policies and jobs, and at most 5.0%" in same
    assert "Of 2 pairs of policies that are over 8% apart in fluid, 2 come" in same
    other = cluster_page._in_words([0.01], fluid_s, {"fair": [1.5], "coflow": [1.6], "clock": [1.4]})
    assert "Of 2 pairs of policies that are over 8% apart in fluid, 1 come" in other


def test_it_is_written_between_its_marks_and_a_folder_that_is_no_run_is_refused(run, tmp_path):
    page = tmp_path / "cluster.md"
    page.write_text("\n".join(["before", *cluster_page.MARKS, "after"]))
    cluster_page.main([run[0]], page)
    text = page.read_text()
    assert text.startswith("before")
    assert text.endswith("after")
    assert cluster_page.measured(run[0]) in text
    with pytest.raises(InputError):
        cluster_page.measured(tmp_path)


def test_of_a_trace_it_has_completion_times(tmp_path):
    root = tmp_path / "run"
    file = tmp_path / "arriving.yaml"
    file.write_text(ARRIVING)
    assert CliRunner().invoke(app, ["run", str(file), "--backend", "fluid", "--out", str(root)]).exit_code == 0
    page = tmp_path / "cluster.md"
    page.write_text("\n".join([*cluster_page.MARKS_OF_TRACE, "after"]))
    cluster_page.main([root], page)
    lines = [line for line in page.read_text().splitlines() if line.startswith("| `")]
    summary = read_summary(root / "summary.json")
    assert len(lines) == len(summary.completions) == 2
    for line, one in zip(lines, summary.completions, strict=True):
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[:3] == [f"`{one.policy}`", "3", f"{one.average_s:.3f}"]
        assert cells[6] == f"{one.normalised:.3f}"
