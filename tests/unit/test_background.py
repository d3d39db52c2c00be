"""Background traffic: flows of no job, at a share of links, that need no GPU and are not measured."""

from __future__ import annotations

import random
import statistics
from pathlib import Path

import pytest

from echelon.experiment import schema
from echelon.running import runner
from echelonflow.errors import InputError
from traffic.agent.plan import check_observable
from traffic.workloads.background import background

LINK_BPS = 1e7


def sizes(kind: str, seed: int = 1) -> list[int]:
    dag = background(
        random.Random(seed), hosts=8, load=0.2, link_Bps=LINK_BPS, size_bytes=20_000, sizes=kind, lasts_s=5.0
    )
    return [flow.size_bytes for flow in dag.transfers]


def test_hosts_send_the_share_that_is_asked_for_in_flows_of_the_size_that_is():
    fixed = sizes("fixed")
    assert set(fixed) == {20_000}
    assert sum(fixed) == pytest.approx(0.2 * LINK_BPS * 5.0 * 8, rel=0.05)


def test_heavy_tailed_sizes_have_the_same_mean_and_a_small_median():
    drawn = [size for seed in range(5) for size in sizes("heavy-tailed", seed)]
    assert statistics.fmean(drawn) == pytest.approx(20_000, rel=0.25)
    assert statistics.median(drawn) == pytest.approx(20_000 / 3 * 2 ** (1 / 1.5), rel=0.1)


def test_it_follows_from_the_seed():
    assert sizes("heavy-tailed", 3) == sizes("heavy-tailed", 3)
    assert sizes("heavy-tailed", 3) != sizes("heavy-tailed", 4)


EXPERIMENT = """
name: noisy
network: {topology: single-switch, hosts: 4, rate: 100 Mbit/s}
queue: fifo
jobs:
  - {name: pp, paradigm: pipeline, stages: 4, micro_batches: 3, forward: 50 ms, activation: 500 kB, iterations: 2}
background:
  - {load: 20 %, size: 100 kB, for: 1 s}
policies: [fair]
"""


def load(tmp_path: Path, text: str = EXPERIMENT) -> schema.Experiment:
    path = tmp_path / "noisy.yaml"
    path.write_text(text, encoding="utf-8")
    return schema.load(path)


def test_it_takes_no_gpu_slows_jobs_down_and_is_not_measured(tmp_path: Path):
    noisy, quiet = (
        load(tmp_path),
        load(tmp_path, EXPERIMENT.replace("background:\n  - {load: 20 %, size: 100 kB, for: 1 s}\n", "")),
    )
    found = {}
    for name, experiment in (("noisy", noisy), ("quiet", quiet)):
        code, summary = runner.run(experiment, tmp_path / name, "fluid", lambda _: None, pictures="none")
        assert code == 0
        assert [result.job for result in summary.results] == ["pp"]
        found[name] = summary.results[0].iteration_s.median
    assert found["noisy"] > found["quiet"] * 1.01


def test_agents_can_replay_it(tmp_path: Path):
    (traffic,) = [job for job in load(tmp_path).jobs if job.is_background]
    check_observable(traffic)


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("load: 20 %", "load: 120 %", "background.0.load: 1.2 is no share of a link"),
        ("load: 20 %", "load: much", "background.0.load"),
        ("for: 1 s", "for: 0 s", "greater than 0"),
        ("for: 1 s", "for: 1 ns", "no flow of 100,000 bytes comes"),
        ("for: 1 s", "for: 1 s, hosts: [h1, h9]", "background.0.hosts: unknown host 'h9'"),
        ("for: 1 s", "for: 1 s, hosts: [h1, h1]", "names a host twice"),
        ("for: 1 s", "for: 1 s, sizes: odd", "there is no kind 'odd'"),
        ("for: 1 s", "for: 1 s, name: pp", "a job is called 'pp', too"),
        ("size: 100 kB, for: 1 s", "size: 1 B, for: 1 h", "the bound is"),
    ],
)
def test_traffic_that_cannot_be_is_refused(tmp_path: Path, before: str, after: str, words: str):
    with pytest.raises(InputError, match=words):
        load(tmp_path, EXPERIMENT.replace(before, after))
