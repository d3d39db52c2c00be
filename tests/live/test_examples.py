"""The example programs as they are: the losses of Gloo, and what they do becomes a job."""

import os
import re
import subprocess
import sys

import pytest

from echelonflow.model.dag import run_without_network
from tests.live.processes import LIMIT_S, ROOT, end, printed, start
from traffic.workloads import formats

STEPS = 5
RANKS = 4


def losses(text):
    return [float(loss) for loss in re.findall(r"step \d+ loss ([\d.]+)", text)]


def with_gloo(script, *argv):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        str(RANKS),
        str(script),
    ]
    done = subprocess.run(
        [*command, *argv],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return losses(done.stdout)


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("train_ddp.py", {"all-reduce"}),
        ("train_fsdp2.py", {"all-gather", "reduce-scatter"}),
        ("train_pipeline.py", {"message"}),
        ("train_tensor_parallel.py", {"all-reduce"}),
    ],
)
def test_losses_are_those_of_gloo_and_what_was_seen_is_a_job(tmp_path, name, kinds):
    script, argv = ROOT / "examples/live" / name, ["--steps", str(STEPS), "--width", "32"]
    codes = end(start(tmp_path, RANKS, script, *argv, ECHELON_OBSERVE=str(tmp_path / "seen{rank}.json")))
    said = [printed(tmp_path, rank) for rank in range(RANKS)]
    assert codes == [0] * RANKS, said
    (ours,) = [found for text in said if (found := losses(text))]
    assert len(ours) == STEPS
    assert ours == pytest.approx(with_gloo(script, *argv), rel=1e-5)
    imported = formats.read("live", sorted(tmp_path.glob("seen*.json")), {"compute": "100 ms"})
    dag = imported.dag
    assert {group.kind for group in dag.groups} == kinds
    computed_s = [sum(c.duration_s for c in dag.computes if c.rank == rank) for rank in range(RANKS)]
    assert max(computed_s) == pytest.approx(0.1)
    ends_s = run_without_network(dag)[0]
    waited_for = {before for step in dag.steps for before in step.after}
    assert all(transfer.name in waited_for for transfer in dag.transfers)
    assert max(end_s for _, end_s in ends_s.values()) >= 0.1 - 1e-9
