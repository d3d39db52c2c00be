"""A headless browser without a network, on pages from the disk; skipped, with the reason, where there is none."""

from __future__ import annotations

import shutil

import pytest
from typer.testing import CliRunner

from echelon.benchmarks._page_in_browser import DRAWN, PROGRAMS, why_not
from echelon.cli.main import app


@pytest.fixture(scope="session")
def browser():
    """The system's Chromium, driven by playwright."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, PROGRAMS)))
    with sync_playwright() as driver:
        # Chromium's own sandbox takes rights that containers do not give; the pages are ours.
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


class Opened:
    """One page, and what went wrong on it."""

    def __init__(self, context):
        self.context = context
        self.page = context.new_page()
        self.wrong = []
        self.page.on(
            "console", lambda said: self.wrong.append(said.text) if said.type in ("error", "warning") else None
        )
        self.page.on("pageerror", lambda error: self.wrong.append(str(error)))
        self.page.on("requestfailed", lambda request: self.wrong.append(f"asked for {request.url[:80]}"))


@pytest.fixture
def opened(browser):
    """Opens pages: `opened(path, color_scheme="dark")`; at the end none may have said anything wrong."""
    all_pages = []

    def open_page(path, **options):
        context = browser.new_context(viewport={"width": 1400, "height": 900}, offline=True, **options)
        found = Opened(context)
        all_pages.append(found)
        found.page.goto(path.resolve().as_uri())
        found.page.wait_for_function(DRAWN)
        return found.page

    yield open_page
    wrong = [words for one in all_pages for words in one.wrong]
    for one in all_pages:
        one.context.close()
    assert not wrong


@pytest.fixture(scope="session")
def simulated(tmp_path_factory):
    """Two jobs on shared links, simulated by the command."""
    root = tmp_path_factory.mktemp("simulated") / "run"
    file = "experiments/paradigms/gpipe-shared.yaml"
    words = ["run", file, "--backend", "fluid", "--policy", "fair", "--policy", "srpt", "--out", str(root)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    return root
