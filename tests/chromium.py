"""Pages at an address, in the browser of `tests/browser`: what their consoles said, and what they asked for."""

from __future__ import annotations

import contextlib
import shutil
import threading

import pytest

from echelon.benchmarks._page_in_browser import PROGRAMS, why_not

LAPTOP = {"width": 1280, "height": 800}


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


def require():
    """Skip the test that calls this where there is no browser, with the reason."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


def with_page(url, look):
    """What `look` returns of the page at `url`, in a browser of its own.

    It has a thread of its own: Playwright has one loop for each, and another test's browser may be open in this one.
    """
    from playwright.sync_api import sync_playwright

    found, failed = [], []

    def go():
        try:
            with sync_playwright() as driver:
                program = next(filter(None, map(shutil.which, PROGRAMS)))
                browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
                with opened(browser, url) as page:
                    found.append(look(page))
                browser.close()
        except BaseException as error:  # noqa: BLE001 it is raised below, in the test
            failed.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    thread.join()
    if failed:
        raise failed[0]
    return found[0]
