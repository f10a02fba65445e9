"""Pages of the documentation: the files and the commands that they give."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hpcpod.cli.parser import main

_FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^]]*\]\(([^)\s]+)\)")

ROOT = Path(__file__).parents[2]


def without_blocks(page: Path) -> str:
    """The text of a page without its fenced blocks."""
    return _FENCED.sub("", page.read_text(encoding="utf-8"))


def links(page: Path) -> Iterator[tuple[str, str]]:
    """The relative links of a page: each a path, empty for the page itself, and an anchor."""
    for link in _LINK.findall(without_blocks(page)):
        if not re.match(r"[a-z]+:", link):
            path, _, name = link.partition("#")
            yield path, name


def anchor(heading: str, separator: str = "-") -> str:
    """A heading's anchor, as GitHub makes it."""
    kept = re.sub(r"[^\w\- ]", "", heading.strip().lower())
    return kept.replace(" ", separator)


def page(name: str) -> Path:
    return ROOT / "docs" / name


def blocks(page: Path, language: str) -> list[str]:
    """The text of every block of this language that is no file."""
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def block(page: Path, language: str, has: str) -> str:
    """The one block of this language that has these words."""
    [one] = [text for text in blocks(page, language) if has in text]
    return one


def fences(page: Path) -> list[tuple[str, str, str]]:
    """Every fenced block: its language and its name, which may be empty, and its text."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)(?: (\S+))?\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [(language, name, inside) for language, name, inside in found]


def files_of(page: Path) -> dict[str, str]:
    """By its name, the text of each file."""
    return dict(_FILE.findall(page.read_text(encoding="utf-8")))


def write_files(page: Path, home: Path) -> None:
    """Make each file of a page in a folder, as its reader does."""
    for name, text in files_of(page).items():
        (home / name).write_text(text, encoding="utf-8")


def commands_of(page: Path) -> list[list[str]]:
    """The words of each line of the one block of commands."""
    [one] = blocks(page, "bash")
    return [line.partition("#")[0].split() for line in one.splitlines()]


def said(home: Path, *words: str) -> str:
    """What a command says that must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=home, text=True, capture_output=True, check=False, timeout=300,
        env={**os.environ, "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


def said_here(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    """The output of a verb in this process, whose working directory is that of the page. A process
    of its own would load pandas or torch again."""
    capsys.readouterr()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGUSR2)}
    try:
        ended = main(list(words[1:]))
    finally:
        for number, handler in before.items():  # a verb may set its own
            signal.signal(number, handler)
    told = capsys.readouterr()
    assert (words[0], ended) == ("hpcpod", code), f"{words}\n{told.out}{told.err}"
    return told.out + (told.err if code else "")


def run_script(code: str, home: Path) -> str:
    """The output of a program that is run as a file in a folder, and must succeed."""
    path = home / "script.py"
    path.write_text(code, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(path)],
        cwd=home, text=True, capture_output=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"
    return done.stdout
