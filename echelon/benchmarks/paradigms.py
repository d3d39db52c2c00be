"""Every training paradigm, alone and beside a rival job: emulated against fluid, under four policies.

Runs experiments/paradigms/*.yaml (`--only 'gpipe*'`: those whose name fits), each with `repeat` runs of each policy.
Beside `--out` it leaves the table experiment x policy (paradigms.csv, paradigms.md), its picture, and the run folders in
paradigm-runs/. Measured once, an experiment is not run again: the same command goes on where it was stopped, and
names another `--out` to begin anew.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from echelon.benchmarks import Figure, Say
from echelon.benchmarks._closed_forms import sent_bytes
from echelon.benchmarks._emulated import carry_out, rows, valid_runs
from echelon.benchmarks._paradigm_files import POLICIES, files
from echelon.experiment import schema
from echelon.experiment.schema import Experiment
from echelonflow.errors import EXIT_FAILED, EXIT_INTERRUPTED, InputError, PolicyError, RunError
from echelonflow.files import write_whole
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import read_manifest
from results.analysis.side_by_side import Cell, cells, pairs_apart
from results.analysis.summary import Summary, read_summary
from results.pictures.paradigm_plots import draw_paradigms
from results.report.side_by_side import markdown, write_cells

MOST_MEDIAN, MOST_WORST = 0.06, 0.15
"""How far exposed communication may be from fluid: in the median over all experiments, jobs and policies; anywhere."""
TOLD_APART = 0.08
"""Policies that fluid has further apart than this must be in the same order on real packets."""

Execute = Callable[[Experiment, Path, Say], tuple[int, Summary]]


def run(repeat: int, say: Say, folder: Path, only: Sequence[str] = (), execute: Execute = carry_out) -> list[Figure]:
    """Exposed communication against fluid, order of policies, and bytes of every host against closed forms.

    `execute` carries out one experiment into a folder. An experiment that fails, or of which single runs are
    invalid, counts with what valid runs it has, and is reported. InputError if `only` fits no experiment or this machine
    cannot emulate; RunError if nothing at all was measured, or if it was interrupted.
    """
    found: list[Cell] = []
    folders: list[tuple[Experiment, Path]] = []
    chosen = files(only)
    for path in chosen:
        experiment = schema.load(path, {"repeats": repeat, "policies": list(POLICIES)})
        root = _measured(experiment, folder / "paradigm-runs", say, execute)
        if root is None:
            continue
        found += cells(read_summary(root / "summary.json"))
        folders.append((experiment, root))
        _write(found, folder)  # what there is so far outlives whatever happens next
    if not any(cell.result.valid_runs for cell in found):
        raise RunError("not one valid run came out; see above")
    say(f"tables and picture: {folder / 'paradigms.md'}, paradigms.csv, paradigms.png")
    return [*_against_fluid(found), *_bytes(folders), *_coverage(found, chosen)]


def _measured(experiment: Experiment, parent: Path, say: Say, execute: Execute) -> Path | None:
    """The run folder of `experiment`: one that is there already, or a new one; None if it came to nothing."""
    earlier = sorted(parent.glob(f"{experiment.name}.*"), key=lambda path: int(path.suffix[1:]))
    if earlier and _complete(earlier[-1], experiment):
        say(f"{experiment.name}: measured before, in {earlier[-1]}")
        return earlier[-1]
    number = int(earlier[-1].suffix[1:]) + 1 if earlier else 1
    root = parent / f"{experiment.name}.{number}"
    parent.mkdir(parents=True, exist_ok=True)
    say(f"{experiment.name}: {root}")
    try:
        code, summary = execute(experiment, root, say)
    except (RunError, PolicyError) as error:
        say(f"{experiment.name}: not measured: {error}")
        return None
    if code == EXIT_INTERRUPTED:
        raise RunError("interrupted; the same command goes on with what is not measured yet")
    if code == EXIT_FAILED:
        say(f"{experiment.name}: {summary.reasons[0] if summary.reasons else f'failed; see {root}'}")
    return root if any(result.valid_runs for result in summary.results) else None


def _complete(root: Path, experiment: Experiment) -> bool:
    """Whether `root` holds this experiment as it is asked for now, with a valid run of every policy."""
    try:
        manifest = read_manifest(RunFolder(root).manifest)
        summary = read_summary(root / "summary.json")
    except InputError:
        return False
    return manifest.experiment == experiment.source and all(cell.result.valid_runs for cell in cells(summary))


def _write(found: Sequence[Cell], folder: Path) -> None:
    write_cells(folder / "paradigms.csv", found)
    write_whole(folder / "paradigms.md", markdown(found, POLICIES))
    draw_paradigms(folder / "paradigms.png", found, POLICIES)


def _against_fluid(found: Sequence[Cell]) -> list[Figure]:
    off = {cell: difference for cell in found if (difference := cell.result.exposed_difference) is not None}
    median = statistics.median(abs(value) for value in off.values())
    worst = max(off, key=lambda cell: abs(off[cell]))
    pairs = pairs_apart(found, TOLD_APART)
    wrong = [pair for pair in pairs if not pair.same_order]
    listed = "".join(f"; not {': '.join(pair.row)}: {pair.first} before {pair.second}" for pair in wrong)
    return [
        Figure(
            f"exposed communication against fluid, median of the difference over {len(off)} (experiment, job, policy)",
            f"{median:.1%}",
            f"under {MOST_MEDIAN:.0%}",
            median < MOST_MEDIAN,
        ),
        Figure(
            "the same, worst",
            f"{off[worst]:+.1%} ({worst.experiment}: {worst.result.job}, {worst.result.policy})",
            f"under {MOST_WORST:.0%}",
            abs(off[worst]) < MOST_WORST,
        ),
        Figure(
            f"pairs of policies that fluid has more than {TOLD_APART:.0%} apart, in the same order",
            f"{len(pairs) - len(wrong)} of {len(pairs)}{listed}",
            "all",
            not wrong,
        ),
    ]


def _bytes(folders: Sequence[tuple[Experiment, Path]]) -> list[Figure]:
    """Bytes in packets: of every flow against what was asked for, of every sending host against the closed form.

    Sizes of flows are whole bytes, so a host may be off by one byte for each flow that it sends.
    """
    flows_equal = flows_all = hosts_equal = hosts_all = 0
    for experiment, root in folders:
        expected = _closed_form_bytes(experiment)
        sent: Counter[tuple[str, str, str]] = Counter()
        count: Counter[tuple[str, str, str]] = Counter()
        for flow in rows(root, "flows"):
            seen_bytes = int(flow["pcap_bytes"] or 0)
            flows_all += 1
            flows_equal += seen_bytes == int(flow["size_bytes"])
            key = flow["policy"], flow["repeat"], flow["src"]
            sent[key] += seen_bytes
            count[key] += 1
        for policy, repeat in valid_runs(root)[0]:
            for host, expected_bytes in expected.items():
                key = policy, repeat, host
                hosts_all += 1
                hosts_equal += abs(sent[key] - expected_bytes) <= count[key]
    return [
        Figure(
            "flows whose bytes in packets are those asked for",
            f"{flows_equal:,} of {flows_all:,}",
            "all",
            flows_equal == flows_all,
        ),
        Figure(
            "hosts whose bytes in packets are those of the closed form, within a byte a flow (over all runs)",
            f"{hosts_equal:,} of {hosts_all:,}",
            "all",
            hosts_equal == hosts_all,
        ),
    ]


def _closed_form_bytes(experiment: Experiment) -> dict[str, float]:
    """What every sending host sends in all iterations of all jobs, by formula; without hosts of jobs that have none."""
    found: dict[str, float] = {}
    unknown: set[str] = set()
    link_Bps = min(experiment.network.capacity_Bps)
    for job, entry in zip(experiment.jobs, experiment.source["jobs"], strict=True):
        sent = sent_bytes(entry, link_Bps)
        if sent is None:
            unknown.update(job.placement)
            continue
        for host, size_bytes in zip(job.placement, sent, strict=True):
            found[host] = found.get(host, 0.0) + size_bytes * job.iterations
    return {host: size_bytes for host, size_bytes in found.items() if host not in unknown}


def _coverage(found: Sequence[Cell], chosen: Sequence[Path]) -> list[Figure]:
    """What the other figures rest on."""
    measured = {
        name
        for name in {cell.experiment for cell in found}
        if all(cell.result.valid_runs for cell in found if cell.experiment == name)
    }
    per_run = {(cell.experiment, cell.result.policy): (cell.result.valid_runs, cell.result.runs) for cell in found}
    valid, all_runs = (sum(counts[i] for counts in per_run.values()) for i in (0, 1))
    missing = sorted({path.stem for path in chosen} - measured)
    return [
        Figure(
            "experiments with a valid run of every policy",
            f"{len(measured)} of {len(chosen)}{'; not ' + ', '.join(missing) if missing else ''}",
            "all",
            not missing,
        ),
        Figure("valid runs (the others are left out)", f"{valid} of {all_runs}", "", None),
    ]
