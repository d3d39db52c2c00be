"""Every policy shows in the docstring of `allocate` what it decides, and decides that."""

from __future__ import annotations

import doctest

import pytest

from echelonflow.scheduling import policies
from tests.contract.snapshots import module_of


@pytest.mark.parametrize("name", policies.names())
def test_the_worked_example_comes_out_as_shown(name):
    module = module_of(name)
    tried = doctest.DocTestFinder(recurse=False).find(module.allocate, f"{name}.allocate", module, vars(module))
    assert sum(len(test.examples) for test in tried) > 0, f"policy {name}: the docstring of allocate has no example"
    said = []
    for test in tried:
        doctest.DocTestRunner().run(test, out=said.append)
    assert not said, "".join(said)
