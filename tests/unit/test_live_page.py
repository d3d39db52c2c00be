"""The parts of docs/live.md that are made of folders and files: every policy that was run, valid and invalid runs told apart."""

from __future__ import annotations

import json
import re

import pytest

from echelon.documents import live_page
from echelon.documents.live_page import ACROSS, BENCH, PAGE, POLICIES, marks
from echelonflow.errors import InputError
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import Manifest, write_manifest
from results.analysis.figures import JobFigures
from results.analysis.summary import RunResult, Summary, policy_results, write_summary
from tests.unit.synthetic_run import paper_job, paper_network

JOB = "pipeline"
COFLOW = "coflow(grouping=collective)"
MEASURED_EXPERIMENTS = ("live-pipeline", "live-two-jobs", "live-measured")


def run(policy, repeat, iteration_s, exposed_s, *reasons):
    figures = {JOB: JobFigures(iteration_s, exposed_s, None)}
    return RunResult(f"{policy}-r{repeat}", policy, repeat, reasons, figures, None)


def folder(root, runs, name="live-pipeline", predicted=None):
    """A folder of `echelon live` with these runs."""
    policies = tuple(dict.fromkeys(each.policy for each in runs))
    live = root / "live"
    live.mkdir(parents=True)
    figures = {policy: {JOB: JobFigures(*times_s, None)} for policy, times_s in (predicted or {}).items()}
    found = policy_results(runs, policies, [paper_job(paper_network())], figures)
    write_summary(live / "summary.json", Summary(name, "emulation", None, (), tuple(found), tuple(runs)))
    manifest = Manifest(name=name, backend="emulation", policies=policies, repeats=3)
    write_manifest(RunFolder(live).manifest, manifest)
    return root


def rows(made):
    """The rows of a table, by their first cell."""
    lines = [line for line in made.splitlines() if line.startswith("|")][2:]
    return {cells[0]: cells[1:] for cells in ([cell.strip() for cell in line[1:-1].split("|")] for line in lines)}


FAIR = [run("fair", 0, 2.0, 1.0), run("fair", 1, 2.2, 1.1), run("fair", 2, 2.4, 1.2)]


def test_policies_are_set_over_the_first_by_pairs_and_valid_pairs_are_told_apart(tmp_path):
    ours = [run("echelonflow", 2, 1.2, 0.24), run("echelonflow", 0, 1.0, 0.2), run("echelonflow", 1, 2.2, 0.55, "late")]
    predicted = {"fair": (2.0, 1.0), "echelonflow": (1.5, 0.5)}
    made = live_page.parts([POLICIES, str(folder(tmp_path, [*FAIR, *ours], predicted=predicted))])
    found = rows(made[marks(POLICIES, "live-pipeline")])
    assert found["fair"] == [JOB, "3 of 3", "2200", "1100", "-", "-", "-", "-", "-"]
    job, valid, *times, iteration, all_iterations, exposed, all_exposed, simulated = found["echelonflow"]
    assert (job, valid, times, simulated) == (JOB, "2 of 3", ["1200", "240"], "0.750")
    assert iteration == "0.500 [0.500, 0.500] (2)"
    assert exposed == "0.200 [0.200, 0.200] (2)"
    # The cube root of 0.5 * 0.5 * 1, and of 0.2 * 0.2 * 0.5. Logarithms deviate by 0.4002 and 0.5290, t of 2 degrees is 4.303.
    assert all_iterations == "0.630 [0.233, 1.702] (3)"
    assert all_exposed == "0.271 [0.073, 1.010] (3)"


def test_what_cannot_be_divided_or_was_run_once_has_no_ratio_or_no_interval(tmp_path):
    ours = [run("echelonflow", 0, 1.0, 0.0), run("fifo", 5, 1.0, 1.0)]
    (made,) = live_page.parts([POLICIES, str(folder(tmp_path, [*FAIR[:1], *ours]))]).values()
    found = rows(made)
    assert found["echelonflow"][4:] == ["0.500 (1)", "0.500 (1)", "-", "-", "-"]
    assert found["fifo"][4:] == ["-"] * 5  # no run of the same repeat


