"""Draws one iteration of every paradigm: `python -m echelon.documents.workload_pictures`.

Writes docs/workloads/<paradigm>.svg and, between their marks, the made parts of docs/workloads.md: of every paradigm
its entry, groups, times and options. All of it is simulated.
"""

from __future__ import annotations

import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from echelon.documents.made_pages import with_made
from echelon.experiment.jobs import PROFILES, build_dag
from echelon.experiment.specs import JobSpec
from echelon.places import DOCS
from echelonflow import plugins
from echelonflow.model import topologies
from echelonflow.model.dag import Group, Job, JobDag, iteration_times_without_network
from echelonflow.model.network import Network
from echelonflow.model.units import format_duration, format_size
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import policies
from echelonflow.tables import markdown_table
from results.metrics import iteration_rows
from results.pictures.gantt import draw_gantt
from results.shown import ShownRun, shown_iteration
from simulator.fluid import simulate
from traffic.workloads import paradigms, profile
from traffic.workloads.collectives import Algorithm

END = "<!-- end of what is made -->"
DRAWN = "echelonflow"
SHOWN = ("fair", "coflow(grouping=group)", "coflow(grouping=collective)", "echelonflow")
RATE_BPS = 80e6
MOST_OFFSETS = 6
WIDTH = 140
"""Of lines of made text."""

EXAMPLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "pipeline": {"stages": 2, "micro_batches": 3, "forward": "1 s", "activation": "2 s of link"},
        "gpipe": {
            "stages": 3, "micro_batches": 4, "forward": "1 s", "backward": "2 s", "activation": "1.5 s of link",
            "update": "1 s",
        },
        "pipeline-1f1b": {
            "stages": 3, "micro_batches": 4, "forward": "1 s", "backward": "2 s", "activation": "1.5 s of link",
            "update": "1 s",
        },
        "interleaved-1f1b": {
            "stages": 2, "chunks": 2, "micro_batches": 4, "forward": "1 s", "backward": "2 s",
            "activation": "1 s of link", "update": "0.5 s",
        },
        "pipedream": {
            "stages": 3, "micro_batches": 4, "forward": "1 s", "backward": "2 s", "activation": "1 s of link",
            "update": "1 s", "updates": "iteration",
        },
        "data-parallel": {
            "ranks": 3, "layers": 3, "forward": "1 s", "backward": "2 s", "parameter": "2 s of link",
            "update": "0.3 s", "bucket": "1 s of link",
        },
        "parameter-server": {
            "workers": 2, "servers": 1, "layers": 3, "forward": "1 s", "backward": "2 s", "parameter": "1 s of link",
            "update": "0.3 s", "bucket": "1 s of link",
        },
        "tensor-parallel": {
            "ranks": 2, "layers": 2, "forward": "4 s", "backward": "8 s", "activation": "1 s of link",
            "update": "1 s",
        },
        "fsdp": {
            "ranks": 3, "layers": 3, "forward": "1 s", "backward": "2 s", "parameter": "2 s of link",
            "update": "0.6 s",
        },
        "zero": {
            "ranks": 3, "layers": 3, "forward": "1 s", "backward": "2 s", "parameter": "1.5 s of link",
            "update": "1 s", "bucket": "1 s of link",
        },
        "expert-parallel": {
            "ranks": 3, "layers": 2, "forward": "3 s", "backward": "6 s", "dispatch": "2 s of link",
            "expert_every": 2,
        },
        "hybrid": {
            "tensor": 2, "pipeline": 2, "data": 2, "layers": 2, "micro_batches": 2, "forward": "2 s",
            "backward": "4 s", "activation": "1 s of link", "parameter": "3 s of link", "all_reduces": 1,
            "update": "1 s",
        },
    }
)  # fmt: skip
"""What is drawn of every paradigm: options as they stand in an experiment file."""
FIRST_SHOWN = frozenset({"pipeline", "parameter-server"})
"""Of these the first iteration is drawn, not the second, much of which lies before the end of the first."""


def example(name: str) -> tuple[Network, Job]:
    """The drawn job of paradigm `name`, a host for each rank behind one switch of 80 Mbit/s."""
    iterations = 1 if name in FIRST_SHOWN else 2
    spec = JobSpec(name=name, paradigm=name, iterations=iterations, **EXAMPLES[name])
    link_Bps = topologies.build("single-switch", {"hosts": 2, "rate_bps": RATE_BPS}).capacity_Bps[0]
    dag, _ = build_dag(spec, link_Bps, DOCS)
    network = topologies.build("single-switch", {"hosts": dag.ranks, "rate_bps": RATE_BPS})
    return network, Job(name, dag, tuple(network.hosts), iterations)


def observe(name: str, policy: str = DRAWN) -> tuple[Job, RunRecord]:
    """The drawn job of paradigm `name`, simulated under `policy`."""
    network, job = example(name)
    return job, simulate([job], network, policies.load(policy))


def draw(name: str, folder: Path) -> None:
    """The picture of one paradigm, `<name>.svg` in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    job, record = observe(name)
    draw_gantt(folder / f"{name}.png", [ShownRun.of(DRAWN, record, [job])])
    (folder / f"{name}.png").unlink()  # text is what pages need, and changes legibly


def made(name: str) -> str:
    """The made part of a paradigm's section: entry, picture, groups, times, options."""
    _, job = example(name)
    entry = ["```yaml", f"paradigm: {name}", *(f"{key}: {value}" for key, value in EXAMPLES[name].items()), "```"]
    picture = f"![{name}](workloads/{name}.svg)"
    words = [_filled(_times(name, job)), *map(_filled, _options(name))]
    return "\n\n".join(["\n".join(entry), picture, _groups(job.dag), *words])


