"""The shape of the source: small files, short functions, every public thing documented."""

from __future__ import annotations

import ast
import dataclasses
import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from hpcpod.config import schema, space
from hpcpod.config.manual import field_docs

ROOT = Path(__file__).parents[1]
MOST_LINES = 400
LONGEST_GENERATOR = 150
LONGEST_FUNCTION = 60
SOURCES = [
    path
    for folder in ("hpcpod", "tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
    if not any(part.startswith(".") for part in path.relative_to(ROOT).parts)  # peers' .venvs
]
PUBLIC = [path for path in SOURCES if path.is_relative_to(ROOT / "hpcpod")]
Function = ast.FunctionDef | ast.AsyncFunctionDef

RIDDLE = re.compile(
    r"(?:Who(?:ever|m|se)?|What(?:ever)?|Which(?:ever)?|Whether|Where(?:ver)?|When(?:ever)?|Why"
    r"|How(?:ever)?|That|By|From|To|Before|Between|Does|Is)\b"
)
"""A first line that opens so has no noun: its reader has to open the file."""

MACHINE = re.compile(r"(?<![\w.$}])/(?:root|home/(?!user\b)\w+|Users/\w+|work|workspace)/")
"""Paths that are true on one machine only."""


def name(path: Path) -> str:
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else path.name


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


def long_functions(path: Path) -> Iterator[str]:
    """A line for each function of a file that has too many lines."""
    for node in ast.walk(tree(path)):
        if isinstance(node, Function):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            if lines > LONGEST_FUNCTION:
                yield f"{name(path)}:{node.lineno}: {node.name} has {lines} lines"


def undocumented(path: Path) -> Iterator[str]:
    """A line for each public thing of a file that has no docstring."""
    module = tree(path)
    if not ast.get_docstring(module):
        yield f"{name(path)}:1: the module"
    for qualified, node in public(module.body):
        if isinstance(node, (ast.ClassDef, Function)) and not ast.get_docstring(node):
            yield f"{name(path)}:{node.lineno}: {qualified}"


def fields(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Attributes and constants that have a docstring below them, each with it."""
    for node in ast.walk(module):
        body = node.body if isinstance(node, (ast.Module, ast.ClassDef, Function)) else []
        for above, below in pairwise(body):
            match above, below:
                case (
                    ast.Assign(targets=[target]) | ast.AnnAssign(target=target),
                    ast.Expr(ast.Constant(str(text))),
                ):
                    yield ast.unparse(target), text


def riddles(path: Path) -> Iterator[str]:
    """A line for each module, or thing of the package, that begins with no noun."""
    module = tree(path)
    things = list(public(module.body)) if path not in SOURCES or path in PUBLIC else []
    for qualified, node in [("the module", module), *things]:
        if isinstance(node, (ast.Module, ast.ClassDef, Function)):
            first = (ast.get_docstring(node) or "").partition("\n")[0]
            if RIDDLE.match(first):
                yield f"{name(path)}: {qualified}: {first}"
    for field, text in fields(module) if things else ():
        first = text.partition("\n")[0]
        if RIDDLE.match(first):
            yield f"{name(path)}: {field}: {first}"


def test_the_files_to_check_are_found() -> None:
    found = {name(path) for path in SOURCES}
    assert {"hpcpod/__init__.py", "tests/conftest.py", "benchmarks/peers.py"} <= found
    assert {name(path) for path in PUBLIC} == {each for each in found if each.startswith("hpcpod/")}


def test_no_file_has_more_than_400_lines() -> None:
    counts = {name(path): len(path.read_text(encoding="utf-8").splitlines()) for path in SOURCES}
    assert {path: lines for path, lines in counts.items() if lines > MOST_LINES} == {}


def test_no_generator_has_more_than_150_lines() -> None:
    rules = ROOT / "hpcpod" / "tournament" / "generators"
    found = {path.stem: path.read_text(encoding="utf-8") for path in rules.glob("*.py")}
    assert "gentle_truncation" in found
    counts = {rule: len(text.splitlines()) for rule, text in found.items()}
    assert {rule: lines for rule, lines in counts.items() if lines > LONGEST_GENERATOR} == {}


@pytest.mark.long
def test_no_function_has_more_than_60_lines() -> None:
    assert [line for path in SOURCES for line in long_functions(path)] == []


@pytest.mark.long
def test_every_public_thing_has_a_docstring() -> None:
    assert [line for path in PUBLIC for line in undocumented(path)] == []


@pytest.mark.long
def test_docstrings_of_modules_public_things_and_fields_begin_with_their_noun() -> None:
    assert [line for path in SOURCES for line in riddles(path)] == []


def test_no_module_is_called_for_having_no_subject() -> None:
    vague = {"utils", "util", "helpers", "common", "misc"}
    assert [name(path) for path in SOURCES if path.stem in vague] == []


def test_what_is_wrong_with_a_file_is_found(tmp_path: Path) -> None:
    path = tmp_path / "bad.py"
    body = "    pass\n" * LONGEST_FUNCTION
    path.write_text(f"class Public:\n  def method(self):\n{body}\ndef _private(): pass\n")
    assert list(long_functions(path)) == ["bad.py:2: method has 61 lines"]
    assert list(undocumented(path)) == [
        "bad.py:1: the module", "bad.py:1: Public", "bad.py:2: Public.method",
    ]  # fmt: skip


@pytest.mark.parametrize("first", ["What is born next.", "By what jobs are told.", "Who it is"])
def test_a_riddle_is_found(tmp_path: Path, first: str) -> None:
    path = tmp_path / "bad.py"
    path.write_text(f'"""{first}"""\n\nX = 1\n"""{first}"""\n\ndef f():\n    """{first}"""\n')
    assert list(riddles(path)) == [
        f"bad.py: {thing}: {first}" for thing in ("the module", "f", "X")
    ]


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
