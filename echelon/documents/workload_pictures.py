"""Draws one iteration of every paradigm: `python -m echelon.documents.workload_pictures`.

Writes docs/workloads/<paradigm>.svg and, between their marks, the made parts of docs/workloads.md. There is a table of all
paradigms; of each there is what its module's docstring says, its entry, groups, times and options. All of it is simulated.
"""

from __future__ import annotations

import random
from pathlib import Path

from echelon.cases.random_jobs import Case
from echelon.documents.made_pages import with_made
from echelon.documents.modules import described, filled, listed_options
from echelon.experiment.jobs import PROFILES, build_job
from echelon.experiment.specs import JobSpec
from echelon.places import DOCS
from echelon.study.steady import perturbed
from echelonflow.model import topologies
from echelonflow.model.dag import Group, Job, JobDag, iteration_times_without_network
from echelonflow.model.network import Network
from echelonflow.model.units import format_duration, format_size
from echelonflow.options import options_of
from echelonflow.records.run_record import RunRecord
from echelonflow.scheduling import policies
from echelonflow.tables import markdown_table
from results.analysis.rows import iteration_rows
from results.analysis.shown import ShownRun, shown_iteration
from results.pictures.gantt import draw_gantt
from simulator.fluid import simulate
from traffic.workloads import paradigms, profile
from traffic.workloads.paradigms._families import IN_ORDER, OTHERS, Family

END = "<!-- end of what is made -->"
DRAWN = "echelonflow"
SHOWN = ("fair", "coflow(grouping=group)", "coflow(grouping=collective)", "echelonflow")
RATE_BPS = 80e6
MOST_OFFSETS = 6
CHANGES = 16
TIED = 0.005
"""Relative: what changes by more when sizes do by a thousandth hangs on a tie."""


def example(name: str) -> tuple[Network, Job]:
    """The drawn job of paradigm `name`, a host for each rank behind one switch of 80 Mbit/s."""
    module = paradigms.load(name)
    iterations = 1 if getattr(module, "DRAWS_FIRST", False) else 2
    spec = JobSpec(name=name, paradigm=name, iterations=iterations, **module.EXAMPLE)
    link_Bps = topologies.build("single-switch", {"hosts": 2, "rate_bps": RATE_BPS}).capacity_Bps[0]
    dag = build_job(spec, link_Bps, DOCS).dag
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


def section(name: str) -> str:
    """The section of a paradigm: what its module says of itself, its entry, picture, groups, times and options."""
    _, job = example(name)
    module = paradigms.load(name)
    entry = ["```yaml", f"paradigm: {name}", *(f"{key}: {value}" for key, value in module.EXAMPLE.items()), "```"]
    picture = f"![{name}](workloads/{name}.svg)"
    words = [filled(_times(name, job)), *map(filled, _options(name))]
    return "\n\n".join([f"### {name}", described(module), "\n".join(entry), picture, _groups(job.dag), *words])


def sections() -> str:
    """Every paradigm, by family."""
    by_family: dict[Family, list[str]] = {}
    for name in paradigms.names():
        by_family.setdefault(family(name), []).append(name)
    found = []
    for each in IN_ORDER:
        if each in by_family:
            found += [f"## {each.heading}", *([filled(each.words)] if each.words else [])]
            found += [section(name) for name in by_family[each]]
    return "\n\n".join(found)


def family(name: str) -> Family:
    """Where a paradigm stands on the page."""
    return getattr(paradigms.load(name), "FAMILY", OTHERS)


def side_by_side() -> str:
    """All paradigms in a table: what they are in a line, and what of a small job their groups are."""
    rows = []
    for each in IN_ORDER:
        for name in [name for name in paradigms.names() if family(name) == each]:
            dag = example(name)[1].dag
            kinds = list(dict.fromkeys(group.kind for group in dag.groups))
            coflows, offsets = [], []
            for kind in kinds:
                groups = [group for group in dag.groups if group.kind == kind]
                coflows.append(_range([_coflows(dag, group) for group in groups]))
                offsets.append("staggered" if any(any(group.offsets_s) for group in groups) else "0")
            cells = [f"[{name}](#{name})", described(paradigms.load(name)).partition("\n")[0]]
            cells += [", ".join(f"`{kind}`" for kind in kinds), ", ".join(coflows), ", ".join(dict.fromkeys(offsets))]
            rows.append(cells)
    return markdown_table(["paradigm", "what it is", "EchelonFlows", "of Coflows", "offsets"], rows, align="lllll")


