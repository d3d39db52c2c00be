"""The page of the live view in a real browser: numbers in it, a swap, the end, and names that mean harm."""

from __future__ import annotations

import contextlib

import pytest

from echelon.live.view import LiveView
from echelonflow.errors import EXIT_VALID
from echelonflow.records.progress import Warned
from tests.chromium import opened
from tests.unit.fake_controller import FakeController, live
from tests.unit.watched_experiment import RUNNING, carried, experiment

LIMIT_MS = 15_000
pytestmark = pytest.mark.slow  # a browser takes seconds to start
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script>"


@contextlib.contextmanager
def watching(folder, says=None, **changes):
    """A view of an experiment in mid-run: the view, the controller, and how its progress is told."""
    checked = experiment(folder, **changes)
    with (
        FakeController(folder / "rest.sock", says) as controller,
        LiveView() as view,
        view.watching(checked, folder, lambda _: None) as told,
    ):
        told(RUNNING)
        told(carried(checked, 1.0))
        told(carried(checked, 2.0, h1__s1=[10_000, 500_000, 250_000, 0, 0, 0, 0, 0]))
        yield view, controller, told
        told.end(EXIT_VALID)


def texts(page, selector):
    return [one.strip() for one in page.locator(selector).all_inner_texts()]


def shown(page, words, selector="body"):
    """Wait until `words` are shown within `selector`."""
    page.locator(selector).get_by_text(words).first.wait_for(timeout=LIMIT_MS)


def test_numbers_are_those_of_the_run_and_its_controller(browser, tmp_path):
    with watching(tmp_path) as (view, _, told), opened(browser, view.url) as found:
        page = found.page
        shown(page, "run 2 of 6: echelonflow, repeat 0")
        shown(page, "4.5 s into the run; 2 flows in flight; 12 decisions, 1 swaps, 0 policies that failed")
        assert texts(page, "#jobs tbody tr > *") == [
            "pipeline", "h1, h2", "2 of 2", "2.125 s", "forward", "2", "0.375 s", "0.250 s", "0.313 s", "0.500 s"
        ]  # fmt: skip
        why = page.locator("#why").inner_text()
        assert why == (
            "Decision 12, 4.250 s into the run, by echelonflow, because of: release pipeline/f1#1. It looked at 2 flows of "
            "1 groups, took 1.5 ms, and changed 1 settings."
        )
        assert texts(page, "#order tbody tr > *") == [
            "0", "pipeline/f1 #1", "1", "10.0", "0.250 s late", "class 1",
            "1", "pipeline/f2 #1", "2", "0.00", "1.750 s", "",
        ]  # fmt: skip
        assert texts(page, "#recent li") == ["3.500 s: finish pipeline/f0#1 (1 flows, 0 changed)"]
        # 760,000 bytes in a second on a link of 8 Mbit/s.
        row = texts(page, "#links tbody tr:first-child > *")
        assert row == ["h1->s1", "76.0 %", "0.08", "4.0", "2.0", "·", "·", "·", "·", "·"]
        assert page.locator("#links tbody tr").count() == 10
        dashes = page.locator("#network .load").evaluate_all(
            "all => all.map(one => one.getAttribute('stroke-dasharray'))"
        )
        shares = [float(dash.split()[2]) for dash in dashes]
        assert shares == pytest.approx([0.01, 0.5, 0.25])
        assert page.locator("#network rect").count() == 6
        assert texts(page, "#policy") == ["echelonflow (priority)"]
        told(Warned("the host took 9% of the processors away"))
        shown(page, "warning: the host took 9% of the processors away", "#warnings")
        assert page.locator("#tardiness polyline").count() == 1
        assert found.complaints == []
        assert all(url.startswith((view.url, "data:")) for url in found.requests)


def test_a_policy_is_swapped_and_a_refused_order_is_said_in_words(browser, tmp_path):
    with watching(tmp_path) as (view, controller, _), opened(browser, view.url) as found:
        page = found.page
        shown(page, "echelonflow (priority)", "#swap, section")
        page.get_by_role("combobox", name="Policy").select_option("coflow")
        assert "grouping=" in page.locator("#about").inner_text()
        page.get_by_label("Options").fill("grouping=group")
        page.get_by_role("button", name="Swap").click()
        shown(page, "In force: coflow(grouping=group), enforced by priority.", "#answer")
        assert controller.ordered == [{"policy": "coflow(grouping=group)"}]
        shown(page, "coflow(grouping=group) (priority)")
        page.get_by_role("combobox", name="Policy").select_option("srpt")
        page.get_by_role("button", name="Swap").click()
        shown(page, "Not swapped: the controller refused: unknown policy 'srpt'; there is: coflow, fair", "#answer")
        assert page.locator("#answer").get_attribute("class") == "refused"
        assert texts(page, "#policy") == ["coflow(grouping=group) (priority)"]


