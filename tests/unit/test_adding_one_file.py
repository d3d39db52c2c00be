"""A policy, job scheduler, topology, placement or format is one file, a paradigm a module and an experiment: tried in a copy of the tree."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ADDED = ROOT / "tests" / "added"
UNFINISHED = ("*.pyc.*", "*.tmp.*")
"""What other tests' processes are compiling just now, under a name that it has for a moment."""
LEFT_OUT = (".git", ".venv", "build", "runs", "*_cache", "*-pytest-*.pyc", "*.egg-info", ".hypothesis", *UNFINISHED)
"""What Python and numba compiled stays with its sources: to make it again takes a minute. Where a source is another, they do."""
MOST_S = 240


@dataclass(frozen=True)
class Addition:
    """What is added where, which command makes its documents, what that changes, and which tests find it."""

    name: str
    files: dict[str, str]
    makers: tuple[str, ...]
    made: frozenset[str]
    tests: tuple[str, ...]
    chosen: str
    """Which of these tests: an expression of pytest's `-k`."""


ADDITIONS = (
    Addition(
        "local-sgd",
        {
            "local_sgd.py": "traffic/workloads/paradigms/local_sgd.py",
            "local-sgd.yaml": "experiments/paradigms/local-sgd.yaml",
        },
        ("workload_pictures", "experiment_figures"),
        frozenset({"docs/workloads.md", "docs/workloads/local-sgd.svg"}),
        (
            "tests/unit/test_traffic_paradigms_all.py",
            "tests/unit/test_traffic_paradigms_experiments.py",
            "tests/unit/test_workload_docs.py",
            "tests/unit/test_benchmark_paradigms.py",
        ),
        "local-sgd or pictures_tell or is_there or is_made or is_gone",
    ),
    Addition(
        "widest-first",
        {"widest_first.py": "echelonflow/scheduling/policies/widest_first.py"},
        ("policy_pictures",),
        frozenset({"docs/policies.md", "docs/policies/widest-first.svg"}),
        (
            "tests/contract/test_policies.py",
            "tests/contract/test_promises.py",
            "tests/contract/test_policy_examples.py",
            "tests/unit/test_policy_docs.py",
        ),
        "widest or blind_are or is_gone or is_made or option_is_named",
    ),
    Addition(
        "smallest-first",
        {"smallest_first.py": "traffic/workloads/job_schedulers/smallest_first.py"},
        ("scheduler_pages",),
        frozenset({"docs/schedulers.md"}),
        (
            "tests/unit/test_in_job.py",
            "tests/unit/test_job_schedulers.py",
            "tests/unit/test_scheduler_docs.py",
            "tests/unit/test_scheduler_experiments.py",
        ),
        "smallest-first or roster or is_made or is_gone or bad_input or is_named_by_its_place or schedulers_lists",
    ),
    Addition(
        "switch-ring",
        {"switch_ring.py": "echelonflow/model/topologies/switch_ring.py"},
        ("topology_pages",),
        frozenset({"docs/topologies.md", "docs/topologies/switch-ring.svg"}),
        ("tests/contract/test_topologies.py", "tests/unit/test_topology_docs.py", "tests/unit/test_network.py"),
        "switch-ring or is_made or unknown",
    ),
    Addition(
        "last-first",
        {"last_first.py": "echelonflow/model/placements/last_first.py"},
        ("placement_pages",),
        frozenset({"docs/cluster.md"}),
        ("tests/contract/test_placements.py", "tests/unit/test_cluster_docs.py"),
        "last-first or is_made or is_gone",
    ),
    Addition(
        "edge-list",
        {"edge_list.py": "traffic/workloads/formats/edge_list.py"},
        ("format_pages",),
        frozenset({"docs/formats.md"}),
        ("tests/unit/test_formats.py", "tests/unit/test_formats_fuzz.py"),
        "edge-list or is_tried or the_page or pipe",
    ),
    Addition(
        "best-neighbour",
        {"best_neighbour.py": "echelon/tuning/methods/best_neighbour.py"},
        (),
        frozenset(),
        ("tests/unit/test_tuning_methods.py",),
        "best-neighbour or found_and_described",
    ),
)


@pytest.mark.slow
@pytest.mark.parametrize("addition", ADDITIONS, ids=lambda addition: addition.name)
def test_all_else_is_found_or_made(addition, tmp_path):
    tree = tmp_path / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
    for source, target in addition.files.items():
        shutil.copy(ADDED / source, tree / target)
    for maker in addition.makers:
        run(tree, "-m", f"echelon.documents.{maker}")
    assert changed(tree) == {*addition.files.values(), *addition.made}
    run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", *addition.tests, "-k", addition.chosen)


def run(tree: Path, *arguments: str) -> None:
    """Python with `arguments`, in the copy and of the copy alone; what it says is shown if it fails."""
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=MOST_S, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{' '.join(arguments)} ended with {done.returncode}:\n{done.stdout}"


def changed(tree: Path) -> set[str]:
    """Files of the copy that are new or differ from the tree's."""
    found = set()
    for path in tree.rglob("*"):
        name = path.relative_to(tree)
        if path.is_file() and not any(part in ("__pycache__", ".hypothesis") for part in name.parts):
            original = ROOT / name
            if not original.is_file() or not filecmp.cmp(path, original, shallow=False):
                found.add(name.as_posix())
    return found
