"""A figure with two axes as SVG that fits any width: its text keeps its size, its data stretch.

The data lie in an inner ``svg`` with a grid of 4000 x 4000 that is stretched over the plot; strokes
and dots are not (``vector-effect``). Ticks and labels stand at percentages. So one figure is
readable on a phone, on a desk and on paper, and a zoom is another ``viewBox``.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hpcpod.report.axes import MOST, Axis
from hpcpod.report.markup import Attribute, Child, Markup, compact, joined, short, tag

GRID = 4000
HEIGHT = 300
"""Pixels of a figure's plot."""
LEFT, TOP, RIGHT, BOTTOM = 60, 30, 80, 44
"""Pixels around a plot that stands alone: for its ticks, its names, its labels."""
LINE = 14
"""Pixels between the lines of two labels."""
APART = 0.12
"""Share of the width that the name of a pod takes, on a phone."""
HUES = 7
"""Colours in ``report.css``, as classes ``k0`` to ``k6``."""

Point = tuple[float, float]
Cell = Child
"""A cell of a table."""

_numbers = itertools.count(1)


@dataclass
class Plot:
    """A figure in the making. Points that are not finite are left out."""

    title: str
    """The figure's name, for screen readers too."""
    description: str
    """The figure in a sentence, for those who don't see it."""
    x: Axis
    y: Axis
    height: int = HEIGHT
    zoom: bool = False
    """A reader may look at a part of the x axis, and read values off the lines."""
    rows: Sequence[tuple[float, str]] = ()
    """Instead of the y axis' ticks: names of rows, each at its value."""
    _data: list[Markup] = field(default_factory=list)
    _over: list[Markup] = field(default_factory=list)
    _notes: list[Point] = field(default_factory=list)
    _labels: list[tuple[float, str, str]] = field(default_factory=list)

    def line(self, points: Iterable[Point], kind: str, name: str = "") -> None:
        """A line through points, of CSS classes ``kind``; ``name`` is the pod that it is of."""
        path = self._path(points)
        if path:
            self._add("path", class_=f"line {kind}", d=path, data_pod=short(name) or None)

    def segments(self, lines: Iterable[tuple[Point, Point]], kind: str) -> None:
        """Many straight lines of one kind as one path: thousands of elements open slowly."""
        path = "".join(self._path(line) for line in lines)
        if path:
            self._add("path", class_=f"line {kind}", d=path)

    def band(self, points: Iterable[tuple[float, float, float]], kind: str, name: str = "") -> None:
        """A band between the second and the third of each triple."""
        kept = [row for row in points if all(map(_drawable, row))]
        outline = [(x, low) for x, low, _ in kept] + [(x, high) for x, _, high in reversed(kept)]
        if len(kept) > 1:
            path = self._path(outline) + "z"
            self._add("path", class_=f"band {kind}", d=path, data_pod=short(name) or None)

    def dots(self, points: Iterable[Point], kind: str, name: str = "") -> None:
        """A round dot at each point."""
        placed = (self._at(x, y) for x, y in points if _drawable(x) and _drawable(y))
        path = "".join(f"M{x} {y}h0" for x, y in placed)
        if path:
            self._add("path", class_=f"dots {kind}", d=path, data_pod=short(name) or None)

    def whisker(self, low: Point, high: Point, kind: str, name: str = "") -> None:
        """A straight line between two points, such as an interval or a birth."""
        self.line((low, high), f"whisker {kind}", name)

    def bars(self, spans: Iterable[tuple[float, float, float]], kind: str, thick: float) -> None:
        """Bars from x to x at a y, ``thick`` of the y axis' units; all in one path."""
        path = []
        for start, end, y in spans:
            if not all(map(_drawable, (start, end, y))):
                continue
            left, top = self._at(start, y + thick / 2)
            right, bottom = self._at(end, y - thick / 2)
            path.append(f"M{left} {top}H{max(right, left + 1)}V{bottom}H{left}z")
        if path:
            self._add("path", class_=f"bar {kind}", d="".join(path))

    def level(self, y: float, text: str) -> None:
        """A dashed line over the whole width, with its meaning at its left end."""
        if not _drawable(y) or not self.y.low <= y <= self.y.high:
            return
        at = self._percent_y(y)
        self._over.append(tag("line", class_="level", x1="0", x2="100%", y1=at, y2=at))
        self._over.append(tag("text", text, class_="note", x="4", y=at, dy="-4"))

    def label(self, y: float, text: str, kind: str) -> None:
        """A name at the right end, at the height of a line's end."""
        if _drawable(y):
            self._labels.append((self.y.place(y), short(text, 24), kind))

    def note(self, x: float, y: float, text: str, kind: str = "note") -> None:
        """A short text above a point; none where another one is that it would lie on."""
        at = self.x.place(x), (1 - self.y.place(y)) * self.height
        near = any(abs(x - at[0]) < APART and abs(y - at[1]) < LINE for x, y in self._notes)
        if _drawable(x) and _drawable(y) and not near:
            self._notes.append(at)
            left = f"{100 * self.x.place(x):.4g}%"
            self._over.append(
                tag("text", short(text, 24), class_=kind, x=left, y=self._percent_y(y), dy="-7")
            )

    def beside(self, x: float, y: float, text: str) -> None:
        """A short text on the right of a bar's end."""
        if _drawable(x) and _drawable(y):
            left = f"{100 * self.x.place(x):.4g}%"
            self._over.append(
                tag("text", text, class_="note", x=left, y=self._percent_y(y), dx="6", dy=".35em")
            )

    def markup(self, *, width: int | None = None) -> Markup:
        """The figure.

        Args:
            width: pixels of the plot, at their place in ``page.picture``; None: all that the page
                has for it.
        """
        number = next(_numbers)
        marks = (f"figure-{number}-title", f"figure-{number}-text")
        inner = tag(
            "svg", *self._data, class_="data", width="100%", height="100%",
            viewBox=f"0 0 {GRID} {GRID}", preserveAspectRatio="none",
        )  # fmt: skip
        parts = [
            tag("title", self.title, id=marks[0]), tag("desc", self.description, id=marks[1]),
            *self._grid(), inner, *self._over, *self._end_labels(),
        ]  # fmt: skip
        interactive: dict[str, Attribute] = {
            "tabindex": "0", "data_zoom": True,
            "data_x": f"{compact(self.x.low)} {compact(self.x.high)} {compact(self.x.unit)}",
            "data_y": f"{compact(self.y.low)} {compact(self.y.high)} {int(self.y.log)}",
            "data_suffix": self.x.suffix,
        } if self.zoom else {}  # fmt: skip
        return tag(
            "svg", *parts, class_=_shape(width, self.rows), role="img",
            aria_labelledby=" ".join(marks), x=width and LEFT, y=width and TOP,
            xmlns="http://www.w3.org/2000/svg", width=width, height=self.height, **interactive,
        )  # fmt: skip

    def _add(self, name: str, **attributes: str | None) -> None:
        self._data.append(tag(name, **attributes))

    def _at(self, x: float, y: float) -> tuple[int, int]:
        return round(GRID * self.x.place(x)), round(GRID * (1 - self.y.place(y)))

    def _percent_y(self, y: float) -> str:
        return f"{100 * (1 - self.y.place(y)):.4g}%"

    def _path(self, points: Iterable[Point]) -> str:
        """The ``d`` of a path; equal neighbours once."""
        placed = [self._at(x, y) for x, y in points if _drawable(x) and _drawable(y)]
        placed = [key for key, _ in itertools.groupby(placed)]
        if not placed:
            return ""
        first, *rest = placed
        head = f"M{first[0]} {first[1]}"
        if not rest:
            return head + "h0"
        return head + "".join(f"L{x} {y}" for x, y in rest)

    def _grid(self) -> list[Markup]:
        parts = [tag("line", class_="axis", x1="0", x2="100%", y1="100%", y2="100%")]
        for value, text in self.rows or self.y.ticks():
            at = self._percent_y(value)
            if not self.rows:
                parts.append(tag("line", class_="grid", x1="0", x2="100%", y1=at, y2=at))
            parts.append(tag("text", short(text, 12), class_="y tick", x="-8", y=at, dy=".32em"))
        ticks = []
        for value, text in self.x.ticks():
            at = f"{100 * self.x.place(value):.4g}%"
            ticks.append(tag("line", class_="axis", x1=at, x2=at, y1="100%", y2=self.height + 5))
            ticks.append(tag("text", text, class_="x tick", x=at, y=self.height + 18))
        parts.append(tag("g", *ticks, class_="xticks"))
        parts.append(tag("text", self.x.label, class_="x name", x="100%", y=self.height + 34))
        parts.append(tag("text", self.y.label, class_="y name", x="-44", y="-10"))
        return parts

    def _end_labels(self) -> Iterable[Markup]:
        """The names at the right end, none over another: of those too close to one that was placed
        before them only the number is said."""
        placed: list[tuple[float, str, str, int]] = []
        for place, text, kind in self._labels:
            at = (1 - place) * self.height
            near = next((i for i, each in enumerate(placed) if abs(each[0] - at) < LINE), None)
            if near is None:
                placed.append((at, text, kind, 0))
            else:
                placed[near] = (*placed[near][:3], placed[near][3] + 1)
        for at, text, kind, more in placed:
            said = f"{text} +{more}" if more else text
            yield tag("text", said, class_=f"end {kind}", x="100%", y=at, dx="8", dy=".32em")


