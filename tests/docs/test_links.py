"""Relative links between the pages, and their anchors, lead somewhere."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, anchor, links, without_blocks

PAGES = sorted(
    path
    for pattern in ("*.md", "docs/*.md", "*/README.md", ".github/**/*.md", "benchmarks/*.md")
    for path in ROOT.glob(pattern)
)


def anchors(page: Path) -> set[str]:
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", without_blocks(page), re.M)}


def broken(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere."""
    for path, name in links(page):
        to = page.parent / path if path else page
        if not to.exists() or (name and name not in anchors(to)):
            yield f"{page.name}: {path}" + (f"#{name}" if name else "")


def test_the_pages_are_found() -> None:
    names = {str(page.relative_to(ROOT)) for page in PAGES}
    assert {"README.md", "docs/slurm.md", "docs/promises.md", "analysis/README.md"} <= names


def test_each_link_leads_somewhere() -> None:
    assert [line for page in PAGES for line in broken(page)] == []


def test_each_page_of_the_documentation_is_linked_from_the_readme() -> None:
    linked = {path for path, _ in links(ROOT / "README.md")}
    assert {f"docs/{page.name}" for page in ROOT.glob("docs/*.md")} - linked == set()


@pytest.mark.parametrize(
    ("link", "leads"),
    [("b.md", True), ("c.md", False), ("b.md#two-words-its-own", True), ("b.md#one", False),
     ("#here", True), ("#there", False), ("https://example.org/c.md", True)],
)  # fmt: skip
def test_a_broken_link_is_found(tmp_path: Path, link: str, leads: bool) -> None:
    (tmp_path / "b.md").write_text("## Two words: *its* own\n```sh\n# one\n```\n")
    (tmp_path / "a.md").write_text(f"# Here\n[x]({link})\n```\n[y](nowhere.md)\n```\n")
    assert list(broken(tmp_path / "a.md")) == ([] if leads else [f"a.md: {link}"])
