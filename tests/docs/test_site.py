"""The site of the pages: built strictly, all in its navigation, whole without a network."""

from __future__ import annotations

import html.parser
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from tests.docs import build_site
from tests.docs.build_site import navigation
from tests.docs.pages import ROOT
from tests.docs.reference import PAGES

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(sys.version_info < (3, 11), reason="Zensical needs Python 3.11 or newer"),
]


class Page(html.parser.HTMLParser):
    """The names of a built page, what it links to, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.names |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        elif tag in ("script", "link", "img", "iframe", "source"):
            self.loads += [given[name] for name in ("src", "href") if name in given]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built anew."""
    folder = tmp_path_factory.mktemp("docs") / "site"
    assert "No issues found" in build_site.build(folder)
    return folder


@pytest.fixture(scope="module")
def built(site: Path) -> dict[Path, Page]:
    """Every page of it, but for the one that stands for those that are missing."""
    return {path: Page(path) for path in site.rglob("*.html") if path.name != "404.html"}


def lost(path: Path, page: Page, built: dict[Path, Page]) -> Iterator[str]:
    """The links of a built page, and what it loads, that lead nowhere in the site."""
    for link in (*page.links, *page.loads):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        to = (path.parent / name).resolve() if name else path
        if not to.exists() or (anchor and to in built and anchor not in built[to].names):
            yield f"{path.name}: {link}"


def test_each_page_is_in_the_navigation_once() -> None:
    pages = {str(path.relative_to(ROOT)) for path in ROOT.glob("docs/*.md")}
    assert len(navigation()) == len(set(navigation()))
    assert pages - set(navigation()) == set(), f"add them to {build_site.CONFIG}"
    assert [page for page in navigation() if not (ROOT / page).is_file()] == []


def test_each_link_and_anchor_of_the_site_leads_somewhere(built: dict[Path, Page]) -> None:
    assert len(built) >= len(navigation())
    assert [line for path, page in built.items() for line in lost(path, page, built)] == []


def test_no_page_loads_anything_over_the_network(built: dict[Path, Page]) -> None:
    loads = {load for page in built.values() for load in page.loads}
    assert any(load.endswith(".css") for load in loads)
    assert [load for load in loads if re.match(r"(?:[a-z]+:)?//", load)] == []
    # The theme fetches a library for each of these, as soon as a page has one.
    for path in built:
        text = path.read_text(encoding="utf-8")
        assert not re.search(r'class="[^"]*\b(?:mermaid|glightbox|pyodide)\b', text)


def test_each_block_is_rendered_as_one_and_shows_its_name(built: dict[Path, Page]) -> None:
    for path in built:
        assert "```" not in re.sub(r"<[^>]*>", "", path.read_text(encoding="utf-8")), path
    [hello] = [path for path in built if path.name == "hello-world.html"]
    assert '<span class="filename">play.py</span>' in hello.read_text(encoding="utf-8")


def test_docstrings_are_rendered(site: Path) -> None:
    text = (site / "docs" / "api.html").read_text(encoding="utf-8")
    for name in ("hpcpod.api.train", "hpcpod.run.run.Run.wait", "hpcpod.testing.envs.EnvContract"):
        assert f'id="{name}"' in text
    assert ":::" not in re.sub(r"<[^>]*>", "", text)


def test_the_search_knows_every_page(site: Path) -> None:
    entries = json.loads((site / "search.json").read_text(encoding="utf-8"))["items"]
    found = {entry["location"].partition("#")[0] for entry in entries}
    named = {"index.html" if page == "README.md" else page for page in navigation()}
    named = {re.sub(r"README\.md$", "index.html", page).replace(".md", ".html") for page in named}
    assert named - found == set()


@pytest.mark.parametrize("broken", ["[x](no.md)", "[x](concepts.md#nowhere)", "::: hpcpod.nowhere"])
def test_what_leads_nowhere_stops_the_build(
    broken: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def few(folder: Path) -> None:
        (folder / "docs").mkdir(parents=True)
        (folder / "docs" / "concepts.md").write_text("# Concepts\n", encoding="utf-8")
        (folder / "README.md").write_text(f"# Page\n\n{broken}\n".replace("(c", "(docs/c"), "utf-8")

    monkeypatch.setattr(build_site, "stage", few)
    with pytest.raises(RuntimeError, match=r"Aborted|nowhere"):
        build_site.build(tmp_path / "site")


@pytest.mark.parametrize("name", PAGES)
def test_a_page_that_follows_from_the_code_is_written_anew(name: str) -> None:
    kept = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert kept == PAGES[name](), "run: python -m tests.docs.reference"
