"""Markup: HTML and SVG in which every text is escaped by construction.

``tag`` is the only maker of markup from text. A plain string is always text, never markup, so no
name, reason or number of a run folder can become an element, an attribute or a script.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from dataclasses import dataclass

from hpcpod.run.tables import visible

LONGEST = 80
"""Characters of a name; longer ones are cut in the middle."""

_TURNS = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")
"""Controls of a text's direction: they could show a name, and its neighbours, in another order."""
_ENDS = re.compile("[\ufffe\uffff\x0c]")
"""Characters that XML has none of, beside the control characters that ``visible`` knows."""


@dataclass(frozen=True, slots=True)
class Markup:
    """Finished markup. Other modules make it by ``tag``, ``joined`` and ``constant`` alone."""

    text: str


Child = Markup | str | float | None
Attribute = str | float | bool | None
NOTHING = Markup("")


def plain(text: str) -> str:
    """A text without characters that steer: those of terminals, of direction, of XML's refusal."""
    return _ENDS.sub("\N{REPLACEMENT CHARACTER}", _TURNS.sub("", visible(text)))


def short(text: str, most: int = LONGEST) -> str:
    """A name of at most so many characters."""
    text = plain(text)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}\N{HORIZONTAL ELLIPSIS}{text[-half:]}"


def escaped(text: str) -> str:
    """A text as content or as the value of a quoted attribute."""
    return html.escape(plain(text), quote=True)


def tag(name: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element.

    Args:
        name: of the element, a constant of this package.
        children: markup, or text and numbers, which are escaped; None is nothing.
        attributes: ``class_`` is ``class``, ``aria_label`` is ``aria-label``; True is an attribute
            without a value; None and False are left out.
    """
    inside = "".join(_child(child) for child in children)
    opening = f"{name}{''.join(_attribute(key, value) for key, value in attributes.items())}"
    return Markup(f"<{opening}>{inside}</{name}>")


def void(name: str, /, **attributes: Attribute) -> Markup:
    """An element without content, such as ``meta``."""
    return Markup(f"<{name}{''.join(_attribute(key, value) for key, value in attributes.items())}>")


def joined(parts: Iterable[Markup]) -> Markup:
    """Several elements, one after the other."""
    return Markup("".join(part.text for part in parts))


def constant(text: str) -> Markup:
    """Markup that this package brings along: its style and its script. Never a run's text."""
    return Markup(text)


def compact(value: float) -> str:
    """A number as an attribute has it, in few characters."""
    return f"{value:.6g}"


def _child(child: Child) -> str:
    if child is None:
        return ""
    if isinstance(child, Markup):
        return child.text
    return escaped(child if isinstance(child, str) else compact(child))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    name = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {name}"
    return f' {name}="{escaped(value) if isinstance(value, str) else compact(value)}"'
