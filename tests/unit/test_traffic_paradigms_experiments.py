"""The experiments in experiments/paradigms: sized as they say they are."""

from __future__ import annotations

import pytest

from echelon.benchmarks._paradigm_files import POLICIES
from echelon.documents import experiment_figures
from echelon.experiment import schema
from echelonflow.scheduling import policies
from results.analysis.rows import iteration_rows
from simulator.fluid import simulate
from traffic.workloads import paradigms

FILES = sorted(experiment_figures.FOLDER.glob("*.yaml"))
LEAST_FLOW_S = 0.05


def test_every_paradigm_is_there_and_some_beside_a_rival():
    # The forward-only pipeline is the paper's example, an experiment of its own.
    names = set(paradigms.names()) - {"pipeline"}
    stems = {path.stem for path in FILES}
    assert names <= stems
    assert stems - names <= {f"{name}-shared" for name in names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_experiment_is_what_it_says(path):
    experiment = schema.load(path)
    shared = path.stem.endswith("-shared")
    assert experiment.name == path.stem
    assert experiment.policies == POLICIES
    assert experiment.source["jobs"][0]["paradigm"] == path.stem.removesuffix("-shared")
    assert [job.name for job in experiment.jobs][1:] == (["rival"] if shared else [])
    assert not any(note.warnings for note in experiment.notes)  # such as of flows that are too short
    assert experiment_figures.least_flow_s(experiment.jobs, min(experiment.network.capacity_Bps)) >= LEAST_FLOW_S
    record = simulate(experiment.jobs, experiment.network, policies.load("fair"))
    for job in experiment.jobs:
        own = [row for row in iteration_rows(record, experiment.jobs) if row.job == job.name]
        assert len(own) == 2
        assert 0.3 <= sum(row.exposed_s for row in own) / sum(row.duration_s for row in own) <= 0.7
    text = path.read_text(encoding="utf-8")
    made = experiment_figures.with_figures(text, experiment_figures.figures(experiment))
    assert made == text, "write the figures again: python -m echelon.documents.experiment_figures"


def test_figures_replace_those_that_were_there_or_end_the_comment():
    made = "# Under fair sharing, `echelon run` finds\n# The smallest flow takes 7 ms on an idle link.\n"
    first = experiment_figures.with_figures("# What it is.\nname: x\n", made)
    assert first == f"# What it is.\n#\n{made}name: x\n"
    later = made.replace("7 ms", "8 ms")
    assert experiment_figures.with_figures(first, later) == first.replace("7 ms", "8 ms")
    assert experiment_figures.with_figures("name: x\n", made) == f"{made}name: x\n"
