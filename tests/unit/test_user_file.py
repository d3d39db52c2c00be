"""Policies in users' files: named by path, loaded anew, and every mistake named with its place."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from echelonflow.errors import InputError
from echelonflow.scheduling import policies, user_file

GOOD = '''"""Last come, first served."""
from typing import Literal
import numpy as np
from echelonflow.scheduling.allocation import Allocation

ENFORCER = "rate"

def allocate(snapshot, *, pace: Literal["slow", "fast"] = "slow"):
    rate = 1.0 if pace == "slow" else 2.0
    return Allocation(np.full(snapshot.flows, rate), np.zeros(snapshot.flows, np.int64))
'''


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(GOOD)
    return path


@pytest.mark.parametrize("text", ["./mine.py", "mine.py", "/a/b.py(x=1)", " ./a (1).py ", "some/where"])
def test_paths_are_told_from_names(text):
    assert user_file.is_named(text)


@pytest.mark.parametrize("text", ["fair", "coflow(grouping=group)", "aalo(first=1/2)"])
def test_names_are_told_from_paths(text):
    assert not user_file.is_named(text)
    assert user_file.absolute(text) == text


def test_a_policy_file_is_a_policy_with_options(mine):
    policy = policies.load(f"{mine}(pace=fast)")
    assert (policy.enforcer, policy.summary) == ("rate", "Last come, first served.")
    with pytest.raises(InputError, match="pace: 'medium' is not one of slow, fast"):
        policies.load(f"{mine}(pace=medium)")
    with pytest.raises(InputError, match="speed: unknown key; there is: pace"):
        policies.load(f"{mine}(speed=1)")


def test_a_policy_file_may_define_dataclasses(mine):
    """They look for the module that they are made in, which nothing else needs to find."""
    held = "from __future__ import annotations\nfrom dataclasses import dataclass\n\n@dataclass\nclass Held:\n    a: int = 0\n\n"
    source = (held + GOOD).encode()
    before = set(sys.modules)
    assert callable(user_file.execute(mine, source).allocate)
    assert set(sys.modules) == before


def test_a_file_that_was_changed_is_read_anew(mine):
    assert policies.load(str(mine)).enforcer == "rate"
    mine.write_text(GOOD.replace('"rate"', '"priority"'))
    assert policies.load(str(mine)).enforcer == "priority"


def test_relative_paths_become_absolute(monkeypatch, mine):
    monkeypatch.chdir(mine.parent)
    assert user_file.absolute("./mine.py(pace=fast)") == f"{mine}(pace=fast)"
    assert user_file.absolute("mine.py") == str(mine)
    assert Path(user_file.absolute("./none.py")).is_absolute()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x = 1\ndef allocate(snapshot:\n", "mine.py, line 2: "),
        ("x = 1\n\ny = 1 / 0\n", "mine.py, line 3: ZeroDivisionError"),
        ("raise SystemExit(3)\n", "mine.py, line 1: SystemExit: 3"),
        ("x = 1\n", r"mine.py has no function allocate\(snapshot\)"),
        ("allocate = 3\n", "has no function allocate"),
        ("import nothing_of_this_name\n", "line 1: ModuleNotFoundError"),
        (GOOD.replace('"rate"', '"magic"'), "ENFORCER is 'magic'"),
    ],
)
def test_what_is_wrong_in_a_file_is_named_with_its_place(mine, text, words):
    mine.write_text(text)
    with pytest.raises(InputError, match=words):
        policies.load(str(mine))


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.py: there is no such file"):
        policies.load(str(tmp_path / "none.py"))
    with pytest.raises(InputError, match="is not a policy file with options"):
        policies.load("some/where")
    with pytest.raises(InputError, match="option 'x' must be written key=value"):
        policies.load("./mine.py(x)")


def test_a_users_code_is_run_in_one_place_only():
    root = Path(user_file.__file__).parents[2]
    packages = ("echelonflow", "simulator", "controller", "traffic", "testbed", "results", "echelon")
    sources = [path for package in packages for path in (root / package).rglob("*.py")]
    callers = [path.name for path in sources if "user_file.execute(" in path.read_text(encoding="utf-8")]
    assert callers == ["worker.py"]
    running = [path.name for path in sources if re.search(r"\bexec\(|\brun_path\(", path.read_text(encoding="utf-8"))]
    # A training program is run by the process that the user starts for it, and by no other.
    assert sorted(running) == ["script.py", "user_file.py"]
