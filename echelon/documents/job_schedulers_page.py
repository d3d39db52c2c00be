"""Writes docs/job-schedulers.md and its picture: `python -m echelon.documents.job_schedulers_page [FOLDER]`.

FOLDER is where `echelon bench job-schedulers --out FOLDER/figures.json` left its logs, or `echelon tune --out FOLDER` a tuning
on packets, or `echelon bench tuner --out FOLDER/figures.json` its figures. They are kept in docs/job-schedulers/, and the page is
made of these. An experiment that was run on packets again takes the place of what was kept of it. Without FOLDER the page is
made again of what is kept. No number in it is typed by hand; what was never run on packets is left out.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from echelon.benchmarks import _job_scheduler_emulated as on_packets
from echelon.benchmarks import _job_scheduler_figures as grid
from echelon.benchmarks import _job_scheduler_matrix as matrix
from echelon.benchmarks._job_scheduler_cells import (
    ARCHITECTURES,
    BYTESCHEDULER,
    DDP,
    DEAR,
    FIFO,
    GBIT,
    LATENCY_S,
    MODELS,
    P3,
    PASS_THROUGH,
    PASS_THROUGH_TUNED,
    TAC,
    TUNED,
    TUNED_FAITHFUL,
    WORKERS,
    Cell,
    read_cells,
)
from echelon.benchmarks._job_scheduler_claims import CLAIMS, Claimed
from echelon.benchmarks._job_scheduler_figures import GAIN, best, between, communicating, ratios, spread
from echelon.benchmarks.job_schedulers import CELLS_FILE, EMULATED_FILE, MATRIX_FILE
from echelon.documents.modules import filled
from echelon.documents.paradigms_page import figures_in, figures_table
from echelon.places import DOCS
from echelon.tuning import showing, verifying
from echelon.tuning.history import History, asked_in, write_asked
from echelon.tuning.trials import without_place
from echelon.tuning.tuning import Best, Tuner
from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.tables import markdown_table
from results.pictures.job_scheduler_plots import Panel, draw_speed_ups
from traffic.workloads.job_schedulers import bytescheduler
from traffic.workloads.tensors import PARAMETER_SERVER

KEPT = "job-schedulers"
"""Folder of what was measured, below the documents."""
FIGURES, NAME = "figures.json", "job-schedulers"
TUNING, TUNERS = "tuning", "tuners.json"
"""Where a tuning on packets is kept, and figures of tuners on a surface that was measured on packets."""
SHOWN = (DDP, P3, TAC, DEAR, BYTESCHEDULER, TUNED)
"""In tables and picture, beside fifo."""
MOST_WORKERS = WORKERS[-1]
_HEAD = """\
# What job schedulers bring, and where they do not help

