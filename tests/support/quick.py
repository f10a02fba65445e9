"""Quick tests: those that load no torch and start no Python, whatever file they are in.

A plugin of pytest, for ``make quick``. No list says which tests these are: one that imports torch,
or starts a Python, is skipped at that moment, and so is a file whose own imports load torch.
"""

from __future__ import annotations

import os
import re
import sys
from pathlib import PurePath
from typing import Any

import pytest
from hypothesis import settings

TORCH = "not quick: it loads torch"
PYTHON = "not quick: it starts a Python"

settings.register_profile("quick", deadline=None, max_examples=10)


def pytest_configure(config: pytest.Config) -> None:
    """Watch this process from now on, if it runs tests; an audit hook stays to its end."""
    if "torch" in sys.modules:
        raise pytest.UsageError("torch was loaded before any quick test")
    if hasattr(config, "workerinput") or config.getoption("dist", "no") == "no":
        sys.addaudithook(_watch)  # xdist's controller starts Pythons itself


def pytest_sessionfinish() -> None:
    """Fail if a test has found another way to torch."""
    if "torch" in sys.modules:
        raise pytest.UsageError("a quick test has loaded torch")


def _watch(event: str, args: tuple[Any, ...]) -> None:
    """Skip what is about to happen; the exception of an audit hook prevents it."""
    if event == "import" and args[0] == "torch":
        pytest.skip(TORCH, allow_module_level=True)
    if event == "os.fork" or (event == "subprocess.Popen" and _is_python(args[0], args[1])):
        pytest.skip(PYTHON, allow_module_level=True)


def _is_python(executable: Any, words: Any) -> bool:
    """True also of one that another program starts, as ``env python3``."""
    alone = isinstance(words, (str, bytes, os.PathLike))
    all_words = [executable, *([words] if alone else words)]
    names = [PurePath(os.fsdecode(word)).name for word in all_words if word]
    return any(re.fullmatch(r"python[\d.]*", name) for name in names)
