"""A chosen configuration as YAML with the reason above each field."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping
from typing import Any

from hpcpod.config.site import without_site
from hpcpod.config.space import RANGES
from hpcpod.config.yaml_file import dump_line

WIDTH = 100
"""Columns of a line."""
EMPTY: Mapping[str, str] = {}


def commented(
    data: Mapping[str, Any], because: Mapping[str, str], meanings: Mapping[str, str] = EMPTY
) -> str:
    """YAML that ``load_file`` reads back as ``data``, but for ``cluster.site`` (see
    ``without_site``), with ``# because ...`` above what was chosen.

    Args:
        data: plain.
        because: reasons by path, such as ``round.env_steps``.
        meanings: of fields by path, each a sentence to stand above the reason.
    """
    return "\n".join(_lines(without_site(data), because, meanings))


def _lines(
    data: Mapping[str, Any], because: Mapping[str, str], meanings: Mapping[str, str],
    path: str = "", indent: str = "",
) -> Iterator[str]:  # fmt: skip
    for key, value in data.items():
        at = f"{path}.{key}" if path else key
        reason = because.get(at) and f"because {because[at]}"
        for comment in filter(None, (meanings.get(at), reason)):
            yield from textwrap.wrap(
                comment, WIDTH, initial_indent=f"{indent}# ",
                subsequent_indent=f"{indent}#   ", break_long_words=False, break_on_hyphens=False,
            )  # fmt: skip
        if isinstance(value, Mapping) and value and not _flat(value):
            yield f"{indent}{dump_line(key)}:"
            yield from _lines(value, because, meanings, at, f"{indent}  ")
        else:
            yield f"{indent}{dump_line(key)}: {dump_line(value)}"


def _flat(value: Mapping[str, Any]) -> bool:
    """True for a range, which stays on one line."""
    return len(value) == 1 and next(iter(value)) in RANGES
