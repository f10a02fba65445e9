"""The page: one HTML file that needs nothing else and lets no text of a run do anything.

Its policy allows this package's own style and script, by their hashes, and nothing more: no
network, no frame, no form, no other script.
"""

from __future__ import annotations

import base64
import hashlib
import time
from importlib import resources

from hpcpod._version import __version__
from hpcpod.report.markup import NOTHING, Markup, constant, joined, short, tag, void
from hpcpod.report.plot import BOTTOM, LEFT, RIGHT, TOP, Plot

MARK = "Written by hpcpod report"
"""Words at the beginning of every report; by them it is known as one."""


def page(title: str, *sections: Markup, subtitle: str = "") -> str:
    """The whole document."""
    style, script = _own("report.css"), _own("report.js")
    head = tag(
        "head",
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="color-scheme", content="light dark"),
        void("meta", name="generator", content=f"{MARK}, {__version__}"),
        tag("title", f"{short(title)}: report"),
        tag("style", constant(style)),
    )
    body = tag(
        "body",
        tag("a", "To the summary", class_="skip", href="#summary"),
        tag("header", tag("h1", short(title)), tag("p", subtitle) if subtitle else NOTHING),
        tag("main", *sections),
        tag("footer", tag("p", f"Written by hpcpod {__version__} on {_now()}.")),
        tag("script", constant(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en').text}\n"


def picture(plot: Plot, width: int = 640) -> str:
    """A figure as an SVG file of its own, in light and dark."""
    height = TOP + plot.height + BOTTOM
    whole = LEFT + width + RIGHT
    drawn = tag(
        "svg", tag("metadata", f"{MARK}, {__version__}"),
        tag("style", constant(_own("report.css"))),
        tag("rect", width="100%", height="100%", class_="paper"), plot.markup(width=width),
        xmlns="http://www.w3.org/2000/svg", width=whole, height=height,
        viewBox=f"0 0 {whole} {height}",
    )  # fmt: skip
    return f"{drawn.text}\n"


def section(name: str, title: str, *parts: Markup) -> Markup:
    """A section with a heading that can be linked to."""
    return tag("section", tag("h2", title, id=f"{name}-title"), *parts, id=name,
               aria_labelledby=f"{name}-title")  # fmt: skip


def contents(names: list[tuple[str, str]]) -> Markup:
    """Links to the sections."""
    links = [tag("li", tag("a", title, href=f"#{name}")) for name, title in names]
    return tag("nav", tag("ul", joined(links)), aria_label="Sections")


def _own(name: str) -> str:
    """A file of this package, without what could end the element that holds it."""
    text = resources.files("hpcpod.report").joinpath(name).read_text(encoding="utf-8")
    assert "</" not in text
    return text


def _policy(style: str, script: str) -> str:
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
              for text in (style, script)]  # fmt: skip
    return (
        f"default-src 'none'; style-src 'sha256-{hashes[0]}'; script-src 'sha256-{hashes[1]}';"
        " base-uri 'none'; form-action 'none'"
    )


def _now() -> str:
    return time.strftime("%Y-%m-%d at %H:%M", time.localtime())
