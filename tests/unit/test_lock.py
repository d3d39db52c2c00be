"""What is installed is locked: every requirement, for every Python and system, with hashes, and without a registry's name."""

from __future__ import annotations

import ast
import itertools
import re
from collections import defaultdict
from pathlib import Path

import pytest
from packaging.markers import Marker
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
LOCK = ROOT / "scripts" / "lock"
ENTRY = re.compile(r"^(?P<name>[\w.-]+)==(?P<version>\S+)(?: ; (?P<marker>[^\\\n]+?))?(?P<hashes>(?: \\\n {4}--hash=\S+)+)\n", re.MULTILINE)  # fmt: skip
ENVIRONMENTS = [
    {
        "python_version": python, "python_full_version": f"{python}.2", "sys_platform": system,
        "platform_system": name, "platform_machine": machine, "os_name": "posix",
        "implementation_name": "cpython", "platform_python_implementation": "CPython", "extra": "",
    }
    for python, (system, name), machine in itertools.product(
        ("3.10", "3.11", "3.12", "3.13", "3.14"), (("linux", "Linux"), ("darwin", "Darwin")), ("x86_64", "aarch64")
    )
]  # fmt: skip


def of_setup(name):
    """A literal of setup.py: one that is assigned to a name, or the argument of `setup` that is called so."""
    for node in ast.walk(ast.parse((ROOT / "setup.py").read_text())):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == name:
            return ast.literal_eval(node.value)
        if isinstance(node, ast.keyword) and node.arg == name and isinstance(node.value, ast.List):
            return ast.literal_eval(node.value)
    raise AssertionError(f"setup.py has no {name}")


EXTRAS = of_setup("EXTRAS")
WANTED = {"base": of_setup("install_requires"), **EXTRAS}


def entries(name):
    return list(ENTRY.finditer((LOCK / f"{name}.txt").read_text()))


def pinned(names, environment):
    """What is installed of these files there: package to the releases that they name."""
    found = defaultdict(set)
    for entry in itertools.chain.from_iterable(map(entries, names)):
        if entry["marker"] is None or Marker(entry["marker"]).evaluate(environment):
            found[canonicalize_name(entry["name"])].add(entry["version"])
    return found


def test_there_is_a_file_for_each_extra_and_no_other():
    assert {path.stem for path in LOCK.iterdir()} == {*WANTED, "build", "tools"}


@pytest.mark.parametrize("name", [*WANTED, "build", "tools"])
def test_every_line_is_a_release_with_hashes_and_names_no_registry(name):
    text = (LOCK / f"{name}.txt").read_text()
    assert "".join(entry[0] for entry in entries(name)) == text
    assert entries(name)
    assert all(
        re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", h) for e in entries(name) for h in e["hashes"].split() if h != "\\"
    )
    assert "://" not in text


@pytest.mark.parametrize("environment", ENVIRONMENTS, ids=lambda e: "-".join(map(e.get, ("python_version", "sys_platform", "platform_machine"))))  # fmt: skip
def test_what_setup_asks_for_is_locked_once_in_every_environment(environment):
    for extra, asked in WANTED.items():
        found = pinned({"base", extra}, environment)
        for requirement in map(Requirement, asked):
            if requirement.marker is not None and not requirement.marker.evaluate(environment):
                continue
            releases = found[canonicalize_name(requirement.name)]
            assert len(releases) == 1, f"{extra}: {requirement} is {sorted(releases)}; run scripts/lock.sh"
            assert requirement.specifier.contains(*releases, prereleases=True), f"{requirement}: run scripts/lock.sh"
    everything = pinned(WANTED, environment)
    assert {name: releases for name, releases in everything.items() if len(releases) > 1} == {}


def test_what_builds_packages_and_what_installs_them_is_locked():
    found = pinned({"build", "tools"}, ENVIRONMENTS[0])
    for name in ("build", "tools"):
        for line in (ROOT / "scripts" / f"{name}-constraints.txt").read_text().splitlines():
            (release,) = found[canonicalize_name(Requirement(line).name)]
            assert Requirement(line).specifier.contains(release)


def test_setup_installs_nothing_that_is_not_locked():
    """Every call that installs asks for hashes, but for the one that takes the project itself, and nothing with it.

    And but for PyTorch, which nobody gets unasked: a CPU build has other hashes from wherever it comes.
    """
    text = re.sub(r"\\\n\s*", "", (ROOT / "scripts" / "setup.sh").read_text())
    calls = [
        line
        for line in text.splitlines()
        if not line.startswith("#") and re.search(r"pip install .*-r|install_from_lock |pip install --quiet", line)
    ]
    assert len(calls) >= 3
    pytorch = [line for line in calls if '"torch==$release"' in line]
    assert len(pytorch) == 2  # one that looks what there is, and one that installs it
    for line in (line for line in calls if line not in pytorch):
        assert "--require-hashes" in line or "--no-deps -e ." in line or '"$@"' in line, line
    assert "set -- --require-hashes -r scripts/lock/base.txt" in text