def _shape(width: int | None, rows: Sequence[object]) -> str:
    return "alone" if width is not None else "plot rowed" if rows else "plot"


def _drawable(value: float) -> bool:
    return abs(value) < MOST  # false of nan, too


def figure(title: str, plot: Markup, caption: str, *more: Markup, wide: bool = False) -> Markup:
    """A figure with its name above, how to read it below, and the numbers behind it."""
    return tag(
        "figure", tag("h3", title), tag("div", plot, class_="frame"), *more[:-1],
        tag("figcaption", caption), *more[-1:], class_="wide" if wide else None,
    )  # fmt: skip


def table(heads: Sequence[str], rows: Sequence[Sequence[Cell]], caption: str) -> Markup:
    """A table with a caption; cells of numbers stand to the right."""
    body = [
        tag("tr", *(
            tag("td", cell, class_="n" if _numeric(cell) else None) for cell in row
        )) for row in rows
    ]  # fmt: skip
    top = tag("tr", *(tag("th", head, scope="col") for head in heads))
    whole = tag("table", tag("thead", top), tag("tbody", joined(body)), aria_label=caption)
    scrolled = tag("div", whole, class_="scroll", tabindex="0", role="region", aria_label=caption)
    return joined([tag("p", caption, class_="reading"), scrolled])


def numbers(summary: str, content: Markup) -> Markup:
    """A part that a reader may unfold: the numbers behind a figure."""
    return tag("details", tag("summary", summary), content)


def _numeric(cell: Cell) -> bool:
    if isinstance(cell, (int, float)):
        return True
    return isinstance(cell, str) and cell[:1] in "-0123456789" and len(cell) < 24
