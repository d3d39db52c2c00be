"""Writes docs/on-packets.md and its picture: `python -m echelon.documents.ranking_page [FOLDER]`.

FOLDER is where `echelon bench ranking --out FOLDER/figures.json` left its runs. They are kept in docs/on-packets/, and the page is
made of these. An experiment that was run again takes the place of what was kept of it. Without FOLDER the page is made again of
what is kept. No number in it is typed by hand.
"""

from __future__ import annotations

import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from echelon.benchmarks import ranking
from echelon.benchmarks._same_order import APART
from echelon.benchmarks.ranking import LOG, RUNS_FILE, SteadyRun, medians
from echelon.documents.modules import filled
from echelon.documents.paradigms_page import figures_table
from echelon.documents.steady_files import CROSSING, DRAWN, name_of
from echelon.places import DOCS
from echelon.study import compare
from echelon.study.section import Scores
from echelonflow.errors import InputError
from echelonflow.files import write_whole
from echelonflow.tables import markdown_table
from results.pictures.ranking_plots import draw_both

NAME = "on-packets"
"""Of the page, of its picture, and of the folder of what was measured."""
BASIS, RIVAL = "fair", "coflow(grouping=collective)"
_HEAD = """\
# Policies in steady state, on real packets

Written by `python -m echelon.documents.ranking_page`, from runs that the command below made. No number is typed by hand.
The experiments in `experiments/steady/` have two jobs each. Paradigms, hosts, sizes and iteration times were drawn by chance
before anything was run, and none was left out for how it came out. In the last two, dependencies of a parameter server
cross the end of the iteration. What counts is the mean over jobs of the mean iteration time while both run. Beside
it stands what fluid simulation says of the very same jobs."""
_COMMANDS = """\
    sudo .venv/bin/echelon bench ranking --repeat 3 --out ranking/figures.json
    .venv/bin/python -m echelon.documents.ranking_page ranking"""
_EACH = """\
Medians over valid runs, in seconds; what fluid simulation says is in brackets. The shortest on packets is bold. Where no run is
valid, the median over all runs stands there, with a star. Where nothing stands, a job ended fewer than two iterations that count: it
was starved."""


def page(runs: Sequence[SteadyRun]) -> str:
    """The page of these runs (InputError where they are of fewer than two experiments)."""
    if len({run.experiment for run in runs}) < 2:
        raise InputError(f"runs of two experiments at least are needed; measure them by the commands in docs/{NAME}.md")
    made = [figure for figure in ranking.figures(runs) if figure.what.partition(":")[0] not in medians(runs)]
    valid = [run for run in runs if run.valid]
    parts = [
        _HEAD,
        _COMMANDS,
        "## Finding",
        filled(_counted(runs)),
        figures_table(made),
        filled(_over_basis_in_words()),
    ]
    parts += [_over_basis(valid), f"![Iteration time over that of {BASIS}, on packets and in fluid]({NAME}.png)"]
    parts += ["## Each experiment", filled(_EACH), _by_experiment(runs)]
    return "\n\n".join(parts) + "\n"


def _counted(runs: Sequence[SteadyRun]) -> str:
    experiments = len({run.experiment for run in runs})
    counted = Counter((run.experiment, run.policy) for run in runs if run.valid)
    number = sorted(counted.values())
    each = f"{number[0]}" if number[0] == number[-1] else f"{number[0]} to {number[-1]}"
    lacking = sorted({(run.experiment, run.policy) for run in runs} - set(counted))
    text = (
        f"{experiments} of {DRAWN + CROSSING} experiments are measured, in {len(runs)} runs. {sum(number)} of them are valid, {each} of "
        "each policy that has any."
    )
    if lacking:
        text += (
            f" Of {len(lacking)} pairs of experiment and policy no run is valid: iterations or exposed communication were further off what "
            "explains them than is allowed. The last table has them with a star."
        )
    return text


