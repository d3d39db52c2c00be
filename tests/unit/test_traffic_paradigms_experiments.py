"""The experiments in experiments/paradigms: sized as they say they are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import experiments
from echelon.experiment import schema
from echelonflow.scheduling import policies
from results.metrics import group_rows, iteration_rows
from simulator.fluid import simulate
from traffic.workloads import paradigms

FILES = sorted((Path(experiments.__file__).parent / "paradigms").glob("*.yaml"))
POLICIES = ("fair", "coflow(grouping=group)", "coflow(grouping=collective)", "echelonflow")
FAIR = re.compile(r"#   (\S+) +fair +([0-9.]+) s +([0-9]+) % +([0-9.]+) s")
SMALLEST = re.compile(r"# The smallest flow takes ([0-9]+) ms on an idle link\.")
LEAST_FLOW_S = 0.05


def test_every_paradigm_is_there_alone_and_beside_a_rival():
    # The forward-only pipeline is the paper's example, an experiment of its own.
    names = set(paradigms.names()) - {"pipeline"}
    assert {path.stem for path in FILES} == names | {f"{name}-shared" for name in names}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_an_experiment_is_what_it_says(path):
    experiment = schema.load(path)
    assert experiment.name == path.stem
    assert experiment.policies == POLICIES
    assert [job.name for job in experiment.jobs] == (["gpt2", "rival"] if path.stem.endswith("-shared") else ["gpt2"])
    assert not any(note.warnings for note in experiment.notes)  # such as of flows that are too short
    payload_Bps = min(experiment.network.capacity_Bps)
    flows = [t for job in experiment.jobs for t in job.dag.transfers if not job.is_local(t)]
    least_s = min(t.size_bytes for t in flows) / payload_Bps
    assert least_s >= LEAST_FLOW_S
    text = path.read_text(encoding="utf-8")
    assert SMALLEST.findall(text) == [f"{least_s * 1000:.0f}"]
    record = simulate(experiment.jobs, experiment.network, policies.load("fair"))
    rows, groups = iteration_rows(record, experiment.jobs), group_rows(record, experiment.jobs)
    said = {job: tuple(map(float, figures)) for job, *figures in FAIR.findall(text)}
    assert set(said) == {job.name for job in experiment.jobs}
    for name, (iteration_s, percent, tardiness_s) in said.items():
        own = [row for row in rows if row.job == name]
        duration_s = sum(row.duration_s for row in own)
        exposed = sum(row.exposed_s for row in own) / duration_s
        tardiness = [group.tardiness_s for group in groups if group.job == name]
        assert len(own) == 2
        assert 0.3 <= exposed <= 0.7
        assert duration_s / 2 == pytest.approx(iteration_s, abs=0.02)
        assert 100 * exposed == pytest.approx(percent, abs=1)
        assert sum(tardiness) / len(tardiness) == pytest.approx(tardiness_s, abs=0.02)
