"""``make quick``: what it leaves out, and that the rooms without torch are in it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ["cli", "config", "doctor", "launchers", "orchestrator", "records", "run", "storage",
         "tournament"]  # fmt: skip
TESTS = """\
import os, subprocess, sys
from hypothesis import given, settings, strategies

def test_nothing_heavy(): pass
def test_another_program(): subprocess.run(["true"], check=True)
def test_torch(): import torch
def test_a_python(): subprocess.run([sys.executable, "-c", ""], check=True)
def test_a_python_of_another_program(): subprocess.run(["env", "python3", "-c", ""], check=True)
def test_a_fork(): os.fork()
"""


def quick(*words: str) -> str:
    """What pytest says with the plugin, and the profile, of ``make quick``."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider",
         "-p", "tests.support.quick", "--hypothesis-profile", "quick", *words],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), done.stdout
    return done.stdout


def test_what_loads_torch_or_starts_a_python_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_light.py").write_text(TESTS)
    (tmp_path / "test_heavy.py").write_text("import hpcpod.agents.ppo\ndef test_one(): assert 0\n")
    said = quick("-v", "-c", str(tmp_path / "pytest.ini"), str(tmp_path))
    passed = re.findall(r"::(\w+) PASSED", said)
    assert passed == ["test_nothing_heavy", "test_another_program"]
    assert re.findall(r"::(\w+) SKIPPED", said) == [
        "test_torch", "test_a_python", "test_a_python_of_another_program", "test_a_fork"
    ]  # fmt: skip
    assert "2 passed, 5 skipped" in said


def test_torch_by_another_way_fails(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    (tmp_path / "test_sly.py").write_text(
        "import sys\ndef test_sly(): sys.modules['torch'] = sys\n"
    )
    words = ["-m", "pytest", "-n", "0", "-p", "tests.support.quick", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, *words, "-c", str(tmp_path / "pytest.ini"), str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode != 0
    assert "a quick test has loaded torch" in done.stdout + done.stderr


def test_every_room_that_loads_no_torch_has_quick_tests() -> None:
    said = quick("--collect-only", "-q", *(f"tests/{room}" for room in ROOMS))
    rooms = set(re.findall(r"^tests/(\w+)/\S+::", said, re.MULTILINE))
    assert rooms == set(ROOMS)


def test_make_quick_leaves_every_marker_out() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    recipe = re.search(r"^quick:.*?\n((?:\t.*\n|    .*\n)+)", makefile, re.MULTILINE)
    assert recipe is not None and "-p tests.support.quick" in recipe[1]
    left_out = re.search(r'-m "not \((.*?)\)"', recipe[1])
    assert left_out is not None
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    marked = re.search(r"^markers = \[\n(.*?)^\]", project, re.MULTILINE | re.DOTALL)
    assert marked is not None
    assert set(left_out[1].split(" or ")) == set(re.findall(r'"(\w+):', marked[1]))
