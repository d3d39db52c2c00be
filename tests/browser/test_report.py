"""Reports in a real browser: nothing goes wrong, the numbers are those of summary.json, zooming works, dark and print."""

from __future__ import annotations

import csv
import json
import re
import shutil
import statistics
import subprocess
from pathlib import Path

import numpy as np
import pytest

from echelonflow.scheduling import policies
from results import colours
from results.folder import analyse
from tests.unit.synthetic_run import paper_job, paper_network, synthetic_runs, write_experiment
from tests.unit.synthetic_training import trained_run

HOSTILE = "</script><b>mine</b>.py"
LONG = "a-folder-with-quite-a-long-name"
"""Columns beside a long path must stay readable on paper."""
PAPER_PX = (297 - 2 * 12) / 25.4 * 96
"""What is printed of a page: A4 across, less the margins of the style sheet."""


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A run folder as an emulation leaves it; one policy is called what HTML would obey."""
    mine = tmp_path_factory.mktemp("policies") / LONG / HOSTILE
    mine.parent.mkdir(parents=True)
    mine.write_text(Path(policies.__file__).with_name("fair.py").read_text())
    network = paper_network()
    jobs = [paper_job(network, 2)]
    names = ["fair", str(mine), "echelonflow"]
    runs = synthetic_runs(jobs, network, names, 2)
    root = write_experiment(tmp_path_factory.mktemp("measured") / "run", network, jobs, names, runs)
    analyse(root)
    return root


def table_of(page, heading):
    """Texts of the cells of the first table after a heading, row by row."""
    return page.evaluate(
        """(id) => {
          let at = document.getElementById(id);
          while (!at.querySelector || !at.querySelector("table")) at = at.nextElementSibling;
          return [...at.querySelectorAll("tr")].map((row) => [...row.cells].map((cell) => cell.innerText));
        }""",
        heading,
    )


@pytest.mark.parametrize("which", ["measured", "simulated"])
def test_the_numbers_on_the_page_are_those_of_the_summary(which, opened, request):
    root = request.getfixturevalue(which)
    page = opened(root / "report.html")
    summary = json.loads((root / "summary.json").read_text())
    head, *rows = table_of(page, "results")
    assert len(rows) == len(summary["results"])
    for cells, result in zip(rows, summary["results"], strict=True):
        assert cells[:2] == [result["policy"], result["job"]]
        for place, name in ((2, "iteration_s"), (3, "exposed_s"), (4, "tardiness_s")):
            assert cells[place].split("\n")[0] == f"{result[name]['median']:.3f}"
    assert head[0] == "policy"
    best = min(summary["results"], key=lambda result: result["iteration_s"]["median"])
    assert f"{best['iteration_s']['median']:.3f} s" in page.locator("#headline").inner_text()


def zoom_of(page, chart):
    """First and last second that a chart shows."""
    return page.evaluate(
        "(id) => { const z = echelonReport.drawn.get(id).getOption().dataZoom[0]; return [z.startValue, z.endValue]; }",
        chart,
    )


def test_the_wheel_zooms_all_gantt_charts_together(simulated, opened):
    page = opened(simulated / "report.html")
    before = zoom_of(page, "gantt-0")
    assert zoom_of(page, "gantt-1") == before
    box = page.locator("#gantt-0").bounding_box()
    page.locator("#gantt-0").scroll_into_view_if_needed()
    box = page.locator("#gantt-0").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 150)
    page.keyboard.down("Control")
    for _ in range(3):
        page.mouse.wheel(0, -240)
        page.wait_for_timeout(60)
    page.keyboard.up("Control")
    page.wait_for_timeout(200)
    after = zoom_of(page, "gantt-0")
    assert after[1] - after[0] < 0.8 * (before[1] - before[0])
    assert zoom_of(page, "gantt-1") == pytest.approx(after)


def test_a_bar_tells_of_its_flow(measured, opened):
    page = opened(measured / "report.html")
    page.locator("#gantt-0").scroll_into_view_if_needed()
    at = page.evaluate(
        """() => {
          const c = echelonReport.charts["gantt-0"], chart = echelonReport.drawn.get("gantt-0");
          const i = c.iteration.findIndex((k, i) => k === 1 && c.kinds[c.what[i]] === "flow" && c.lanes[i] === 1);
          const j = i < 0 ? c.iteration.findIndex((k, i) => k === 1 && c.kinds[c.what[i]] !== "flow") : i;
          const [x, y] = chart.convertToPixel({xAxisIndex: 0, yAxisIndex: 0}, [(c.start[j] + c.finish[j]) / 2, c.row[j]]);
          const box = document.getElementById("gantt-0").getBoundingClientRect();
          return {x: box.x + x, y: box.y + y, name: c.names[c.name[j]]};
        }"""
    )
    page.mouse.move(at["x"], at["y"])
    page.wait_for_timeout(400)
    assert at["name"] in page.locator("#gantt-0").inner_text()


MARKS = """(id) => {
  const c = echelonReport.charts[id], chart = echelonReport.drawn.get(id), grid = chart.getModel().getComponent("grid").coordinateSystem.getRect();
  const px = (time) => Math.min(Math.max(chart.convertToPixel({xAxisIndex: 0}, time), grid.x), grid.x + grid.width);
  const inside = (from, to) => px(to) > grid.x && px(from) < grid.x + grid.width;
  const ink = chart.getOption().textStyle.color;
  const flows = c.ideal.map((_, i) => i).filter((i) => c.ideal[i] !== null);
  const late = flows.filter((i) => c.finish[i] > c.ideal[i] + c.late).map((i) => [Math.max(c.ideal[i], c.start[i]), c.finish[i]]);
  const boxes = (colour) => [...document.querySelectorAll(`#${id} svg path`)]
    .filter((one) => (one.getAttribute("fill") || "").toUpperCase() === colour.toUpperCase()).map((one) => one.getBBox());
  return {
    late: late.filter(([from, to]) => inside(from, to)).map(([from, to]) => [px(from), px(to)]),
    red: boxes(c.red).map((box) => [box.x, box.x + box.width]),
    ideal: flows.map((i) => c.ideal[i]).filter((time) => inside(time, time)).map(px),
    ticks: boxes(ink).filter((box) => box.width < 2 && box.height > 2).map((box) => box.x + box.width / 2),
    colour: c.red,
  };
}"""
"""Where a Gantt chart should have marks, in dots, and where it has them."""


@pytest.mark.parametrize("place", [0, 1, 2])
def test_what_is_late_is_red_and_every_ideal_finish_has_its_tick(place, measured, opened):
    page = opened(measured / "report.html")
    found = page.evaluate(MARKS, f"gantt-{place}")
    assert found["colour"] == colours.LATE
    assert len(found["late"]) >= 3
    assert np.array(sorted(found["red"])) == pytest.approx(np.array(sorted(found["late"])), abs=0.1)
    assert len(found["ideal"]) >= 3
    assert sorted(found["ticks"]) == pytest.approx(sorted(found["ideal"]), abs=0.1)


@pytest.mark.parametrize("medium", ["screen", "print"])
def test_how_long_each_job_takes_stands_below_its_chart(medium, simulated, opened):
    page = opened(simulated / "report.html")
    page.emulate_media(media=medium)
    with (simulated / "iterations.csv").open() as file:
        rows = list(csv.DictReader(file))
    for place, policy in enumerate(("fair", "srpt")):
        said = page.locator(f".panel:has(#gantt-{place}) .named span")
        assert said.count() == 2
        for i, job in enumerate(("gpt2", "rival")):
            times = {
                int(r["iteration"]): float(r["duration_s"]) for r in rows if (r["policy"], r["job"]) == (policy, job)
            }
            assert said.nth(i).is_visible()
            assert said.nth(i).inner_text() == (
                f"{job}: iteration 1 takes {times[1]:.3f} s; {len(times)} iterations take "
                f"{min(times.values()):.3f} s to {max(times.values()):.3f} s"
            )


def test_the_control_plane_has_a_table(measured, opened):
    page = opened(measured / "report.html")
    runs = json.loads((measured / "summary.json").read_text())["runs"]
    decisions = [json.loads(line) for line in (measured / "decisions.jsonl").read_text().splitlines()]
    _, second, *rows = table_of(page, "control")
    assert [cell.replace("\n", " ") for cell in second] == ["median", "95th percentile", "longest"]
    policies = list(dict.fromkeys(run["policy"] for run in runs))
    assert [cells[0] for cells in rows] == policies
    for cells, policy in zip(rows, policies, strict=True):
        mine = [[one for one in decisions if (one["policy"], one["repeat"]) == (policy, repeat)] for repeat in (0, 1)]
        took_ms = [one["total_ms"] for run in mine for one in run]
        control = [run["control"] for run in runs if run["policy"] == policy]
        assert cells[1:5] == [
            "2",
            f"{statistics.median(map(len, mine)):.0f}",
            f"{statistics.median(one['messages'] for one in control):.0f}",
            f"{statistics.median(sum(len(one['changed']) for one in run) for run in mine):.0f}",
        ]
        assert cells[5] == f"{statistics.median(one['decision_p50_ms'] for one in control):.2f}"
        assert cells[7] == f"{max(took_ms):.2f}"


def test_a_simulation_has_no_control_plane(simulated, opened):
    assert opened(simulated / "report.html").locator("#control").count() == 0


def test_decisions_are_listed_with_their_reasons_and_can_be_searched(measured, opened):
    page = opened(measured / "report.html")
    details = page.locator("details.decisions").first
    details.locator("summary").click()
    rows = details.locator("tr")
    decisions = [json.loads(line) for line in (measured / "decisions.jsonl").read_text().splitlines()]
    mine = [one for one in decisions if (one["policy"], one["repeat"]) == ("fair", 0)]
    rows.nth(len(mine)).wait_for()  # the browser tells the page that it was opened when it has time
    assert rows.count() == 1 + len(mine)
    assert rows.nth(1).locator("td").last.inner_text() == mine[0]["trigger"]
    details.locator("input").fill("no such flow")
    assert rows.count() == 1


def test_what_others_wrote_is_text(measured, opened):
    page = opened(measured / "report.html")
    assert page.locator("main b", has_text=re.compile("^mine$")).count() == 0
    assert HOSTILE in page.locator("main").inner_text()


def test_the_experiment_is_saved_as_it_lies_in_the_folder(simulated, opened):
    page = opened(simulated / "report.html", accept_downloads=True)
    with page.expect_download() as saved:
        page.locator("#download").click()
    assert saved.value.suggested_filename == "experiment.yaml"
    assert Path(saved.value.path()).read_bytes() == (simulated / "experiment.yaml").read_bytes()


def ratio_of_contrast(page, selector):
    """Contrast of an element's text with the page behind it (WCAG 2.1)."""
    return page.evaluate(
        """(selector) => {
          const luminance = (colour) => {
            const [r, g, b] = colour.match(/[\\d.]+/g).slice(0, 3).map((v) => v / 255)
              .map((v) => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
          };
          const one = luminance(getComputedStyle(document.querySelector(selector)).color);
          const other = luminance(getComputedStyle(document.body).backgroundColor);
          return (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
        }""",
        selector,
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_is_readable_in_both_schemes(scheme, simulated, opened):
    page = opened(simulated / "report.html", color_scheme=scheme)
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")
    for selector in ("h1", "#headline", ".soft", "td", "figcaption", "nav a", "main a"):
        assert ratio_of_contrast(page, selector) >= 4.5, selector
    ink = page.evaluate("getComputedStyle(document.body).color")
    written = page.evaluate("echelonReport.drawn.get('gantt-0').getOption().textStyle.color")
    assert [int(written[i : i + 2], 16) for i in (1, 3, 5)] == [int(part) for part in re.findall(r"\d+", ink)]


def test_charts_follow_when_the_scheme_changes(simulated, opened):
    page = opened(simulated / "report.html", color_scheme="light")
    page.emulate_media(color_scheme="dark")
    page.wait_for_timeout(200)
    assert page.evaluate("echelonReport.drawn.get('gantt-0').getOption().textStyle.color") == "#e8eaed"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_dark_colour_is_seen_on_a_dark_page(scheme, simulated, opened):
    """srpt has the same dark blue on both; on a dark page its curve lies on a light one, and its bar has an edge."""
    page = opened(simulated / "report.html", color_scheme=scheme)
    series = page.evaluate(
        "echelonReport.drawn.get('iterations-0').getOption().series.map((one) => [one.name, one.lineStyle.color, one.data])"
    )
    named = [[name, colour] for name, colour, _ in series if name in ("fair", "srpt")]
    assert named == [[name, colours.policy_colour(name)] for name in ("fair", "srpt")]
    bars = page.evaluate("echelonReport.drawn.get('times-0').getOption().series[0].data.map((one) => one.itemStyle)")
    assert [bar["color"] for bar in bars] == [colours.policy_colour(name) for name in ("fair", "srpt")]
    if scheme == "light":
        assert len(series) == 2
        assert "borderColor" not in bars[1]
        return
    below, srpt = series[1:]
    assert (below[1], srpt[0]) == ("#e8eaed", "srpt")
    assert below[2] == srpt[2]
    assert bars[1]["borderColor"] == "#e8eaed"
    assert "borderColor" not in bars[0]


def test_nothing_is_cut_off_in_print(measured, opened, tmp_path):
    page = opened(measured / "report.html", color_scheme="dark")
    heads = page.evaluate("[...document.querySelectorAll('th')].map((one) => one.innerText)")
    page.set_viewport_size({"width": int(PAPER_PX), "height": 700})
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    wide = page.evaluate(
        """() => [...document.querySelectorAll("table, .chart, pre, dl, figure")]
             .filter((one) => one.getBoundingClientRect().right > document.documentElement.clientWidth + 1 || one.scrollWidth > one.clientWidth + 1)
             .map((one) => one.outerHTML.slice(0, 80))"""
    )
    assert wide == []
    drawing = page.evaluate(
        """() => [...document.querySelectorAll(".chart svg")].map((one) => {
             const box = one.getBoundingClientRect(), holder = one.closest(".chart").getBoundingClientRect();
             return one.getAttribute("viewBox") !== null && box.width <= holder.width + 1 && box.height <= holder.height + 1;
           })"""
    )
    assert drawing
    assert all(drawing)
    if shutil.which("pdftotext") is None:
        return
    page.pdf(path=str(tmp_path / "report.pdf"), prefer_css_page_size=True)
    text = subprocess.run(
        ["pdftotext", "-layout", str(tmp_path / "report.pdf"), "-"], capture_output=True, text=True, check=True
    )
    words = re.sub(r"\W+", "", text.stdout)
    assert heads
    for head in heads:
        assert all(re.sub(r"\W+", "", word) in words for word in head.split()), head


def test_losses_of_training_programs_are_drawn_and_counted(opened, tmp_path):
    root = trained_run(tmp_path)
    analyse(root)
    page = opened(root / "report.html")
    _, cells = table_of(page, "training")
    assert cells[:2] == ["pipeline", "400"]
    assert cells[4:7] == ["3", "1 of 2", "4 of 6"]
    assert page.locator("#training-0 svg path").count() >= 3  # the lesson, and a curve for each policy
