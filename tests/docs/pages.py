"""A page of the documentation: what it says to write into files, and what to type."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

_FILE = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COMMANDS = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page(name: str) -> Path:
    return Path(__file__).parents[2] / "docs" / name


def files_of(page: Path) -> dict[str, str]:
    """By its name, the text of each file."""
    return dict(_FILE.findall(page.read_text(encoding="utf-8")))


def commands_of(page: Path) -> list[list[str]]:
    """The words of each line of the one block of commands."""
    [block] = _COMMANDS.findall(page.read_text(encoding="utf-8"))
    return [line.partition("#")[0].split() for line in block.splitlines()]


def said(home: Path, *words: str) -> str:
    """What a command says that must succeed."""
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=home, text=True, capture_output=True, check=False, timeout=300,
        env={**os.environ, "COLUMNS": "120", "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout
