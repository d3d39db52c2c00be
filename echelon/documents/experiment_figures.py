"""Writes what fair sharing makes of every experiment with a paradigm into its comment.

`python -m echelon.documents.experiment_figures` simulates each file in experiments/paradigms and puts the figures into the
comment at its top, by which a reader sees what it was sized to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelon.places import EXPERIMENTS
from echelonflow.model.dag import Job
from echelonflow.scheduling import policies
from results.analysis.rows import group_rows, iteration_rows
from simulator.fluid import simulate

FOLDER = EXPERIMENTS / "paradigms"
SHOWN = "fair"
_INTRODUCTION = """\
# Under fair sharing, `echelon run --backend fluid` finds (exposed: share of an iteration that the network costs;
# tardiness: mean of all EchelonFlows):
#
"""
_FIGURES = re.compile(
    r"(?:^#\n)?^# Under fair sharing, `echelon run.*?^# The smallest flow takes [0-9]+ ms on an idle link\.\n",
    re.MULTILINE | re.DOTALL,
)
_COMMENT = re.compile(r"(?:^#[^\n]*\n)*", re.MULTILINE)


def figures(experiment: Experiment) -> str:
    """The lines of the comment: what the network costs each job under fair sharing, and how long its least flow takes."""
    record = simulate(experiment.jobs, experiment.network, policies.load(SHOWN))
    rows, groups = iteration_rows(record, experiment.jobs), group_rows(record, experiment.jobs)
    lines = [f"#   {'job':7}{'policy':29}iteration  exposed  tardiness"]
    for job in experiment.jobs:
        own = [row for row in rows if row.job == job.name]
        duration_s, exposed_s = sum(row.duration_s for row in own), sum(row.exposed_s for row in own)
        tardiness = [group.tardiness_s for group in groups if group.job == job.name and group.tardiness_s is not None]
        mean_s = sum(tardiness) / len(tardiness)
        share = 100 * exposed_s / duration_s
        lines.append(f"#   {job.name:7}{SHOWN:26}{duration_s / len(own):8.2f} s{share:7.0f} %{mean_s:9.2f} s")
    least_ms = 1000 * least_flow_s(experiment.jobs, min(experiment.network.capacity_Bps))
    return (
        _INTRODUCTION + "\n".join([*lines, "#", f"# The smallest flow takes {least_ms:.0f} ms on an idle link."]) + "\n"
    )


def least_flow_s(jobs: Sequence[Job], link_Bps: float) -> float:
    """How long the smallest flow of all jobs takes on an idle link."""
    sizes = [transfer.size_bytes for job in jobs for transfer in job.dag.transfers if not job.is_local(transfer)]
    return min(sizes) / link_Bps


def with_figures(text: str, made: str) -> str:
    """`text` of an experiment file with the figures in its comment as they are now, at the end if there were none."""
    if _FIGURES.search(text):
        return _FIGURES.sub(lambda found: ("#\n" if found[0].startswith("#\n") else "") + made, text, count=1)
    comment = _COMMENT.match(text)
    end = comment.end() if comment else 0
    return text[:end] + ("#\n" if end else "") + made + text[end:]


def main(folder: Path = FOLDER) -> None:
    """Write the figures into every file of `folder` in which they are not those of now."""
    for path in sorted(folder.glob("*.yaml")):
        text = path.read_text(encoding="utf-8")
        made = with_figures(text, figures(schema.load(path)))
        if made != text:
            path.write_text(made, encoding="utf-8")


if __name__ == "__main__":
    main()
