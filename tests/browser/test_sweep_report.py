"""The reports of a sweep and of a comparison in a real browser: maps, choices, the table, and the file that repeats it."""

from __future__ import annotations

import csv
import math
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from echelon.cli.main import app

FILE = "experiments/pipeline.yaml"
AXES = [
    "--over",
    "network.rate=50 Mbit/s,100 Mbit/s",
    "--over",
    "jobs.0.micro_batches=2,3",
    "--over",
    "policies=fair,echelonflow",
]


def carried_out(*words):
    done = CliRunner().invoke(app, list(words))
    assert done.exit_code == 0, done.output
    return done.output


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    root = tmp_path_factory.mktemp("swept") / "sweep"
    said = carried_out("sweep", FILE, *AXES, "--repeat", "1", "--workers", "1", "--out", str(root))
    assert f"report: {root / 'report.html'}" in said
    return root


def rows_of(root):
    with (root / "cells.csv").open() as file:
        return list(csv.DictReader(file))


def map_of(page, place):
    """Value of each field of one map, by what it is of."""
    return page.evaluate(
        """(place) => {
          const id = document.getElementById("explorer-maps").children[place].id;
          const o = echelonReport.drawn.get(id).getOption();
          return o.series[0].data.map((d) => [o.xAxis[0].data[d.value[0]], o.yAxis[0].data[d.value[1]], d.value[2]]);
        }""",
        place,
    )


def test_maps_show_the_ratios_of_the_table(swept, opened):
    page = opened(swept / "report.html")
    time_s = {
        (r["policy"], r["network.rate"], r["jobs.0.micro_batches"]): float(r["iteration_s"]) for r in rows_of(swept)
    }
    found = map_of(page, 0)
    assert len(found) == 4
    for rate, micro_batches, ratio in found:
        expected = time_s["echelonflow", rate, micro_batches] / time_s["fair", rate, micro_batches]
        assert ratio == pytest.approx(expected, rel=1e-4)
    best = math.exp(sum(math.log(ratio) for *_, ratio in found) / 4)
    assert f"{(1 - best) * 100:.1f} % shorter than under fair" in page.locator("#headline").inner_text()


def test_a_choice_changes_maps_and_curves(swept, opened):
    page = opened(swept / "report.html")
    page.select_option("select[name=what]", "value")
    assert page.locator("#explorer-maps .chart").count() == 2  # the policy that others are compared with, too
    values = {value for *_, value in map_of(page, 0)}
    assert all(value > 1 for value in values)
    page.select_option("select[name=x]", label="jobs.pipeline.micro_batches")
    page.select_option("select[name=y]", label="network.rate")
    assert {(x, y) for x, y, _ in map_of(page, 0)} == {(n, r) for n in ("2", "3") for r in ("50 Mbit/s", "100 Mbit/s")}
    assert page.evaluate("echelonReport.drawn.get('explorer-curve').getOption().xAxis[0].data") == ["2", "3"]


def test_the_table_is_sorted_and_searched(swept, opened):
    page = opened(swept / "report.html")
    rows = page.locator("#rows tbody tr")
    assert rows.count() == len(rows_of(swept)) == 8
    page.locator("#rows th", has_text="iteration time").click()
    times = [float(rows.nth(i).locator("td").nth(4).inner_text().split()[0]) for i in range(8)]
    assert times == sorted(times)
    page.locator("#find").fill("echelonflow")
    assert page.locator("#rows tbody tr:not([hidden])").count() == 4
    assert page.locator("#count").inner_text() == "4 of 8 rows"


def test_the_sweep_can_be_made_again_from_the_page(swept, opened, tmp_path):
    page = opened(swept / "report.html", accept_downloads=True)
    with page.expect_download() as saved:
        page.locator("#download").click()
    file = tmp_path / saved.value.suggested_filename
    file.write_bytes(Path(saved.value.path()).read_bytes())
    assert page.locator("#rerun").inner_text().strip() == "echelon sweep sweep.yaml"
    carried_out("sweep", str(file), "--workers", "1", "--out", str(tmp_path / "again"))
    figures = [
        [{k: v for k, v in row.items() if k not in ("took_s", "cell")} for row in rows_of(one)]
        for one in (swept, tmp_path / "again")
    ]
    assert figures[0] == figures[1]


def test_a_comparison_has_a_page_too(swept, opened, tmp_path):
    page_file = tmp_path / "compared.html"
    other = shutil.copytree(swept, tmp_path / "other")
    said = carried_out("compare", str(swept), str(other), "--report", str(page_file), "--measure", "exposed_s")
    assert f"report: {page_file}" in said
    page = opened(page_file, color_scheme="dark")
    assert "A comparison of 2 folders" in page.locator("header").inner_text()
    assert "exposed communication" in page.locator("#headline").inner_text()
    assert page.locator("#rows tbody tr").count() == 16