Written by `python -m echelon.documents.job_schedulers_page`, from what the commands below measured. No number is typed by
hand. A job scheduler decides which of its own job's tensors goes to the network next; `echelon schedulers` lists them. Here
they train three models, whose layers were measured on an H100, over links of 1 to 100 Gbit/s. Every speed-up is over `fifo`:
whole tensors, in the order in which gradients come, as frameworks send them. Beside each stands what ideal overlap
could make of it (the bound), whatever the order. The network policy `echelonflow` was `order=job` when this was measured;
without options it is `order=due` now."""
_COMMANDS = """\
    .venv/bin/echelon bench job-schedulers --out job-schedulers/figures.json
    sudo .venv/bin/echelon bench job-schedulers --emulated --repeat 5 --out job-schedulers/figures.json
    .venv/bin/python -m echelon.documents.job_schedulers_page job-schedulers"""
_AFTER_COMMANDS = """\
The second one also runs the files with one job in `experiments/job-schedulers/` on packets, and goes on with what the
first one found."""
_MODEL = """\
The grid is fluid simulation of one job alone (`simulator/alone.py`): transfers share links fairly, and cost nothing but
their bytes. Ideal overlap is `echelonflow/scheduling/bounds/overlap.py`, with its proof. Parameter servers are as many as
workers, each on a host of its own. "tuned" has the partition and credit that a Gaussian process finds in 15 samples,
the default among them; "linear scaling" is an iteration without any network."""
_WHERE_NOT = """\
What partitions and credit cost if nothing is reordered: the same units and the same window, first come, first served, against
`fifo`. In the upper rows a transfer costs its bytes alone. In the lower ones each also costs {latency} us at its start, which
is an assumption, and workers are as many as can be. A negative cost is a gain: partitions let pushes and pulls overlap, and nothing waits for a whole tensor."""


def page(kept: Path) -> str:
    """The page of what lies in `kept` (InputError where a file is missing or malformed)."""
    cells, combinations, turns = _read(kept)
    ideal = [cell for cell in cells if not cell.latency_s]
    parts = [_HEAD, _COMMANDS, _AFTER_COMMANDS, "## Finding", *map(filled, finding(ideal, combinations))]
    parts += [f"![Speed-up over fifo, by bandwidth]({NAME}.png)", filled(_caption()), _MODEL]
    made = [*grid.figures(cells), *matrix.figures(combinations), *(on_packets.figures(turns) if turns else ())]
    parts += ["## Against the figures", figures_table(made)]
    parts += ["## Published claims", filled(_claims_in_words(ideal)), _claims(ideal)]
    parts += ["## By bandwidth", filled(_by_bandwidth_in_words()), _by_bandwidth(ideal)]
    parts += ["## Where it does not help", _WHERE_NOT.format(latency=f"{LATENCY_S * 1e6:.0f}"), _pass_through(cells)]
    parts += ["## Beside network policies", *_matrix(combinations)]
    if turns:
        parts += ["## On packets", *_on_packets(turns)]
    if asked_in(kept / TUNING) is not None:
        parts += ["## Tuning on packets", *_tuning(kept)]
    parts += [f"## All settings with {MOST_WORKERS} workers", *_settings(ideal)]
    return "\n\n".join(parts) + "\n"


def finding(cells: Sequence[Cell], combinations: Sequence[matrix.Combination]) -> list[str]:
    """What grid and matrix say, in sentences whose numbers are computed."""
    sent, middle, most = communicating(cells), between(cells), best(cells)
    tuned = ratios(sent, TUNED, FIFO)
    gained = sum(value >= GAIN for value in tuned)
    untuned = ratios(sent, BYTESCHEDULER, FIFO)
    slower = sum(value < 1 - (GAIN - 1) for value in untuned)
    medians = {gbit: _median(ratios([cell for cell in sent if cell.gbit == gbit], TUNED, FIFO)) for gbit in GBIT}
    by_gbit = ", ".join(f"{value:.2f} at {gbit:g}" for gbit, value in medians.items())
    gains = spread(ratios(middle, TUNED, FIFO))
    off = sum(cell.left_off for cell in sent)
    where = (
        f"Where communication takes 20 to 200 % of computation ({len(middle)} settings), it is {gains} times as fast"
    )
    return [
        (
            f"Something is sent in {len(sent)} settings. The tuner leaves ByteScheduler off in {off} of them, where nothing that it "
            f"tried was faster than `fifo`. It gains {GAIN - 1:.1%} or more in {gained}."
        ),
        f"{where}: median and range. Ideal overlap would be {spread([cell.ideal_speed_up for cell in middle])}.",
        f"The best case is {most.speed_up(TUNED):.2f} times as fast as `fifo`, {_named(most)}. The bound is {most.ideal_speed_up:.2f}.",
        f"Untuned it is slower than `fifo` in {slower} of {len(untuned)} settings, at worst {min(untuned):.2f} times as fast."
        + _why_untuned(sent),
        f"The gain depends on the bandwidth. Over all settings its median is {by_gbit} Gbit/s.",
        *(
            f"With {v.jobs} jobs on the same hosts the best job scheduler alone brings {v.inside_gain:.2f}, the best network "
            f"policy alone {v.network_gain:.2f}, and the best pair of both {v.both_gain:.2f}. So {v.words}."
            for v in matrix.verdicts(combinations)
        ),
    ]


def _why_untuned(cells: Sequence[Cell]) -> str:
    """Why the worst untuned case is so bad, where that is known."""
    worst = min(cells, key=lambda cell: cell.speed_up(BYTESCHEDULER) or 1.0)
    window = bytescheduler.CREDIT_BYTES // bytescheduler.PARTITION_BYTES
    if worst.architecture != PARAMETER_SERVER or worst.workers <= window:
        return ""
    return (
        f" That is {_named(worst)}. Its window holds {window} partitions, each of which goes to one server. So at most {window} of "
        f"{worst.workers} servers have anything to do, while `fifo` spreads every tensor over all of them."
    )


def _median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 1.0


def _named(cell: Cell) -> str:
    carried = "parameter servers" if cell.architecture == PARAMETER_SERVER else f"a {cell.architecture} all-reduce"
    workers = "1 worker" if cell.workers == 1 else f"{cell.workers} workers"
    return f"{cell.model} on {workers} with {carried} at {cell.gbit:g} Gbit/s"


def _caption() -> str:
    return f"With {MOST_WORKERS} workers. The dashed line is what no order of the job's tensors can beat."


def _claims_in_words(cells: Sequence[Cell]) -> str:
    found = [claim.found(cells) for claim in CLAIMS]
    reached = sum(each.reached for each in found)
    shaped = sum(each.in_shape and not each.reached for each in found)
    return (
        f"Of {len(found)} claims the testbed reproduces {reached} in size, {shaped} more in shape alone, and "
        f"{len(found) - reached - shaped} not, or has not tried."
    )


def _claims(cells: Sequence[Cell]) -> str:
    found: list[tuple[str, Claimed]] = [(claim.what, claim.found(cells)) for claim in CLAIMS]
    rows = [[what, each.here, each.verdict, each.why] for what, each in found]
    return markdown_table(["published", "here", "reproduced", "why"], rows, align="llll")


def _by_bandwidth_in_words() -> str:
    return "Medians over all settings in which something is sent, with their range."


def _by_bandwidth(cells: Sequence[Cell]) -> str:
    rows = []
    for gbit in GBIT:
        mine = [cell for cell in communicating(cells) if cell.gbit == gbit]
        if not mine:
            continue
        shares = [_median([found for cell in mine if (found := cell.efficiency(s)) is not None]) for s in (FIFO, TUNED)]
        rows.append(
            [
                f"{gbit:g} Gbit/s",
                spread(ratios(mine, TUNED, FIFO)),
                spread([cell.ideal_speed_up for cell in mine]),
                spread(ratios(mine, TUNED, BYTESCHEDULER)),
                spread(ratios(mine, TUNED, TUNED_FAITHFUL)),
                spread(ratios(mine, TUNED, DDP)),
                f"{shares[0]:.0%}, {shares[1]:.0%}",
            ]
        )
    head = ["", "tuned over fifo", "ideal", "over untuned", "fixed over faithful", "over ddp", "of linear: fifo, tuned"]
    return markdown_table(head, rows)


def _pass_through(cells: Sequence[Cell]) -> str:
    rows = []
    for latency_s in (0.0, LATENCY_S):
        for gbit in GBIT:
            mine = [c for c in communicating(cells) if (c.gbit, c.latency_s) == (gbit, latency_s)]
            if not mine:
                continue
            costs = [[1 / value - 1 for value in ratios(mine, s, FIFO)] for s in (PASS_THROUGH, PASS_THROUGH_TUNED)]
            shown = [f"{_median(cost):+.1%} ({min(cost):+.1%} to {max(cost):+.1%})" for cost in costs]
            rows.append([f"{latency_s * 1e6:.0f} us", f"{gbit:g} Gbit/s", *shown, spread(ratios(mine, TUNED, FIFO))])
    head = ["a transfer's start", "", "untuned, nothing reordered", "tuned, nothing reordered", "tuned and reordered"]
    return markdown_table(head, rows)


def _matrix(found: Sequence[matrix.Combination]) -> list[str]:
    parts = []
    for verdict in matrix.verdicts(found):
        mine = [each for each in found if each.experiment == verdict.experiment]
        plain = next(each for each in mine if (each.scheduler, each.policy) == (matrix.FIFO, matrix.FAIR))
        gains = {(each.scheduler, each.policy): matrix.gain(each, plain) for each in mine}
        used = list(dict.fromkeys(each.policy for each in mine))
        rows = [
            [f"`{scheduler}`", *(f"{gains[scheduler, policy]:.2f}" for policy in used)]
            for scheduler in dict.fromkeys(each.scheduler for each in mine)
        ]
        parts += [
            f"### {verdict.jobs} jobs: `experiments/job-schedulers/{verdict.experiment}.yaml`",
            filled(
                f"Times as fast as `fifo` under `fair`, mean over jobs. Alone, the best job scheduler "
                f"(`{verdict.inside.scheduler}`) brings {verdict.inside_gain:.2f}, and the best network policy "
                f"(`{verdict.network.policy}`) {verdict.network_gain:.2f}. The best of all is "
                f"`{verdict.both.scheduler}` under `{verdict.both.policy}` with {verdict.both_gain:.2f}: {verdict.words}."
            ),
            markdown_table(["job scheduler of every job", *(f"`{policy}`" for policy in used)], rows),
        ]
    return parts


def _on_packets(turns: Sequence[on_packets.Turn]) -> list[str]:
    found, above = on_packets.speed_ups(turns), on_packets.over_bound(turns)
    rows = []
    for experiment, one in found.items():
        interval = "" if one.low is None else f"{one.low:.3f} to {one.high:.3f}"
        fluid = {each.which: each.fluid_iteration_s for each in turns if each.experiment == experiment}
        in_fluid = f"{fluid[FIFO] / fluid[on_packets.OWN]:.3f}"
        rows.append(
            [f"`{experiment}`", f"{one.median:.3f}", interval, f"{one.n}", in_fluid, f"{above[experiment]:+.1%}"]
        )
    head = ["experiment", "over fifo", "95 % interval", "turns", "in fluid", "above the bound"]
    return ["The file's job scheduler and `fifo` in turns, paired.", markdown_table(head, rows)]


def _tuning(kept: Path) -> list[str]:
    """A tuning whose samples were all taken on packets, as the command shows it; and how tuners fare on such a surface."""
    found, told = _tuned_on_packets(kept / TUNING)
    best = found[0].best
    assert best.value_s is not None  # it is the best of those that have one
    counted = sum(sample.value_s is not None for sample in found[0].samples)
    in_words = (
        f"One tuning on the emulated network alone: {counted} of {len(found[0].samples)} samples count. The best takes "
        f"{best.value_s:.3f} s, the options of the file {found[0].default.value_s:.3f} s, `fifo` {found[0].off.value_s:.3f} s."
    )
    parts = [filled(in_words), f"```text\n{told}\n```", f"![The path of the tuning]({KEPT}/{TUNING}/{showing.PICTURE})"]
    if (kept / TUNERS).is_file():
        surface = (
            "Tuners on a surface of the same experiment, measured on packets in 16 places (`echelon bench tuner --only "
            "emulated`). Regret is how much longer the best of 15 samples takes than the least of the surface, in the mean over 20 seeds."
        )
        parts += [filled(surface), figures_table(figures_in(kept / TUNERS, "tuner"))]
    return parts


def _tuned_on_packets(folder: Path) -> tuple[list[Best], str]:
    """What a tuning found, and what it said of that: all of it is in its history (InputError where it is not)."""
    asked, history = asked_in(folder), History(folder)

    def never(*_: object) -> None:
        raise InputError(f"{folder}: the tuning there is not over; go on with it: echelon tune --resume {folder}")

    assert asked is not None  # it was looked for
    tuner = Tuner(asked, history, never, lambda *_: None)  # type: ignore[arg-type]
    found = tuner.tune()
    turns = len(history.of(0, "check-best"))
    return found, showing.told(asked, found, verifying.verify(tuner, found, turns) if turns else None)


def _settings(cells: Sequence[Cell]) -> list[str]:
    parts = []
    for model in MODELS:
        for architecture in ARCHITECTURES:
            mine = _of(cells, model, architecture)
            if not mine:
                continue
            rows = []
            for cell in mine:
                shown = [cell.speed_up(scheduler) for scheduler in SHOWN]
                rows.append(
                    [
                        f"{cell.gbit:g}",
                        f"{cell.intensity:.0%}",
                        f"{cell.efficiency(FIFO):.0%}",
                        *("" if value is None else f"{value:.2f}" for value in shown),
                        f"{cell.ideal_speed_up:.2f}",
                    ]
                )
            head = ["Gbit/s", "communication", "fifo: of linear", *(f"`{name}`" for name in SHOWN), "ideal"]
            parts += [f"**{model}, {architecture}**", markdown_table(head, rows, align="r")]
    return parts


def _of(cells: Sequence[Cell], model: str, architecture: str) -> list[Cell]:
    """The cells with most workers of a model on an architecture, by bandwidth."""
    mine = [c for c in cells if (c.model, c.architecture, c.workers) == (model, architecture, MOST_WORKERS)]
    return sorted(mine, key=lambda cell: cell.gbit)


def panels(cells: Sequence[Cell]) -> list[Panel]:
    """A panel for each architecture and model, with most workers."""
    found = []
    for architecture in ARCHITECTURES:
        for model in MODELS:
            mine = _of(cells, model, architecture)
            speed_ups = {name: [cell.speed_up(name) for cell in mine] for name in SHOWN}
            given = {name: values for name, values in speed_ups.items() if any(v is not None for v in values)}
            ideal = [cell.ideal_speed_up for cell in mine]
            found.append(Panel(f"{model}, {architecture}", [cell.gbit for cell in mine], given, ideal))
    return found


def _read(kept: Path) -> tuple[list[Cell], list[matrix.Combination], list[on_packets.Turn]]:
    cells = read_cells(kept / CELLS_FILE)
    combinations = list(matrix.LOG.read(kept / MATRIX_FILE))
    for found, name in ((cells, CELLS_FILE), (combinations, MATRIX_FILE)):
        if not found:
            raise InputError(f"{kept}: lacks {name}; measure it by the commands in docs/{NAME}.md")
    return cells, combinations, list(on_packets.LOG.read(kept / EMULATED_FILE))


def keep(measured: Path, kept: Path) -> None:
    """Keep what was left in `measured`, all of it or nothing (InputError where something is missing or malformed)."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made) / KEPT
        if kept.is_dir():
            shutil.copytree(kept, folder)
        folder.mkdir(exist_ok=True)
        for name in (CELLS_FILE, MATRIX_FILE):
            if (measured / name).is_file():
                shutil.copyfile(measured / name, folder / name)
        _keep_turns(measured / EMULATED_FILE, folder / EMULATED_FILE)
        _keep_tuning(measured, folder / TUNING)
        if (measured / FIGURES).is_file() and "tuner" in msgspec.json.decode((measured / FIGURES).read_bytes()):
            shutil.copyfile(measured / FIGURES, folder / TUNERS)
        page(folder)  # so that what cannot be shown is not kept
        shutil.copytree(folder, kept, dirs_exist_ok=True)


