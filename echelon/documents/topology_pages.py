"""Draws every topology and describes it: `python -m echelon.documents.topology_pages`.

Writes docs/topologies/<topology>.svg and the made part of docs/topologies.md. Of each topology there is what its module
says of itself, the entry and the picture of its example, its cables, and its options.
"""

from __future__ import annotations

import inspect
from pathlib import Path

from echelon.documents.made_pages import with_made
from echelon.documents.modules import default_in_words, described, kind_in_words
from echelon.places import DOCS
from echelonflow.model import topologies
from echelonflow.model.network import Network
from echelonflow.model.units import format_rate
from echelonflow.options import options_of
from echelonflow.tables import markdown_table
from results.pictures.network_plot import draw_network

BEGIN, END = "<!-- made by python -m echelon.documents.topology_pages -->", "<!-- end of what is made -->"


def example(name: str) -> Network:
    """The network that is drawn of topology `name`."""
    return topologies.example(name)


def section(name: str) -> str:
    """What there is to say of a topology."""
    module = topologies.load(name)
    entry = ", ".join([f"topology: {name}", *(f"{key}: {value}" for key, value in module.EXAMPLE.items())])
    return "\n\n".join(
        [
            f"### {name}",
            described(module),
            inspect.getdoc(module.build) or "",
            f"```yaml\nnetwork: {{{entry}}}\n```",
            f"![{name}](topologies/{name}.svg)",
            _cables(example(name)),
            _options(name),
        ]
    )


def _cables(network: Network) -> str:
    """How many cables there are of every kind and rate."""
    kinds = [(cable.kind, cable.rate_bps) for cable in network.cables]
    rows = [[kind, str(kinds.count((kind, rate))), format_rate(rate)] for kind, rate in dict.fromkeys(kinds)]
    return markdown_table(["cables of this example", "number", "line rate"], rows, align="lrr")


def _options(name: str) -> str:
    rows = []
    for option in options_of(topologies.load(name).build):
        default = "needed" if option.required else default_in_words(option).removeprefix("default ")
        rows.append([f"`{option.key}`", kind_in_words(option), default])
    return markdown_table(["option", "what it is", "default"], rows, align="lll")


def with_all_made(page: str) -> str:
    """`page` with its made part as the code has it now."""
    return with_made(page, BEGIN, END, "\n\n".join(section(name) for name in topologies.names()))


def draw(name: str, folder: Path) -> None:
    """The picture of one topology, `<name>.svg` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    draw_network(folder / f"{name}.svg", example(name))


def main(docs: Path = DOCS) -> None:
    """Draw all pictures and put the made part in its place; pictures of topologies that are gone go."""
    for path in (docs / "topologies").glob("*.svg"):
        if path.stem not in topologies.names():
            path.unlink()
    for name in topologies.names():
        draw(name, docs / "topologies")
    page = docs / "topologies.md"
    page.write_text(with_all_made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
