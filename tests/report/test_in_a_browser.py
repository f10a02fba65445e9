"""A real browser opens reports: Debian's headless Chromium, driven by Playwright.

Screenshots are kept in ``$HPCPOD_SCREENSHOTS``, or in pytest's folder of temporary files.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hpcpod.report.compare import comparison
from hpcpod.report.one import report_of
from hpcpod.report.story import Story
from hpcpod.report.sweep import sweep_page
from hpcpod.run.sweeps.cells import read_plan
from hpcpod.run.sweeps.folder import Sweep
from hpcpod.run.sweeps.launch import check, make
from hpcpod.run.sweeps.outcome import Outcome
from tests.report.test_compare import several
from tests.report.test_report import hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

pytestmark = pytest.mark.slow
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
SWEPT = """\
name: swept
env: {id: CartPole-v1, num_envs: 4}
population: {pods: {min: 1, max: 1}}
agents: {ppo: {horizon: 16, hidden: 16}}
stop: {env_steps: 20000}
sweep:
  seeds: 2
  over:
    env.id: [CartPole-v1, Acrobot-v1]
    agents.ppo.learning_rate: [1.0e-4, 1.0e-2]
    agents.ppo.epochs: [2, 4]
"""
Open = Callable[..., "Opened"]

INVISIBLE = """() => [...document.querySelectorAll("svg[role=img]")].filter((plot) => {
  const drawn = plot.querySelectorAll("path, line");
  const box = plot.getBoundingClientRect();
  return drawn.length < 2 || box.width < 120 || box.height < 50;
}).length"""
WIDER = """() => document.documentElement.scrollWidth - document.documentElement.clientWidth"""
UNNAMED = """() => [...document.querySelectorAll(
  "svg[role=img], section, [role=region], table, nav, select"
)].filter((each) => !each.ariaLabel && !each.getAttribute("aria-labelledby")
  && !(each.labels && each.labels.length)).length"""
LARGEST = """(kind) => Math.max(...[...document.querySelectorAll(kind)].map(
  (each) => each.getBoundingClientRect().height))"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for all tests here."""
    required = os.environ.get("CI") or os.environ.get("HPCPOD_REQUIRE_ALL")
    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        (pytest.fail if required else pytest.skip)(
            "no Chromium here (Debian: chromium-headless-shell), or no Playwright"
        )
    with sync_playwright() as playwright:
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses to sandbox root's
        running = playwright.chromium.launch(executable_path=program, args=flags)
        yield running
        running.close()


@dataclass
class Opened:
    """A page in the browser, and all that it complained of."""

    page: Page
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Addresses that it wanted to load."""


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a text as a page."""
    contexts: list[BrowserContext] = []

    def look(text: str, **options: Any) -> Opened:
        path = tmp_path / f"report-{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = browser.new_context(**{"viewport": DESK, **options})
        contexts.append(context)
        found = Opened(context.new_page(), context)
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda request: found.asked.append(request.url))
        found.page.on("dialog", lambda dialog: found.complaints.append(dialog.message))
        found.page.goto(path.as_uri())
        assert found.asked == [path.as_uri()], "it needs no other file"
        return found

    yield look
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = os.environ.get("HPCPOD_SCREENSHOTS")
    folder = Path(given).resolve() if given else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("name", "size"), [("phone", PHONE), ("desk", DESK)])
def test_all_figures_are_drawn_and_nothing_is_wider_than_the_screen(
    name: str, size: dict[str, int], scheme: str, story: Story, opened: Open, screenshots: Path
) -> None:
    seen = opened(report_of(story), viewport=size, color_scheme=scheme)
    assert seen.complaints == []
    assert seen.page.locator("svg[role=img]").count() >= 9
    assert seen.page.evaluate(INVISIBLE) == 0
    assert seen.page.evaluate(WIDER) == 0
    assert seen.page.evaluate(LARGEST, ".tick") >= 11, "pixels of the figures' text"
    path = screenshots / f"report-{name}-{scheme}.png"
    seen.page.screenshot(path=path, full_page=True)
    assert path.stat().st_size > 20_000
    paper = seen.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert paper == {"light": "rgb(255, 255, 255)", "dark": "rgb(20, 23, 27)"}[scheme]


