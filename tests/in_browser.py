"""A real browser without a screen, for tests of pages: the system's Chromium, driven by Playwright.

Tests that need it are skipped where it is missing, with the reason; with ECHELON_REQUIRE_BROWSER=1 they fail instead.
"""

from __future__ import annotations

import contextlib
import os
import shutil

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
LAPTOP = {"width": 1280, "height": 800}


def _missing():
    """Why there is no browser, or None."""
    try:
        import playwright.sync_api  # noqa: F401 it is asked for, not used
    except ImportError:
        return "there is no playwright: scripts/setup.sh --dev"
    return None if executable() else "there is no Chromium: scripts/setup.sh --dev, or apt-get install chromium"


def executable():
    """The browser's path, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


def require():
    """Skip the test that calls this where there is no browser, or fail it where one is required."""
    reason = _missing()
    if reason is not None:
        (pytest.fail if os.environ.get("ECHELON_REQUIRE_BROWSER") == "1" else pytest.skip)(reason)


@contextlib.contextmanager
def chromium():
    """A browser, until the block ends."""
    require()
    from playwright.sync_api import sync_playwright

    # As root its sandbox cannot be; the pages are our own.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable(), args=[*sandbox, "--disable-gpu"])
        try:
            yield browser
        finally:
            browser.close()


class Opened:
    """A page with what its console said, what went wrong in it, and the addresses that it asked for."""

    def __init__(self, page):
        self.page = page
        self.complaints = []
        self.requests = []
        page.on(
            "console", lambda said: self.complaints.append(said.text) if said.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))


@contextlib.contextmanager
def opened(browser, url, **options):
    """The page at `url`, loaded; `options` are those of a browser context, such as color_scheme."""
    context = browser.new_context(**{"viewport": LAPTOP, **options})
    try:
        found = Opened(context.new_page())
        found.page.goto(url)
        yield found
    finally:
        context.close()
