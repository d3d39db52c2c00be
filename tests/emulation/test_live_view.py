"""The live view of a real emulated run, in a real browser: what it shows, a swap, what Prometheus reads, and the end."""

from __future__ import annotations

import re
import signal
import threading
import urllib.request

import pytest
from prometheus_client.parser import text_string_to_metric_families

from echelonflow.errors import EXIT_INTERRUPTED
from echelonflow.records.folder import RunFolder
from tests.chromium import require, with_page
from tests.emulation.conftest import echelon_run
from tests.waiting import end_of, wait_until

pytestmark = pytest.mark.emulation
LIMIT_MS = 60_000
LOADS = (
    "Object.fromEntries([...document.querySelectorAll('#links tbody tr')]"
    ".map(one => [one.cells[0].textContent, parseFloat(one.cells[1].textContent)]))"
)
"""In the page: the load of each link that is listed, in percent."""

EXPERIMENT = """
name: live
network: {topology: leaf-spine, leaves: 2, hosts_per_leaf: 2, spines: 1, rate: 30 Mbit/s}
jobs:
  - {name: pipeline, paradigm: pipeline, stages: 2, micro_batches: 3, forward: 300 ms, activation: 400 ms of link,
     iterations: 8, placement: [h1, h3]}
policies: [echelonflow]
emulation: {limits: {max_link_error: 1, max_moved_iteration: 1, max_moved_exposed: 1, max_unexplained_iteration: 1,
                     max_unexplained_exposed: 1}}
"""


def said_address(process):
    """The address that the command has printed; what else it says is read as well, so that it never waits for a reader."""
    lines = []
    threading.Thread(target=lambda: lines.extend(iter(process.stderr.readline, "")), daemon=True).start()
    found = wait_until(
        lambda: re.search(r"^live view: (\S+)$", "".join(lines), re.MULTILINE), 60, "the address", process
    )
    return found[1]


def metrics(url):
    """Samples of /metrics by name and labels."""
    with urllib.request.urlopen(f"{url}metrics", timeout=10) as answer:
        text = answer.read().decode()
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def seen(page, expression, process):
    """Wait until an expression is true in the page. Playwright's own waiting would need `eval`, which the page forbids."""
    return wait_until(lambda: page.evaluate(expression), LIMIT_MS / 1e3, expression, process)


def test_a_run_is_seen_and_swapped_while_it_goes_on(tmp_path):
    require()
    experiment, out = tmp_path / "live.yaml", tmp_path / "out"
    experiment.write_text(EXPERIMENT)
    with echelon_run("--live", experiment, "--out", out, "--attempts", "1") as process:
        url = said_address(process)
        with_page(url, lambda found: look(found, url, process, out))
        code = end_of_all(process, out)
    assert code in (0, 3)
    assert (out / "report.html").exists()
    assert '"policy_ordered"' in events(out)


def look(found, url, process, out):
    """The page from the second iteration to the end, with a swap between."""
    page = found.page
    iteration = "document.querySelector('#jobs tbody td:nth-child(3)')?.textContent"
    seen(page, f"/^[23] of 8$/.test({iteration})", process)
    # The pipeline's link is full while it sends; hosts that have no part in it send nothing.
    assert seen(page, f"{LOADS}['h1->l1'] > 50", process)
    page.get_by_role("checkbox", name="show all links").check()
    seen(page, "document.querySelectorAll('#links tbody tr').length === 12", process)
    assert page.evaluate(LOADS)["h2->l1"] < 5
    assert "by echelonflow, because of: " in page.locator("#why").inner_text()
    counted = metrics(url)
    assert counted["echelon_policy_info", ("enforcer", "priority"), ("policy", "echelonflow")] == 1
    assert counted["echelon_job_iteration", ("job", "pipeline")] >= 1
    # The first of new flows leaves two classes above it.
    assert counted["echelon_link_bytes_total", ("class", "3"), ("link", "h1->l1")] > 10**6
    assert counted["echelon_job_tardiness_seconds_total", ("job", "pipeline")] > 0
    page.get_by_role("combobox", name="Policy").select_option("fair")
    page.get_by_role("button", name="Swap").click()
    seen(page, "document.querySelector('#answer').textContent.startsWith('In force: fair')", process)
    seen(page, "document.querySelector('#why').textContent.includes('by fair, because of: ')", process)
    page.locator("#ended").wait_for(state="visible", timeout=LIMIT_MS)
    assert page.locator("#ended-words").inner_text().startswith("The experiment has ended")
    assert page.locator("#report").inner_text() == str(out / "report.html")
    assert found.complaints == []


def test_ctrl_c_ends_the_view_with_the_run_and_the_page_says_so(tmp_path):
    require()
    experiment, out = tmp_path / "live.yaml", tmp_path / "out"
    experiment.write_text(EXPERIMENT)

    def interrupt(found):
        seen(found.page, "document.querySelector('#stage').textContent.startsWith('building')", process)
        process.send_signal(signal.SIGINT)
        found.page.locator("#ended").wait_for(state="visible", timeout=LIMIT_MS)
        assert found.page.locator("#ended-words").inner_text().startswith("The experiment was interrupted")

    with echelon_run("--live", experiment, "--out", out, "--attempts", "1") as process:
        with_page(said_address(process), interrupt)
        assert end_of_all(process, out) == EXIT_INTERRUPTED


def end_of_all(process, out):
    """The exit code; standard error is read by another thread."""
    process.stderr = None
    return end_of(process, 60, [out / "logs"])[0]


def events(out):
    (run,) = RunFolder(out).runs()
    return run.events.read_text()