def _filled(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def _groups(dag: JobDag) -> str:
    """The kinds of EchelonFlows of a job; offsets of the first of each."""
    coflow_of = {transfer.name: transfer.coflow for transfer in dag.transfers}
    kinds: dict[str, list[Group]] = {}
    for group in dag.groups:
        kinds.setdefault(group.kind, []).append(group)
    head = ["EchelonFlows", "number", "flows each", "Coflows each", "offsets of the first (s)"]
    rows = []
    for kind, groups in kinds.items():
        flows = _range([len(group.transfers) for group in groups])
        coflows = _range([len({coflow_of[name] for name in group.transfers}) for group in groups])
        offsets = list(dict.fromkeys(f"{offset:g}" for offset in groups[0].offsets_s))
        words = ", ".join([*offsets[:MOST_OFFSETS], *(["..."] if len(offsets) > MOST_OFFSETS else [])])
        rows.append([f"`{kind}`", str(len(groups)), flows, coflows, words])
    return markdown_table(head, rows, align="lrrrl")


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _times(name: str, job: Job) -> str:
    shown = shown_iteration([job])
    alone_s = iteration_times_without_network(job.dag, job.iterations)[shown]
    taken = ", ".join(f"`{policy}` {iteration_time_s(name, policy):.2f}" for policy in SHOWN)
    which = ("first", "second")[shown]
    return f"The {which} iteration, shown here, takes {alone_s:.2f} s without a network; in simulation {taken}."


def iteration_time_s(name: str, policy: str) -> float:
    """How long the drawn iteration of paradigm `name` takes under `policy`."""
    job, record = observe(name, policy)
    return iteration_rows(record, [job])[shown_iteration([job])].duration_s


def _options(name: str) -> list[str]:
    """Paragraphs on what may be written in the entry."""
    module = plugins.load(paradigms, name, "paradigm")
    given = _described(module.build)
    text = f"**Options.** {_listed(given)}."
    if not hasattr(module, "from_profile"):
        return [text]
    measured = _described(module.from_profile)
    gone = [f"`{key}`" for key in given if key not in measured]
    text_measured = f"With a `profile`, {', '.join(gone)} come from it"
    others = {key: words for key, words in measured.items() if words != given.get(key)}
    return [text, text_measured + (f". Its own: {_listed(others)}." if others else ".")]


def _listed(options: Mapping[str, str]) -> str:
    return ", ".join(f"`{key}` ({words})" for key, words in options.items())


def _described(builder: Callable[..., JobDag]) -> dict[str, str]:
    """Every option of a builder by its key in an experiment file: in a word or two what it is, and its default."""
    hints = typing.get_type_hints(builder)
    found = {}
    for parameter in inspect.signature(builder).parameters.values():
        if parameter.name == "profile":
            continue
        key, words = _kind(parameter.name, hints[parameter.name])
        if parameter.default is not parameter.empty:
            words += f"; {_default(parameter.name, parameter.default)}"
        found[key] = words
    return found


def _kind(parameter: str, hint: Any) -> tuple[str, str]:
    several = typing.get_origin(hint) in (types.UnionType, typing.Union)
    kinds = typing.get_args(hint) if several else (hint,)
    or_list = " or list" if any(typing.get_origin(kind) is list for kind in kinds) else ""
    for suffix, word in (("_s", "time"), ("_bytes", "size")):
        if parameter.endswith(suffix):
            return parameter.removesuffix(suffix), word + or_list
    if hint == Algorithm:
        return parameter, "of collectives"
    if typing.get_origin(hint) is typing.Literal:
        return parameter, " or ".join(map(str, typing.get_args(hint)))
    return parameter, {int: "number", float: "fraction", bool: "true or false"}[hint]


def _default(parameter: str, value: Any) -> str:
    if value is None:
        return "optional"
    if parameter.endswith("_s"):
        return f"default {format_duration(value) if value else '0 s'}"
    if parameter.endswith("_bytes"):
        whole, rest = divmod(value, 1024**2)
        return f"default {value if not value else format_size(value) if rest else f'{whole} MiB'}"
    if isinstance(value, bool):
        return f"default {str(value).lower()}"
    return f"default {value:.3g}" if isinstance(value, float) else f"default {value}"


def profile_table() -> str:
    """The committed profiles: what was measured, and what a micro-batch takes in all layers together."""
    head = ["profile", "model", "device", "micro-batch", "layers", "parameters", "forward", "backward"]
    rows = []
    for path in sorted(PROFILES.glob("*.json")):
        found = profile.read(path)
        layers, source = found.layers, found.provenance
        cells = [f"`{path.stem}`", found.model, f"{source.device}, {source.device_name}"]
        cells += [f"{source.batch} x {source.sample}"]
        cells += [f"{len(layers)}", format_size(sum(layer.parameter_bytes for layer in layers))]
        cells += [format_duration(sum(layer.forward_s for layer in layers))]
        cells += [format_duration(sum(layer.backward_s for layer in layers))]
        rows.append(cells)
    return markdown_table(head, rows, align="llll")


def begin(name: str) -> str:
    """The mark before the made part called `name`."""
    return f"<!-- {name}: made by python -m echelon.documents.workload_pictures -->"


def with_all_made(page: str) -> str:
    """`page` with all its made parts as the code has them now."""
    for name in paradigms.names():
        page = with_made(page, begin(name), END, made(name))
    return with_made(page, begin("profiles"), END, profile_table())


def main(docs: Path = DOCS) -> None:
    """Draw all pictures and put the made parts in their places."""
    for name in paradigms.names():
        draw(name, docs / "workloads")
    page = docs / "workloads.md"
    page.write_text(with_all_made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
