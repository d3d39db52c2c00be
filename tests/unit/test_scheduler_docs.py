"""docs/schedulers.md describes every job scheduler there is, and its table is what the code does."""

from __future__ import annotations

import re

import pytest

from echelon.documents import scheduler_pages
from traffic.workloads import job_schedulers

PAGE = (scheduler_pages.DOCS / "schedulers.md").read_text(encoding="utf-8")


def section(name):
    return PAGE.partition(f"\n### {name}\n")[2].partition("\n##")[0]


@pytest.mark.parametrize("name", job_schedulers.names())
def test_every_scheduler_has_a_section_with_its_source_and_options(name):
    own = section(name)
    assert own, f"docs/schedulers.md has no section {name!r}"
    for word in ("**Differs.**", "Source: "):
        assert word in own
    for option in job_schedulers.options(name):
        assert f"`{option.key}`" in own, f"docs/schedulers.md does not mention {name}({option.key}=...)"


def test_no_section_is_left_of_a_scheduler_that_is_gone():
    assert re.findall(r"^### (\S+)$", PAGE, re.MULTILINE) == job_schedulers.names()


def test_what_is_made_is_what_the_code_says_and_does():
    made = scheduler_pages.with_all_made(PAGE)
    assert made == PAGE, "make it again: python -m echelon.documents.scheduler_pages"


def test_the_page_describes_the_model_that_is_simulated():
    model = scheduler_pages.model()
    sizes = [tensor.size_bytes / 1e6 for tensor in model.tensors]
    computed = [round(1000 * (tensor.forward_s + tensor.backward_s)) for tensor in model.tensors]
    words = " ".join(PAGE.split())
    assert f"layers of {sizes[0]:g}, {sizes[1]:g}, {sizes[2]:g} and {sizes[3]:g} MB" in words
    assert f"compute {computed[0]}, {computed[1]}, {computed[2]} and {computed[3]} ms" in words
    assert f"{scheduler_pages.RATE_BPS / 1e6:g} Mbit/s" in words
