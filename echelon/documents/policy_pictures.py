"""Draws what every policy does with the same two jobs: `python -m echelon.documents.policy_pictures`.

Writes docs/policies/<policy>.svg and, between their marks, the table and the policies' sections in docs/policies.md. All of it is simulated.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from echelon.documents.made_pages import with_made
from echelon.documents.modules import as_markdown, described, filled, listed_options
from echelon.places import DOCS
from echelonflow.model import topologies
from echelonflow.model.arrangement import staggered
from echelonflow.model.dag import Compute, Group, Job, JobDag, Transfer
from echelonflow.model.network import Network
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import policies
from echelonflow.scheduling.allocation import Allocation
from echelonflow.scheduling.snapshot import Snapshot
from echelonflow.tables import markdown_table
from results import colours
from results.pictures.policy_plots import Band, draw_shares
from simulator.fluid import simulate

BEGIN, END = "<!-- made by python -m echelon.documents.policy_pictures -->", "<!-- end of what is made -->"
BEGIN_SECTIONS = "<!-- sections: made by python -m echelon.documents.policy_pictures -->"
CHAPTERS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "flows": ("Without groups", ""),
        "jobs": ("By job", ""),
        "Coflows": (
            "By Coflow",
            (
                "Each takes `collective` Coflows (a collective, a micro-batch's transfer: what a Coflow user would declare). Those "
                "with `grouping` also take a whole EchelonFlow as one Coflow (`group`), as the EchelonFlow paper's Fig. 2b does. "
                "Varys and Sincronia know a Coflow when it arrives; here, what counts are its flows in flight."
            ),
        ),
        "EchelonFlows": ("By EchelonFlow", ""),
        "": ("Others", ""),
    }
)
"""What policies put in order (`SERVES`): heading of their chapter, and what they have in common."""

PIPELINE_COLOURS = (colours.BLUE, colours.SKY, "#BFE3F7")
GRADIENT_COLOURS = (colours.VERMILION, colours.ORANGE, colours.YELLOW)
OTHER_FORMS = (
    "coflow(grouping=group)",
    "coflow(order=fifo)",
    "coflow(rates=greedy)",
    "echelonflow(order=remaining)",
    "echelonflow(order=tardiness)",
    "sincronia(grouping=group)",
    "weighted(per=job)",
)
"""Beside every policy with its defaults, these rows stand in the table."""


@dataclass(frozen=True)
class Seen:
    """What a policy did: shares of the link by flow, and when the jobs and their last flows ended."""

    bands: tuple[Band, ...]
    pipeline_end_s: float
    gradients_end_s: float


def scenario() -> tuple[Network, list[Job]]:
    """One link and two jobs; one time unit is a second, and flows are sized in seconds of the link.

    `pipeline` computes micro-batches for one unit each, sends 1.5 units of data after each, and the next stage needs them
    one by one (an EchelonFlow with offsets 0, 1, 2). `gradients` (weight 2) sends two buckets, a0 + a1 of 1 + 2 units at
    1.5 and b of 1 at 3, and updates for one unit when all is there. A unit of the link is 9.6 MB, so that Aalo's queues
    (10 MB, 100 MB, ...) tell the Coflows apart.
    """
    network = topologies.build("single-switch", {"hosts": 2, "rate_bps": 80e6})

    def size(seconds: float) -> int:
        return round(seconds * network.capacity_Bps[0])

    steps: list[Compute | Transfer] = []
    for m in range(3):
        steps.append(Compute(f"p{m}", 0, 1.0, (f"p{m - 1}",) if m else ()))
        steps.append(Transfer(f"x{m}", 0, 1, size(1.5), f"x{m}", (f"p{m}",)))
        steps.append(Compute(f"c{m}", 1, 1.0, (f"x{m}", f"c{m - 1}") if m else ("x0",)))
    pipeline = JobDag(2, tuple(steps), (Group("pp", "pp-forward", ("x0", "x1", "x2"), staggered(3, 1.0)),))
    gradients = JobDag(
        2,
        (
            Compute("backward a", 0, 1.5),
            Transfer("a0", 0, 1, size(1.0), "a", ("backward a",)),
            Transfer("a1", 0, 1, size(2.0), "a", ("backward a",)),
            Compute("backward b", 0, 1.5, ("backward a",)),
            Transfer("b", 0, 1, size(1.0), "b", ("backward b",)),
            Compute("update", 1, 1.0, ("a0", "a1", "b")),
        ),
        (Group("a", "dp-bucket", ("a0", "a1"), (0.0, 0.0)), Group("b", "dp-bucket", ("b",), (0.0,))),
    )
    hosts = ("h1", "h2")
    return network, [Job("pipeline", pipeline, hosts), Job("gradients", gradients, hosts, weight=2.0)]


def observe(text: str) -> Seen:
    """Simulate the scenario under a policy and note every rate that it gives."""
    network, jobs = scenario()
    policy = policies.load(text)
    decided: list[tuple[float, Snapshot, Allocation]] = []

    def noting(snapshot: Snapshot) -> Allocation:
        allocation = policy(snapshot)
        decided.append((snapshot.now_s, snapshot, allocation))
        return allocation

    record = simulate(jobs, network, policy.deciding(noting))
    end_s = {job.name: max(c.finish_s for c in record.computes if c.job == job.name) for job in jobs}
    return Seen(_bands(network, jobs, record, decided), end_s["pipeline"], end_s["gradients"])


def _bands(
    network: Network, jobs: list[Job], record: RunRecord, decided: list[tuple[float, Snapshot, Allocation]]
) -> tuple[Band, ...]:
    """Each flow's share of the link from every decision to the next, or to the flow's own end."""
    finish_s = {flow.flow: flow.finish_s for flow in record.flows}
    # Ids sort by job (by name), then by place in the job: as the scheduler's state makes them.
    names = [step.name for job in sorted(jobs, key=lambda job: job.name) for step in job.dag.transfers]
    ids = sorted({int(flow) for _, snapshot, _ in decided for flow in snapshot.flow_id})
    name_of = dict(zip(ids, names, strict=True))
    spans: dict[str, list[tuple[float, float, float]]] = {name: [] for name in names}
    until_s = [time_s for time_s, _, _ in decided[1:]] + [math.inf]
    for (time_s, snapshot, allocation), next_s in zip(decided, until_s, strict=True):
        for flow, rate_Bps in zip(snapshot.flow_id.tolist(), allocation.rates_Bps.tolist(), strict=True):
            end_s = min(next_s, finish_s[name_of[flow]])
            if rate_Bps > 0 and end_s > time_s:
                spans[name_of[flow]].append((time_s, end_s, rate_Bps / network.capacity_Bps[0]))
    colours = dict(zip(("x0", "x1", "x2", "a0", "a1", "b"), PIPELINE_COLOURS + GRADIENT_COLOURS, strict=True))
    return tuple(Band(name, colour, tuple(spans[name])) for name, colour in colours.items())


def table() -> str:
    """The roster as a Markdown table: promises, enforcer, and when the two jobs of the scenario end."""

    def yes(value: bool) -> str:
        return "yes" if value else "no"

    head = [
        "policy",
        "knows sizes",
        "leaves no link idle",
        "nobody starves",
        "enforcer",
        "pipeline ends",
        "gradients end",
    ]
    rows = []
    for text in sorted({*policies.names(), *OTHER_FORMS}):
        policy, seen = policies.load(text), observe(text)
        said = policy.promises
        cells = [f"`{text}`", yes(said.knows_sizes), yes(said.work_conserving), yes(said.starvation_free)]
        cells += [policy.enforcer, f"{seen.pipeline_end_s:.2f}", f"{seen.gradients_end_s:.2f}"]
        rows.append(cells)
    return markdown_table(head, rows, align="lllll")


def section(name: str) -> str:
    """The section of a policy: what its module says of itself, its options, and how it is enforced."""
    given = list(listed_options(policies.options(name)).values())
    text = f"Enforcer: `{policies.load(name).enforcer}`." + (f" **Options.** {', '.join(given)}." if given else "")
    words = as_markdown(described(policies.module(name)))
    return "\n\n".join([f"### {name}", words, filled(text), f"![{name}](policies/{name}.svg)"])


def sections() -> str:
    """Every policy, by what it puts in order."""
    found: list[str] = []
    serves = {name: getattr(policies.module(name), "SERVES", "") for name in policies.names()}
    for chapter, (heading, words) in CHAPTERS.items():
        own = [name for name, what in serves.items() if (what if what in CHAPTERS else "") == chapter]
        if own:
            found += [f"## {heading}", *([filled(words)] if words else []), *map(section, own)]
    return "\n\n".join(found)


def with_all_made(page: str) -> str:
    """`page` with its made parts as the code has them now."""
    return with_made(with_made(page, BEGIN, END, table()), BEGIN_SECTIONS, END, sections())


def draw(name: str, folder: Path) -> None:
    """The picture of one policy, `<name>.svg` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    seen = observe(name)
    ends = [(seen.pipeline_end_s, PIPELINE_COLOURS[0]), (seen.gradients_end_s, GRADIENT_COLOURS[0])]
    title = f"{name}: pipeline ends at {seen.pipeline_end_s:.2f}, gradients at {seen.gradients_end_s:.2f} (simulated)"
    draw_shares(folder / f"{name}.svg", title, seen.bands, ends)


def main(docs: Path = DOCS) -> None:
    """Draw all pictures and put the made parts in their places; pictures of policies that are gone go."""
    for path in (docs / "policies").glob("*.svg"):
        if path.stem not in policies.names():
            path.unlink()
    for name in policies.names():
        draw(name, docs / "policies")
    page = docs / "policies.md"
    page.write_text(with_all_made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
