"""The report of a sweep, and of folders that are compared, from what lies in them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from echelon.experiment.rerun import with_absolute_files
from echelonflow.records.experiment_file import sweep_command
from echelonflow.records.sweeps import SweepRecord, read_sweep
from results.analysis.across import compare_across
from results.analysis.across_measures import FIRST
from results.analysis.gathered import gather
from results.analysis.shown import Pictures
from results.pictures import places
from results.pictures.places import Figures
from results.report.across_page import Shown, write_across

REPORT = "report.html"
_PICTURES = ("maps", "maps-*", "curves", "curves-*", "ratios")


def report_sweep(root: Path, *, charts: bool = True) -> Path:
    """Write the report of the sweep in the folder `root`, of what there is of it; returns its path.

    InputError where the folder holds no sweep, or nothing of it has ended.
    """
    record = read_sweep(root)
    shown = Shown(
        title=record.experiment.get("title") or record.name,
        command=sweep_command(record.backend),
        record=record,
        experiment=with_absolute_files(record.experiment, Path(record.experiment_folder)),
        facts=_facts(record),
    )
    return write_across(root / REPORT, gather([root]), shown, record.against, charts=charts)


def draw_sweep(root: Path, pictures: Pictures, figures: Figures) -> list[Path]:
    """Draw the maps and curves of the sweep in the folder `root`, and remove those of before; returns the PNG files.

    InputError as of `report_sweep`, and where pictures for a paper are asked for and none.
    """
    places.check(pictures, figures)
    record = read_sweep(root)
    found = compare_across(gather([root]), record.against)
    places.remove(root, _PICTURES)
    if pictures == "none":
        return []
    from results.pictures import sweep_plots  # matplotlib takes long to be loaded

    whole = pictures == "all"
    return [
        path
        for target in places.targets(root, figures)
        for path in sweep_plots.draw_sweep(target.folder, found, whole=whole, page=target.page())
    ]


def report_comparison(path: Path, folders: Sequence[Path], against: str | None, measure: str) -> Path:
    """Write the report of several folders, compared, at `path`; InputError as of `echelon compare`."""
    words = ["echelon", "compare", *map(str, folders), "--report", str(path)]
    words += [] if against is None else ["--against", against]
    words += [] if measure == FIRST else ["--measure", measure]
    named = [folder.name for folder in folders]
    shown = Shown(title=" and ".join(named), command=shlex.join(words), folders=list(map(str, folders)))
    return write_across(path, gather(folders), shown, against, measure)


def _facts(record: SweepRecord) -> dict[str, str]:
    """Where the numbers come from, in words."""
    found = {
        "started": record.started,
        "code revision": record.git,
        "experiment file": record.experiment_file,
        "points": str(len(record.points)),
        "policies": ", ".join(record.policies),
        "seeds": ", ".join(map(str, record.seeds)),
        **{f"version of {name}": value for name, value in record.versions.items()},
    }
    return {name: value for name, value in found.items() if value}