def _keep_turns(measured: Path, kept: Path) -> None:
    """Turns on packets; of an experiment that was run again, those alone."""
    made = list(on_packets.LOG.read(measured))
    anew = {turn.experiment for turn in made}
    turns = [*(turn for turn in on_packets.LOG.read(kept) if turn.experiment not in anew), *made]
    if turns:
        turns.sort(key=lambda turn: (turn.experiment, turn.turn, turn.which))
        write_whole(kept, on_packets.LOG.header + b"".join(map(on_packets.LOG.line, turns)))


def _keep_tuning(measured: Path, kept: Path) -> None:
    """A tuning on packets, without the places of the machine that it was made on."""
    asked = asked_in(measured)
    if asked is None:
        return
    if kept.is_dir():
        shutil.rmtree(kept)
    kept.mkdir()
    write_asked(kept, msgspec.structs.replace(asked, experiment_folder="experiments"))
    history = History(kept)
    for sample in History(measured).samples:
        history.add(msgspec.structs.replace(sample, why=without_place(sample.why)))
    shutil.copyfile(measured / showing.PICTURE, kept / showing.PICTURE)


def main(docs: Path = DOCS, measured: Path | None = None) -> None:
    """Write the page and its picture, of what lies in `measured` or was kept before."""
    kept = docs / KEPT
    if measured is not None:
        keep(measured, kept)
    write_whole(docs / f"{NAME}.md", page(kept))
    cells, _, _ = _read(kept)
    picture = docs / f"{NAME}.png"
    draw_speed_ups(picture, panels([cell for cell in cells if not cell.latency_s]), len(MODELS))
    picture.with_suffix(".svg").unlink(missing_ok=True)  # pictures come in two forms; the page shows one


if __name__ == "__main__":
    try:
        main(measured=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    except InputError as error:
        sys.exit(str(error))
