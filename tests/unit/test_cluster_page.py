"""What docs/cluster.md says of a run on packets: how far it is off fluid, and whether policies come in the same order."""

from __future__ import annotations

import pytest

from echelon.documents import cluster_page
from echelonflow.errors import InputError
from results.folder import analyse
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_run, write_experiment


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    network = paper_network()
    jobs = [paper_job(network, 2)]
    names = ["fair", "echelonflow"]
    runs = [
        synthetic_run(jobs, network, name, repeat, 2 * repeat + index)
        for repeat in range(2)
        for index, name in enumerate(names)
    ]
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
    cluster_page.main(run[0], page)
    text = page.read_text()
    assert text.startswith("before")
    assert text.endswith("after")
    assert cluster_page.measured(run[0]) in text
    with pytest.raises(InputError):
        cluster_page.measured(tmp_path)
