"""A page from the disk in a headless browser without a network: what goes wrong on it, and what it draws."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from echelonflow.errors import RunError

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
DRAWN = "document.documentElement.dataset.drawn === 'yes'"
"""What is true of a page as soon as its charts are drawn."""
_LIMIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class Opened:
    """A page that was opened: what its console complained of, how many charts have marks, and how long that took."""

    complaints: tuple[str, ...]
    charts: int
    took_s: float


def why_not() -> str | None:
    """Why no page can be opened here; None where one can."""
    try:
        import playwright.sync_api
    except ImportError as error:
        return f"{error}; scripts/setup.sh --dev installs playwright"
    del playwright
    if not any(map(shutil.which, PROGRAMS)):
        return "there is no Chromium; scripts/setup.sh --dev installs it where there is apt-get"
    return None


def open_page(path: Path) -> Opened:
    """Open a report, and wait until its charts are drawn; RunError where there is no browser, or they never are."""
    reason = why_not()
    if reason is not None:
        raise RunError(f"no page can be opened: {reason}")
    from playwright.sync_api import Error, sync_playwright

    complaints: list[str] = []
    with sync_playwright() as driver:
        # Chromium's own sandbox takes rights that containers do not give; the pages are ours.
        program = next(filter(None, map(shutil.which, PROGRAMS)))
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_context(offline=True).new_page()
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(f"asked for {request.url[:80]}"))
        started_s = time.monotonic()
        try:
            page.goto(path.resolve().as_uri())
            page.wait_for_function(DRAWN, timeout=_LIMIT_MS)
        except Error as error:
            raise RunError("; ".join([str(error).partition("\n")[0], *complaints])) from None
        took_s = time.monotonic() - started_s
        charts = page.evaluate(
            "[...document.querySelectorAll('.chart')].filter((one) => one.querySelector('svg path, canvas')).length"
        )
        browser.close()
    return Opened(tuple(complaints), int(charts), took_s)