def _over_basis_in_words() -> str:
    return (
        f"Iteration time over that of `{BASIS}` and of Coflow properly grouped (`{RIVAL}`): geometric means over experiments with "
        "their 95 % intervals (Student's t of logarithms)."
    )


def _over_basis(runs: Sequence[SteadyRun]) -> str:
    rows = []
    common = [times for times in medians(runs).values() if {BASIS, RIVAL} <= set(times)]
    for policy in _policies(runs):
        both = [times for times in common if policy in times]
        if len(both) < 2:
            continue
        scores: list[Scores] = [{name: list(pair) for name, pair in times.items()} for times in both]
        shown = [
            compare.text(compare.ratio(scores, policy, basis, place)) for basis in (BASIS, RIVAL) for place in (0, 1)
        ]
        rows.append([f"`{policy}`", *shown, f"{len(both)}"])
    rows.sort(key=lambda row: row[1])
    head = ["policy", "over fair: packets", "in fluid", "over Coflow: packets", "in fluid", "experiments"]
    return markdown_table(head, rows, align="lr")


def _by_experiment(runs: Sequence[SteadyRun]) -> str:
    names, valid = _policies(runs), medians([run for run in runs if run.valid])
    rows = []
    for experiment, times in medians(runs).items():
        counted = valid.get(experiment, {})
        shortest = min((on_packets for on_packets, _ in counted.values()), default=0.0)
        shown = []
        for policy in names:
            if policy not in times:
                shown.append("")
                continue
            on_packets, fluid = counted.get(policy, times[policy])
            mark, star = "**" if on_packets == shortest else "", "" if policy in counted else "\\*"
            shown.append(f"{mark}{on_packets:.3f}{mark}{star} ({fluid:.3f})")
        rows.append([f"`{experiment}`", *shown])
    return markdown_table(["", *(f"`{name}`" for name in names)], rows, align="lr")


def _policies(runs: Sequence[SteadyRun]) -> list[str]:
    """All that were run, best first by the median of iteration time over that of the basis."""
    ratios: dict[str, list[float]] = {}
    for times in medians(runs).values():
        for policy, (on_packets, _) in times.items():
            ratios.setdefault(policy, []).append(on_packets / times[BASIS][0] if BASIS in times else 1.0)
    return sorted(ratios, key=lambda policy: statistics.median(ratios[policy]))


def merged(kept: Sequence[SteadyRun], measured: Sequence[SteadyRun]) -> list[SteadyRun]:
    """All runs, in the order of the files; of an experiment that was measured anew, those alone."""
    anew = {run.experiment for run in measured}
    order = {name_of(number): number for number in range(DRAWN + CROSSING)}
    found = [*(run for run in kept if run.experiment not in anew), *measured]
    return sorted(found, key=lambda run: (order.get(run.experiment, len(order)), run.policy, run.repeat))


def main(docs: Path = DOCS, measured: Path | None = None) -> None:
    """Write the page and its picture, of what lies in `measured` and was kept before."""
    kept = docs / NAME / RUNS_FILE
    runs = list(LOG.read(kept)) if kept.is_file() else []
    if measured is not None:
        runs = merged(runs, list(LOG.read(measured / RUNS_FILE)))
    if not runs and measured is None:  # nothing was measured as yet
        return
    text = page(runs)  # so that what cannot be shown is not kept
    kept.parent.mkdir(exist_ok=True)
    write_whole(kept, LOG.header + b"".join(map(LOG.line, runs)))
    write_whole(docs / f"{NAME}.md", text)
    picture = docs / f"{NAME}.png"
    draw_both(picture, medians([run for run in runs if run.valid]), BASIS, _policies(runs), APART)
    picture.with_suffix(".svg").unlink(missing_ok=True)  # pictures come in two forms; the page shows one


if __name__ == "__main__":
    try:
        main(measured=Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    except InputError as error:
        sys.exit(str(error))
