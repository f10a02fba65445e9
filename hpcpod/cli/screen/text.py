"""Lines of the screen: text that can't steer a terminal, in columns that fit."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hpcpod.run.tables import visible

if TYPE_CHECKING:
    from rich.text import Text

Part = str | tuple[str, str]
"""Words, or words and their style."""


def one_line(text: str) -> str:
    """A text that others have written, as a part of one line."""
    return visible(text).replace("\n", " ").replace("\t", " ")


def line(*parts: Part, style: str = "") -> Text:
    """A line of parts, each with its style."""
    from rich.text import Text

    made = Text(style=style)
    for part in parts:
        words, of = part if isinstance(part, tuple) else (part, "")
        made.append(one_line(words), of)
    return made


def wrapped(text: str, columns: int, style: str = "", indent: str = "") -> Iterator[Text]:
    """A sentence in as many lines as it takes; those after the first one are indented."""
    import textwrap

    columns = max(columns, len(indent) + 10)
    for words in textwrap.wrap(one_line(text), columns, subsequent_indent=indent) or [""]:
        yield line(words, style=style)


def fitted(text: str, columns: int, *, right: bool = False) -> str:
    """A text of just so many columns; one that is longer ends with an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    have = cell_len(text)
    if have > columns:
        return set_cell_size(text, columns - 1) + "…" if columns > 0 else ""
    return " " * (columns - have) + text if right else text + " " * (columns - have)


@dataclass(frozen=True)
class Column:
    """A column of a table."""

    head: str
    right: bool = False
    """Aligned to the right."""
    most: int = 80
    """Columns of the terminal at most."""


@dataclass(frozen=True)
class Elastic:
    """A column that takes what the others leave."""

    head: str
    least: int
    """Fewer columns than these show nothing: then it is left out."""
    most: int
    make: Callable[[int, int], str]
    """The content by row and width."""
    after: int
    """It stands before this column."""


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], elastic: Elastic, width: int
) -> list[str]:
    """The head and the rows of a table as lines of ``width`` columns at most."""
    from rich.cells import cell_len

    cells = [[one_line(cell) for cell in row] for row in rows]
    heads = [column.head for column in columns]
    sizes = [
        min(column.most, max(cell_len(row[at]) for row in [heads, *cells]))
        for at, column in enumerate(columns)
    ]
    room = min(elastic.most, width - sum(sizes) - len(sizes))
    lines = []
    for number, row in enumerate([heads, *cells]):
        made = [
            fitted(cell, size, right=column.right)
            for cell, size, column in zip(row, sizes, columns, strict=True)
        ]
        if room >= elastic.least:
            words = elastic.head if number == 0 else elastic.make(number - 1, room)
            made.insert(elastic.after, fitted(words, room))
        lines.append(" ".join(made))
    return lines


def window(count: int, at: int, height: int) -> int:
    """The first of ``count`` rows to show in ``height`` of them, so that row ``at`` is in the
    middle where that leaves no room unused."""
    return max(0, min(at - height // 2, count - height))


def bar(share: float, columns: int) -> str:
    """A share in [0, 1] as a bar."""
    full = round(share * columns)
    return "█" * full + "░" * (columns - full)