def test_a_policy_that_only_one_of_two_experiments_ran_has_a_row(tmp_path):
    plain = folder(tmp_path / "a", [run("fair", 0, 2.0, 1.0), run(COFLOW, 0, 2.5, 1.5)], "live-barrier")
    scheduled = folder(
        tmp_path / "b", [run("fifo", 0, 3.0, 2.0), run("fair", 0, 1.5, 0.5, "late")], "live-bytescheduler"
    )
    (made,) = live_page.parts([ACROSS, str(plain), str(scheduled)]).values()
    found = rows(made)
    assert list(found) == ["fair", COFLOW, "fifo"]
    assert found["fair"][1:] == ["1 of 1", "0 of 1", "2000", "1500", "1000", "500", "0.750 (1)", "-"]
    assert found[COFLOW][1:] == ["1 of 1", "-", "2500", "-", "1500", "-", "-", "-"]
    assert found["fifo"][1:] == ["-", "1 of 1", "-", "3000", "-", "2000", "-", "-"]
    assert made.startswith("`live-bytescheduler` beside `live-barrier`")


def test_live_replayed_and_simulated_of_several_folders_are_one_table(tmp_path):
    roots = []
    for name in ("live-ddp", "live-fsdp2"):
        root = folder(tmp_path / name, FAIR, name, predicted={"fair": (2.0, 1.0)})
        folder(tmp_path / f"{name}-again", FAIR[:1], name).joinpath("live").rename(root / "replayed")
        roots.append(str(root))
    made = live_page.parts(roots)[marks()]
    assert made.count("| live-ddp ") == made.count("| live-fsdp2 ") == 1
    assert rows(made)["live-ddp"] == ["fair", JOB, "1100.0", "1000.0", "1000.0", "+10.0%", "+10.0%"]
    assert made.endswith("- `live-ddp`, runs of each policy: 3.\n- `live-fsdp2`, runs of each policy: 3.")


def test_figures_of_benchmarks_are_taken_from_their_files(tmp_path):
    figure = {"what": "loss", "measured": "1.2e-07", "must": "0.0001", "ok": True}
    losses, others = tmp_path / "losses.json", tmp_path / "others.json"
    losses.write_text(json.dumps({"live-losses": [figure], "latency": [figure]}))
    others.write_text(json.dumps({"live-collectives": [{**figure, "what": "share", "must": "", "ok": None}]}))
    made = live_page.parts([BENCH, str(others), str(losses)])[marks(BENCH)]
    assert made.index("`echelon bench live-losses`:") < made.index("`echelon bench live-collectives`:")
    assert rows(made)["loss"] == ["1.2e-07", "0.0001", "yes"]
    assert rows(made)["share"] == ["1.2e-07", "reported", ""]
    assert "latency" not in made


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ([], "name folders of `echelon live`"),
        ([ACROSS, "a"], "across takes two folders, and not 1"),
        ([BENCH], "no file has figures of `echelon bench live-losses live-collectives`"),
        ([POLICIES, "nowhere"], "nowhere"),
    ],
)
def test_what_no_part_can_be_made_of_is_refused(argv, words):
    with pytest.raises(InputError, match=words):
        live_page.parts(argv)


def test_a_file_that_is_none_of_a_benchmark_is_refused_by_its_name(tmp_path):
    path = tmp_path / "figures.json"
    path.write_text('{"live-losses": 3}')
    with pytest.raises(InputError, match=r"figures\.json: is not what `echelon bench --out` writes"):
        live_page.parts([BENCH, str(path)])


def test_each_part_is_written_between_its_own_marks_and_all_else_stays(tmp_path):
    page = tmp_path / "live.md"
    page.write_text(PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    roots = [folder(tmp_path / name, [*FAIR, run("fifo", 1, 1.1, 0.6)], name) for name in MEASURED_EXPERIMENTS]
    assert live_page.main([POLICIES, *map(str, roots)], page) == 0
    text = page.read_text(encoding="utf-8")
    for name in MEASURED_EXPERIMENTS:
        part = text.partition(marks(POLICIES, name)[0])[2].partition(marks()[1])[0]
        assert f"`{name}`: times are medians" in part
        assert rows(part)["fifo"][4] == "0.500 (1)"
    without = re.compile(r"(<!-- made by .*? -->).*?<!-- end of what is made -->", re.DOTALL)
    assert without.sub(r"\1", text) == without.sub(r"\1", PAGE.read_text(encoding="utf-8"))


def test_an_experiment_of_which_the_page_has_no_part_is_refused(tmp_path):
    page = tmp_path / "live.md"
    page.write_text("# Nothing is made here\n")
    with pytest.raises(ValueError, match="lacks the mark"):
        live_page.main([POLICIES, str(folder(tmp_path / "a", FAIR))], page)