def test_runs_side_by_side_are_drawn(story: Story, opened: Open, screenshots: Path) -> None:
    stories = [*several(story, "a", [300.0, 310.0, 330.0, 290.0]),
               *several(story, "b", [400.0, 410.0, 390.0, 420.0], num_envs=2)]  # fmt: skip
    for name, size in (("phone", PHONE), ("desk", DESK)):
        seen = opened(comparison(stories), viewport=size)
        assert seen.complaints == []
        assert (seen.page.evaluate(INVISIBLE), seen.page.evaluate(WIDER)) == (0, 0)
        seen.page.screenshot(path=screenshots / f"compare-{name}.png", full_page=True)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Sweep:
    """A sweep over three fields, two runs of each combination; the first run has failed."""
    home = tmp_path_factory.mktemp("sweep")
    (home / "swept.yaml").write_text(SWEPT)
    plan = read_plan(home / "swept.yaml")
    assert plan is not None
    sweep = make(plan, check(plan, probe=False), home / "runs")
    sweep.keep(sweep.cells[0], Outcome("failed", "<script>alert(1)</script>"))
    for number, cell in enumerate(sweep.cells[1:], 1):
        score = 200.0 + 7 * (number % 5) + 50 * (cell.levels["agents.ppo.epochs"] == 4)
        ended = Outcome("finished", "env_steps", score, score - 9, score + 9, 4, True, "p0001")
        sweep.keep(cell, ended)
    return sweep


@pytest.mark.parametrize(("name", "size"), [("phone", PHONE), ("desk", DESK)])
def test_a_sweep_s_effects_and_its_runs_are_drawn(
    name: str, size: dict[str, int], swept: Sweep, opened: Open, screenshots: Path
) -> None:
    seen = opened(sweep_page(swept), viewport=size)
    assert seen.complaints == []
    assert (seen.page.evaluate(INVISIBLE), seen.page.evaluate(WIDER)) == (0, 0)
    assert seen.page.evaluate(LARGEST, ".tick") >= 11, "pixels of the figures' text"
    assert seen.page.evaluate(UNNAMED) == 0
    assert seen.page.locator("svg[role=img]").count() == 4  # of two tasks: alone, and together
    for task in ("CartPole-v1", "Acrobot-v1"):
        [figure] = seen.page.get_by_role("img", name=f"Main effects in {task}").all()
        assert figure.locator(".each").count() == figure.locator(".mean").count() == 4
        assert figure.locator(".y.tick").all_text_contents() == ["E1", "E2", "E3", "E4"]
        assert figure.locator(".x.name").text_content() == "effect on the score"
    heard = seen.page.locator("#runs").aria_snapshot()
    assert "<script>" in heard and heard.count('"finished"') == 15
    seen.page.screenshot(path=screenshots / f"sweep-{name}.png", full_page=True)


def test_a_hostile_name_runs_nothing(story: Story, opened: Open) -> None:
    for name in ("<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</style><b>"):
        seen = opened(report_of(hostile(story, name)))
        seen.page.locator("svg[data-zoom]").first.hover()
        assert seen.complaints == []
        assert seen.page.locator("img, b").count() == 0
        assert seen.page.evaluate("() => document.scripts.length") == 1


def test_a_script_that_was_smuggled_in_is_refused(story: Story, opened: Open) -> None:
    text = report_of(story).replace("<main>", "<main><script>document.title = 'mine'</script>")
    seen = opened(text)
    assert seen.page.title() == "told: report"
    assert any("Content Security Policy" in each for each in seen.complaints)


def test_keys_zoom_and_go_back(story: Story, opened: Open) -> None:
    seen = opened(report_of(story))
    plot = seen.page.locator("svg[data-zoom]").first
    data, reset = plot.locator("svg.data"), seen.page.get_by_role("button", name="Whole range")
    plot.focus()
    seen.page.keyboard.press("+")
    assert data.get_attribute("viewBox") == "1000 0 2000 4000"
    seen.page.keyboard.press("ArrowRight")
    assert data.get_attribute("viewBox") == "1500 0 2000 4000"
    assert plot.locator(".xticks text").count() >= 2
    assert reset.first.is_visible()
    seen.page.keyboard.press("Escape")
    assert data.get_attribute("viewBox") == "0 0 4000 4000"
    assert not reset.first.is_visible()
    assert seen.complaints == []


