"""The shape of the source: small files, short functions, every public thing documented."""

from __future__ import annotations

import ast
import dataclasses
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from hpcpod.config import schema, space
from hpcpod.config.manual import field_docs

ROOT = Path(__file__).parents[1]
MOST_LINES = 400
LONGEST_FUNCTION = 60
SOURCES = [
    path
    for folder in ("hpcpod", "tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
]
PUBLIC = [path for path in SOURCES if path.is_relative_to(ROOT / "hpcpod")]
Function = ast.FunctionDef | ast.AsyncFunctionDef

MACHINE = re.compile(r"(?<![\w.$}])/(?:root|home/(?!user\b)\w+|Users/\w+|work|workspace)/")
"""Paths that are true on one machine only."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def public(body: list[ast.stmt], prefix: str = "") -> Iterator[tuple[str, ast.stmt]]:
    """Public classes and functions, and the public methods of public classes."""
    for node in body:
        if isinstance(node, (ast.ClassDef, Function)) and not node.name.startswith("_"):
            yield prefix + node.name, node
            if isinstance(node, ast.ClassDef):
                yield from public(node.body, f"{prefix}{node.name}.")


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_file_has_at_most_400_lines(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_a_function_has_at_most_60_lines(path: Path) -> None:
    long = {
        node.name: length
        for node in ast.walk(tree(path))
        if isinstance(node, Function)
        and (length := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    }
    assert long == {}


@pytest.mark.parametrize("path", PUBLIC, ids=name)
def test_every_public_thing_has_a_docstring(path: Path) -> None:
    module = tree(path)
    bare = [
        qualified
        for qualified, node in public(module.body)
        if isinstance(node, (ast.ClassDef, Function)) and not ast.get_docstring(node)
    ]
    assert bare == []
    assert ast.get_docstring(module), "the module has no docstring"


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_no_module_is_called_for_having_no_subject(path: Path) -> None:
    assert path.stem not in ("utils", "util", "helpers", "common", "misc")


def test_every_field_of_the_configuration_is_in_the_manual() -> None:
    bare = [
        f"{cls.__name__}.{field}"
        for module in (schema, space)
        for cls in vars(module).values()
        if isinstance(cls, type) and dataclasses.is_dataclass(cls)
        for field, text in field_docs(cls).items()
        if not text
    ]
    assert bare == []


def test_no_file_names_the_machine_it_was_written_on() -> None:
    found = [
        f"{name(path)}:{number}: {line.strip()}"
        for path in _tracked()
        for number, line in enumerate(_lines(path), 1)
        if path != Path(__file__) and MACHINE.search(line)
    ]
    assert found == []


@pytest.mark.parametrize("line", ["cd /root/x", "'/workspace/y'", "see /home/ann/runs"])
def test_a_path_of_one_machine_is_recognised(line: str) -> None:
    assert MACHINE.search(line)


def _tracked() -> list[Path]:
    """The repository's files, also those that git does not know yet."""
    if shutil.which("git") is None:
        return SOURCES
    listing = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT,
        capture_output=True,
        check=False,
    )
    if listing.returncode != 0:  # a copy without its history
        return SOURCES
    paths = [ROOT / part.decode() for part in listing.stdout.split(b"\0") if part]
    return [path for path in paths if path.is_file()]


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except UnicodeDecodeError:  # a picture or a recorded file
        return []
