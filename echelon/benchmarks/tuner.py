"""Tuners against random search: how far from the best partition and credit they end after 15 samples, over 20 seeds.

Surfaces of iteration time (model x architecture x bandwidth) are computed by fluid simulation first, and kept beside
`--out` (`tuner-surfaces.json`), so that searches cost next to nothing. Those are kept as well: stopped, the same command
goes on. A method's regret on a surface is how much longer the best of its samples takes than the minimum. Means are over
surfaces, intervals (Student's t) over seeds: four for each `--repeat`, so 20 by default. For a seed all methods begin with
the same random points, so differences are taken seed by seed. `--only 'vgg*'` takes the surfaces of these names.
`--only emulated` measures one on packets, in `tuner-emulated/`: a run for each of 16 places. Once it is there, it is always
shown. `tuner.png` shows regret after each sample.
"""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._tuner_emulated import NAME, kept, measured
from echelon.benchmarks._tuner_regret import Regrets, Surface, interval
from echelon.benchmarks._tuner_searches import SAMPLES, Searches
from echelon.benchmarks._tuner_surfaces import surfaces
from echelon.places import EXPERIMENTS
from results.pictures.tuning_plots import draw_regrets

FILE = EXPERIMENTS / "tuning.yaml"
"""What is measured on packets."""
SEEDS = 4
"""For each repeat."""
BASIS = "random"
BAYESIAN = ("gp", "tpe")
REPORTED = ("gp(first=10)", "grid")
"""Nothing is demanded of these: the original's share of random points, and the other baseline."""
FIRST_DRAWN = 5
"""The first samples are far above the others, and by chance in all."""


def run(repeat: int, say: Say, folder: Path, only: Sequence[str] = ()) -> list[Figure]:
    """Mean regrets, and the picture of them."""
    computed = [pattern for pattern in only if pattern != NAME]
    sets = {"simulated": surfaces(folder / "tuner-surfaces.json", computed, say) if computed or not only else []}
    packets = folder / "tuner-emulated"
    emulated = measured(FILE, packets, say) if NAME in only else kept(packets)
    sets[NAME] = [] if emulated is None else [emulated]
    searches = Searches(folder / "tuner-searches.json")
    figures, panels = [], []
    for name, known in sets.items():
        if known:
            found = {}
            for method in (BASIS, *BAYESIAN, *REPORTED):
                found[method] = searches.regrets(method, known, SEEDS * repeat)
                say(f"{len(known)} {name} surfaces, {method}: {_words(found[method])}")
            title = f"{len(known)} {name} surface{'s' * (len(known) > 1)}, {SEEDS * repeat} seeds"
            panels.append((title, {method: each.means() for method, each in found.items()}))
            figures += _figures(name, known, found)
    draw_regrets(folder / "tuner.png", panels, FIRST_DRAWN)
    say(f"picture: {folder / 'tuner.png'}")
    return figures


def _figures(name: str, known: Sequence[Surface], found: Mapping[str, Regrets]) -> list[Figure]:
    basis = found[BASIS]
    return [
        Figure(f"{name}, {BASIS}: mean regret after {SAMPLES} samples", _words(basis), "", None),
        *(against(found[method], basis, must=method in BAYESIAN) for method in (*BAYESIAN, *REPORTED)),
        _of_surfaces(known),
        *(_by_surface(found[method], basis) for method in BAYESIAN),
    ]


def against(found: Regrets, basis: Regrets, *, must: bool) -> Figure:
    """A method's mean regret, and whether it is below that of random search: all of the interval of the difference is."""
    less = found.less_than(basis)
    low, high = (less.median, less.median) if less.low is None or less.high is None else (less.low, less.high)
    measured = f"{_words(found)}; less {basis.method}: {100 * low:+.2f} to {100 * high:+.2f} points"
    return Figure(
        f"{found.method}: the same, and seed by seed against {basis.method}",
        measured,
        f"below {basis.method}" if must else "",
        high < 0 if must else None,
    )


def _words(found: Regrets) -> str:
    mean, low, high = interval([curve[-1] for curve in found.by_seed])
    return f"{mean:.2%} [{low:.2%}, {high:.2%}]"


def _of_surfaces(known: Sequence[Surface]) -> Figure:
    reach = [each.reach for each in known]
    return Figure(
        f"{len(known)} surfaces: how much longer the worst point takes than the best",
        f"{min(reach):.0%} to {max(reach):.0%}, median {statistics.median(reach):.0%}",
        "",
        None,
    )


def _by_surface(found: Regrets, basis: Regrets) -> Figure:
    def mean(regret: Regrets, name: str) -> float:
        return statistics.fmean(curve[-1] for curve in regret.curves[name])

    better = sum(mean(found, name) <= mean(basis, name) for name in found.curves)
    return Figure(
        f"{found.method}: surfaces on which its mean regret is no larger", f"{better} of {len(found.curves)}", "", None
    )