def _groups(dag: JobDag) -> str:
    """The kinds of EchelonFlows of a job; offsets of the first of each."""
    kinds: dict[str, list[Group]] = {}
    for group in dag.groups:
        kinds.setdefault(group.kind, []).append(group)
    head = ["EchelonFlows", "number", "flows each", "Coflows each", "offsets of the first (s)"]
    rows = []
    for kind, groups in kinds.items():
        flows = _range([len(group.transfers) for group in groups])
        coflows = _range([_coflows(dag, group) for group in groups])
        offsets = list(dict.fromkeys(f"{offset:g}" for offset in groups[0].offsets_s))
        words = ", ".join([*offsets[:MOST_OFFSETS], *(["..."] if len(offsets) > MOST_OFFSETS else [])])
        rows.append([f"`{kind}`", str(len(groups)), flows, coflows, words])
    return markdown_table(head, rows, align="lrrrl")


def _coflows(dag: JobDag, group: Group) -> int:
    members = set(group.transfers)
    return len({transfer.coflow for transfer in dag.transfers if transfer.name in members})


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{low}" if low == high else f"{low} to {high}"


def _times(name: str, job: Job) -> str:
    shown = shown_iteration([job])
    alone_s = iteration_times_without_network(job.dag, job.iterations)[shown]
    ranges_s = {policy: iteration_times_s(name, policy) for policy in SHOWN}
    hangs = any(high_s > low_s * (1 + TIED) for low_s, high_s in ranges_s.values())
    taken = ", ".join(f"`{policy}` {_range_of(name, policy, ranges_s[policy])}" for policy in SHOWN)
    which = ("first", "second")[shown]
    said = f"The {which} iteration, shown here, takes {alone_s:.2f} s without a network; in simulation {taken}."
    return said + (" Ranges are where flows tie, and sizes 0.1 % larger or smaller decide." if hangs else "")


def _range_of(name: str, policy: str, range_s: tuple[float, float]) -> str:
    low_s, high_s = range_s
    if high_s > low_s * (1 + TIED):
        return f"{low_s:.2f} to {high_s:.2f}"
    return f"{iteration_time_s(name, policy):.2f}"


def iteration_time_s(name: str, policy: str) -> float:
    """How long the drawn iteration of paradigm `name` takes under `policy`."""
    job, record = observe(name, policy)
    return iteration_rows(record, [job])[shown_iteration([job])].duration_s


def iteration_times_s(name: str, policy: str) -> tuple[float, float]:
    """How long the drawn iteration of paradigm `name` takes under `policy`: the shortest and the longest.

    Of the sizes as they are, and of some that are up to 0.1 % larger or smaller.
    """
    network, job = example(name)
    case, rng = Case((job,), network, name), random.Random(f"workloads/{name}")
    found = []
    for changed in (case, *(perturbed(case, rng) for _ in range(CHANGES))):
        record = simulate(changed.jobs, network, policies.load(policy))
        found.append(iteration_rows(record, changed.jobs)[shown_iteration(changed.jobs)].duration_s)
    return min(found), max(found)


def _options(name: str) -> list[str]:
    """Paragraphs on what may be written in the entry."""
    module = paradigms.load(name)
    given = listed_options(options_of(module.build))
    text = f"**Options.** {', '.join(given.values())}."
    if not hasattr(module, "from_profile"):
        return [text]
    measured = listed_options(options_of(module.from_profile, given=("profile",)))
    gone = [f"`{key}`" for key in given if key not in measured]
    text_measured = f"With a `profile`, {', '.join(gone)} come from it"
    others = [words for key, words in measured.items() if words != given.get(key)]
    return [text, text_measured + (f". Its own: {', '.join(others)}." if others else ".")]


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
    for name, make in (("side by side", side_by_side), ("paradigms", sections), ("profiles", profile_table)):
        page = with_made(page, begin(name), END, make())
    return page


def main(docs: Path = DOCS) -> None:
    """Draw all pictures and put the made parts in their places; pictures of paradigms that are gone go."""
    for path in (docs / "workloads").glob("*.svg"):
        if path.stem not in paradigms.names():
            path.unlink()
    for name in paradigms.names():
        draw(name, docs / "workloads")
    page = docs / "workloads.md"
    page.write_text(with_all_made(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
