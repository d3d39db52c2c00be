"""Emulated cells, with an emulator that is scripted: what is kept of a run, and what ends a sweep."""

from __future__ import annotations

import pytest

from echelon.sweeps import on_packets, plan
from echelon.sweeps.fluid import Wanted
from echelonflow.errors import InputError, RunError, StorageError
from echelonflow.records.cells import read_cell
from results.analysis.control_plane import ControlPlane
from results.analysis.figures import JobFigures
from results.analysis.measures import JobMeasures
from results.analysis.summary import RunResult, Summary
from tests.unit.sweep_cases import sweep_of, written

LATE = RunResult("fair-r0", "fair", 0, ("late",), {"p": JobFigures(9.0, 8.0, 7.0)}, None)
MEASURES = JobMeasures(
    iterations=1, iteration_s=0.5, iteration_median_s=0.5, iteration_p95_s=0.6, iteration_p99_s=0.7, exposed_s=0.2,
    completion_s=1.25, alone_s=0.4, slowdown=1.25, completion_slowdown=1.5, gpu_share=0.3, tardiness_sum_s=0.1,
)  # fmt: skip
GOOD = RunResult(
    "fair-r1", "fair", 1, (), {"p": JobFigures(0.5, 0.2, 0.1)}, None, measures={"p": MEASURES},
    control=ControlPlane(messages=40, decisions=7, settings=9, rules=None, decision_p50_ms=0.5, decision_p95_ms=2.5),
)  # fmt: skip
LINKS = "policy,repeat,valid,link,kind,carried_bytes,mean_share,peak_share\nfair,0,false,a,edge,1,0.9,\nfair,1,true,a,edge,1,0.2,\nfair,1,true,b,edge,1,0.4,\n"


def summary(*runs, reasons=()):
    return Summary(
        name="swept", backend="emulation", time_unit_s=None, reasons=tuple(reasons), results=(), runs=tuple(runs)
    )


@pytest.fixture
def emulate(tmp_path, monkeypatch):
    """Has every run end as a test says, and makes the first cell of a sweep."""
    from testbed import preflight

    monkeypatch.setattr(preflight, "require", lambda: None)
    sweep = sweep_of(written(tmp_path), "seed=5", backend="emulation")
    first = plan.cells(sweep, plan.Names(sweep))[0]
    asked = []

    def make(outcome):
        def run(experiment, root, backend, report, *, again):
            asked.append((experiment.policies, experiment.seed, experiment.repeats, backend, again))
            if isinstance(outcome, BaseException):
                raise outcome
            root.mkdir(parents=True)
            (root / "links.csv").write_text(LINKS)
            return outcome

        monkeypatch.setattr(on_packets.runner, "run", run)
        wanted = [Wanted(first.name, {}, first.policy, first.seed)]
        ((cell,),) = on_packets.one_after_the_other(sweep, wanted, tmp_path / "cells", lambda _: None)
        assert asked == [(("fair",), 5, 1, "emulation", 1)]
        return cell

    return make


def test_the_run_that_counts_is_the_cell_and_its_folder_is_kept(emulate, tmp_path):
    cell = emulate((0, summary(LATE, GOOD)))
    assert cell.valid
    assert cell.set_aside == 1
    assert cell.jobs["p"]["iteration_s"] == 0.5
    of_job = cell.jobs["p"]
    assert (of_job["iterations"], of_job["counted"]) == (2, 1), "all that ended, and those that count"
    assert [of_job[name] for name in ("completion_s", "slowdown", "iteration_p99_s", "gpu_share")] == [
        1.25,
        1.25,
        0.7,
        0.3,
    ]
    assert cell.together == {
        "messages": 40, "decisions": 7, "decision_p50_ms": 0.5, "decision_p95_ms": 2.5,
        "link_mean_share": pytest.approx(0.3), "link_max_share": 0.4,
    }, "of the run that counts"  # fmt: skip
    assert read_cell(tmp_path / "cells" / cell.name) == cell
    assert (tmp_path / "cells" / cell.name / "run" / "links.csv").exists()
    assert [path.name for path in (tmp_path / "cells").iterdir()] == [cell.name]


def test_a_cell_none_of_whose_runs_counts_is_invalid_and_stays(emulate):
    cell = emulate((3, summary(LATE, reasons=("fair-r0: late",))))
    assert (cell.valid, cell.failed) == (False, False)
    assert cell.reasons == ("fair-r0: late",)
    assert cell.jobs == {"p": {}}


def test_a_run_that_failed_is_a_cell_that_failed(emulate):
    cell = emulate((1, summary(reasons=("the experiment failed: no",))))
    assert cell.failed
    assert cell.reasons == ("the experiment failed: no",)


@pytest.mark.parametrize("error", [RunError("the world\nbroke"), InputError("cannot be emulated")])
def test_what_goes_wrong_is_the_reason_of_its_cell(emulate, tmp_path, error):
    cell = emulate(error)
    assert cell.failed
    assert cell.reasons == (" ".join(str(error).split()),)
    assert not (tmp_path / "cells" / cell.name / "run").exists()


def test_ctrl_c_leaves_nothing_of_the_cell_under_way(emulate, tmp_path):
    with pytest.raises(KeyboardInterrupt):
        emulate((130, summary()))
    assert not list((tmp_path / "cells").glob("*"))


def test_a_full_disk_ends_the_sweep(emulate, tmp_path):
    with pytest.raises(StorageError):
        emulate(StorageError("cannot be written: No space left on device", tmp_path))


def test_a_machine_that_cannot_emulate_is_told_before_anything_is_made(tmp_path, monkeypatch):
    from testbed import preflight

    def cannot():
        raise InputError("this machine cannot emulate: root")

    monkeypatch.setattr(preflight, "require", cannot)
    sweep = sweep_of(written(tmp_path), "seed=5", backend="emulation")
    wanted = [Wanted("x-1", {}, "fair", 5)]
    with pytest.raises(InputError, match="this machine cannot emulate"):
        list(on_packets.one_after_the_other(sweep, wanted, tmp_path / "cells", lambda _: None))
    assert list(on_packets.one_after_the_other(sweep, [], tmp_path / "cells", lambda _: None)) == []