def test_the_mouse_zooms_and_reads_values(story: Story, opened: Open) -> None:
    seen = opened(report_of(story))
    plot = seen.page.locator("svg[data-zoom]").first
    plot.scroll_into_view_if_needed()
    box = plot.bounding_box()
    assert box is not None
    last, top = story.path[-1], box["y"]
    x, y = (float(each) for each in seen.page.evaluate("""() => {
      const path = document.querySelector("svg[data-zoom] .line.win");
      return path.getAttribute("d").match(/L(\\d+) (\\d+)$/).slice(1);
    }"""))  # fmt: skip
    seen.page.mouse.move(box["x"] + x / 4000 * box["width"], top + y / 4000 * box["height"] + 2)
    said = seen.page.locator(".readout").first.inner_text()
    assert last.mean is not None
    assert said.startswith(f"{story.lineage[-1].id}: about ")
    assert float(said.split()[2]) == pytest.approx(last.mean, abs=1.0)
    assert seen.page.locator(".lit").count() >= 3, "the pod is marked in other figures, too"
    seen.page.mouse.move(box["x"] + 0.25 * box["width"], top + 50)
    seen.page.mouse.down()
    seen.page.mouse.move(box["x"] + 0.75 * box["width"], top + 60)
    seen.page.mouse.up()
    left, _, width, _ = map(
        float, (plot.locator("svg.data").get_attribute("viewBox") or "").split()
    )
    assert left == pytest.approx(1000, abs=20)
    assert width == pytest.approx(2000, abs=20)
    seen.page.get_by_role("button", name="Whole range").first.click()
    assert plot.locator("svg.data").get_attribute("viewBox") == "0 0 4000 4000"


def test_a_pod_is_marked_by_its_name_in_every_figure(story: Story, opened: Open) -> None:
    seen = opened(report_of(story))
    pod = story.lineage[-1].id
    seen.page.get_by_label("Mark one pod in every figure").select_option(pod)
    marked = seen.page.locator(".lit")
    assert marked.count() >= 4
    assert {each.get_attribute("data-pod") for each in marked.all()} == {pod}


def test_without_its_script_it_is_complete(story: Story, opened: Open) -> None:
    seen = opened(report_of(story), java_script_enabled=False)
    assert seen.page.locator("svg[role=img]").count() >= 9
    assert not seen.page.get_by_label("Mark one pod in every figure").is_visible()


def test_a_screen_reader_hears_headings_figures_and_tables(story: Story, opened: Open) -> None:
    seen = opened(report_of(story))
    heard = seen.page.locator("body").aria_snapshot()
    for said in ('heading "In words" [level=2]', 'img "told: return against time since',
                 'navigation "Sections"', "combobox"):  # fmt: skip
        assert said in heard, said
    assert seen.page.evaluate(UNNAMED) == 0
    assert "columnheader" not in seen.page.locator("#fresh").aria_snapshot()
    seen.page.locator("#fresh summary").click()
    assert 'columnheader "episodes"' in seen.page.locator("#fresh").aria_snapshot()


def test_the_tab_key_reaches_the_figures(story: Story, opened: Open) -> None:
    seen = opened(report_of(story))
    reached = set()
    for _ in range(40):
        seen.page.keyboard.press("Tab")
        reached.add(seen.page.evaluate("() => document.activeElement.tagName.toLowerCase()"))
    assert {"a", "select", "summary", "svg"} <= reached


def test_on_paper_it_is_light_and_has_its_figures(
    story: Story, opened: Open, screenshots: Path
) -> None:
    seen = opened(report_of(story), color_scheme="dark")
    seen.page.emulate_media(media="print", color_scheme="dark")
    paper = seen.page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert paper == "rgb(255, 255, 255)"
    assert seen.page.evaluate(INVISIBLE) == 0
    assert not seen.page.get_by_label("Mark one pod in every figure").is_visible()
    seen.page.pdf(path=screenshots / "report.pdf", format="A4")
    assert (screenshots / "report.pdf").read_bytes().startswith(b"%PDF")
