"""report.html: everything a reader needs to judge an experiment, in one file that needs no other."""

from __future__ import annotations

import base64
import functools
import json
import shlex
from pathlib import Path
from typing import Any

import jinja2

from echelonflow.files import write_whole
from echelonflow.model.units import format_rate, format_size
from echelonflow.records.calibration import Calibration
from echelonflow.records.folder import RunFolder
from echelonflow.records.manifest import Manifest
from results.analysis.summary import Summary
from results.report.budget import unexplained_share
from results.report.comparison import narrowing_lines
from results.report.in_job import held_back
from results.report.printed_column import MISSING, format_estimate, format_seconds, format_share
from results.report.table import lists_jobs, stretched, swapped_parts, unit_of

_PICTURES = (
    (
        "gantt",
        "Computations and flows of every host, policies one below the other",
        (
            "One iteration of the run nearest the policy's median. A flow's bar goes from its first byte to its last, "
            "after a thin line from its release. The paper's Fig. 2, as it happened."
        ),
    ),
    (
        "times",
        "Iteration time, exposed communication and tardiness",
        (
            "Medians over the valid runs with 95 % intervals. The diamond is the fluid simulation's prediction for "
            "the same jobs, network and policy."
        ),
    ),
    (
        "budget",
        "Where the time went",
        (
            "Iteration time from the ideal to what was measured; to the right what was added to it, magnified. Means over the "
            "valid runs. Each run was simulated again with what it measured, one cause after the other."
        ),
    ),
    (
        "tardiness",
        "Tardiness of single flows",
        (
            "How much later than its ideal finish time each flow of the shown iteration ended. An EchelonFlow is as "
            "tardy as its most tardy flow."
        ),
    ),
    (
        "throughput",
        "Throughput by traffic class, from the packets",
        "Payload that arrived at all hosts together, by the mark it arrived with; the higher the class, the darker.",
    ),
    (
        "completion",
        "Completion times of Coflows (simulated)",
        "From a Coflow's arrival to the end of its last flow. To the left the share that is done by a time, to the right the share that takes longer.",
    ),
)


def write_report(folder: RunFolder, manifest: Manifest, calibration: Calibration | None, summary: Summary) -> Path:
    """Write report.html into `folder`, with the pictures that were drawn there before; returns its path."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("results.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    unit = unit_of(summary)
    environment.filters["time"] = functools.partial(format_seconds, unit=unit)
    environment.filters["signed_time"] = functools.partial(format_seconds, unit=unit, signed=True)
    environment.filters["number"] = format_seconds
    environment.filters["share"] = format_share
    environment.filters["difference"] = functools.partial(format_estimate, unit=unit, signed=True)
    environment.filters["ratio"] = format_estimate
    environment.filters["ms"] = lambda value_s: MISSING if value_s is None else f"{value_s * 1e3:.2f}"
    environment.filters["percent"] = lambda value: MISSING if value is None else f"{value:.0%}"
    environment.filters["fine_percent"] = lambda value: MISSING if value is None else f"{value:.2%}"
    environment.filters["unexplained"] = lambda budget: format_share(unexplained_share(budget))
    environment.filters["size"] = lambda value: MISSING if value is None else format_size(value)
    environment.filters["rate"] = lambda rate_Bps: format_rate(rate_Bps * 8)
    text = environment.get_template("report.html.j2").render(
        summary=summary,
        listed=lists_jobs(summary),
        unit=unit,
        manifest=manifest,
        simulated=summary.backend == "fluid",
        calibration=calibration,
        pictures=_pictures(folder.root),
        swapped=swapped_parts(summary),
        held_back=held_back(summary.results),
        stretched=None if summary.stretch == 1 else stretched(summary.stretch),
        narrowing=narrowing_lines(summary.comparisons),
        facts=_facts(manifest),
        experiment=json.dumps(manifest.experiment, indent=2, ensure_ascii=False),
        command=_command(manifest),
    )
    path = folder.root / "report.html"
    write_whole(path, text)
    return path


def _pictures(root: Path) -> list[dict[str, str]]:
    """The pictures that were drawn, each as a data URL with its caption."""
    found = []
    for name, title, caption in _PICTURES:
        path = root / "figures" / f"{name}.png"
        if path.exists():
            data = base64.b64encode(path.read_bytes()).decode("ascii")
            found.append({"name": name, "title": title, "caption": caption, "url": f"data:image/png;base64,{data}"})
    return found


def _facts(manifest: Manifest) -> list[tuple[str, str]]:
    """What the manifest knows about where the numbers come from, in words."""
    named = {
        "started": manifest.started,
        "code revision": manifest.git,
        "seed": manifest.seed,
        "congestion control": manifest.congestion_control,
        "OpenFlow framework": manifest.framework,
        "network": _network(manifest),
        "limits of a valid run": manifest.limits,
        **manifest.machine,
        **{f"version of {name}": value for name, value in manifest.versions.items()},
    }
    return [(name, _words(value)) for name, value in named.items() if value not in (None, "", [], {})]


def _words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_words, value))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_words(item)}" for key, item in value.items())
    return str(value)


def _network(manifest: Manifest) -> str | None:
    network = manifest.network
    if network is None:
        return None
    rates = sorted({cable.rate_bps for cable in network.cables})
    return (
        f"{network.name}: {len(network.hosts)} hosts, {len(network.switches)} switches, "
        f"{' and '.join(map(format_rate, rates))}, MTU {network.mtu_bytes}"
    )


def _command(manifest: Manifest) -> str:
    """The command that repeats the experiment, to be copied into a shell: the folder may be another's."""
    policies = " ".join(f"--policy {shlex.quote(policy)}" for policy in manifest.policies)
    backend = " --backend fluid" if manifest.backend == "fluid" else ""
    file = manifest.experiment_file or f"{manifest.name}.yaml"
    against = "" if manifest.against is None else f" --against {shlex.quote(manifest.against)}"
    against += "" if manifest.stretch == 1 else f" --stretch {manifest.stretch:g}"
    return f"echelon run {shlex.quote(file)} {policies}{against} --repeat {manifest.repeats} --seed {manifest.seed}{backend}"
