"""The benchmark of a sweep's report: what it demands, on a sweep small enough for a test, and that errors of a page are seen."""

from __future__ import annotations

import pytest

from echelon.benchmarks import sweep_report
from echelon.benchmarks._page_in_browser import Opened, open_page, why_not
from echelon.benchmarks._sweep_command import cells_of
from echelonflow.errors import RunError

GOOD = Opened((), 3, 0.5)


def test_what_is_demanded():
    found = sweep_report.figures(100, [3.0, 4.0, 5.0], 2_500_000, GOOD)
    assert [figure.ok for figure in found] == [True, True, True]
    assert [figure.measured for figure in found] == [
        "4.0 s (3.0 to 5.0)", "2.50 MB", "3 charts drawn after 0.5 s",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("times_s", "size_bytes", "opened", "missed"),
    [
        ([21.0], 1, GOOD, 0),
        ([1.0], 16_000_000, GOOD, 1),
        ([1.0], 1, Opened(("it failed",), 3, 0.5), 2),
        ([1.0], 1, Opened((), 0, 0.5), 2),
        ([1.0], 1, "there is no Chromium", 2),
    ],
)
def test_what_misses(times_s, size_bytes, opened, missed):
    found = sweep_report.figures(100, times_s, size_bytes, opened)
    assert [figure.ok for figure in found] == [place != missed for place in range(3)]


def test_errors_of_a_page_are_seen(tmp_path):
    if (reason := why_not()) is not None:
        pytest.skip(reason)
    page = tmp_path / "page.html"
    page.write_text(
        "<script>document.documentElement.dataset.drawn = 'yes'; console.error('mine');</script><img src='a.png'>"
    )
    found = open_page(page)
    assert "mine" in found.complaints
    assert any(words.startswith("asked for file:") for words in found.complaints)
    assert found.charts == 0


@pytest.mark.slow
def test_the_report_of_a_sweep_is_timed_and_opened(tmp_path):
    root = sweep_report.swept(tmp_path, 1)
    assert sweep_report.report_s(root) > 0
    page = root / "report.html"
    assert f"All {cells_of(1)} runs count" in page.read_text()
    if why_not() is None:
        opened = open_page(page)
        assert opened.complaints == ()
        assert opened.charts >= 3
    (root / "sweep.json").write_text("{}")
    with pytest.raises(RunError, match=r"the report ended with 2: .*sweep\.json"):
        sweep_report.report_s(root)
