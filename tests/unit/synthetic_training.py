"""Folders as `echelon live` leaves them, without training: a lesson, and two runs of which one leaves the lesson's losses."""

from __future__ import annotations

from pathlib import Path

from echelonflow.records.folder import RunFolder
from echelonflow.records.live_part import LiveOutcome, write_live_outcome
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_run, write_experiment

POLICIES = ["fair", "echelonflow"]
LESSON = "step 0 loss 2.5\nstep 1 loss 2.25\nstep 2 loss 2.0\n"
PRINTED = {"fair-r0": LESSON, "echelonflow-r0": "step 0 loss 2.5\nstep 1 loss 2.2500001\n"}


def outcome(rank: int, **changed: object) -> LiveOutcome:
    """What the process of a rank found."""
    values = {"job": "pipeline", "rank": rank, "computed": 100, "overran": 5, "scheduled_bytes": 900, "other_bytes": 0}
    return LiveOutcome(**(values | changed))


def trained_run(root: Path, **changed: object) -> Path:
    """The folder of the runs, beside that of the lesson, both in `root`; it is not analysed. What ranks found may be `changed`."""
    network = paper_network()
    jobs = [paper_job(network, 2)]
    runs = [synthetic_run(jobs, network, name, 0, index) for index, name in enumerate(POLICIES)]
    made = write_experiment(root / "live", network, jobs, POLICIES, runs)
    learned = root / "lesson" / "learned" / "pipeline"
    learned.mkdir(parents=True)
    (learned / "rank0.txt").write_text(LESSON)
    for run in RunFolder(made).runs():
        (run.root / "live").mkdir()
        run.output("pipeline", 1).write_text(PRINTED[run.root.name])
        for rank, host in enumerate(("h1", "h2")):
            write_live_outcome(run.live(host), outcome(rank, **changed))
    return made