def test_every_page_shows_the_end_with_the_report_and_keeps_it_when_nobody_serves_any_more(browser, tmp_path):
    with contextlib.ExitStack() as pages:
        with watching(tmp_path) as (view, _, _):
            page, other = (pages.enter_context(opened(browser, view.url)).page for _ in range(2))
            for one in (page, other):
                shown(one, "run 2 of 6")
                assert one.locator("#ended").is_hidden()
        page.wait_for_timeout(4000)  # until each has found that nobody answers
        assert texts(other, "#ended-words") == ["The experiment has ended, and its runs are valid."]
        assert texts(page, "#ended-words") == ["The experiment has ended, and its runs are valid."]
        assert texts(page, "#report") == [str(tmp_path / "report.html")]
        assert page.get_by_role("button", name="Swap").is_disabled()
        assert texts(page, "#jobs tbody tr:first-child > *")[2] == "2 of 2"  # what was last is still there


def test_a_view_that_was_killed_is_told_from_one_that_is_slow(browser, tmp_path):
    with contextlib.ExitStack() as around:
        page = None
        with watching(tmp_path) as (view, _, _):
            page = around.enter_context(opened(browser, view.url)).page
            shown(page, "run 2 of 6")
            page.route("**/state.json", lambda route: route.abort())
            page.locator("#ended").wait_for(state="visible", timeout=LIMIT_MS)
            assert texts(page, "#ended-words") == ["Nobody answers any more: the experiment has ended, or was killed."]
            assert texts(page, "#report") == [str(tmp_path / "report.html")]
            page.unroute("**/state.json")
            page.locator("#ended").wait_for(state="hidden", timeout=LIMIT_MS)


def test_names_that_mean_harm_are_text(browser, tmp_path):
    says = live(job=HOSTILE, flow=HOSTILE, policy=HOSTILE)
    with watching(tmp_path, says) as (view, _, told), opened(browser, view.url) as found:
        page, dialogs = found.page, []
        page.on("dialog", lambda dialog: (dialogs.append(dialog.message), dialog.dismiss()))
        told(Warned(HOSTILE))
        shown(page, f"warning: {HOSTILE}", "#warnings")
        assert HOSTILE in page.locator("#why").inner_text()
        assert HOSTILE in page.locator("#policy").inner_text()
        assert page.locator("img").count() == 0
        assert page.locator("script").count() == 1
        assert dialogs == []
        assert found.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_both_schemes_and_on_a_laptop(browser, tmp_path, scheme):
    with watching(tmp_path) as (view, _, _), opened(browser, view.url, color_scheme=scheme) as found:
        page = found.page
        shown(page, "run 2 of 6")
        for width in (1280, 700):
            page.set_viewport_size({"width": width, "height": 800})
            assert page.evaluate("document.documentElement.scrollWidth") <= width
        for selector in ("body", "#jobs td", "#jobs th", ".note", "#order .late", "button", "#experiment"):
            assert contrast(page, selector) >= 4.5, selector


def contrast(page, selector):
    """Contrast of text with what is behind it (WCAG 2.2, 1.4.3)."""
    ink, ground = page.locator(selector).first.evaluate(
        """one => {
          const colour = of => of.match(/[\\d.]+/g).map(Number);
          let behind = one;
          while (behind && colour(getComputedStyle(behind).backgroundColor)[3] === 0) behind = behind.parentElement;
          return [colour(getComputedStyle(one).color), colour(getComputedStyle(behind || document.body).backgroundColor)];
        }"""
    )
    light, dark = sorted((luminance(ink), luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def luminance(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in colour[:3])]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_everything_has_a_name_for_who_does_not_see_it(browser, tmp_path):
    with watching(tmp_path) as (view, _, _), opened(browser, view.url) as found:
        page = found.page
        shown(page, "run 2 of 6")
        assert page.get_by_role("img", name="Network").count() == 1
        assert page.get_by_role("img", name="Tardiness as it arises").count() == 1
        for name in ("Network", "Jobs", "Last decision", "Tardiness as it arises", "Links"):
            assert page.get_by_role("region", name=name).count() == 1
        for role, name in (
            ("combobox", "Policy"),
            ("textbox", "Options"),
            ("button", "Swap"),
            ("checkbox", "show all links"),
        ):
            assert page.get_by_role(role, name=name, exact=True).count() == 1
        unnamed = page.evaluate("[...document.querySelectorAll('th')].filter(one => !one.scope).length")
        assert unnamed == 0
        page.get_by_role("combobox", name="Policy").focus()
        page.keyboard.press("Tab")
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Swap"


def test_another_experiment_of_the_same_command_is_drawn_anew(browser, tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    for folder in (first, second):
        folder.mkdir()
    with LiveView() as view, opened(browser, view.url) as found:
        page = found.page
        shown(page, "the experiment is being read")
        with view.watching(experiment(first), first, lambda _: None) as told:
            shown(page, "watched", "h1")
            told.end(EXIT_VALID)
        with view.watching(
            experiment(second, name="second", network="{topology: single-switch, hosts: 3, rate: 8 Mbit/s}"),
            second,
            lambda _: None,
        ) as told:
            shown(page, "second", "h1")
            assert page.locator("#ended").is_hidden()
            assert page.locator("#network rect").count() == 4
            told.end(EXIT_VALID)
