"""What `echelon bench paradigms` makes of its runs: figures of one setting, alone or beside a rival, and of all runs together."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from echelon.benchmarks import Figure
from echelon.benchmarks._closed_forms import sent_bytes
from echelon.experiment.schema import Experiment
from echelonflow.model.flow_key import FlowKey
from echelonflow.records.agent_log import Sent, read_agent_log
from echelonflow.records.calibration import read_calibration
from echelonflow.records.decisions import read_decisions
from echelonflow.records.folder import RunFiles, RunFolder
from echelonflow.records.manifest import read_manifest
from results.analysis.side_by_side import Cell, pairs_apart
from results.analysis.summary import read_summary
from results.analysis.valid_rows import rows, valid_runs

TOLD_APART = 0.08
"""Policies that fluid has further apart than this must be in the same order on real packets."""

MOST_UNEXPLAINED, GOAL_UNEXPLAINED = 0.01, 0.005
FAR = 0.03
"""No valid run may be further off what explains it."""
LEAST_AHEAD, GOAL_AHEAD = 0.90, 0.99


@dataclass(frozen=True)
class Setting:
    """Jobs that have the network to themselves, or share it: how far exposed communication may be from fluid there."""

    name: str
    suffix: str
    """Of the names of its tables and its picture."""
    most_median: float
    most_worst: float
    goal_median: float
    goal_worst: float


ALONE = Setting("alone", "", most_median=0.03, most_worst=0.10, goal_median=0.015, goal_worst=0.05)
SHARED = Setting("beside a rival", "-shared", most_median=0.03, most_worst=0.12, goal_median=0.02, goal_worst=0.06)


@dataclass(frozen=True)
class Measured:
    """One experiment that was measured, and the folder of its runs."""

    experiment: Experiment
    root: Path
    cells: tuple[Cell, ...]

    @property
    def setting(self) -> Setting:
        return ALONE if len(self.experiment.jobs) == 1 else SHARED


def of_setting(setting: Setting, measured: Sequence[Measured]) -> list[Figure]:
    """The figures of one setting; none where nothing was measured in it."""
    cells = [cell for one in measured for cell in one.cells]
    if not any(cell.result.exposed_difference is not None for cell in cells):
        return []
    found = [*_against_fluid(setting, cells), *_bytes(measured), _valid(cells)]
    return [Figure(f"{setting.name}: {figure.what}", figure.measured, figure.must, figure.ok) for figure in found]


def of_all_runs(measured: Sequence[Measured]) -> list[Figure]:
    """What is left unexplained of valid runs' times, and how many flows were decided on before they were released."""
    return [*_unexplained(measured), *_ahead(measured)]


def _unexplained(measured: Sequence[Measured]) -> Iterator[Figure]:
    shares = [
        budget.unexplained_s / budget.explained_s
        for one in measured
        for run in read_summary(one.root / "summary.json").runs
        if run.valid
        for budget in run.budgets.values()
        if budget.explained_s > 0
    ]
    if shares:
        median = statistics.median(map(abs, shares))
        yield Figure(
            f"unexplained part of iteration time, median over {len(shares)} (valid run, job)",
            f"{median:.2%}",
            _must(MOST_UNEXPLAINED, GOAL_UNEXPLAINED),
            median <= MOST_UNEXPLAINED,
        )
        far = sum(abs(share) > FAR for share in shares)
        what = f"of these, iteration time over {FAR:.0%} off its explained prediction"
        yield Figure(what, f"{far} of {len(shares)}", "0", far == 0)


def _ahead(measured: Sequence[Measured]) -> Iterator[Figure]:
    """Of valid runs; in their first iteration, flows are released before there was spare time to decide on them."""
    ahead = later = 0
    decided: set[tuple[Path, FlowKey]] = set()
    corrected: set[tuple[Path, FlowKey]] = set()
    for files in (files for one in measured for files in _valid_files(one.root)):
        for line in (line for log in sorted(files.agents.iterdir()) for line in read_agent_log(log)):
            if isinstance(line, Sent):
                if line.by:
                    decided.add((files.root, (line.job, line.iteration, line.flow)))
                ahead += line.iteration > 0 and bool(line.by)
                later += line.iteration > 0
        corrected |= {(files.root, key) for one in read_decisions(files.decisions) for key in one.corrected}
    if later:
        share = ahead / later
        yield Figure(
            "flows decided ahead, from the second iteration on",
            f"{share:.1%} of {later:,}",
            f"over {LEAST_AHEAD:.0%} (goal {GOAL_AHEAD:.0%})",
            share > LEAST_AHEAD,
        )
        yield Figure("corrected, of those decided ahead", f"{len(corrected & decided):,} of {len(decided):,}", "", None)


