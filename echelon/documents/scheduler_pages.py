"""Describes every job scheduler, and what each makes of one small job: `python -m echelon.documents.scheduler_pages`.

Writes the made parts of docs/schedulers.md. One is a table with what each promises, and how long an iteration takes when
simulated. The other has of each scheduler what its module says of itself, its source and its options.
"""

from __future__ import annotations

from pathlib import Path

from echelon.documents.made_pages import with_made
from echelon.documents.modules import as_markdown, described, filled, listed_options
from echelon.places import DOCS
from echelonflow.model import topologies
from echelonflow.model.dag import Job
from echelonflow.scheduling import policies
from echelonflow.tables import markdown_table
from results.analysis.rows import iteration_rows
from simulator.fluid import simulate
from traffic.workloads import job_schedulers
from traffic.workloads.tensors import PARAMETER_SERVER, Architecture, Setting, Tensor, TensorModel

BEGIN, END = "<!-- made by python -m echelon.documents.scheduler_pages -->", "<!-- end of what is made -->"
BEGIN_SECTIONS = "<!-- sections: made by python -m echelon.documents.scheduler_pages -->"
POLICY = "fair"
RATE_BPS = 800e6
WORKERS, SERVERS = 4, 4
ITERATIONS = 6
OTHER_FORMS = (
    "bytescheduler(barrier=true)",
    "bytescheduler(partition=1 MB, credit=4 MB)",
    "ddp(order=registered)",
    "fifo(framework=mxnet)",
    "fifo(framework=tensorflow)",
    "tic(crosses=true)",
    "tic(form=faithful)",
)
"""Beside every scheduler with its defaults, these rows stand in the table."""


def model() -> TensorModel:
    """Four layers; as in a convolutional network the last one has most parameters and the first ones most to compute."""
    sizes_bytes = (1_000_000, 4_000_000, 10_000_000, 25_000_000)
    forward_s = (0.04, 0.03, 0.02, 0.01)
    return TensorModel(
        tuple(
            Tensor(f"l{i}", size_bytes, time_s, 2 * time_s)
            for i, (size_bytes, time_s) in enumerate(zip(sizes_bytes, forward_s, strict=True))
        )
    )


def iteration_s(text: str, architecture: Architecture) -> float | None:
    """Mean iteration of the job under a scheduler, without the first one; None where it is not for this architecture."""
    scheduler = job_schedulers.load(text)
    if architecture not in scheduler.architectures:
        return None
    servers = SERVERS if architecture == PARAMETER_SERVER else 0
    network = topologies.build("single-switch", {"hosts": WORKERS + servers, "rate_bps": RATE_BPS})
    dag, discipline = scheduler.job(model(), Setting(architecture, WORKERS, servers, network.capacity_Bps[0]), {})
    job = Job("job", dag, tuple(network.hosts)[: dag.ranks], ITERATIONS, discipline=discipline)
    record = simulate([job], network, policies.load(POLICY))
    durations_s = [row.duration_s for row in iteration_rows(record, [job])][1:]
    return sum(durations_s) / len(durations_s)


def table() -> str:
    """The roster as a Markdown table: promises, what it goes with, and how long an iteration takes."""

    def yes(value: bool) -> str:
        return "yes" if value else "no"

    def shown(text: str, architecture: Architecture) -> str:
        found_s = iteration_s(text, architecture)
        return "-" if found_s is None else f"{1000 * found_s:.0f} ms"

    head = ["scheduler", "whole tensors", "keeps order", "waits by layer", "goes with", "parameter server", "ring"]
    rows = []
    for text in sorted({*job_schedulers.names(), *OTHER_FORMS}):
        scheduler = job_schedulers.load(text)
        said = scheduler.promises
        cells = [f"`{text}`", yes(said.whole_tensors), yes(said.keeps_order), yes(said.waits_by_layer)]
        cells.append(job_schedulers.architectures_in_words(scheduler.architectures))
        rows.append([*cells, shown(text, PARAMETER_SERVER), shown(text, "ring")])
    return markdown_table(head, rows, align="lllllrr")


def section(name: str) -> str:
    """The section of a job scheduler: what its module says of itself, its source and its options."""
    found = job_schedulers.load(name)
    given = ", ".join(listed_options(job_schedulers.options(name)).values())
    options = [filled(f"**Options.** {given}.")] if given else []
    words = as_markdown(described(job_schedulers.module(name)))
    return "\n\n".join([f"### {name}", words, *options, filled(f"Source: {found.source}.")])


def with_all_made(page: str) -> str:
    """`page` with its made parts as the code has them now."""
    sections = "\n\n".join(section(name) for name in job_schedulers.names())
    return with_made(with_made(page, BEGIN, END, table()), BEGIN_SECTIONS, END, sections)


def main(docs: Path = DOCS) -> None:
    """Put the made parts in their places."""
    page = docs / "schedulers.md"
    page.write_text(with_all_made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
