"""The first page, as a reader follows it: its commands parse, its code prints what it says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

from hpcpod.cli.parser import parser

TEXT = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")


def block(language: str, begins: str) -> str:
    """The one block of this language that has these words."""
    found = re.findall(rf"^```{language}\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL)
    [one] = [text for text in found if begins in text]
    return str(one)


def test_its_commands_are_commands() -> None:
    lines = [shlex.split(line, comments=True) for line in block("bash", "doctor").splitlines()]
    assert lines[0] == ["pip", "install", "."]
    for words in lines[1:]:
        assert words[0] == "hpcpod"
        parser().parse_args(words[1:])


def test_it_says_where_the_command_is() -> None:
    assert "`.venv/bin/hpcpod`" in TEXT and "`source .venv/bin/activate`" in TEXT
    assert TEXT.index("source .venv/bin/activate") < TEXT.index("hpcpod launch configs")


def test_its_code_prints_what_it_says(tmp_path: Path) -> None:
    code = block("python", "import hpcpod").partition("if __name__")[0]
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path, capture_output=True, text=True, timeout=300, check=True,
    )  # fmt: skip
    printed, score, shape = done.stdout.splitlines()
    shown = re.findall(r"# (\[.*\])", code)[0]
    for curve in (eval(shown), eval(printed)):  # its own words, and ours
        assert len(curve) == 10
        assert curve[0] < 0.6 * max(curve[-3:])  # it rises
    assert float(score) > 475 and float(re.findall(r"# ([\d.]+): of", code)[0]) > 475
    assert f"# {shape}" in code
