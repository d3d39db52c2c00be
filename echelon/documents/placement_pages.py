"""Describes every placement, and what each makes of one small job: `python -m echelon.documents.placement_pages`.

Writes the made parts of docs/cluster.md: a table of where the job's ranks go, and the section of each placement.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

from echelon.documents.made_pages import with_made
from echelon.documents.modules import as_markdown, described, filled, listed_options
from echelon.places import DOCS
from echelonflow.model import placements, topologies
from echelonflow.model.placements import Cluster, Request
from echelonflow.options import Option, options_of
from echelonflow.tables import markdown_table

BEGIN, END = "<!-- made by python -m echelon.documents.placement_pages -->", "<!-- end of what is made -->"
BEGIN_SECTIONS = "<!-- sections: made by python -m echelon.documents.placement_pages -->"
GPUS = 2
RANKS = 8
TAKEN = ("h1", "h1", "h2", "h4", "h5", "h6", "h7", "h8", "h9", "h9", "h10", "h11", "h12")
"""GPUs that other jobs have."""
RINGS = ((0, 2, 4, 6), (1, 3, 5, 7))
"""Ranks that send to each other in turn: two replicas of a model on four stages each, numbered replica by replica."""


def cluster() -> Cluster:
    """Three leaves of four hosts with two GPUs each."""
    network = topologies.build("leaf-spine", {"leaves": 3, "spines": 2, "hosts_per_leaf": 4, "rate_bps": 1e9})
    return Cluster(dataclasses.replace(network, gpus_per_host=GPUS))


def request() -> Request:
    """The job of the table."""
    there = cluster()
    free = {host: gpus - TAKEN.count(host) for host, gpus in there.all_free().items()}
    sent = {(one, other): 1 for ring in RINGS for one, other in zip(ring, (*ring[1:], ring[0]), strict=True)}
    return Request(there, free, RANKS, "job", sent)


def options(name: str) -> list[Option]:
    """The options of placement `name`."""
    return options_of(placements.load(name).place, given=("request",), units=False)


def table() -> str:
    """Where the ranks of the job go under each placement, and how often its rings cross the fabric."""
    asked = request()
    switch = asked.cluster.network.edge_switch
    rows = []
    for name in placements.names():
        hosts = placements.place(name, asked)
        crossing = sum(switch[hosts[src]] != switch[hosts[dst]] for src, dst in asked.sent_bytes)
        rows.append([f"`{name}`", " ".join(hosts), str(len(set(hosts))), f"{crossing} of {len(asked.sent_bytes)}"])
    return markdown_table(["placement", "hosts of ranks 0 to 7", "hosts", "transfers that cross"], rows, align="llrr")


def section(name: str) -> str:
    """The section of a placement: what its module says of itself, and its options."""
    given = ", ".join(listed_options(options(name)).values())
    own = [filled(f"**Options.** {given}.")] if given else []
    return "\n\n".join([f"### {name}", as_markdown(described(placements.load(name))), *own])


def with_all_made(page: str) -> str:
    """`page` with its made parts as the code has them now."""
    sections = "\n\n".join(section(name) for name in placements.names())
    return with_made(with_made(page, BEGIN, END, table()), BEGIN_SECTIONS, END, sections)


def main(docs: Path = DOCS) -> None:
    """Put the made parts in their places."""
    page = docs / "cluster.md"
    page.write_text(with_all_made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
