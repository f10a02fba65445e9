"""Text becomes text, whatever it says."""

from __future__ import annotations

import pytest

from hpcpod.report.markup import LONGEST, joined, plain, short, tag, void
from tests.report.conftest import Page

HOSTILE = [
    "<script>alert(1)</script>", "'\"><img src=x onerror=alert(1)>", "]]>", "--><b>", "&lt;b&gt;",
    "</title><script>alert(1)</script>", "javascript:alert(1)", "${7*7}{{7*7}}", "a" * 5000,
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_text_stays_a_text_inside_and_in_an_attribute(text: str) -> None:
    page = Page(tag("p", text, title=text).text)
    assert page.found == [("p", {"title": text})]
    assert page.text == text


def test_markup_is_kept_and_nothing_is_nothing() -> None:
    made = tag("p", "a", tag("b", 1.5), None, 3, class_="x y", hidden=True, id=None, lang=False)
    assert made.text == '<p class="x y" hidden>a<b>1.5</b>3</p>'
    assert joined([made, void("meta", name="n", http_equiv="e")]).text.endswith(
        '<meta name="n" http-equiv="e">'
    )


def test_characters_that_steer_are_gone() -> None:
    assert plain("a\u202egpj.exe\u2066b\u200f") == "agpj.exeb"
    assert plain("a\x00b\x1b[31m\ud800\uffff") == "a\ufffdb\ufffd[31m\ufffd\ufffd"
    tag("p", "\ud800").text.encode("utf-8")


def test_a_long_name_is_cut_in_its_middle() -> None:
    name = "begin" + "x" * 500 + "end"
    cut = short(name)
    assert len(cut) <= LONGEST
    assert cut.startswith("beginx")
    assert cut.endswith("xend")
    assert short("p0001") == "p0001"