def _valid_files(root: Path) -> Iterator[RunFiles]:
    folder = RunFolder(root)
    return (folder.run(run.label) for run in read_summary(root / "summary.json").runs if run.valid)


def coverage(measured: Sequence[Measured], chosen: Sequence[str]) -> Figure:
    """Of how many experiments that were asked for there is a valid run of every policy."""
    whole = {one.experiment.name for one in measured if all(cell.result.valid_runs for cell in one.cells)}
    missing = sorted(set(chosen) - whole)
    return Figure(
        "experiments with a valid run of every policy",
        f"{len(whole)} of {len(chosen)}{'; not ' + ', '.join(missing) if missing else ''}",
        "all",
        not missing,
    )


def where(measured: Sequence[Measured]) -> Figure:
    """On what machine, by which revisions of the code and when it was measured."""
    manifests = [read_manifest(RunFolder(one.root).manifest) for one in measured]
    revisions = sorted({(manifest.git or "unknown")[:12] for manifest in manifests})
    days = sorted({manifest.started[:10] for manifest in manifests if manifest.started})
    machine = manifests[0].machine
    parts = [f"{machine.get('cpu_count', 'unknown number of')} processors", f"Linux {machine.get('kernel', 'unknown')}"]
    calibration = read_calibration(RunFolder(measured[0].root).calibration)
    if calibration is not None:
        parts.append(f"Open vSwitch {calibration.openvswitch} ({calibration.datapath})")
    parts.append(f"revision {' and '.join(revisions)}")
    parts.append(f"{days[0]} to {days[-1]}" if len(days) > 1 else "".join(days))
    return Figure("measured on", ", ".join(filter(None, parts)), "", None)


def _against_fluid(setting: Setting, found: Sequence[Cell]) -> list[Figure]:
    off = {cell: difference for cell in found if (difference := cell.result.exposed_difference) is not None}
    median = statistics.median(abs(value) for value in off.values())
    worst = max(off, key=lambda cell: abs(off[cell]))
    pairs = pairs_apart(found, TOLD_APART)
    wrong = [pair for pair in pairs if not pair.same_order]
    listed = "".join(f"; not {': '.join(pair.row)}: {pair.first} before {pair.second}" for pair in wrong)
    return [
        Figure(
            f"exposed communication off fluid, median over {len(off)} (experiment, job, policy)",
            f"{median:.1%}",
            _must(setting.most_median, setting.goal_median),
            median <= setting.most_median,
        ),
        Figure(
            "the same, worst",
            f"{off[worst]:+.1%} ({worst.experiment}: {worst.result.job}, {worst.result.policy})",
            _must(setting.most_worst, setting.goal_worst),
            abs(off[worst]) <= setting.most_worst,
        ),
        Figure(
            f"pairs of policies that fluid has more than {TOLD_APART:.0%} apart, in the same order",
            f"{len(pairs) - len(wrong)} of {len(pairs)}{listed}",
            "all",
            not wrong,
        ),
    ]


def _must(most: float, goal: float) -> str:
    return f"at most {most * 100:g} % (goal {goal * 100:g} %)"


def _bytes(measured: Sequence[Measured]) -> list[Figure]:
    """Bytes in packets: of every flow against what was asked for, of every sending host against the closed form.

    Sizes of flows are whole bytes, so a host may be off by one byte for each flow that it sends.
    """
    flows_equal = flows_all = hosts_equal = hosts_all = 0
    for experiment, root in ((one.experiment, one.root) for one in measured):
        expected = closed_form_bytes(experiment)
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


def closed_form_bytes(experiment: Experiment) -> dict[str, float]:
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


def _valid(cells: Sequence[Cell]) -> Figure:
    """How many runs the other figures rest on."""
    per_run = {(cell.experiment, cell.result.policy): (cell.result.valid_runs, cell.result.runs) for cell in cells}
    valid, all_runs = (sum(counts[i] for counts in per_run.values()) for i in (0, 1))
    return Figure("valid runs (the others are left out)", f"{valid} of {all_runs}", "", None)
