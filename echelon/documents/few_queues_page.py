"""Writes what was measured into docs/few-queues.md: `python -m echelon.documents.few_queues_page [FOLDER]`.

FOLDER is where `echelon bench few-queues --out FOLDER/figures.json` left its runs. They are kept in docs/few-queues/, and the part is
made of these. A way to carry decisions out that was measured again takes the place of what was kept of it. Without FOLDER the
part is made again of what is kept. No number in it is typed by hand.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from echelon.benchmarks._few_queue_cells import DRAWS, FLUID_LOG, PACKET_LOG, FluidRun, PacketRun, cells
from echelon.benchmarks._same_order import APART, Times
from echelon.benchmarks.few_queues import FLUID_FILE, PACKETS_FILE, fluid_ratios, over_all, packet_ratios, valid_of
from echelon.documents.made_pages import with_made
from echelon.documents.modules import filled
from echelon.documents.paradigms_page import figures_table
from echelon.places import DOCS
from echelonflow.codec import Log
from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.tables import markdown_table

NAME = "few-queues"
"""Of the page, and of the folder of what was measured."""
MARKS = ("<!-- made by python -m echelon.documents.few_queues_page -->", "<!-- end of what is made of enforcers -->")
_COMMANDS = """\
    sudo .venv/bin/echelon bench few-queues --emulated --repeat 2 --out few-queues/figures.json
    .venv/bin/python -m echelon.documents.few_queues_page few-queues"""
_HOW = f"""\
Each line is one way to carry decisions out; 1.000 is the mean iteration time in fluid simulation without any limit. *In fluid*: mean of
{DRAWS} draws of what computations take, with the least and the most. *On packets*: mean over the runs that count, over the same
basis with the same draws. *Off*: on packets over fluid simulation of the same way and draws."""
_NOT_YET = "Nothing is measured on packets as yet."
_Run = TypeVar("_Run", bound=FluidRun | PacketRun)


def part(in_fluid: Sequence[FluidRun], packets: Sequence[PacketRun]) -> str:
    """The part of the page that is made of these runs."""
    parts = [_COMMANDS, filled(_HOW)]
    valid, ended = packet_ratios(packets, valid=True), packet_ratios(packets, valid=False)
    for policy, by_enforcer in fluid_ratios(in_fluid).items():
        rows = [
            [
                f"`{enforcer}`",
                f"{statistics.fmean(ratios):.3f} [{min(ratios):.3f}, {max(ratios):.3f}]",
                *_on_packets(enforcer, valid.get(policy, {}), ended.get(policy, {})),
                valid_of(packets, policy, enforcer),
            ]
            for enforcer, ratios in by_enforcer.items()
        ]
        head = [f"iteration of `{policy}`", "in fluid", "on packets", "off", "runs that count"]
        parts.append(markdown_table(head, rows, align="lr"))
    parts += [filled(_in_words(packets)), figures_table(over_all(packets))] if packets else [_NOT_YET]
    return "\n\n".join(parts)


def _on_packets(enforcer: str, valid: Times, ended: Times) -> list[str]:
    """What a way costs on packets, and how far that is off; with a star where no run counts."""
    both, star = valid.get(enforcer), ""
    if both is None:
        both, star = ended.get(enforcer), "\\*"
    if both is None:
        return ["-", "-"]
    return [f"{both[0]:.3f}{star}", f"{both[0] / both[1] - 1:+.1%}"]


def _in_words(packets: Sequence[PacketRun]) -> str:
    counted = sum(each.valid for each in packets)
    lacking = {(each.policy, each.enforcer) for each in packets}
    lacking -= {(each.policy, each.enforcer) for each in packets if each.valid}
    text = f"{len(packets)} runs were made on packets, of which {counted} keep to all limits of a valid run."
    if lacking:
        text += " A star marks what no run of counts: the mean over all that ended stands there."
    return f"{text} Ways that are less than {APART:.0%} apart in fluid are not told apart there."


def merged(kept: Sequence[_Run], measured: Sequence[_Run]) -> list[_Run]:
    """All runs, in the order of the cells; of a cell that was measured anew, those alone."""
    anew = {run.enforcer for run in measured}
    order = {cell.enforcer: place for place, cell in enumerate(cells())}
    found = [*(run for run in kept if run.enforcer not in anew), *measured]
    return sorted(found, key=lambda run: order.get(run.enforcer, len(order)))


def _runs(log: Log[_Run], name: str, kept: Path, measured: Path | None) -> list[_Run]:
    """What a log holds in the folder of what is kept, and in that of what was measured."""

    def there(folder: Path) -> list[_Run]:
        return list(log.read(folder / name)) if (folder / name).is_file() else []

    return merged(there(kept), [] if measured is None else there(measured))


def main(docs: Path = DOCS, measured: Path | None = None) -> None:
    """Write the part of the page, of what lies in `measured` and was kept before; InputError where there is nothing at all."""
    kept, page = docs / NAME, docs / f"{NAME}.md"
    in_fluid = _runs(FLUID_LOG, FLUID_FILE, kept, measured)
    packets = _runs(PACKET_LOG, PACKETS_FILE, kept, measured)
    if not in_fluid:
        raise InputError(f"{measured or kept}: has no {FLUID_FILE}; measure it by the commands in docs/{NAME}.md")
    text = with_made(page.read_text(encoding="utf-8"), *MARKS, part(in_fluid, packets))
    kept.mkdir(exist_ok=True)
    write_whole(kept / FLUID_FILE, FLUID_LOG.header + b"".join(map(FLUID_LOG.line, in_fluid)))
    if packets:
        write_whole(kept / PACKETS_FILE, PACKET_LOG.header + b"".join(map(PACKET_LOG.line, packets)))
    write_whole(page, text)


if __name__ == "__main__":
    try:
        main(measured=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    except InputError as error:
        sys.exit(str(error))
